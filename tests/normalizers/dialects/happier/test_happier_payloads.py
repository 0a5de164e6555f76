"""Traces of Happier: what Gemini shows, what was normalized before, and what failed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.dialects.happier.test_happier_trace import call, record, result, results, run
from tooltap.protocol.events import ToolCall, Unparsed

# -- what Gemini shows ------------------------------------------------------------------------------------------------


def gemini(body: dict[str, Any]) -> dict[str, Any]:
    return record(body["type"], body, provider="gemini")


FOUND = "Found 3 matching file(s)"


@pytest.mark.parametrize("output", [FOUND, [{"type": "content", "content": {"type": "text", "text": FOUND}}]])
def test_sentence_about_an_output_is_no_output(output: Any) -> None:
    events, _ = run(
        gemini({"type": "tool-call", "callId": "glob-1", "name": "glob", "input": {"pattern": "*.py"}}),
        gemini({"type": "tool-result", "callId": "glob-1", "output": output}),
    )
    payload = results(events)["glob-1"].output

    assert payload["message"] == FOUND
    assert not payload.get("matches")


def test_output_of_geminis_shell_is_its_output() -> None:
    events, _ = run(
        gemini({"type": "tool-call", "callId": "s", "name": "execute", "input": {"command": "ls"}}),
        gemini({"type": "tool-result", "callId": "s", "output": "a.py"}),
    )

    assert results(events)["s"].output["stdout"] == "a.py"


@pytest.mark.parametrize("title", ['{"title":"Fix it"}', '{"title":"Fix it"} (happier MCP Server)'])
def test_arguments_in_the_title_of_a_permission(title: str) -> None:
    asked = {
        "type": "permission-request",
        "permissionId": "change_title-1769335045695",
        "toolName": "other",
        "options": {"toolCall": {"toolCallId": "change_title-1769335045695", "title": title, "content": []}},
    }
    events, _ = run(gemini(asked))
    (opened,) = [event for event in events if isinstance(event, ToolCall)]

    assert (opened.name, opened.input["title"]) == ("change_title", "Fix it")


@pytest.mark.parametrize("title", ["curl -d '{\"a\":1}' host", '{"a":1} | jq .', "{not json}"])
def test_title_that_only_has_braces_is_a_title(title: str) -> None:
    call = {"toolCallId": "p", "title": title}
    asked = {"type": "permission-request", "permissionId": "p", "toolName": "execute", "options": {"toolCall": call}}
    events, _ = run(gemini(asked))

    assert next(event for event in events if isinstance(event, ToolCall)).input["title"] == title


# -- normalized before, and failures ----------------------------------------------------------------------------------


def test_wrapped_value_is_unwrapped() -> None:
    happy = {"v": 2, "protocol": "acp", "provider": "opencode", "rawToolName": "execute", "canonicalToolName": "Bash"}
    events, _ = run(
        call("c", "execute", {"command": "ls"}),
        result("c", {"value": "a.py\n", "_happy": happy, "_raw": "a.py\n"}),
    )
    output = results(events)["c"].output

    assert (output["stdout"], "value" in output, output["_raw"]) == ("a.py\n", False, "a.py\n")


def test_words_about_a_failed_read_are_no_file() -> None:
    words = [{"type": "text", "text": "ENOENT: no such file"}]
    events, _ = run(
        call("c", "read", {"file_path": "/x"}),
        result("c", {"content": words, "status": "failed"}),
        call("d", "read", {"file_path": "/x"}),
        result("d", words, isError=True),
    )

    for one in results(events).values():
        assert (one.status, one.output["errorMessage"]) == ("failed", "ENOENT: no such file")
        assert "file" not in one.output


def test_file_edit_without_a_path() -> None:
    events, _ = run(record("file-edit", {"type": "file-edit", "id": "e", "diff": "x"}))

    assert [event.reason for event in events if isinstance(event, Unparsed)] == ["no-path"]


def test_claudes_blocks_are_what_the_model_saw() -> None:
    block = {"type": "tool_result", "tool_use_id": "c", "content": "a.py"}
    events, _ = run(record("tool-result", block, protocol="claude", provider=None), result("d", "a.py"))
    by_id = results(events)

    assert by_id["c"].model_view is not None
    assert (by_id["d"].model_view, by_id["d"].assistant_view) == (None, "unknown")
