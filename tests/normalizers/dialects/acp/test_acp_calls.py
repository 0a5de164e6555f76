"""The life of an ACP tool call: opened, updated, permitted, ended."""

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.normalizers.dialects.acp.helpers import (
    CLAUDE,
    CODEX,
    GEMINI,
    OPENCODE,
    SESSION,
    answers,
    asks,
    content,
    events,
    line,
    only,
    prompt,
    read,
    recording,
    set_up,
    statistics,
    tool,
    tool_update,
    whole_input,
)
from tests.normalizers.reading import answer, of
from tooltap.protocol.events import Notice, PermissionRequest, PermissionResponse, ToolCall, ToolResult, ToolUpdate

# -- the life of a call ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("repeated", [True, False])
def test_request_of_a_question_has_its_questions(repeated: bool) -> None:
    """Qwen 0.24.4 repeats them in the request; the call states them in any case."""
    asked = {"questions": [{"question": "Which targets ship?", "header": "Targets", "options": [{"label": "web"}]}]}
    call = {"toolCallId": "c1", **({"rawInput": asked} if repeated else {})}
    found = read(
        *set_up("qwen-code"),
        prompt(),
        tool(
            "c1",
            title="AskUserQuestion",
            kind="think",
            rawInput={} if repeated else asked,
            _meta={"toolName": "ask_user_question"},
        ),
        asks(0, "session/request_permission", "out", sessionId=SESSION, toolCall=call, options=[]),
    )
    request = only(PermissionRequest, found)

    assert (request.type, request.questions) == ("question", asked["questions"])


def test_call_that_arrives_in_pieces(snapshot: SnapshotAssertion) -> None:
    """claude-agent-acp: empty input, the path, the old text, the new text, the permission, the result."""
    found = [
        one
        for one in events(CLAUDE, "edit")
        if getattr(one, "call_id", "").startswith("toolu_0125861") and not isinstance(one, ToolResult)
    ]
    lines = [
        (
            type(one).__name__,
            getattr(one, "status", None) or getattr(one, "outcome", None),
            getattr(one, "title", None),
            answer(getattr(one, "input", None)) or None,
        )
        for one in found
    ]

    assert lines == snapshot


def test_permission_request_opens_an_unknown_call() -> None:
    call = only(ToolCall, events(GEMINI, "denied"))

    assert (call.synthetic, call.status, call.title) == (False, "awaiting-permission", "rm README.md")
    assert answer(call.input) == {"command": "rm README.md", "cwd": "/tmp/ws", "description": "Run a command"}


def test_permission_request_does_not_replace_a_known_input() -> None:
    """OpenCode asks with a diff of the whole file in place of the texts."""
    found = events(OPENCODE, "edit")

    assert "diff" not in whole_input(found, of(ToolCall, found)[-1].call_id)


def test_update_of_an_unknown_call_opens_a_synthetic_call() -> None:
    found = read(tool_update("c9", status="completed", kind="execute", title="ls", content=content("a\n")))

    call, result = only(ToolCall, found), only(ToolResult, found)
    assert (call.synthetic, call.name, call.input["command"]) == (True, "Bash", "ls")
    assert (result.status, result.output["stdout"]) == ("completed", "a\n")


def test_result_of_an_unknown_call_has_an_unknown_tool() -> None:
    call = only(ToolCall, read(tool_update("c9", status="failed")))

    assert (call.name, call.input["_happy"]["rawToolName"]) == ("Unknown", "unknown")


def test_second_result_is_a_duplicate() -> None:
    done = tool_update("c1", status="completed", rawOutput="x")
    lines = [tool("c1", kind="read", title="a"), done, done]

    assert len(of(ToolResult, read(*lines))) == 1
    assert statistics(*lines).skipped == {"duplicate-result": 1}


def test_late_result_replaces_the_synthetic_one() -> None:
    found = read(
        *set_up(),
        prompt(3),
        tool("c1", kind="execute", title="ls", rawInput={"command": "ls"}),
        answers(3, stopReason="end_turn"),
        tool_update("c1", status="completed", rawOutput="a"),
    )

    made_up, real = of(ToolResult, found)
    assert (made_up.status, made_up.synthetic) == ("interrupted", True)
    assert (real.status, real.replaces, real.turn) == ("completed", made_up.id, "t1")


def test_reused_id_in_another_turn_is_another_call() -> None:
    lines = [*set_up()]
    for request in (3, 4):
        lines += [
            prompt(request),
            tool("c1", kind="read", title="a"),
            tool_update("c1", status="completed", rawOutput=str(request)),
            answers(request, stopReason="end_turn"),
        ]

    found = read(*lines)
    assert [call.call_id for call in of(ToolCall, found)] == ["c1", "t2/c1"]
    assert [one.call_id for one in of(ToolResult, found)] == ["c1", "t2/c1"]


def test_dropped_memory_keeps_the_input() -> None:
    """The memory of open calls is bounded. Without it, a title changes only the title."""
    lines = [
        tool("c1", kind="edit", title="edit", rawInput={}),
        tool_update("c1", rawInput={"filePath": "/a", "content": "x" * 3_000_000}),
        tool("c2", kind="read", title="read", rawInput={"filePath": "/b"}),
        tool_update("c1", title="a", status="completed"),
    ]

    late = [one for one in of(ToolUpdate, read(*lines)) if one.call_id == "c1"][-1]
    assert (late.title, late.input) == ("a", None)


def test_repeated_running_output_is_partial() -> None:
    lines = recording(OPENCODE, "shell-fails")

    chunks = [one.chunk for one in of(ToolUpdate, read(*lines, partials=True)) if one.chunk is not None]
    assert [(one.text, one.offset) for one in chunks] == [("partial output\n", 0), ("boom: something broke\n", 15)]
    assert statistics(*lines).skipped["partial"] == 2


def test_output_of_an_unfinished_call_is_kept() -> None:
    found = read(
        tool("c1", kind="execute", title="bash", rawInput={"command": "x"}, status="in_progress"),
        tool_update("c1", status="in_progress", content=content("so far\n")),
    )

    result = only(ToolResult, found)
    assert (result.status, result.output["stdout"]) == ("interrupted", "so far\n")


# -- permissions, questions --------------------------------------------------------------------------------------------


def test_permission_request_and_response(snapshot: SnapshotAssertion) -> None:
    found = events(CODEX, "write-fails")

    assert [only(PermissionRequest, found), only(PermissionResponse, found)] == snapshot


def test_permission_cancelled_with_its_turn() -> None:
    found = read(
        *set_up(),
        prompt(3),
        asks(
            0,
            "session/request_permission",
            "out",
            sessionId=SESSION,
            toolCall={"toolCallId": "c1", "kind": "execute"},
            options=[],
        ),
        answers(0, "in", outcome={"outcome": "cancelled"}),
        answers(3, stopReason="cancelled"),
    )

    assert only(PermissionResponse, found).outcome == "cancelled"
    assert only(ToolResult, found).status == "cancelled"


def test_codex_reviewer_denies() -> None:
    """The review is a call of its own; the reviewed call was not executed."""
    found = events(CODEX, "reviewed")

    responses = of(PermissionResponse, found)
    assert {(one.outcome, one.by) for one in responses} == {("denied", "agent")}
    denied = [one for one in of(ToolResult, found) if one.status == "denied"]
    assert [one.call_id for one in denied] == [one.call_id for one in responses]
    assert [one.name for one in denied] == ["mcp__fixture__change_title", "mcp__fixture__fail", "mcp__fixture__picture"]
    assert all("was not executed" in one.output["errorMessage"] for one in denied)


def test_elicitation_and_its_answers() -> None:
    schema = {
        "type": "object",
        "properties": {
            "question_0": {
                "type": "string",
                "title": "Database",
                "oneOf": [{"const": "SQLite", "title": "SQLite", "description": "small"}, {"const": "Postgres"}],
            }
        },
    }
    found = read(
        *set_up(),
        prompt(3),
        tool("c1", name="AskUserQuestion", rawInput={"questions": []}),
        asks(
            0,
            "elicitation/create",
            "out",
            sessionId=SESSION,
            toolCallId="c1",
            mode="form",
            message="Which?",
            requestedSchema=schema,
        ),
        answers(0, "in", action="accept", content={"question_0": "SQLite"}),
    )

    request, response = only(PermissionRequest, found), only(PermissionResponse, found)
    assert (request.type, request.title, request.call_id) == ("question", "Which?", "c1")
    assert request.questions == [
        {
            "id": "question_0",
            "question": "Which?",
            "header": "Database",
            "options": [{"label": "SQLite", "description": "small"}, {"label": "Postgres"}],
        }
    ]
    assert (response.outcome, response.answers) == ("answered", {"question_0": "SQLite"})


@pytest.mark.parametrize(("action", "outcome"), [("decline", "denied"), ("cancel", "cancelled")])
def test_elicitation_without_answers(action: str, outcome: str) -> None:
    found = read(
        asks(0, "elicitation/create", "out", sessionId=SESSION, mode="url", message="Log in", url="http://a.b"),
        answers(0, "in", action=action),
    )

    assert only(PermissionRequest, found).type == "elicitation"
    assert only(PermissionResponse, found).outcome == outcome


def test_permission_answered_with_an_error_is_cancelled() -> None:
    found = read(
        asks(0, "session/request_permission", "out", sessionId=SESSION, toolCall={"toolCallId": "c1"}, options=[]),
        line("in", id=0, error={"code": -32601, "message": "Method not found"}),
    )

    response = only(PermissionResponse, found)
    assert (response.outcome, response.message) == ("cancelled", "Method not found")
    assert of(Notice, found) == []


def test_result_before_its_call_is_read_again_when_the_tool_is_known() -> None:
    ended = {"status": "completed", "rawOutput": {"output": "hello\n", "exit_code": 0}}
    found = read(
        *set_up(),
        tool_update("c1", **ended),
        tool("c1", title="echo hello", kind="execute", status="in_progress", rawInput={"command": "echo hello"}),
    )

    first, second = of(ToolResult, found)
    assert (first.name, answer(first.output)) == ("Unknown", {"output": "hello\n", "exit_code": 0})
    assert (second.name, answer(second.output)) == ("Bash", {"stdout": "hello\n", "exit_code": 0})
    assert (second.replaces, second.status) == (first.id, "completed")
