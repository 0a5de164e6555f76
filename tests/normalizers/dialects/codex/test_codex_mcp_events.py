"""Events of Codex that are in no recording: older and newer versions, failures, parallel sessions.

Shapes are those of Codex's `EventMsg`, `TurnItem` and `ResponseItem` (codex-rs/protocol, 0.46 to 0.169).
"""

from typing import Any

import pytest

from tests.normalizers.dialects.codex.helpers import (
    PNG,
    THREAD,
    answered,
    calls,
    completed,
    event,
    item,
    lines,
    raw,
    read,
    results,
    said,
    started,
    statistics,
)
from tests.normalizers.reading import of
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import (
    Message,
    Notice,
    PermissionRequest,
    PermissionResponse,
    Reasoning,
    SessionEvent,
    Turn,
    Unparsed,
    Usage,
)
from tooltap.testing import normalize

# -- messages in other versions ---------------------------------------------------------------------------------------


def test_messages_as_events_only() -> None:
    found = read(
        started(),
        event("user_message", message="hi"),
        event("agent_reasoning_delta", delta="**Plan"),
        event("agent_reasoning_delta", delta="ning**"),
        event("agent_reasoning", text="**Planning**"),
        event("agent_message_delta", delta="Hel"),
        event("agent_message_delta", delta="lo"),
        event("agent_message", message="Hello"),
        completed(last_agent_message="Hello"),
    )

    assert said(found) == [("user", "hi", False), ("assistant", "Hello", False)]
    assert [one.text for one in of(Reasoning, found)] == ["**Planning**"]


def test_unfinished_deltas_are_emitted_at_turn_end() -> None:
    delta: dict[str, Any] = {"thread_id": THREAD, "turn_id": "2", "item_id": "msg_1"}
    found = read(
        started(),
        event("agent_message_content_delta", delta="Hel", **delta),
        event("agent_message_delta", delta="Hel"),
        event("agent_message_content_delta", delta="lo", **delta),
        event("agent_message_delta", delta="lo"),
        event("turn_aborted", turn_id="2", reason="interrupted"),
    )

    assert said(found) == [("assistant", "Hello", True)]
    assert [type(one).__name__ for one in found] == ["Turn", "Message", "Turn"]
    assert statistics(lines(started(), event("agent_message_delta", delta="x"))).skipped == {"partial": 1}


def test_reasoning_blocks_are_separate_events() -> None:
    found = read(
        started(),
        item("completed", "Reasoning", id="rs_1", summary_text=["one", "two"], raw_content=[]),
        event("agent_reasoning", text="one"),
        event("agent_reasoning", text="two"),
        raw("reasoning", summary=[{"text": "one"}, {"text": "two"}], content=[{"text": "the thought itself"}]),
        raw("reasoning", summary=[], encrypted_content="ZmFrZQ=="),
        completed(),
    )

    assert [(one.text, one.message_id, one.block) for one in of(Reasoning, found)] == [
        ("one", "rs_1", 0),
        ("two", "rs_1", 1),
        ("the thought itself", None, None),
    ]


def test_raw_message_with_citations_is_duplicate() -> None:
    found = read(
        started(),
        item("completed", "AgentMessage", id="msg_1", content=[{"type": "Text", "text": "See it."}]),
        event("agent_message", message="See it."),
        raw("message", role="assistant", content=[{"type": "output_text", "text": "See it.<citation>x</citation>"}]),
        completed(),
    )

    assert said(found) == [("assistant", "See it.", False)]


def test_last_message_is_used_when_turn_was_not_seen() -> None:
    found = read(completed(last_agent_message="Done."))

    assert said(found) == [("assistant", "Done.", False)]
    assert [(turn.state, turn.synthetic) for turn in of(Turn, found)] == [("started", True), ("completed", False)]


def test_prompt_images_are_attachments() -> None:
    content = [
        {"type": "text", "text": "what is this?"},
        {"type": "image", "image_url": f"data:image/png;base64,{PNG}"},
        {"type": "local_image", "path": "/ws/logo.png"},
    ]

    (message,) = of(Message, read(started(), item("completed", "UserMessage", id="u", content=content)))

    assert message.text == "what is this?"
    assert message.attachments is not None
    inline, local = message.attachments
    assert (inline.mime_type, inline.bytes, inline.output_id) == ("image/png", 8, "s:2:o0")
    assert local.uri == "/ws/logo.png"


# -- prompts and answers of the client --------------------------------------------------------------------------------


def prompt(text: str, request: int = 2, **arguments: Any) -> dict[str, Any]:
    params = {"name": "codex", "arguments": {"prompt": text, **arguments}}
    return {"dir": "in", "id": request, "method": "tools/call", "params": params}


def test_unrepeated_prompt_precedes_content() -> None:
    found = read(prompt("go"), started(), event("agent_message", message="gone"), completed())

    assert said(found) == [("user", "go", True), ("assistant", "gone", False)]
    assert [type(one).__name__ for one in found] == ["Turn", "Message", "Message", "Turn"]


def test_failed_request_is_failed_turn_with_prompt() -> None:
    refused = {"id": 2, "result": {"content": [{"type": "text", "text": "Failed to start"}], "isError": True}}

    found = read(prompt("go"), refused)

    assert said(found) == [("user", "go", True)]
    assert [(one.code, one.text) for one in of(Notice, found)] == [("provider-error", "Failed to start")]
    assert [(turn.turn, turn.state) for turn in of(Turn, found)] == [("2", "started"), ("2", "failed")]


@pytest.mark.parametrize(
    "refused",
    [{"id": 2, "error": {"code": -32602, "message": "no"}}, {"id": 2, "result": {"error": "no"}}],
)
def test_json_rpc_and_legacy_errors_fail_turn(refused: dict[str, Any]) -> None:
    found = read(started(), refused)

    assert [one.text for one in of(Notice, found)] == ["no"]
    assert [turn.state for turn in of(Turn, found)] == ["started", "failed"]


def test_turn_ends_once_after_error() -> None:
    found = read(
        started(),
        event("error", message="boom", codex_error_info={"http_connection_failed": {"http_status_code": 500}}),
        completed(),
        {"id": 2, "result": {"content": [], "isError": True}},
        event("error", message="not this turn's", codex_error_info="thread_rollback_failed"),
        started("3"),
        completed("3"),
    )

    assert [(turn.turn, turn.state, turn.reason) for turn in of(Turn, found)] == [
        ("2", "started", None),
        ("2", "failed", "http_connection_failed"),
        ("3", "started", None),
        ("3", "completed", None),
    ]


def test_error_between_turns_fails_none() -> None:
    found = read(event("error", turn="", message="no such model"), started(), completed())

    assert [turn.state for turn in of(Turn, found)] == ["started", "completed"]


# -- sessions ---------------------------------------------------------------------------------------------------------


def test_type_in_method_and_conversation_id_are_read() -> None:
    def old(kind: str, **keys: Any) -> dict[str, Any]:
        params = {"id": "0", "msg": {"type": kind, **keys}, "conversationId": "c1"}
        return {"method": f"codex/event/{kind}", "params": params}

    found = read(old("task_started"), old("agent_message", message="hi"), old("task_complete"))

    assert {one.session for one in found} == {"c1"}
    assert [(turn.turn, turn.state) for turn in of(Turn, found)] == [("0", "started"), ("0", "completed")]


def test_parallel_sessions_stay_separate() -> None:
    def of_thread(thread: str) -> list[dict[str, Any]]:
        keys: dict[str, Any] = {"thread": thread, "turn": "0", "request": 0}
        total = {"total_token_usage": {"input_tokens": 5, "output_tokens": 1}}
        return [
            event("task_started", **keys),
            event("exec_command_begin", call_id=f"call_{thread}", command=["ls"], cwd="/ws", **keys),
            event("token_count", info=total, **keys),
            event("task_complete", **keys),
        ]

    found = read(*(line for pair in zip(of_thread("a"), of_thread("b"), strict=True) for line in pair))

    for thread in ("a", "b"):
        kinds = [type(one).__name__ for one in found if one.session == thread]
        assert kinds == ["Turn", "ToolCall", "Usage", "ToolResult", "Turn"]
    assert [(one.session, one.call_id, one.line) for one in results(found)] == [("a", "call_a", 7), ("b", "call_b", 8)]


def test_session_updates_and_end() -> None:
    found = read(
        event("session_configured", turn="", session_id=THREAD, model="m", cwd="/ws", approval_policy="never"),
        event("thread_name_updated", thread_id=THREAD, thread_name="Greetings"),
        event("model_reroute", from_model="m", to_model="n"),
        event("shutdown_complete"),
    )

    assert [(one.state, one.title, one.model, one.mode) for one in of(SessionEvent, found)] == [
        ("started", None, "m", "never"),
        ("updated", "Greetings", None, None),
        ("updated", None, "n", None),
        ("ended", None, None, None),
    ]


# -- questions and approvals ------------------------------------------------------------------------------------------


def test_question_is_asked_and_answered() -> None:
    questions = [{"id": "db", "question": "Which database?"}]
    found = read(
        started(),
        raw("function_call", name="request_user_input", call_id="c1", arguments='{"questions": []}'),
        event("request_user_input", call_id="c1", questions=questions),
        answered("c1", '{"answers": {"db": {"answers": ["SQLite"]}}}'),
    )
    (request,), (response,), (result,) = of(PermissionRequest, found), of(PermissionResponse, found), results(found)

    assert (request.type, request.call_id, request.questions) == ("question", "c1", questions)
    assert (response.outcome, response.answers) == ("answered", {"db": {"answers": ["SQLite"]}})
    assert result.output["answers"] == {"db": "SQLite"}


def elicitation(request: int = 0, **codex: Any) -> dict[str, Any]:
    params = {"message": "Allow Codex to run `ls`?", "threadId": THREAD, "codex_event_id": "2", **codex}
    return {"id": request, "method": "elicitation/create", "params": params}


DENY = {"network_policy_amendment": {"host": "x", "action": "deny"}}


@pytest.mark.parametrize(
    ("given", "outcome", "option"),
    [
        ({"result": {"decision": "approved"}}, "allowed", "approved"),
        ({"result": {"decision": {"approved_execpolicy_amendment": {}}}}, "allowed", "approved_execpolicy_amendment"),
        ({"result": {"decision": {"network_policy_amendment": DENY}}}, "denied", "deny"),
        ({"result": {"decision": "abort"}}, "denied", "abort"),
        ({"result": {"decision": "timed_out"}}, "expired", "timed_out"),
        ({"error": {"code": 1, "message": "no"}}, "denied", None),
    ],
)
def test_client_answer_outcomes(given: dict[str, Any], outcome: str, option: str | None) -> None:
    found = read(
        started(),
        elicitation(codex_elicitation="exec-approval", codex_call_id="c1", codex_command=["ls"]),
        {"dir": "in", "id": 0, **given},
    )
    (request,), (response,) = of(PermissionRequest, found), of(PermissionResponse, found)

    assert [(call.call_id, call.name, call.synthetic) for call in calls(found)] == [("c1", "Bash", False)]
    assert (request.permission_id, request.title) == ("c1", "Allow Codex to run `ls`?")
    assert (response.permission_id, response.outcome, response.option_id) == ("c1", outcome, option)


@pytest.mark.parametrize("given", [{"action": "accept"}, {}])
def test_answer_of_another_form_is_a_refusal_and_a_hint(given: dict[str, Any]) -> None:
    """Codex 0.171 refuses what has no `decision`, as `ExecApprovalResponse` (codex-rs/mcp-server) must have one."""
    found = read(
        started(),
        elicitation(codex_elicitation="exec-approval", codex_call_id="c1", codex_command=["ls"]),
        {"dir": "in", "id": 0, "result": given},
    )

    assert [one.outcome for one in of(PermissionResponse, found)] == ["denied"]
    (notice,) = of(Notice, found)
    assert (notice.code, notice.level, notice.data) == ("client-answer", "warning", {"keys": sorted(given)})
    assert "decision" in notice.text


@pytest.mark.parametrize(("action", "outcome"), [("accept", "allowed"), ("decline", "denied"), ("cancel", "cancelled")])
def test_elicitation_is_answered_with_an_action(action: str, outcome: str) -> None:
    found = read(started(), elicitation(7), {"dir": "in", "id": 7, "result": {"action": action}})

    assert [(one.permission_id, one.outcome) for one in of(PermissionResponse, found)] == [("7", outcome)]
    assert of(Notice, found) == []


def test_elicitation_without_approval() -> None:
    (request,) = of(PermissionRequest, read(started(), elicitation(7)))

    assert (request.type, request.permission_id, request.call_id) == ("elicitation", "7", None)


# -- notices ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "keys", "level", "code", "text"),
    [
        ("warning", {"message": "low disk"}, "warning", "warning", "low disk"),
        ("stream_error", {"message": "Reconnecting... 1/5"}, "warning", "retry", "Reconnecting... 1/5"),
        ("background_event", {"message": "indexing"}, "info", "background", "indexing"),
        ("deprecation_notice", {"summary": "use x"}, "warning", "deprecation", "use x"),
        ("thread_rolled_back", {"num_turns": 2}, "info", "rewound", "history rewound"),
        ("hook_completed", {"run": {"event_name": "stop", "status": "blocked"}}, "warning", "hook", "stop"),
    ],
)
def test_events_that_become_notices(kind: str, keys: dict[str, Any], level: str, code: str, text: str) -> None:
    (notice,) = of(Notice, read(event(kind, **keys)))

    assert (notice.level, notice.code, notice.text) == (level, code, text)


def test_compaction_is_one_notice() -> None:
    compacted = (item("completed", "ContextCompaction", id="x"), event("context_compacted"))

    assert [one.code for one in of(Notice, read(started(), *compacted, *compacted))] == ["compaction"] * 2


def test_failed_server_is_one_notice() -> None:
    found = read(
        event("mcp_startup_update", turn="", server="a", status={"state": "ready"}),
        event("mcp_startup_update", turn="", server="b", status={"state": "failed", "error": "no such file"}),
        event("mcp_startup_complete", turn="", ready=["a"], failed=[{"server": "b", "error": "no such file"}]),
    )

    assert [(one.code, one.text, one.data) for one in of(Notice, found)] == [
        ("mcp-startup", "no such file", {"server": "b"})
    ]


def test_reached_limit_is_one_notice() -> None:
    reached = {"limit_id": "codex", "rate_limit_reached_type": "rate_limit_reached"}
    made = [event("token_count", info=None, rate_limits=limits) for limits in ({"limit_id": "codex"}, reached, reached)]

    assert [one.code for one in of(Notice, read(*made))] == ["rate-limit"]
    assert of(Usage, read(*made)) == []
    assert statistics(lines(*made)).skipped == {"no-usage": 2}


def test_unknown_lines_are_unparsed() -> None:
    made = [
        event("brand_new_event", x=1),
        item("completed", "BrandNewItem", id="x"),
        raw("brand_new_item"),
        {"id": 9, "method": "brand/new"},
        {"neither": "request nor answer"},
    ]

    found = normalize("codex-mcp", lines(*made), Context(stream="s"))

    assert [one.reason for one in of(Unparsed, found)] == ["unknown-type"] * 5
    assert "brand_new_event" in of(Unparsed, found)[0].text
