"""The text of events: what it has, what it has not, and that nothing is read that is not there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tooltap.normalizers.stream.searchable import PART_END, Searchable, key_of_call, searchable

HEAD = {"v": 2, "stream": "s", "session": "x", "provider": "claude"}


def of(kind: str, **fields: Any) -> Searchable:
    found = searchable(msgspec.json.encode({"kind": kind, **HEAD, **fields}))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("event", "text"),
    [
        ({"kind": "message", "role": "user", "text": "a\tb\x00\x1fc"}, "a\tb  c"),
        ({"kind": "message", "text": "x" * 10_240}, "x" * 10_240),
        ({"kind": "message", "text": "b" * 9_000 + " " + "e" * 2_000}, f"{'b' * 8_192}\n{'e' * 2_000}"),
        ({"kind": "message", "text": "again", "replay": True}, ""),
        ({"kind": "reasoning", "text": "because"}, "because"),
        ({"kind": "session", "title": "A title", "cwd": "/home/ann", "model": "m-1"}, "A title\n/home/ann\nm-1"),
        ({"kind": "tool-call", "name": "Bash", "input": {"command": "ls -l", "timeout": 5}}, "Bash\nls -l"),
        ({"kind": "tool-call", "name": "Bash", "title": "ls", "input": {"command": "ls"}}, "Bash\nls"),
        ({"kind": "tool-call", "name": "Bash", "input": {"command": ["ls", "-l"]}}, "Bash\nls -l"),
        (
            {"kind": "tool-call", "name": "Task", "input": {"prompt": "p" * 2_000, "x": "y" * 1_500}},
            f"Task\n{'p' * 2_000}\n{'y' * 512}\n{'y' * 512}",
        ),
        ({"kind": "tool-update", "name": "Bash"}, ""),
        ({"kind": "tool-update", "name": "Bash", "input": {"command": "ls"}}, "Bash\nls"),
        ({"kind": "tool-result", "name": "Bash", "output": {"stdout": "o" * 600, "_raw": "r"}}, "o" * 600),
        (
            {"kind": "tool-result", "output": {"stdout": f"{'begun ' * 200}\nError: x\n{'ended ' * 200}"}},
            f"{('begun ' * 86)[:512]}\n{'ended ' * 85}",
        ),
        ({"kind": "tool-result", "name": "m", "output": {"content": [{"text": "a"}, "b", 1, {}]}}, "a b"),
        ({"kind": "tool-result", "name": "m", "output": {"stdout": None, "error": "no"}}, "no"),
        (
            {"kind": "permission-request", "name": "AskUserQuestion", "input": {"questions": [{"question": "Which?"}]}},
            "AskUserQuestion\nWhich?",
        ),
        ({"kind": "permission-response", "message": "not that"}, "not that"),
        ({"kind": "notice", "text": "retry"}, "retry"),
        ({"kind": "unparsed", "text": "z" * 600}, "z" * 600),
        ({"kind": "usage"}, ""),
        ({"kind": "turn", "state": "started"}, ""),
    ],
)
def test_text(event: dict[str, Any], text: str) -> None:
    assert of(**event).text.replace(PART_END, "\n") == text


def test_lines_of_a_failure_that_name_an_error() -> None:
    """Between the beginning and the end, which are longer than those of other outputs."""
    between = f"{'a' * 40}\n" * 100
    text = f"begin\n{between}E   ZebraError: quagga\n{between}the end"
    parts = of("tool-result", status="failed", output={"stdout": text}).text.split(PART_END)
    assert (parts[0], parts[1], len(parts)) == (text[:1_024], "E   ZebraError: quagga", 3)
    assert text.endswith(parts[2])
    assert 2_000 < len(parts[2]) <= 2_048
    many = of("tool-result", status="failed", output={"stdout": "\n".join(["Error 12345"] * 1_000)})
    assert 0 < len(many.text.split(PART_END)[1]) <= 1_024


@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        ({"content": "def wombat():\n    pass\n"}, "def wombat():\n    pass\n"),
        ({"old_string": "a\nb", "new_string": "a\nc", "oldString": "a\nb", "newString": "a\nc"}, "c"),
        ({"edits": [{"old_string": "a", "new_string": "b\na"}, {"oldString": "", "newString": "c"}]}, "b\nc"),
        ({"patch": "*** Update File: a.py\n@@\n-old\n+new\n same\n+++ b/a.py\n"}, "new"),
        ({"changes": {"a.py": {"type": "modify", "modify": {"old_content": "x\ny", "new_content": "x\nz"}}}}, "z"),
        (
            {"changes": {"a.py": {"type": "add", "add": {"content": "new file"}}, "b": {"unified_diff": "+b"}}},
            "new file\nb",
        ),
        ({"changes": {"a.py": {"type": "delete", "delete": {"content": "gone"}}}}, ""),
        (
            {"changes": {"a": {"modify": {"hunks": [{"old_content": "1", "new_content": "2"}, {"new_content": "3"}]}}}},
            "2\n3",
        ),
        ({"content": "w" * 9_000}, f"{'w' * 2_048}\n{'w' * 512}"),
    ],
)
def test_lines_that_a_call_adds(arguments: dict[str, Any], written: str) -> None:
    found = of("tool-call", name="Edit", input={"file_path": "a.py", **arguments}).text.split(PART_END)
    shown = [one for one in found[2:] if one not in ("a.py", "a.py b", "a")]
    assert "\n".join(shown) == written


def test_what_is_filtered_by() -> None:
    found = of("tool-call", name="Bash", ts=5, input={"_happy": {"rawToolName": "shell"}})
    assert found[:7] == ("tool-call", "s", "x", "claude", 5, "Bash", "shell")
    found = of("session", cwd="/a", alias="s")
    assert (found.cwd, found.alias) == ("/a", "s")


def test_parts_that_are_arguments_have_their_names() -> None:
    found = of("tool-call", name="Bash", title="Tests", input={"command": "make", "description": "all of them", "n": 1})
    assert found.text.split(PART_END) == ["Bash", "Tests", "make", "all of them"]
    assert found.arguments == ("", "", "command", "description")
    assert of("tool-result", output={"stdout": "a", "stderr": "b"}).arguments == ()
    assert of("tool-result", output={"stdout": "a\x1eb", "stderr": "\x1e"}).text == f"a b{PART_END} "
    assert of("message", text="\x1e\x1d").text == "  "


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"status": "failed"}, "failed"),
        ({"status": "completed", "final": True}, "completed"),
        ({"status": "completed", "async": True}, None),
        ({"status": "failed", "replay": True}, None),
    ],
)
def test_outcome_of_a_call(fields: dict[str, Any], outcome: str | None) -> None:
    found = of("tool-result", callId="c1", name="Bash", output={}, **fields)
    assert (found.text, found.outcome) == ("", outcome)
    assert of("tool-call", callId="c1", name="Bash", input={}, status="running").outcome is None


def test_events_of_a_call_have_its_key() -> None:
    assert of("tool-call", callId="c1", name="Bash", input={}).call == key_of_call("s", "c1")
    assert of("tool-result", callId="c1", output={}).call == key_of_call("s", "c1")
    assert 0 <= key_of_call("s", "c1") < 2**63
    assert len({key_of_call("s", "c1"), key_of_call("s", "c2"), key_of_call("t", "c1")}) == 3
    assert of("tool-call", callId="c1", name="Bash", input={}, replay=True).call is None
    assert of("message", text="a").call is None


@pytest.mark.parametrize("body", [b"", b"{", b'{"kind":"later"}', b'{"kind":"message","text":1}', b"\xff"])
def test_events_that_cannot_be_read_have_none(body: bytes) -> None:
    assert searchable(body) is None
