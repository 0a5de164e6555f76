"""What the model saw of a result: the whole text of its block, whatever Claude's structured twin has of it."""

from typing import Any

import orjson
import pytest

from tests.normalizers.dialects.claude.helpers import assistant, init, recording, tool_result, use, user
from tooltap.normalizers.core.items import Context, OutputChunk, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.model_view import model_blocks, model_text
from tooltap.testing import Line

WRITTEN = "claude-code-2.1.330-written"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PERSISTED = (
    "<persisted-output>\nOutput too large (99KB). Full output saved to: /tmp/out.txt\n\nPreview (first 2KB):\n"
    "line 1\nline 2\n...\n</persisted-output>"
)


class Read:
    """The first result of a stream, with the bodies it names."""

    def __init__(self, lines: list[Line]) -> None:
        normalizer = StreamNormalizer(Context(stream="s"), "claude-stream")
        items = [item for line in lines for item in normalizer.feed(line.data)]
        self._bodies = {item.output_id: item.data for item in items if isinstance(item, OutputChunk)}
        found = [orjson.loads(item.body) for item in items if isinstance(item, Produced) and item.kind == "tool-result"]
        self.result: dict[str, Any] = found[0]

    @property
    def text(self) -> str | None:
        return model_text(self.result, self._bodies.get)

    @property
    def blocks(self) -> list[dict[str, Any]] | None:
        return model_blocks(self.result, self._bodies.get)


def answered(name: str, content: Any, twin: Any = None, **more: Any) -> Read:
    told = {} if twin is None else {"tool_use_result": twin}
    lines = init(), assistant(use("toolu_1", name)), user(tool_result("toolu_1", content, **more), **told)
    return Read([Line(orjson.dumps({"session_id": "s", "parent_tool_use_id": None, **line})) for line in lines])


@pytest.mark.parametrize("name", ["hidden-in-shell", "hidden-in-read"])
def test_instruction_that_only_the_model_got_is_kept(name: str) -> None:
    lines = recording(name, WRITTEN)
    assert isinstance(lines[2].data, bytes)
    content = orjson.loads(lines[2].data)["message"]["content"][0]["content"]
    read = Read(lines)

    assert "HIDDEN INSTRUCTION" in content
    assert read.text == content
    assert "HIDDEN" not in str({key: one for key, one in read.result["output"].items() if key != "_raw"})


@pytest.mark.parametrize(
    ("name", "content", "twin", "flags"),
    [
        ("Bash", PERSISTED, {"stdout": "line 1\nline 2\nline 3", "persistedOutputPath": "/tmp/out.txt"}, {}),
        ("Bash", "Exit code 3\nboom", "Error: Exit code 3\nboom", {"is_error": True}),
        ("Edit", "<tool_use_error>String not found</tool_use_error>", None, {"is_error": True}),
        ("Grep", "Found 1 file\na.py", {"mode": "files_with_matches", "filenames": ["a.py"], "numFiles": 1}, {}),
        ("TodoWrite", "Todos have been modified.", {"oldTodos": [], "newTodos": []}, {}),
        ("WebSearch", 'Web search results for query: "x"\n\nREMINDER: cite.', {"query": "x", "results": []}, {}),
        ("Task", "agentId: a1\nDone.", {"status": "completed", "content": [{"type": "text", "text": "Done."}]}, {}),
        ("mcp__notes__find", "", None, {}),
    ],
)
def test_text_is_kept_byte_for_byte(name: str, content: str, twin: Any, flags: dict[str, Any]) -> None:
    assert answered(name, content, twin, **flags).text == content


def test_blocks_stay_blocks() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    said = {"type": "text", "text": "Here it is."}
    for name, twin in (("mcp__notes__draw", [said]), ("Read", {"type": "image", "file": {"base64": PNG}})):
        blocks = answered(name, [said, picture], twin).blocks

        assert blocks is not None
        assert [block["type"] for block in blocks] == ["text", "image"]
        assert blocks[0]["text"] == "Here it is."
        assert "outputId" in str(blocks[1])


def test_result_of_a_tool_at_the_api() -> None:
    found = [{"type": "web_search_result", "url": "https://example.test", "title": "T", "encrypted_content": "x"}]
    block = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": found}
    called = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}}
    lines = init(), assistant(called, block)
    read = Read([Line(orjson.dumps({"session_id": "s", "parent_tool_use_id": None, **line})) for line in lines])

    assert read.result.get("assistantView") is None
    assert read.blocks is not None
