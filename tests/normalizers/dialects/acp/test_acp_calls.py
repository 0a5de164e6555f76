"""The life of an ACP tool call: opened, updated, asked about, ended."""

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


def test_a_call_told_piece_by_piece(snapshot: SnapshotAssertion) -> None:
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


def test_a_call_that_is_first_seen_in_a_permission_request_is_no_synthetic_one() -> None:
    call = only(ToolCall, events(GEMINI, "denied"))

    assert (call.synthetic, call.status, call.title) == (False, "awaiting-permission", "rm README.md")
    assert answer(call.input) == {"command": "rm README.md", "cwd": "/tmp/ws", "description": "Run a command"}


def test_what_a_permission_request_says_does_not_replace_a_known_input() -> None:
    """OpenCode asks with a diff of the whole file in place of the texts."""
    found = events(OPENCODE, "edit")

    assert "diff" not in whole_input(found, of(ToolCall, found)[-1].call_id)


def test_an_update_of_an_unknown_call_first_gets_a_synthetic_one() -> None:
    found = read(tool_update("c9", status="completed", kind="execute", title="ls", content=content("a\n")))

    call, result = only(ToolCall, found), only(ToolResult, found)
    assert (call.synthetic, call.name, call.input["command"]) == (True, "Bash", "ls")
    assert (result.status, result.output["stdout"]) == ("completed", "a\n")


def test_a_bare_result_of_an_unknown_call_is_of_an_unknown_tool() -> None:
    call = only(ToolCall, read(tool_update("c9", status="failed")))

    assert (call.name, call.input["_happy"]["rawToolName"]) == ("Unknown", "unknown")


def test_a_second_result_is_a_duplicate() -> None:
    done = tool_update("c1", status="completed", rawOutput="x")
    lines = [tool("c1", kind="read", title="a"), done, done]

    assert len(of(ToolResult, read(*lines))) == 1
    assert statistics(*lines).skipped == {"duplicate-result": 1}


def test_a_result_after_the_turn_replaces_the_one_we_made_up() -> None:
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


def test_an_id_used_again_in_another_turn_is_another_call() -> None:
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


def test_a_call_whose_input_was_forgotten_keeps_the_input_it_had() -> None:
    """Open calls may remember only so much; a title alone then changes nothing but the title."""
    lines = [
        tool("c1", kind="edit", title="edit", rawInput={}),
        tool_update("c1", rawInput={"filePath": "/a", "content": "x" * 3_000_000}),
        tool("c2", kind="read", title="read", rawInput={"filePath": "/b"}),
        tool_update("c1", title="a", status="completed"),
    ]

    late = [one for one in of(ToolUpdate, read(*lines)) if one.call_id == "c1"][-1]
    assert (late.title, late.input) == ("a", None)


def test_running_output_that_is_repeated_in_full_is_a_preview() -> None:
    lines = recording(OPENCODE, "shell-fails")

    chunks = [one.chunk for one in of(ToolUpdate, read(*lines, partials=True)) if one.chunk is not None]
    assert [(one.text, one.offset) for one in chunks] == [("partial output\n", 0), ("boom: something broke\n", 15)]
    assert statistics(*lines).skipped["partial"] == 2


def test_what_a_call_showed_is_kept_if_it_never_ends() -> None:
    found = read(
        tool("c1", kind="execute", title="bash", rawInput={"command": "x"}, status="in_progress"),
        tool_update("c1", status="in_progress", content=content("so far\n")),
    )

    result = only(ToolResult, found)
    assert (result.status, result.output["stdout"]) == ("interrupted", "so far\n")


# -- permissions, questions --------------------------------------------------------------------------------------------


def test_a_permission_is_asked_and_answered(snapshot: SnapshotAssertion) -> None:
    found = events(CODEX, "write-fails")

    assert [only(PermissionRequest, found), only(PermissionResponse, found)] == snapshot


def test_a_permission_cancelled_with_its_turn_is_cancelled() -> None:
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


def test_codexs_reviewer_denies_by_itself() -> None:
    """The review is a call of its own; the call it is about was not executed."""
    found = events(CODEX, "reviewed")

    responses = of(PermissionResponse, found)
    assert {(one.outcome, one.by) for one in responses} == {("denied", "agent")}
    denied = [one for one in of(ToolResult, found) if one.status == "denied"]
    assert [one.call_id for one in denied] == [one.call_id for one in responses]
    assert [one.name for one in denied] == ["mcp__fixture__change_title", "mcp__fixture__fail", "mcp__fixture__picture"]
    assert all("was not executed" in one.output["errorMessage"] for one in denied)


def test_an_elicitation_is_a_form_and_its_answers() -> None:
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
def test_an_elicitation_may_be_declined(action: str, outcome: str) -> None:
    found = read(
        asks(0, "elicitation/create", "out", sessionId=SESSION, mode="url", message="Log in", url="http://a.b"),
        answers(0, "in", action=action),
    )

    assert only(PermissionRequest, found).type == "elicitation"
    assert only(PermissionResponse, found).outcome == outcome


def test_a_permission_the_client_answers_with_an_error_is_cancelled() -> None:
    found = read(
        asks(0, "session/request_permission", "out", sessionId=SESSION, toolCall={"toolCallId": "c1"}, options=[]),
        line("in", id=0, error={"code": -32601, "message": "Method not found"}),
    )

    response = only(PermissionResponse, found)
    assert (response.outcome, response.message) == ("cancelled", "Method not found")
    assert of(Notice, found) == []
