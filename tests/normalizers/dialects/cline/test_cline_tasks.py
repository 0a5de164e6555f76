"""The `cline-tasks` dialect: lists of messages that are written anew, outputs of commands, and tokens."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.normalizers.reading import answer, of, read, recording, said
from tooltap.normalizers.catalog.registry import agents
from tooltap.protocol.events import Notice, Reasoning, ToolCall, ToolResult, Turn, Unparsed, Usage
from tooltap.testing import Line, normalize

COUNT = recording("cline-tasks", "count", "roo-code-written")


def message(ts: int, kind: str, what: str, text: str = "", **more: Any) -> dict[str, Any]:
    return {"ts": 1795692000000 + ts, "type": kind, kind: what, "text": text, **more}


TASK = message(0, "say", "text", "Go")
RUN = message(1, "ask", "command", "make")


def written(*messages: dict[str, Any]) -> Line:
    return Line(json.dumps(messages).encode())


def test_recording_is_one_turn_that_its_result_ends() -> None:
    found = normalize("auto", COUNT)

    assert {(one.dialect, one.provider) for one in found} == {("cline-tasks", "cline")}
    assert said(found) == [
        ("user", "Count the lines of notes.txt."),
        ("assistant", "Counting them."),
        ("assistant", "It has 12 lines."),
    ]
    assert [one.text for one in of(Reasoning, found)] == ["wc does it."]
    assert [(one.name, one.synthetic) for one in of(ToolResult, found)] == [("Bash", False), ("Read", True)]
    assert [(one.input_tokens, one.output_tokens, one.cost_usd) for one in of(Usage, found)] == [(1230, 42, 0.0021)]
    assert [(one.state, one.ended_by) for one in of(Turn, found)] == [("started", None), ("completed", "provider")]


def test_what_was_read_does_not_come_again() -> None:
    assert len(normalize("auto", [*COUNT, *COUNT])) == len(normalize("auto", COUNT))


def test_pieces_of_an_output_are_one_result() -> None:
    pieces = message(2, "say", "command_output", "a"), message(3, "ask", "command_output", "b")
    found = read("cline-tasks", written(TASK, RUN, *pieces, message(4, "say", "text", "Made.")))

    assert [answer(one.output) for one in of(ToolResult, found)] == [{"stdout": "a\nb"}]


def test_command_that_still_runs_at_the_end_has_no_result() -> None:
    assert [one.status for one in of(ToolResult, read("cline-tasks", written(TASK, RUN)))] == ["interrupted"]


@pytest.mark.parametrize(("api", "tokens"), [("anthropic", 130), ("openai", 100), (None, 130)])
def test_tokens_in_the_cache_count_as_the_api_counts_them(api: str | None, tokens: int) -> None:
    used = {"tokensIn": 100, "tokensOut": 5, "cacheReads": 20, "cacheWrites": 10, "apiProtocol": api}
    [found] = of(Usage, read("cline-tasks", written(TASK, message(1, "say", "api_req_started", json.dumps(used)))))

    assert found.input_tokens == tokens


@pytest.mark.parametrize(
    ("tool", "more", "name"),
    [
        ("newFileCreated", {"content": "x"}, "Write"),
        ("editedExistingFile", {"diff": "-a\n+b"}, "Edit"),
        ("searchFiles", {"regex": "x", "content": "a.py"}, "Grep"),
        ("hologram", {}, "hologram"),
    ],
)
def test_tools_have_canonical_names(tool: str, more: dict[str, Any], name: str) -> None:
    used = json.dumps({"tool": tool, "path": "a", **more})

    assert [one.name for one in of(ToolCall, read("cline-tasks", written(TASK, message(1, "ask", "tool", used))))] == [
        name
    ]


def test_tool_of_an_mcp_server_has_its_response() -> None:
    used = json.dumps({"serverName": "docs", "type": "use_mcp_tool", "toolName": "find", "arguments": '{"q": "a"}'})
    response = message(2, "say", "mcp_server_response", "found")
    found = read("cline-tasks", written(TASK, message(1, "ask", "use_mcp_server", used), response))

    assert [(one.input["_happy"]["rawToolName"], one.input.get("q")) for one in of(ToolCall, found)] == [
        ("mcp__docs__find", "a")
    ]
    assert [one.synthetic for one in of(ToolResult, found)] == [False]


def test_what_the_user_says_after_the_result_is_another_turn() -> None:
    lines = message(1, "say", "completion_result", "Done."), message(2, "say", "user_feedback", "And this.")
    found = read("cline-tasks", written(TASK, *lines))

    assert [text for _, text in said(found)] == ["Go", "Done.", "And this."]
    assert [one.state for one in of(Turn, found)][:3] == ["started", "completed", "started"]


def test_errors_and_shortened_contexts_are_noticed() -> None:
    condensed = message(2, "say", "condense_context", contextCondense={"summary": "Counted.", "cost": 0.1})
    found = read("cline-tasks", written(TASK, message(1, "say", "error", "No key."), condensed))

    assert [(one.code, one.text) for one in of(Notice, found)] == [("error", "No key."), ("compaction", "Counted.")]


def test_roo_code_is_a_fork_of_cline() -> None:
    assert agents()["roo"].fork_of == "cline"


def test_what_has_no_known_shape_is_kept() -> None:
    odd = message(1, "say", "hologram"), message(2, "ask", "tool", "[]"), message(3, "ask", "use_mcp_server", "{}")
    found = read("cline-tasks", written(TASK, *odd, {"type": "say", "say": "text"}))

    assert [one.reason for one in of(Unparsed, found)] == ["unknown-type"] * 4
