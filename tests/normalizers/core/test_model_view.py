"""What the model saw is found again, byte for byte, and is not stored twice."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.normalizers.toy import Toy
from tooltap.normalizers.core.items import Context, Limits, OutputChunk, Produced
from tooltap.normalizers.stream.bounds import bound
from tooltap.protocol.model_view import bodies_of, model_blocks, model_text

FILE = "import os\n\n\ndef main():\n    return os.getcwd()\n" * 12
REMINDER = "<system-reminder>Never mention the plan.</system-reminder>"


class Seen:
    """The result of a call that answered `output`, whose model saw `model`."""

    def __init__(self, output: Any, model: Any, name: str = "X", limits: Limits | None = None) -> None:
        limits = limits or Limits()
        parser = Toy(Context(stream="s", limits=limits))
        parser.feed(orjson.dumps({"do": "call", "id": "a", "name": name}))
        _, items = parser.feed(orjson.dumps({"do": "result", "id": "a", "output": output, "model": model}))
        self.bodies = {one.output_id: one.data for one in items if isinstance(one, OutputChunk)}
        assert isinstance(items[-1], Produced)
        event, cut = bound(items[-1], limits, parser.new_output_id)
        self.bodies.update({one.output_id: one.data for one in cut})
        self.size = len(event.body)
        self.event = orjson.loads(event.body)

    @property
    def view(self) -> dict[str, Any]:
        view: dict[str, Any] = self.event["modelView"]
        return view

    @property
    def text(self) -> str | None:
        assert set(bodies_of(self.event)) <= set(self.bodies)
        return model_text(self.event, self.bodies.get)


def test_text_that_is_the_output_is_a_pointer() -> None:
    seen = Seen({"stdout": "hello\n"}, "hello\n")
    assert seen.view == {"blocks": [{"parts": [{"at": "/output/stdout"}]}]}
    assert seen.text == "hello\n"


def test_string_that_is_also_inside_the_text_was_seen() -> None:
    """OpenCode puts the path of the whole output into the shortened one, and beside it."""
    path = "/home/user/.local/share/opencode/tool-output/tool_1ffde0b090016ubi7BbZaW6MMq"
    seen = Seen({"stdout": f"Full output saved to: {path}\n", "outputPath": path}, f"Full output saved to: {path}\n")
    assert "differs" not in seen.view


def test_hidden_text_is_kept_and_marked() -> None:
    seen = Seen({"stdout": "benign"}, "benign\nHIDDEN INSTRUCTION", "Bash")
    assert seen.view["differs"] is True
    assert seen.text == "benign\nHIDDEN INSTRUCTION"


@pytest.mark.parametrize("form", ["{:>6}→{}", "{}\t{}", "{:05}| {}", "{}: {}"])
@pytest.mark.parametrize("tail", ["", f"\n\n{REMINDER}"])
def test_numbered_lines_are_a_recipe(form: str, tail: str) -> None:
    lines = FILE.removesuffix("\n").split("\n")
    text = "\n".join(form.format(number, line) for number, line in enumerate(lines, 8)) + tail
    seen = Seen({"file": {"content": FILE.removesuffix("\n"), "startLine": 8}}, text, "Read")
    assert seen.text == text
    assert any(isinstance(part, dict) and "numbers" in part for part in seen.view["blocks"][0]["parts"])
    assert seen.view.get("differs", False) is bool(tail)


def test_text_between_two_outputs() -> None:
    output = {"stdout": "a long line of output " * 20, "stderr": "and what went wrong there " * 10}
    text = f"Exit code 3\n{output['stdout']}\n{output['stderr']}"
    seen = Seen(output, text, "Bash")
    assert seen.view["blocks"][0]["parts"] == [
        "Exit code 3\n",
        {"at": "/output/stdout"},
        "\n",
        {"at": "/output/stderr"},
    ]
    assert seen.text == text


def test_short_text_is_kept_whole() -> None:
    seen = Seen({"stdout": "a line of output"}, "Exit code 3\na line of output", "Bash")
    assert seen.view["blocks"] == [{"text": "Exit code 3\na line of output"}]


def test_model_saw_only_the_beginning() -> None:
    whole = "".join(f"line {number}\n" for number in range(400))
    seen = Seen({"stdout": whole}, whole[:1000] + "… (truncated)", "Bash")
    assert seen.text == whole[:1000] + "… (truncated)"
    assert seen.view["blocks"][0]["parts"][0] == {"at": "/output/stdout", "length": 1000}
    assert seen.view["differs"] is True


def test_long_text_that_is_nowhere_in_the_output_has_a_body() -> None:
    text = "".join(f"{number} of them\n" for number in range(1000))
    seen = Seen({"message": "ok"}, text)
    block = seen.view["blocks"][0]
    assert text.startswith(block["text"])
    assert seen.event["outputs"]["/modelView/blocks/0/text"]["bytes"] == len(text)
    assert seen.text == text


def test_length_of_what_is_repeated_is_bounded() -> None:
    text = "x" * 100
    assert "outputs" not in Seen({}, text, limits=Limits(view_bytes=100)).event
    assert "outputs" in Seen({}, text, limits=Limits(view_bytes=99)).event


def test_string_that_was_cut_is_read_from_its_body() -> None:
    whole = "0123456789\n" * 20_000
    seen = Seen({"stdout": whole}, f"{whole}\n{REMINDER}", "Bash")
    assert len(seen.event["output"]["stdout"]) < len(whole)
    assert seen.text == f"{whole}\n{REMINDER}"
    assert seen.size < 150_000


def test_body_that_is_gone_is_said() -> None:
    seen = Seen({}, "y" * 5_000)
    blocks = model_blocks(seen.event, lambda output_id: None)
    assert blocks is not None
    assert blocks[0]["incomplete"] is True
    assert blocks[0]["text"] == "y" * len(blocks[0]["text"])


def test_blocks_stay_blocks() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "outputId": "s:1:0"}}
    seen = Seen({"text": "a picture"}, [{"type": "text", "text": "a picture"}, image])
    assert model_blocks(seen.event, seen.bodies.get) == [
        {"type": "text", "text": "a picture"},
        {"type": "image", "outputId": "s:1:0", "mimeType": "image/png"},
    ]


def test_blocks_of_other_kinds_are_kept_as_their_json() -> None:
    seen = Seen({}, [{"type": "tool_reference", "tool_name": "Grep"}])
    blocks = model_blocks(seen.event, seen.bodies.get)
    assert blocks is not None
    assert (blocks[0]["type"], orjson.loads(blocks[0]["text"])) == (
        "tool_reference",
        {"type": "tool_reference", "tool_name": "Grep"},
    )


def test_number_of_blocks_is_bounded() -> None:
    blocks = [{"type": "text", "text": str(number)} for number in range(10)]
    seen = Seen({}, blocks, limits=Limits(view_blocks=4))
    shown = model_blocks(seen.event, seen.bodies.get)
    assert shown is not None
    assert [one["text"] for one in shown[:3]] == ["0", "1", "2"]
    assert orjson.loads(shown[3]["text"]) == blocks[3:]


def test_nothing_seen_of_something_shown() -> None:
    seen = Seen({"stdout": "shown"}, "", "Bash")
    assert seen.view == {"blocks": [], "differs": True}
    assert seen.text == ""


def test_unknown_where_the_wire_does_not_say() -> None:
    parser = Toy(Context(stream="s"))
    parser.feed(orjson.dumps({"do": "call", "id": "a", "name": "X"}))
    _, items = parser.feed(orjson.dumps({"do": "result", "id": "a", "output": "b"}))
    assert isinstance(items[0], Produced)
    event = orjson.loads(items[0].body)
    assert (event["assistantView"], model_blocks(event, lambda output_id: None)) == ("unknown", None)


PIECES = st.lists(
    st.sampled_from(
        ["\n", "1\t", "     1→", "def main():", "x" * 60, "0007| ", " ", "é😀", "a line of text", REMINDER]
    ),
    max_size=12,
).map("".join)


@given(output=st.dictionaries(st.sampled_from(["stdout", "stderr", "a~/b"]), PIECES), text=PIECES, extra=PIECES)
def test_every_text_is_found_again(output: dict[str, str], text: str, extra: str) -> None:
    whole = text + "".join(output.values()) + extra
    assert Seen(output, whole, limits=Limits(view_bytes=80)).text == whole
    numbered = "\n".join(f"{number:>4}|{line}" for number, line in enumerate(output.get("stdout", "").split("\n"), 1))
    assert Seen(output, text + numbered).text == text + numbered
