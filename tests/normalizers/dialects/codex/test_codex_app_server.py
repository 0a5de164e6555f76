"""`codex app-server`: recordings, with both sides and with the agent's alone, and written lines."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.normalizers.dialects.codex.helpers import agents_side, calls, recognised, results, statistics
from tests.normalizers.reading import answer, of
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import (
    Event,
    Message,
    Notice,
    PermissionRequest,
    PermissionResponse,
    Reasoning,
    SessionEvent,
    ToolResult,
    ToolUpdate,
    Turn,
    Usage,
)
from tooltap.testing import Line, check_recording, check_survives, normalize, read_recording

FIXTURES = Path(__file__).parents[3] / "fixtures" / "codex-app-server" / "codex-0.169"
ALL = sorted(FIXTURES.glob("*.jsonl"))
BOTH = {"threadId": "a", "turnId": "1"}


def recording(name: str) -> list[Line]:
    return read_recording((FIXTURES / f"{name}.jsonl").read_bytes())


def events(name: str) -> list[Event]:
    return normalize("codex-app-server", recording(name), Context(stream="s"))


def lines(*made: dict[str, Any]) -> list[Line]:
    """Messages as tapped lines; those of the client have `dir`."""
    return [Line(orjson.dumps(one), None, one.pop("dir", "out")) for one in made]


def read(*made: dict[str, Any]) -> list[Event]:
    return check_recording("codex-app-server", lines(*made), Context(stream="s"))


def notify(method: str, **params: Any) -> dict[str, Any]:
    return {"method": method, "params": {**BOTH, **params}}


def item(state: str, kind: str, **keys: Any) -> dict[str, Any]:
    return notify(f"item/{state}", item={"type": kind, **keys})


def started(thread: str = "a", turn: str = "1", root: str | None = None) -> dict[str, Any]:
    return notify("turn/started", threadId=thread, turn={"id": turn, "rootTurnId": root or turn})


def completed(status: str = "completed", thread: str = "a", turn: str = "1") -> dict[str, Any]:
    return notify("turn/completed", threadId=thread, turn={"id": turn, "status": status, "error": None})


def said(found: list[Event]) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in of(Message, found)]


def shown(result: ToolResult) -> tuple[str, str, dict[str, Any]]:
    """A result without `content`, whose pictures have ids that depend on line numbers."""
    return result.call_id, result.status, {**answer(result.output), "content": None}


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_recordings_are_fully_parsed(path: Path) -> None:
    recorded = read_recording(path.read_bytes())

    check_recording("codex-app-server", recorded)

    assert statistics(recorded, "codex-app-server").unparsed == 0


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_agents_side_alone_yields_same_content(path: Path) -> None:
    recorded = read_recording(path.read_bytes())
    whole = normalize("codex-app-server", recorded, Context(stream="s"))

    alone = check_recording("codex-app-server", agents_side(recorded), Context(stream="s"))

    assert said(alone) == said(whole)
    assert [(one.call_id, one.name, one.input) for one in calls(alone)] == [
        (one.call_id, one.name, one.input) for one in calls(whole)
    ]
    assert [shown(one) for one in results(alone)] == [shown(one) for one in results(whole)]
    assert [one.outcome for one in of(PermissionResponse, alone)] == [
        one.outcome for one in of(PermissionResponse, whole)
    ]


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_single_line_is_recognised(path: Path) -> None:
    values = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    dialects = [(value["line"], recognised(orjson.dumps(value["line"]))) for value in values]

    assert {name for line, name in dialects if line.get("method") not in (None, "initialized")} == {"codex-app-server"}
    assert {name for _, name in dialects} <= {"codex-app-server", None}


# -- sessions and threads ---------------------------------------------------------------------------------------------


def test_session_start_is_emitted_once() -> None:
    session = [one for one in of(SessionEvent, events("shell-fails")) if one.alias is None]

    (one,) = session
    assert (one.state, one.cwd, one.model, one.mode) == ("started", "/tmp/ws", "gpt-5.5", "untrusted/workspace-write")
    assert one.agent_version == "0.169.0"


def test_subagent_thread_belongs_to_spawning_session() -> None:
    found = events("subagent")

    root, child = "01a1ffda-4bd9-78f1-91b6-72c607fefd3f", "01a1ffda-4c82-70e3-8ffc-18dbd22797c4"
    spawn = calls(found)[0]
    assert (spawn.name, spawn.agent) == ("Task", None)
    of_child = [one for one in found if one.agent is not None]
    assert {(one.session, one.agent, one.parent) for one in of_child} == {(root, child, spawn.call_id)}
    assert {one.session for one in found if one.line > 6} == {root}
    assert [(one.name, one.input["command"]) for one in calls(of_child)] == [
        ("Bash", "rg -n 'def greet' ."),
        ("Bash", "sed -n '1,200p' src/app.py"),
    ]
    assert said(of_child) == [
        ("user", "[[S12sub]] Find where greet is defined and report the line."),
        ("assistant", "greet is defined at src/app.py line 4."),
    ]


def test_call_states_the_model_of_the_subagent_it_has_started() -> None:
    """Without it, what the subagent uses has no price."""
    models = [(one.agent, one.turn, one.model) for one in of(SessionEvent, events("subagent")) if one.agent is not None]

    assert models == [("01a1ffda-4c82-70e3-8ffc-18dbd22797c4", None, "gpt-5.5")]


def test_overlapping_turns_keep_their_calls() -> None:
    found = events("subagent")

    turns = [(one.agent is not None, one.turn, one.state) for one in of(Turn, found)]
    root, child = "01a1ffda-4bf6-7290-a604-5a3e1aa300af", "01a1ffda-4c97-7aa0-b234-af036f0d01af"
    assert turns == [
        (False, root, "started"), (True, child, "started"), (True, child, "completed"), (False, root, "completed"),
    ]  # fmt: skip
    assert {(one.agent is not None, one.turn) for one in calls(found)} == {(False, root), (True, child)}
    wait = next(one for one in results(found) if one.name == "TaskOutput")
    assert (wait.line, wait.status, wait.synthetic) == (47, "completed", False)


def test_root_turn_identifies_subagent_thread() -> None:
    found = read(
        started(), item("started", "collabAgentToolCall", id="s", tool="spawnAgent", receiverThreadIds=[]),
        started("b", "2", root="1"), notify("item/agentMessage/delta", threadId="b", turnId="2", itemId="m", delta="x"),
        item("completed", "collabAgentToolCall", id="s", tool="spawnAgent", receiverThreadIds=["b"]),
        completed("completed", "b", "2"), completed(),
    )  # fmt: skip

    assert [(one.session, one.agent, one.parent, one.state) for one in of(Turn, found)] == [
        ("a", None, None, "started"), ("a", "b", None, "started"), ("a", "b", "s", "completed"),
        ("a", None, None, "completed"),
    ]  # fmt: skip
    assert [(one.text, one.agent, one.turn) for one in of(Message, found)] == [("x", "b", "2")]


def test_client_threads_are_separate_sessions() -> None:
    found = read(started("a", "1"), started("b", "2"), completed("completed", "a", "1"), completed("failed", "b", "2"))

    assert [(one.session, one.turn, one.state) for one in of(Turn, found)] == [
        ("a", "1", "started"), ("b", "2", "started"), ("a", "1", "completed"), ("b", "2", "failed"),
    ]  # fmt: skip


# -- calls ------------------------------------------------------------------------------------------------------------


def test_failing_command_has_item_type_and_exit_code() -> None:
    found = events("shell-fails")

    (call,), (result,) = calls(found), results(found)
    assert (call.name, call.input["_happy"]["rawToolName"]) == ("Bash", "commandExecution")
    assert call.input["command"] == "echo partial output; echo 'boom: something broke' >&2; exit 3"
    assert call.input["_raw"]["commandActions"][0]["type"] == "unknown"
    assert (result.status, result.output["exit_code"], result.output["_raw"]["exitCode"]) == ("failed", 3, 3)


def test_refused_command_is_denied() -> None:
    found = events("command-denied")

    (request,), (response,), (result,) = of(PermissionRequest, found), of(PermissionResponse, found), results(found)
    assert (request.permission_id, request.call_id, request.title) == ("0", result.call_id, "May I delete README.md?")
    assert [(one["id"], one["kind"]) for one in request.options or []] == [
        ("accept", "allow_once"),
        ("acceptWithExecpolicyAmendment", "allow_always"),
        ("decline", "reject_once"),  # Codex states only the refusal that ends the turn, but takes this one, too
        ("cancel", "reject_once"),
    ]
    assert (response.outcome, response.by, response.option_id) == ("denied", "user", "decline")
    assert (result.status, result.is_error) == ("denied", False)


def test_patch_is_approved_and_turn_diff_is_emitted_once() -> None:
    found = events("patch-approved")

    patch, diff = calls(found)
    assert {path: one["type"] for path, one in patch.input["changes"].items()} == {
        "/tmp/ws/docs/new.md": "add",
        "/tmp/ws/package.json": "delete",
        "/tmp/ws/src/util.py": "rename",
    }
    assert [one.outcome for one in of(PermissionResponse, found)] == ["allowed"]
    assert (diff.name, diff.synthetic, diff.input["unified_diff"].count("diff --git")) == ("Diff", True, 3)
    assert [type(one).__name__ for one in found[-3:]] == ["ToolCall", "ToolResult", "Turn"]


def test_mcp_approval_finds_call_by_name() -> None:
    found = events("mcp-approved")

    asked = [(one.call_id, one.name, one.type, one.input) for one in of(PermissionRequest, found)]
    by_name = {one.name: one.call_id for one in calls(found)}
    assert [(call_id, name) for call_id, name, *_ in asked] == [
        (by_name[name], name) for name in ("mcp__fixture__change_title", "mcp__fixture__fail", "mcp__fixture__picture")
    ]
    assert asked[0][2:] == ("permission", {"title": "Demo title"})
    assert [one.status for one in results(found)] == ["completed", "completed", "failed", "completed"]
    assert results(found)[2].output["errorMessage"] == "failed: testing"
    assert [one.mime_type for one in results(found)[3].attachments or []] == ["image/png"]


def test_stopped_command_keeps_printed_output() -> None:
    found = events("interrupted")

    (result,) = results(found)
    assert (result.status, result.synthetic, result.line) == ("cancelled", True, 31)
    assert answer(result.output) == {"stdout": "tick 2\ntick 3\ntick 4\n"}
    assert [one.code for one in of(Notice, found)] == ["config", "interrupt"]
    assert [(one.state, one.reason) for one in of(Turn, found)] == [("started", None), ("cancelled", "interrupted")]


def test_output_deltas_are_partial_updates() -> None:
    normalizer = StreamNormalizer(Context(stream="s", partials=True), "codex-app-server")

    outputs = [out for one in recording("interrupted") for out in normalizer.feed(one.data, one.t, one.direction)]

    updates = of(ToolUpdate, [out.event for out in outputs])  # type: ignore[union-attr]
    chunks = [(one.line, one.chunk.text, one.chunk.offset) for one in updates if one.chunk]
    assert chunks == [(22, "tick 2\n", 0), (23, "tick 3\n", 7), (24, "tick 4\n", 14)]


def test_each_plan_gets_synthetic_call() -> None:
    found = calls(events("plan"))

    assert [(one.call_id, one.name, one.synthetic, one.line) for one in found] == [
        ("plan-1", "TodoWrite", True, 20), ("plan-2", "TodoWrite", True, 26), ("plan-3", "TodoWrite", True, 32),
    ]  # fmt: skip
    assert [todo["status"] for todo in found[1].input["todos"]] == ["completed", "in_progress", "pending"]


def test_image_and_search_items_are_calls() -> None:
    (view,), (search,) = calls(events("picture")), calls(events("web-search"))

    assert (view.name, view.input["file_path"], view.line) == ("Read", "/tmp/ws/logo.png", 17)
    assert (search.name, search.input["query"], search.line) == ("WebSearch", "fixture page answer", 17)
    assert [(one.line, one.status) for one in results(events("picture"))] == [(18, "completed")]


def test_progress_updates_call() -> None:
    found = read(
        started(), item("started", "mcpToolCall", id="c", server="s", tool="t", arguments={}),
        notify("item/mcpToolCall/progress", itemId="c", message="half"),
    )  # fmt: skip

    assert [one.progress for one in of(ToolUpdate, found)] == [{"text": "half", "data": {}}]


# -- questions --------------------------------------------------------------------------------------------------------


def test_client_answers_question() -> None:
    """`ToolRequestUserInputResponse` of the vendor's schema (codex-rs/app-server-protocol/src/protocol/v2)."""
    questions = [{"id": "db", "header": "Database", "question": "Which?", "options": None}]
    ask = {"id": 5, "method": "item/tool/requestUserInput", "params": {**BOTH, "itemId": "c", "questions": questions}}
    found = read(started(), ask, {"id": 5, "result": {"answers": {"db": {"answers": ["SQLite"]}}}, "dir": "in"})

    (request,), (response,) = of(PermissionRequest, found), of(PermissionResponse, found)
    assert (request.permission_id, request.type, request.questions) == ("5", "question", questions)
    assert (response.outcome, response.answers) == ("answered", {"db": {"answers": ["SQLite"]}})
    (result,) = results(found)
    assert (result.name, result.status, result.synthetic) == ("AskUserQuestion", "completed", False)
    assert answer(result.output)["answers"] == {"db": "SQLite"}


@pytest.mark.parametrize(("status", "outcome", "result"), [
    ("completed", "answered", "completed"), ("interrupted", "expired", "cancelled"),
])  # fmt: skip
def test_end_of_the_turn_tells_whether_a_question_was_answered(status: str, outcome: str, result: str) -> None:
    """A tap on the agent's side alone does not see the answer."""
    ask = {"id": 5, "method": "item/tool/requestUserInput", "params": {**BOTH, "itemId": "c", "questions": []}}
    found = read(started(), ask, notify("serverRequest/resolved", requestId=5), completed(status))

    assert [one.outcome for one in of(PermissionResponse, found)] == [outcome]
    assert [one.status for one in results(found)] == [result]


@pytest.mark.parametrize(("granted", "outcome"), [({"network": {"enabled": True}}, "allowed"), ({}, "denied")])
def test_permission_request_outcomes(granted: dict[str, Any], outcome: str) -> None:
    """`PermissionsRequestApprovalResponse` of the vendor's schema: what is granted, nothing if refused."""
    params = {**BOTH, "itemId": "c", "permissions": {"network": {"enabled": True}}, "reason": "to fetch"}
    found = read(
        started(), {"id": 5, "method": "item/permissions/requestApproval", "params": params},
        {"id": 5, "result": {"permissions": granted, "scope": "turn"}, "dir": "in"},
    )  # fmt: skip

    assert [one.outcome for one in of(PermissionResponse, found)] == [outcome]


@pytest.mark.parametrize("seen", [[], [notify("serverRequest/resolved", requestId=5)]])
def test_permissions_without_an_answer_are_not_granted(seen: list[dict[str, Any]]) -> None:
    params = {**BOTH, "itemId": "c", "permissions": {"network": {"enabled": True}}, "reason": "to fetch"}
    asked = {"id": 5, "method": "item/permissions/requestApproval", "params": params}
    found = read(started(), asked, *seen, completed())

    assert [(one.outcome, one.synthetic) for one in of(PermissionResponse, found)] == [("expired", True)]
    assert [(one.status, one.synthetic) for one in results(found)] == [("interrupted", True)]


@pytest.mark.parametrize(
    ("method", "given", "key"),
    [
        ("mcpServer/elicitation/request", {"decision": "accept"}, "action"),
        ("item/commandExecution/requestApproval", {"action": "accept"}, "decision"),
        ("item/permissions/requestApproval", {"decision": "accept"}, "permissions"),
        ("item/tool/requestUserInput", {"action": "accept"}, "answers"),
    ],
)
def test_answer_of_another_form_is_a_refusal_and_a_hint(method: str, given: dict[str, Any], key: str) -> None:
    asked = {"id": 5, "method": method, "params": {**BOTH, "itemId": "c", "command": "ls", "questions": []}}
    found = read(started(), asked, {"id": 5, "result": given, "dir": "in"})

    assert [(one.permission_id, one.outcome) for one in of(PermissionResponse, found)] == [("5", "denied")]
    assert [(one.code, f'"{key}"' in one.text) for one in of(Notice, found)] == [("client-answer", True)]


def test_error_as_an_answer_is_a_refusal_in_its_words() -> None:
    asked = {"id": 5, "method": "item/commandExecution/requestApproval", "params": {**BOTH, "itemId": "c"}}
    found = read(started(), asked, {"id": 5, "error": {"code": 1, "message": "no window"}, "dir": "in"})

    assert [(one.outcome, one.message) for one in of(PermissionResponse, found)] == [("denied", "no window")]
    assert of(Notice, found) == []


def test_command_that_ran_was_not_denied_by_one_of_its_approvals() -> None:
    """Two approvals of one item (`approvalId`), of which one is declined; the item states how the command ended."""
    params = {**BOTH, "itemId": "c", "command": "git commit -am x && git push"}
    asked = [
        {
            "id": number,
            "method": "item/commandExecution/requestApproval",
            "params": {**params, "approvalId": str(number)},
        }
        for number in (5, 6)
    ]
    answers = [{"id": 5, "result": {"decision": "accept"}, "dir": "in"}]
    answers += [{"id": 6, "result": {"decision": "decline"}, "dir": "in"}]
    shown = {"id": "c", "command": params["command"], "cwd": "/w", "commandActions": []}
    found = read(
        started(),
        item("started", "commandExecution", **shown, status="inProgress"),
        *asked,
        *answers,
        item("completed", "commandExecution", **shown, status="failed", exitCode=1, aggregatedOutput="pushed"),
    )

    assert [one.outcome for one in of(PermissionResponse, found)] == ["allowed", "denied"]
    assert [(one.status, one.output["exit_code"]) for one in results(found)] == [("failed", 1)]


# -- messages, usage, notices -----------------------------------------------------------------------------------------


def test_messages_are_emitted_once_with_agent_time() -> None:
    found = of(Message, events("command-denied"))

    assert said([*found]) == [
        ("user", "[[S14]] Delete the README with rm."),
        ("assistant", "I need to delete it."),
        ("assistant", "Understood, I will not delete the README."),
    ]
    assert (found[1].message_id, found[1].ts) == ("msg_415bdf1b8b0445e3b869aea2", 1795294668205)


def test_reasoning_follows_its_deltas() -> None:
    found = read(
        started(), notify("item/reasoning/summaryTextDelta", itemId="r", delta="Let me", summaryIndex=0),
        item("completed", "reasoning", id="r", summary=["Let me think."], content=[]), completed(),
    )  # fmt: skip

    assert [(one.text, one.message_id, one.synthetic) for one in of(Reasoning, found)] == [
        ("Let me think.", "r", False)
    ]


APPROVAL: dict[str, Any] = {
    "id": 5, "method": "item/commandExecution/requestApproval", "params": {**BOTH, "itemId": "c", "command": "make"},
}  # fmt: skip
SAID = {"type": "userMessage", "id": "u", "content": [{"type": "text", "text": "Make it."}]}


def joined(*turns: dict[str, Any], flags: list[str] | None = None, cursor: str | None = None) -> dict[str, Any]:
    """The answer to a client that joins a thread of others. `turns`: the newest one."""
    thread = {"id": "a", "cwd": "/w", "status": {"type": "active", "activeFlags": flags or []}, "turns": []}
    return {"id": "r", "result": {"thread": thread, "initialTurnsPage": {"data": list(turns), "nextCursor": cursor}}}


def turn_of(status: str, turn: str = "1", *items: dict[str, Any]) -> dict[str, Any]:
    return {"id": turn, "status": status, "items": list(items)}


def test_client_that_joins_reads_the_running_turn() -> None:
    ran = {"type": "commandExecution", "id": "b", "command": "ls", "status": "completed", "exitCode": 0}
    runs = {"type": "commandExecution", "id": "c", "command": "make", "status": "inProgress"}
    end = notify("item/completed", item={**runs, "status": "completed", "exitCode": 0})
    found = read(joined(turn_of("inProgress", "1", SAID, ran, runs)), end, completed())

    assert said(found) == [("user", "Make it.")]
    assert [one.call_id for one in calls(found)] == ["b", "c"]
    assert [(one.call_id, one.status) for one in results(found)] == [("b", "completed"), ("c", "completed")]
    assert [(one.turn, one.state) for one in of(Turn, found)] == [("1", "started"), ("1", "completed")]


@pytest.mark.parametrize(
    ("turns", "cursor", "state"),
    [
        ([turn_of("inProgress")], None, "started"),
        ([turn_of("inProgress")], "more", "resumed"),
        ([turn_of("completed")], None, "resumed"),
        ([], None, "started"),
    ],
)
def test_thread_with_earlier_turns_is_resumed(turns: list[dict[str, Any]], cursor: str | None, state: str) -> None:
    assert [one.state for one in of(SessionEvent, read(joined(*turns, cursor=cursor)))] == [state]


@pytest.mark.parametrize(
    ("newest", "ends"),
    [
        (turn_of("completed"), [("1", "completed")]),
        (turn_of("interrupted"), [("1", "cancelled")]),
        (turn_of("failed"), [("1", "failed")]),
        (turn_of("completed", "2"), [("1", "completed")]),
        (turn_of("inProgress", "2"), [("1", "completed"), ("2", "started"), ("2", "cancelled")]),
        (turn_of("inProgress"), [("1", "cancelled")]),  # with the stream
    ],
)
def test_client_that_comes_back_reads_what_ended_meanwhile(newest: dict[str, Any], ends: list[tuple[str, str]]) -> None:
    found = read(joined(turn_of("inProgress"), flags=["waitingOnApproval"]), APPROVAL, joined(newest))

    assert [(one.turn, one.state) for one in of(Turn, found)] == [("1", "started"), *ends]
    assert [one.outcome for one in of(PermissionResponse, found)] == ["expired"]


def test_request_that_is_sent_again_is_one_request() -> None:
    waits = joined(turn_of("inProgress"), flags=["waitingOnApproval"])
    other = {**APPROVAL, "params": {**APPROVAL["params"], "itemId": "d"}}
    found = read(waits, APPROVAL, waits, APPROVAL, {"id": 5, "result": {"decision": "accept"}, "dir": "in"}, other)

    assert [one.call_id for one in of(PermissionRequest, found)] == ["c", "d"]
    assert [one.outcome for one in of(PermissionResponse, found)] == ["allowed", "expired"]


def test_another_client_has_answered() -> None:
    """The protocol does not say what. The command may run for hours before its result does."""
    found = read(joined(turn_of("inProgress")), APPROVAL, notify("serverRequest/resolved", requestId=5))
    [response] = of(PermissionResponse, found)

    assert (response.outcome, response.by, response.synthetic) == ("answered", "user", True)
    assert [one.status for one in of(ToolUpdate, found)] == ["awaiting-permission", "running"]


def test_subagent_of_a_joined_thread_belongs_to_it() -> None:
    child = {"id": "r", "result": {"thread": {"id": "b", "parentThreadId": "a"}}}
    found = read(joined(turn_of("inProgress")), child, started("b", "2"))

    assert {(one.session, one.agent) for one in found} == {("a", None), ("a", "b")}


def test_usage_is_of_one_request() -> None:
    found = of(Usage, events("command-denied"))

    assert [(one.scope, one.input_tokens, one.context_used, one.context_size) for one in found] == [
        ("step", 1200, 1242, 258400),
        ("step", 1200, 1242, 258400),
    ]


def test_retried_errors_do_not_fail_turn() -> None:
    found = events("retries")

    assert [(one.level, one.code) for one in of(Notice, found) if one.code != "config"] == [
        ("warning", "retry"),
        ("warning", "thread-status"),
        ("error", "provider-error"),
    ]
    assert [(one.state, one.reason) for one in of(Turn, found)] == [
        ("started", None),
        ("failed", "http_connection_failed"),
    ]


def test_rate_limits_and_mcp_failures_are_notices() -> None:
    def limits(reached: str | None) -> dict[str, Any]:
        return notify("account/rateLimits/updated", rateLimits={"limitId": "codex", "rateLimitReachedType": reached})

    def server(status: str, error: str | None) -> dict[str, Any]:
        return notify("mcpServer/startupStatus/updated", name="fixture", status=status, error=error)

    made = [
        limits(None), limits("primary"), limits("primary"), server("starting", None), server("failed", "no such file"),
        notify("thread/status/changed", status={"type": "systemError"}), notify("thread/status/changed", status={}),
    ]  # fmt: skip

    assert [(one.code, one.text) for one in of(Notice, read(*made))] == [
        ("rate-limit", "primary"), ("mcp-startup", "no such file"), ("thread-status", "systemError"),
    ]  # fmt: skip
    skipped = statistics(lines(*made), "codex-app-server").skipped
    assert skipped == {"rate-limits": 2, "mcp-startup": 1, "status": 1}


def test_refused_request_is_error_notice() -> None:
    found = read({"id": 3, "error": {"code": -32001, "message": "Server overloaded; retry later."}})

    assert [(one.level, one.text) for one in of(Notice, found)] == [("error", "Server overloaded; retry later.")]


def test_unknown_notification_is_unparsed() -> None:
    assert statistics(lines(notify("item/hologram/rotated")), "codex-app-server").unparsed == 1


def test_malformed_lines_do_not_raise() -> None:
    check_survives(
        "codex-app-server",
        lines(
            {"method": "item/started"}, {"method": "item/completed", "params": {"item": {"type": None}}},
            {"method": 5}, {"id": [], "result": {"thread": {"id": 4}}}, {"id": 1, "result": {"decision": {}}},
            {"id": 1, "method": "mcpServer/elicitation/request"}, notify("turn/started", turn=[]),
            item("completed", "userMessage", id="u", content=[{"type": []}, {"type": "image", "url": 3}]),
            notify("turn/completed"), notify("error"), notify("turn/plan/updated", plan=3), notify("turn/diff/updated"),
            notify("account/rateLimits/updated", rateLimits=[1]), notify("thread/tokenUsage/updated", tokenUsage=None),
            item("completed", "collabAgentToolCall", id="x", tool=["spawnAgent"], receiverThreadIds=[{}, None]),
            {"id": 2, "result": {"thread": {"id": "a", "status": 3}, "initialTurnsPage": {"data": [{"id": "1"}, 4]}}},
            joined(turn_of("inProgress", "2", {}, {"type": []})), joined(turn_of("failed", "2")),
            notify("serverRequest/resolved", requestId=[]),
            {"emittedAtMs": "soon", "method": "thread/started", "params": {"thread": {"id": "b", "turns": 4}}}, {},
        ),
    )  # fmt: skip


def test_words_of_a_voice_conversation_are_notices() -> None:
    """As of the protocol's `ThreadRealtimeTranscriptDoneNotification`."""
    method = "thread/realtime/transcript/done"
    found = read(started(), notify(method, role="user", text="Run the tests."), completed())

    assert [(one.code, one.text, one.data) for one in of(Notice, found)] == [
        ("voice", "Run the tests.", {"role": "user"})
    ]
    assert said(found) == []
