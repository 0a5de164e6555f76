"""How turns of Claude's stream end; its usage and notices."""

from typing import Any

import pytest

from tests.normalizers.dialects.claude.helpers import (
    V1,
    assistant,
    events,
    init,
    read,
    recording,
    result,
    said,
    statistics,
    streamed,
    text,
    tool_result,
    turns,
    use,
    user,
)
from tests.normalizers.reading import of
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import Message, Notice, QuotaWindow, ToolResult, Turn, Usage
from tooltap.testing import normalize

# -- the end of a turn ------------------------------------------------------------------------------------------------


def test_result_ends_turn_it_names() -> None:
    """A background agent's end opens a second turn (line 40) before the first one's result (line 49) is printed."""
    found = events("subagent-async")

    assert [(turn.line, turn.turn, turn.state) for turn in of(Turn, found)] == [
        (1, "t1", "started"),
        (40, "t2", "started"),
        (49, "t1", "completed"),
        (50, "t2", "completed"),
    ]
    assert [(one.turn, one.text) for one in of(Message, found) if one.agent is None] == [
        ("t1", "Delegating."),
        ("t1", "The subagent found greet at src/app.py:4."),
        ("t2", "All done."),
    ]
    assert [one.duration_ms for one in of(Turn, found)] == [None, None, 322, 68]


def test_result_without_messages_ends_oldest_turn() -> None:
    assert turns(read(init(), init(), result(), result())) == [
        ("t1", "started"),
        ("t2", "started"),
        ("t1", "completed"),
        ("t2", "completed"),
    ]


def test_usage_includes_cached_tokens() -> None:
    """1,200 new, 300 written to and 900 read from the cache."""
    turn, session = of(Usage, events("text-only"))

    assert (turn.scope, turn.input_tokens, turn.output_tokens) == ("turn", 2400, 42)
    assert (turn.cache_read_tokens, turn.cache_write_tokens, turn.reasoning_tokens) == (900, 300, 0)
    assert (turn.cost_usd, turn.cost_scope) == (0.007319999999999998, "session")
    assert (session.scope, session.input_tokens, session.output_tokens) == ("session", 2400, 42)


def test_session_usage_includes_subagents() -> None:
    found = of(Usage, events("subagents-parallel"))

    assert [(one.scope, one.input_tokens, one.output_tokens) for one in found] == [
        ("turn", 4800, 84),
        ("session", 19200, 336),
    ]


def test_failed_request_fails_turn() -> None:
    """Its `result` is subtype `success` with `is_error`, and repeats the text of a synthetic message."""
    found = events("api-error")

    assert said(found) == []
    assert [(one.level, one.code, one.text) for one in of(Notice, found)] == [
        ("error", "provider-error", "API Error: 400 scripted bad request")
    ]
    end = of(Turn, found)[-1]
    assert (end.state, end.reason, end.duration_ms) == ("failed", "api_error", 269)


def test_retries_are_notices() -> None:
    retries = [notice for notice in of(Notice, events("retries")) if notice.code == "retry"]

    assert [one.data for one in retries] == [
        {"attempt": 1, "maxRetries": 2, "delayMs": 620, "status": 529, "error": "overloaded"},
        {"attempt": 2, "maxRetries": 2, "delayMs": 1249, "status": 529, "error": "overloaded"},
    ]


@pytest.mark.parametrize(
    ("line", "state", "reason", "words"),
    [
        (result("error_max_turns", errors=["Reached maximum number of turns (1)"]), "failed", "error_max_turns",
         "Reached maximum number of turns (1)"),
        (result("error", error="Rate limit exceeded."), "failed", "error", "Rate limit exceeded."),
        (result("error_during_execution", errors=["x"], terminal_reason="aborted_tools"), "cancelled", "aborted_tools",
         None),
    ],
)  # fmt: skip
def test_turn_outcome(line: dict[str, object], state: str, reason: str, words: str | None) -> None:
    found = read(init(), line)

    end = of(Turn, found)[-1]
    assert (end.state, end.reason) == (state, reason)
    assert [notice.text for notice in of(Notice, found)] == ([words] if words else [])


def test_result_text_is_message_without_others() -> None:
    """`--output-format json` prints nothing but the `result` line."""
    found = events("json-result")

    assert [type(event) for event in found] == [Turn, Message, Usage, Usage, Turn]
    assert found[0].synthetic
    assert said(read(init(), assistant(text("hi")), result(result="hi"))) == [("assistant", "hi")]
    assert said(read(init(), result(result="Cost: $1", local_command="cost"))) == [("system", "Cost: $1")]


def test_interrupted_run_is_cancelled() -> None:
    """Line 5 states that the running command was stopped, so its result (line 6) is not a denial despite its text."""
    found = events("interrupted")

    (stopped,) = of(ToolResult, found)
    assert stopped.status == "cancelled"
    assert str(stopped.output["errorMessage"]).startswith("The user doesn't want to proceed with this tool use.")
    assert [(one.code, one.text) for one in of(Notice, found)] == [
        ("interrupt", "[Request interrupted by user for tool use]")
    ]
    assert turns(found) == [("t1", "started"), ("t1", "cancelled")]


def test_interrupted_call_is_cancelled_without_a_report_of_its_task() -> None:
    """2.1.332 reports no task of a command that it runs in the foreground."""
    lines = recording("interrupted")
    del lines[4]
    found = normalize("claude-stream", lines, Context(stream="s"))

    assert [one.status for one in of(ToolResult, found)] == ["cancelled"]


def test_interrupt_is_emitted_once() -> None:
    request = {"type": "control_request", "request_id": "r", "request": {"subtype": "interrupt"}}
    found = read(init(), request, user(text("[Request interrupted by user]")), result("error_during_execution"))

    assert [notice.code for notice in of(Notice, found)] == ["interrupt"]
    assert turns(found)[-1] == ("t1", "cancelled")


def test_background_agent_opens_no_turn() -> None:
    spawn = assistant(use("a", "Agent"))
    started = user({"type": "tool_result", "tool_use_id": "a", "content": "ok"}, tool_use_result={"isAsync": True})
    later = assistant(text("found it"), message_id="msg_2", parent_tool_use_id="a", agent_id="x")
    found = read(init(), spawn, started, result(), later, init(), result())

    assert turns(found) == [("t1", "started"), ("t1", "completed"), ("t2", "started"), ("t2", "completed")]
    assert [(one.text, one.turn) for one in of(Message, found)] == [("found it", None)]


def test_truncated_stream_closes_everything() -> None:
    """1.0 prints nothing more once it is interrupted."""
    found = events("interrupted", V1)

    (closed,) = of(ToolResult, found)
    assert (closed.status, closed.synthetic, closed.id) == ("interrupted", True, "s:16c:0")
    end = of(Turn, found)[-1]
    assert (end.state, end.synthetic) == ("cancelled", True)


# -- notices ----------------------------------------------------------------------------------------------------------


def test_hook_is_one_notice() -> None:
    hooks = of(Notice, events("hooks"))

    assert [(one.line, one.code, one.level, one.text) for one in hooks] == [
        (5, "hook", "info", "PreToolUse:Write"),
        (7, "hook", "info", "PostToolUse:Write"),
    ]
    assert hooks[1].data == {
        "event": "PostToolUse",
        "name": "PostToolUse:Write",
        "exitCode": 0,
        "stdout": "hook ran\n",
        "outcome": "success",
    }


def test_compaction_is_notice() -> None:
    found = events("compaction")

    assert [(one.line, one.text) for one in of(Notice, found)][:2] == [(1, "compacting"), (4, "conversation compacted")]
    [summary] = [one.text for one in of(Notice, found) if one.code == "compaction-summary"]
    assert summary.startswith("This session is being continued from a previous conversation that ran out of context.")
    assert of(Notice, found)[1].data == {"trigger": "manual", "preTokens": 2442, "postTokens": 2495, "durationMs": 186}
    assert said(found) == [("system", "Compacted ")]
    assert statistics(recording("compaction")).skipped == {"status": 1}


def test_rate_limit_error_and_reset_are_notices() -> None:
    found = read(
        init(),
        {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "rateLimitType": "five_hour"}},
        streamed({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
        {"type": "conversation_reset", "new_conversation_id": "n"},
    )

    assert [(one.level, one.code, one.text) for one in of(Notice, found)] == [
        ("warning", "rate-limit", "rate limit five_hour rejected"),
        ("error", "provider-error", "Overloaded"),
        ("info", "rewound", "conversation reset"),
    ]


def test_quota_is_part_of_usage() -> None:
    """Newer versions state all windows, older ones one; a share of 0.85 is 85 %, and times are in seconds or ms."""
    older = {"status": "allowed_warning", "resetsAt": 1_790_000_000, "rateLimitType": "five_hour", "utilization": 0.85}
    windows = {
        "seven_day": {"utilization": 0.4, "resetsAt": 1_790_500_000_000},
        "five_hour": {"utilization": 0.052, "resetsAt": "soon"},
        "overage": {"utilization": 0.1},
    }
    found = read(
        init(),
        {"type": "rate_limit_event", "rate_limit_info": older},
        {"type": "rate_limit_event", "rate_limit_info": {**older, "unifiedWindows": windows}},
        {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed", "utilization": float("1e300")}},
    )

    assert [one.quota for one in of(Usage, found)] == [
        [QuotaWindow(name="five_hour", minutes=300, used_percent=85.0, resets_at=1_790_000_000_000)],
        [
            QuotaWindow(name="five_hour", minutes=300, used_percent=5.2),
            QuotaWindow(name="seven_day", minutes=10_080, used_percent=40.0, resets_at=1_790_500_000_000),
        ],
    ]


# -- attempts that broke off ----------------------------------------------------------------------------------------


def began(message_id: str, said: str) -> tuple[dict[str, Any], ...]:
    return (
        streamed({"type": "message_start", "message": {"id": message_id}}),
        streamed({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        streamed({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": said}}),
    )


RETRY = {"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 10, "error": "overloaded"}
WHOLE = assistant(text("The whole answer."), message_id="msg_2")
STOPPED = streamed({"type": "content_block_stop", "index": 0})


@pytest.mark.parametrize(
    "again",
    [
        (*began("msg_2", "The whole answer."), STOPPED, WHOLE, streamed({"type": "message_stop"})),
        (WHOLE,),  # without streaming
    ],
    ids=["streamed", "whole"],
)
def test_half_answer_before_retry_is_dropped(again: tuple[dict[str, Any], ...]) -> None:
    found = read(init(), *began("msg_1", "The wh"), RETRY, *again, result())

    assert said(found) == [("assistant", "The whole answer.")]


@pytest.mark.parametrize(("first", "kept"), [(0, []), (1, [("assistant", "The wh")])])
def test_blocks_that_a_stopped_message_abandons_are_dropped(first: int, kept: list[tuple[str, str]]) -> None:
    """The API was overloaded in the middle of the message (2.1.330)."""
    more = [
        streamed({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "Its rest"}}),
        STOPPED,
    ]
    abandoned = {"api_message_id": "msg_1", "from_block_index": first}
    end = streamed({"type": "message_stop"}) | {"abandoned_blocks": abandoned}
    found = read(init(), *began("msg_1", "The wh"), STOPPED, *more, end, WHOLE, result())

    assert said(found) == [("assistant", "The whole answer."), *kept]


def test_half_answer_before_the_end_is_kept() -> None:
    assert said(read(init(), *began("msg_1", "The wh"), result("error_during_execution"))) == [("assistant", "The wh")]


# -- denials that only the end states ---------------------------------------------------------------------------------


def test_denial_at_the_end_corrects_the_result() -> None:
    """2.0 prints no `permission_denied`, and refuses in many words."""
    words = "Some sentence that no table has."
    denial = {"tool_name": "Bash", "tool_use_id": "toolu_1", "tool_input": {"command": "rm x"}}
    found = read(
        init(),
        assistant(use("toolu_1", "Bash", command="rm x")),
        user(tool_result("toolu_1", words, is_error=True)),
        assistant(text("Understood."), message_id="msg_2"),
        result(permission_denials=[denial]),
    )
    failed, denied = of(ToolResult, found)

    assert (failed.status, denied.status, denied.replaces) == ("failed", "denied", failed.id)
    assert denied.output["errorMessage"] == words
    assert turns(found)[-1] == ("t1", "completed")


@pytest.mark.parametrize(
    "words",
    [
        "This Bash command contains multiple operations. The following part requires approval: rm x",
        "Output redirection to '/ws/x' was blocked. For security, Claude Code may only write to files in the allowed",
        "Permission to use Bash with command rm x has been denied.",
    ],
)
def test_refusals_of_2_0(words: str) -> None:
    found = read(
        init(), assistant(use("toolu_1", "Bash", command="rm x")), user(tool_result("toolu_1", words, is_error=True))
    )

    assert [one.status for one in of(ToolResult, found)] == ["denied"]
