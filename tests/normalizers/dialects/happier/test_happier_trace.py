"""Traces of Happier: one file, three protocols, several sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.normalizers.reading import emitted
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.dialects.happier.parser import HappierTrace
from tooltap.protocol.events import (
    Event,
    PermissionRequest,
    PermissionResponse,
    ToolCall,
    ToolResult,
    ToolUpdate,
    Unparsed,
)
from tooltap.testing import check_recording, read_recording

FIXTURES = Path(__file__).parents[3] / "fixtures" / "happier-trace" / "happier-1-written"


def record(kind: str, payload: Any, **keys: Any) -> dict[str, Any]:
    head = {"v": 1, "ts": 1769335045695, "direction": "outbound", "sessionId": "s1", "protocol": "acp"}
    return {**head, "kind": kind, "payload": payload, "provider": "opencode", **keys}


def call(call_id: str, name: str, value: Any, **keys: Any) -> dict[str, Any]:
    return record("tool-call", {"type": "tool-call", "callId": call_id, "name": name, "input": value}, **keys)


def result(call_id: str, output: Any, **body: Any) -> dict[str, Any]:
    return record("tool-result", {"type": "tool-result", "callId": call_id, "output": output, **body})


def run(*records: dict[str, Any], context: Context | None = None) -> tuple[list[Any], list[str]]:
    parser = HappierTrace(context or Context(stream="s"))
    events: list[Any] = []
    classes = []
    for value in records:
        line_class, items = parser.feed(orjson.dumps(value))
        classes.append(line_class)
        events += emitted(items)
    return events + emitted(parser.close("end")), classes


def recorded(name: str) -> list[Event]:
    return check_recording("happier-trace", read_recording((FIXTURES / f"{name}.jsonl").read_bytes()))


def results(events: list[Any]) -> dict[str, ToolResult]:
    return {event.call_id: event for event in events if isinstance(event, ToolResult)}


# -- whole files --------------------------------------------------------------------------------------------------


def test_acp_call_outcomes() -> None:
    ends = [(one.name, one.status, one.output.get("exit_code")) for one in results(recorded("acp")).values()]

    assert ends == [
        ("Read", "completed", None),
        ("Bash", "failed", 3),
        ("TodoWrite", "completed", None),
        ("Edit", "denied", None),
        ("Unknown", "completed", None),
        ("Patch", "completed", None),
        ("Edit", "cancelled", None),
        ("Bash", "completed", 0),
    ]


def test_codex_call_outcomes() -> None:
    ends = [(one.name, one.status) for one in results(recorded("codex")).values()]

    assert ends == [
        ("Bash", "failed"),
        ("Patch", "completed"),
        ("Diff", "completed"),
        ("Reasoning", "cancelled"),
        ("mcp__fixture__echo", "completed"),
        ("change_title", "completed"),
    ]


def test_claude_call_outcomes() -> None:
    ends = [(one.name, one.status) for one in results(recorded("claude")).values()]

    assert ends == [
        ("Read", "completed"),
        ("Bash", "denied"),
        ("AskUserQuestion", "completed"),
        ("MultiEdit", "interrupted"),
    ]


# -- where records belong -----------------------------------------------------------------------------------------


def test_origin_and_session_are_from_line() -> None:
    events, _ = run(
        call("a", "execute", {"command": "ls"}, sessionId="s1", protocol="acp", provider="gemini"),
        call("b", "CodexBash", {"command": ["ls"]}, sessionId="s2", protocol="codex", provider="codex"),
        record(
            "tool-call", {"type": "tool_use", "id": "c", "name": "Read", "input": {}}, sessionId="s3", protocol="claude"
        )
        | {"provider": None},
    )

    assert {(event.call_id, event.protocol, event.provider, event.session) for event in events} == {
        ("a", "acp", "gemini", "s1"),
        ("b", "codex", "codex", "s2"),
        ("c", "claude", "claude", "s3"),
    }
    assert len(results(events)) == 3
    meta = results(events)["b"].output["_happy"]
    assert (meta["protocol"], meta["provider"]) == ("codex", "codex")


def test_publishers_provider_wins() -> None:
    events, _ = run(call("a", "read", {}), context=Context(stream="s", provider="mine"))

    assert {event.provider for event in events} == {"mine"}


# -- identity, updates --------------------------------------------------------------------------------------------


def test_repeated_call_emits_changes() -> None:
    events, classes = run(
        call("a", "execute", {"_acp": {"kind": "execute", "title": "bash"}}),
        call("a", "execute", {"command": "ls", "_acp": {"kind": "unknown"}}),
        call("a", "execute", {"command": "ls", "_acp": {"kind": "unknown"}}),
        result("a", "app.py\n"),
        call("a", "execute", {"command": "ls"}),
        result("a", "app.py\n"),
    )

    assert classes == [
        "withEvents",
        "withEvents",
        "skipped.unchanged",
        "withEvents",
        "skipped.duplicate-call",
        "skipped.duplicate-result",
    ]
    assert [type(event) for event in events] == [ToolCall, ToolUpdate, ToolResult]
    assert events[1].input["command"] == "ls"
    assert events[1].input["_raw"] == {"command": "ls", "_acp": {"kind": "unknown"}}


def test_nameless_repeat_keeps_name() -> None:
    events, _ = run(
        call("a", "other", {"_acp": {"kind": "other", "title": "todowrite"}}),
        call("a", "other", {"todos": [{"content": "x"}], "_acp": {"kind": "unknown"}}),
    )

    assert [event.name for event in events] == ["TodoWrite"] * 3
    assert events[1].input["_happy"]["rawToolName"] == "todowrite"


@pytest.mark.parametrize(
    ("name", "call_id", "title", "expected"),
    [
        ("other", "call_1", "todowrite", "TodoWrite"),
        ("unknown", "replace-1769335045695-1", "src/app.py: a => b", "Edit"),
        ("Unknown tool", "read_file__read_file_1795293973564_0", None, "Read"),
        ("other", "call_1", "Search the files", "other"),
        ("execute", "read_file-1769335045695", "read", "Bash"),
    ],
)
def test_name_is_inferred(name: str, call_id: str, title: str | None, expected: str) -> None:
    events, _ = run(call(call_id, name, {"a": 1, "_acp": {"kind": "other", "title": title}}))

    assert events[0].name == expected


def test_normalized_payload_is_not_nested() -> None:
    meta = {"v": 2, "protocol": "acp", "provider": "auggie", "rawToolName": "execute", "canonicalToolName": "Bash"}
    events, _ = run(
        call("a", "Bash", {"command": "ls", "_happy": meta, "_raw": {"command": "ls"}}, provider="auggie"),
        result("a", {"stdout": "x", "_happy": meta, "_raw": "x"}),
    )

    assert events[0].input == {"command": "ls", "_happy": meta, "_raw": {"command": "ls"}}
    assert events[1].output == {"stdout": "x", "_happy": meta, "_raw": "x"}


# -- results ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "body", "status", "message"),
    [
        ("ok", {}, "completed", None),
        ({"error": "no such file", "status": "failed"}, {}, "failed", "no such file"),
        ({"error": "no such file"}, {}, "failed", "no such file"),
        ({"error": "stopped", "status": "cancelled"}, {"isError": True}, "cancelled", "stopped"),
        ({"stderr": "bad patch", "success": False}, {}, "failed", "bad patch"),
        ({"message": "broken"}, {"isError": True}, "failed", "broken"),
        ("broken", {"isError": True}, "failed", "broken"),
        ([{"type": "text", "text": "broken"}], {"isError": True}, "failed", "broken"),
        (None, {"isError": True}, "failed", None),
        ({"error": "ignored"}, {"isError": False}, "completed", None),
    ],
)
def test_call_status(output: Any, body: dict[str, Any], status: str, message: str | None) -> None:
    events, _ = run(call("a", "edit", {"path": "a"}), result("a", output, **body))

    assert (events[-1].status, events[-1].output.get("errorMessage")) == (status, message)


def test_output_chunks_become_result_if_alone() -> None:
    chunk = result("a", {"stdoutChunk": "tick 2\n", "_stream": True, "_terminal": True})
    terminal = record("terminal-output", {"type": "terminal-output", "data": "tick 1\n", "callId": "a"})

    broken_off, classes = run(call("a", "execute", {"command": "x"}), terminal, chunk)
    ended, _ = run(call("a", "execute", {"command": "x"}), terminal, chunk, result("a", {"stdout": "all\n"}))
    empty, _ = run(call("a", "execute", {"command": "x"}), terminal, chunk, result("a", ""))

    assert classes == ["withEvents", "skipped.partial", "skipped.partial"]
    assert (results(broken_off)["a"].status, results(broken_off)["a"].output["stdout"]) == (
        "interrupted",
        "tick 1\ntick 2\n",
    )
    assert results(ended)["a"].output["stdout"] == "all\n"
    assert results(empty)["a"].output["stdout"] == "tick 1\ntick 2\n"


def test_output_of_unseen_call() -> None:
    events, _ = run(record("terminal-output", {"type": "terminal-output", "data": "x", "callId": "a"}))

    assert (events[0].name, events[0].synthetic) == ("Unknown", True)
    assert events[-1].output["stdout"] == "x"


def test_file_edit_is_call_and_result() -> None:
    edit = {"type": "file-edit", "id": "e", "filePath": "a.py", "oldContent": "a\n", "newContent": "b\n"}

    events, classes = run(record("file-edit", edit), record("file-edit", edit))

    assert [(type(event), event.name, event.synthetic) for event in events] == [
        (ToolCall, "Patch", True),
        (ToolResult, "Patch", True),
    ]
    assert events[0].input["changes"]["a.py"]["modify"] == {"old_content": "a\n", "new_content": "b\n"}
    assert classes == ["withEvents", "skipped.duplicate-call"]


# -- permissions --------------------------------------------------------------------------------------------------


def asks(value: Any, tool_call: Any, name: str = "read", **keys: Any) -> dict[str, Any]:
    options = {"options": [{"id": "once", "name": "Allow", "kind": "allow_once", "x": 1}], "toolCall": tool_call}
    payload = {"type": "permission-request", "permissionId": "a", "toolName": name, "description": name}
    return record("permission-request", {**payload, "options": {**options, "input": value}, **keys})


@pytest.mark.parametrize(
    ("value", "tool_call", "path"),
    [
        ({"file_path": "given"}, {"rawInput": {"filepath": "hint"}}, "given"),
        ({}, {"rawInput": {"filepath": "hint"}}, "hint"),
        ({}, {"content": [{"type": "diff", "path": "hint", "newText": "x"}], "locations": []}, "hint"),
    ],
)
def test_empty_input_is_filled_from_request(value: Any, tool_call: Any, path: str) -> None:
    events, _ = run(asks(value, tool_call))

    assert (events[0].name, events[0].input["file_path"], events[0].synthetic) == ("Read", path, False)


def test_request_fills_call_before_or_after() -> None:
    bare = call("a", "read", {"locations": [], "description": "read", "_acp": {"kind": "read"}})
    request = asks({}, {"rawInput": {"filepath": "hint"}, "title": "Read hint"})

    before, _ = run(bare, request)
    after, _ = run(request, bare)

    for events in (before, after):
        updated = [event.input for event in events if isinstance(event, ToolUpdate) and event.input]
        assert [one["file_path"] for one in updated] == ["hint"]
    assert updated[0]["description"] == "read"


def test_stated_input_is_kept() -> None:
    events, _ = run(call("a", "read", {"file_path": "own"}), asks({}, {"rawInput": {"filepath": "hint"}}))

    assert not [event for event in events if isinstance(event, ToolUpdate) and event.input is not None]


def test_permission_request_and_response() -> None:
    response = {
        "type": "permission-response",
        "permissionId": "a",
        "approved": False,
        "decision": "abort",
        "reason": "no",
    }

    events, _ = run(
        asks({"file_path": "x"}, {"title": "Read x"}),
        record("permission-response", response, direction="inbound"),
    )

    request = next(event for event in events if isinstance(event, PermissionRequest))
    answer = next(event for event in events if isinstance(event, PermissionResponse))
    assert request.options == [{"id": "once", "name": "Allow", "kind": "allow_once"}]
    assert (request.call_id, request.name, request.title) == ("a", "Read", "Read x")
    assert (answer.outcome, answer.option_id, answer.by, answer.message) == ("cancelled", "abort", "user", "no")


def test_question_is_answered() -> None:
    question = {"question": "Which?", "options": [{"label": "A"}]}
    payload = {"type": "permission-request", "permissionId": "a", "toolName": "AskUserQuestion"}
    response = {"type": "permission-response", "permissionId": "a", "approved": True, "answers": {"Which?": "A"}}

    events, _ = run(
        record("permission-request", {**payload, "input": {"questions": [question]}}, protocol="claude"),
        record("permission-response", response, protocol="claude", direction="inbound"),
    )

    request = next(event for event in events if isinstance(event, PermissionRequest))
    answer = next(event for event in events if isinstance(event, PermissionResponse))
    assert (request.type, request.questions) == ("question", [question])
    assert (answer.outcome, answer.answers) == ("answered", {"Which?": "A"})


# -- what cannot be read ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        record("tool-call", {"name": "x"}),
        record("tool-result", {"output": "x"}),
        record("permission-request", {"toolName": "x"}),
        record("permission-response", {"approved": True}),
        record("terminal-output", {"data": "x"}),
        record("file-edit", {"filePath": "a"}),
        record("message", {"text": "x"}),
        record("tool-call", "text"),
        record("tool-call", {"callId": "a", "name": "x"}) | {"v": 2},
        record("tool-call", {"callId": "a", "name": "x"}) | {"protocol": None},
        {"kind": ["tool-call"], "v": 1},
    ],
)
def test_incomplete_line_is_unparsed(value: dict[str, Any]) -> None:
    events, classes = run(value)

    assert classes == ["unparsed"]
    assert [type(event) for event in events] == [Unparsed]
