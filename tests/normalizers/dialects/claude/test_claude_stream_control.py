"""Claude's control protocol: both sides of it, or the agent's alone."""

from typing import Any

import pytest

from tests.normalizers.dialects.claude.helpers import assistant, events, init, read, recording, results, statistics, use
from tests.normalizers.reading import answer, of
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import (
    Event,
    Message,
    Notice,
    PermissionRequest,
    PermissionResponse,
    SessionEvent,
    ToolCall,
    ToolUpdate,
    Turn,
)
from tooltap.testing import normalize


def ask(request_id: str, call_id: str, name: str, **given: Any) -> dict[str, Any]:
    request = {"subtype": "can_use_tool", "tool_name": name, "input": given, "tool_use_id": call_id}
    return {"type": "control_request", "request_id": request_id, "request": request}


def reply(request_id: str, **response: Any) -> dict[str, Any]:
    return {
        "type": "control_response",
        "response": {"subtype": "success", "request_id": request_id, "response": response},
    }


def client_request(subtype: str, **more: Any) -> dict[str, Any]:
    return {"type": "control_request", "request_id": "r", "request": {"subtype": subtype, **more}}


def test_prompt_is_emitted_once_and_opens_turn() -> None:
    """Line 2 is the client's prompt, line 4 the `init` of its turn, line 6 the agent's echo."""
    found = events("control-question")

    prompts = [(one.line, one.text, one.turn) for one in of(Message, found) if one.role == "user"]
    assert prompts == [(2, "[[S21]] Ask me which database to use.", "t1")]
    assert [(turn.line, turn.state, turn.synthetic) for turn in of(Turn, found)] == [
        (2, "started", False),
        (36, "completed", False),
    ]
    assert statistics(recording("control-question")).skipped["echo"] == 2


def test_alias_ties_events_before_session_id() -> None:
    found = events("control-question")

    assert {event.session for event in found if event.line <= 3} == {"s"}
    aliased = [one for one in of(SessionEvent, found) if one.alias]
    assert [(one.line, one.alias) for one in aliased] == [(4, "s")]
    assert len({event.session for event in found if event.line >= 4}) == 1


def test_user_denial_is_emitted_once() -> None:
    """The agent repeats the client's answer (line 22), and lists the denial in its `result` (line 34)."""
    found = events("control-denied")

    (request,), (response,), (denied,) = of(PermissionRequest, found), of(PermissionResponse, found), results(found)
    assert (request.line, request.type, request.name, request.title) == (18, "permission", "Bash", "Run a command")
    assert request.input is not None
    assert request.input["command"] == "rm README.md"
    assert (response.line, response.outcome, response.by) == (19, "denied", "user")
    assert response.permission_id == request.permission_id == "a4c4097c-9341-4095-8683-e096588af307"
    assert response.message == "The user said no."
    assert (denied.status, answer(denied.output)) == ("denied", {"errorMessage": "The user said no."})
    assert [update.status for update in of(ToolUpdate, found)] == ["awaiting-permission"]


def test_question_is_answered() -> None:
    found = events("control-question")

    (request,), (response,) = of(PermissionRequest, found), of(PermissionResponse, found)
    assert request.type == "question"
    assert request.questions is not None
    assert [option["label"] for option in request.questions[0]["options"]] == ["SQLite", "Postgres"]
    assert (response.outcome, response.answers) == ("answered", {"Which database?": "SQLite"})
    assert results(found)[0].output["answers"] == {"Which database?": "SQLite"}


def test_mode_change_is_emitted() -> None:
    """ExitPlanMode is allowed with an unchanged input; then the mode changes (line 21)."""
    found = events("control-plan-mode")

    modes = [(one.line, one.mode) for one in of(SessionEvent, found) if one.mode]
    assert modes == [(3, "plan"), (4, "plan"), (21, "default")]
    (call,) = of(ToolCall, found)
    assert call.input["plan"] == "1. Read\n2. Edit\n3. Test"
    assert all(update.input is None for update in of(ToolUpdate, found))


def agents_side(name: str) -> list[Event]:
    lines = [line for line in recording(name) if line.direction == "out"]
    return normalize("claude-stream", lines, Context(stream="s"))


@pytest.mark.parametrize("name", ["control-denied", "control-question", "control-plan-mode", "control-thinking"])
def test_agent_side_alone_is_complete(name: str) -> None:
    def gist(found: list[Event]) -> list[tuple[str, Any]]:
        gists: list[tuple[str, Any]] = []
        for event in found:
            match event:
                case Message():
                    gists.append(("message", event.text))
                case PermissionRequest() | PermissionResponse():
                    gists.append((event.permission_id, type(event)))
                case ToolCall():
                    gists.append((event.call_id, event.name))
        return sorted(gists, key=str)

    assert gist(agents_side(name)) == gist(events(name))


def test_request_before_block_opens_call() -> None:
    found = read(
        init(),
        ask("r", "a", "Bash", command="ls"),
        assistant(use("a", "Bash", command="ls -l")),
    )

    (call,) = of(ToolCall, found)
    assert (call.line, call.synthetic) == (2, False)
    assert [update.line for update in of(ToolUpdate, found) if update.input] == [3]


def test_changed_input_updates_call() -> None:
    found = read(
        init(), ask("r", "a", "Bash", command="rm x"), reply("r", behavior="allow", updatedInput={"command": "ls"})
    )

    (update,) = [update for update in of(ToolUpdate, found) if update.input]
    assert update.input is not None
    assert answer(update.input) == {"command": "ls"}


def test_client_requests() -> None:
    found = read(
        init(),
        client_request("set_permission_mode", mode="plan"),
        client_request("set_model", model="other"),
        client_request("interrupt"),
        client_request("mcp_toggle"),
        {"type": "keep_alive"},
        ask("r", "a", "Bash", command="ls"),
        {"type": "control_cancel_request", "request_id": "r"},
    )

    updates = [(one.mode, one.model) for one in of(SessionEvent, found) if one.state == "updated"]
    assert updates == [("plan", None), (None, "other")]
    assert [notice.code for notice in of(Notice, found)] == ["interrupt"]
    assert [response.outcome for response in of(PermissionResponse, found)] == ["cancelled"]


def test_error_is_an_answer_to_a_request() -> None:
    failed = {"subtype": "error", "request_id": "r", "error": "no window"}
    found = read(init(), ask("r", "a", "Bash", command="ls"), {"type": "control_response", "response": failed})

    (response,) = of(PermissionResponse, found)
    assert (response.permission_id, response.outcome, response.by) == ("r", "cancelled", "user")
    assert (response.message, response.synthetic) == ("no window", False)
