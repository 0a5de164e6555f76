"""Quirks of streams in public projects, which break parsers written from documentation.

The tests of the dialects and of the core prove more of them from their own fixtures.
"""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.normalizers.dialects.acp import helpers as acp
from tests.normalizers.dialects.claude import helpers as claude
from tests.normalizers.stream.lines import (
    TIME,
    claude_lines,
    codex_function,
    codex_output,
    codex_prompt,
    exec_item,
    gemini_line,
    openai_chunk,
    rollout,
)
from tooltap.normalizers.core.items import Context, OutputChunk, Produced
from tooltap.normalizers.stream.normalizer import AUTO, StreamNormalizer
from tooltap.protocol.events import Event, Message, Notice, SessionEvent, ToolResult, ToolUpdate, Turn, Unparsed
from tooltap.testing import Line, check_recording, normalize


def read(dialect: str, *values: dict[str, Any] | bytes) -> list[Event]:
    """The events of handmade lines, which must keep the contract."""
    lines = [Line(one if isinstance(one, bytes) else orjson.dumps(one)) for one in values]
    found = normalize(dialect, lines, Context(stream="s"))
    if dialect != AUTO:
        check_recording(dialect, lines)
    return found


def calls(found: list[Event]) -> list[tuple[str, str]]:
    return [(call.call_id, call.name) for call in claude.calls(found)]


def inputs(found: list[Event]) -> list[dict[str, Any]]:
    return [claude.answer(call.input) for call in claude.calls(found)]


def outputs(found: list[Event]) -> list[dict[str, Any]]:
    return [claude.answer(result.output) for result in claude.results(found)]


def last(found: list[Event]) -> ToolResult:
    return claude.results(found)[-1]


# -- framing ----------------------------------------------------------------------------------------------------------


def test_title_before_stream_is_tolerated() -> None:
    thread = {"method": "thread/started", "params": {"thread": {"id": "t"}}}
    found = read(AUTO, b"# App-server events log", b"", orjson.dumps(thread) + b"\r")

    assert {event.dialect for event in found} == {"codex-app-server"}
    assert [(event.reason, event.line) for event in claude.of(Unparsed, found)] == [("not-json", 1)]
    assert claude.of(SessionEvent, found)[-1].session == "t"


def test_bom_and_crlf_are_tolerated() -> None:
    first, *rest = [orjson.dumps(one) + b"\r" for one in claude_lines(claude.init(), claude.result())]
    found = read(AUTO, b"\xef\xbb\xbf" + first, *rest)

    assert [type(event) for event in found] == [SessionEvent, Turn, Turn]
    assert {event.dialect for event in found} == {"claude-stream"}


def test_blank_line_does_not_end_message() -> None:
    lines = [*acp.set_up(), acp.prompt(), acp.chunk("one "), Line(b""), acp.chunk("two")]

    assert acp.spoken(acp.read(*lines)) == [("user", "go"), ("assistant", "one two")]


@pytest.mark.parametrize("size", [723_000, 2_780_000])
def test_enormous_result_goes_to_output_body(size: int) -> None:
    lines = claude_lines(
        claude.init(),
        claude.assistant(claude.use("a", "Bash", command="x")),
        claude.user(claude.tool_result("a", "y" * size)),
    )
    normalizer = StreamNormalizer(Context(stream="s"), "claude-stream")
    items = [output for line in lines for output in normalizer.feed(orjson.dumps(line))]

    assert sum(len(output.data) for output in items if isinstance(output, OutputChunk)) == size
    assert max(len(output.body) for output in items if isinstance(output, Produced)) < 100_000
    assert len(normalizer.dump()) < 10_000


def test_ghost_snapshot_is_not_stored() -> None:
    files = [f"node_modules/{number}/index.js" for number in range(30_000)]
    snapshot = rollout("response_item", type="ghost_snapshot", ghost_commit={"preexisting_untracked_files": files})
    normalizer = StreamNormalizer(Context(stream="s"), "codex-rollout")

    assert normalizer.feed(orjson.dumps(snapshot)) == []
    assert normalizer.statistics.skipped == {"housekeeping": 1}
    assert len(normalizer.dump()) < 2_000


def test_escapes_stay_and_broken_characters_are_replaced() -> None:
    lines = claude_lines(
        claude.init(),
        claude.assistant(claude.use("a", "Bash", command="x"), claude.use("b", "Bash", command="y")),
        claude.user(claude.tool_result("a", "\x1b[31mred\x1b[0m\x00end")),
        claude.user(claude.tool_result("b", "caf@ ~")),
    )
    broken = orjson.dumps(lines[3]).replace(b"@", b"\xe9").replace(b"~", b"\\ud800")
    found = read("claude-stream", *lines[:3], broken)

    assert outputs(found) == [{"stdout": "\x1b[31mred\x1b[0m\x00end"}, {"stdout": "caf\ufffd \ufffd"}]


# -- identity and order -----------------------------------------------------------------------------------------------


def test_ids_of_other_vendors_are_accepted() -> None:
    found = claude.read(
        claude.init(),
        claude.assistant(claude.use("call_9f86d081884c", "Bash", command="a"), claude.use("7", "Read", file_path="b")),
        claude.user(claude.tool_result("7", "text"), claude.tool_result("call_9f86d081884c", "done")),
    )

    assert calls(found) == [("call_9f86d081884c", "Bash"), ("7", "Read")]
    assert [(result.call_id, result.status) for result in claude.results(found)] == [
        ("7", "completed"),
        ("call_9f86d081884c", "completed"),
    ]


def test_transcript_may_begin_with_result() -> None:
    message = {"role": "user", "content": [claude.tool_result("toolu_9", "text")]}
    chain = {"parentUuid": "before", "isSidechain": False, "sessionId": claude.SESSION, "uuid": "u", "version": "2.1.0"}
    found = read("claude-transcript", {**chain, "type": "user", "message": message, "ts": TIME})

    assert [(call.call_id, call.name, call.synthetic) for call in claude.calls(found)] == [("toolu_9", "Unknown", True)]
    assert outputs(found) == [{"value": "text"}]


EARLY: list[tuple[str, list[dict[str, Any]]]] = [
    (
        "claude-stream",
        claude_lines(
            claude.init(),
            claude.user(claude.tool_result("c", "text")),
            claude.assistant(claude.use("c", "Bash", command="ls")),
        ),
    ),
    ("codex-rollout", [codex_prompt(), codex_output("c", "text"), codex_function("shell_command", "c", command="ls")]),
    (
        "gemini-stream",
        [
            gemini_line("init", session_id="g", model="m"),
            gemini_line("tool_result", tool_id="c", status="success", output="text"),
            gemini_line("tool_use", tool_id="c", tool_name="run_shell_command", parameters={"command": "ls"}),
        ],
    ),
]


@pytest.mark.parametrize(("dialect", "lines"), EARLY, ids=[dialect for dialect, _ in EARLY])
def test_result_before_its_call_is_matched(dialect: str, lines: list[dict[str, Any]]) -> None:
    found = read(dialect, *lines)

    assert calls(found) == [("c", "Unknown")]
    assert [(result.call_id, result.status) for result in claude.results(found)] == [("c", "completed")]
    [update] = claude.of(ToolUpdate, found)
    assert update.input is not None
    assert (update.call_id, update.name, update.input["command"]) == ("c", "Bash", "ls")


def test_command_in_two_protocols_is_one_call() -> None:
    """Older `codex app-server` prints `codex/event/…` beside `item/…`; the chunk is base64."""
    item = {"type": "commandExecution", "id": "c", "command": "ls", "status": "inProgress"}

    def core(kind: str, **keys: Any) -> dict[str, Any]:
        msg = {"type": kind, "call_id": "c", **keys}
        return {"method": f"codex/event/{kind}", "params": {"id": "0", "conversationId": "t", "msg": msg}}

    def notification(method: str, **keys: Any) -> dict[str, Any]:
        return {"method": method, "params": {"threadId": "t", "turnId": "0", **keys}}

    found = read(
        "codex-app-server",
        {"method": "codex/event/mcp_startup_complete", "params": {"id": "", "msg": {"type": "mcp_startup_complete"}}},
        notification("turn/started", turn={"id": "0", "status": "inProgress"}),
        core("exec_command_begin", command=["bash", "-lc", "ls"]),
        notification("item/started", item=item),
        core("exec_command_output_delta", chunk="eAo="),
        notification("item/commandExecution/outputDelta", itemId="c", delta="x\n"),
        core("exec_command_end", exit_code=0, aggregated_output="x\n"),
        notification("item/completed", item={**item, "status": "completed", "exitCode": 0, "aggregatedOutput": "x\n"}),
    )

    assert calls(found) == [("c", "Bash")]
    [result] = claude.results(found)
    assert (result.output["stdout"], result.output["exit_code"]) == ("x\n", 0)


def test_responses_to_unseen_requests_are_skipped() -> None:
    """The file holds only the agent's output, so it does not state which request a response belongs to."""
    lines = [acp.line(None, id=number, result=result) for number, result in enumerate([{}, None, {"more": 1}])]

    assert acp.statistics(*lines, acp.line(None, id=3, result={"stopReason": "end_turn"})).skipped == {"answer": 3}
    assert acp.turns(acp.read(*lines)) == []


# -- content ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", ["", None, []])
def test_result_without_content_succeeds(content: Any) -> None:
    used, ended = claude.use("a", "Bash", command="true"), claude.tool_result("a", content)
    found = claude.read(claude.init(), claude.assistant(used), claude.user(ended))

    assert (last(found).status, last(found).is_error) == ("completed", False)
    assert "errorMessage" not in last(found).output


def test_tool_references_are_search_output() -> None:
    blocks = [{"type": "tool_reference", "tool_name": name} for name in ("WebFetch", "mcp__notes__find")]
    used, ended = claude.use("a", "ToolSearch", query="web"), claude.tool_result("a", blocks)

    assert outputs(claude.read(claude.init(), claude.assistant(used), claude.user(ended))) == [{"content": blocks}]


def test_command_shapes_are_unified() -> None:
    found = read(
        "codex-rollout",
        codex_prompt(),
        codex_function("shell", "a", command=["bash", "-lc", "ls -a"]),
        codex_function("shell_command", "b", command="ls -a"),
        codex_function("exec_command", "c", cmd="ls -a"),
    )
    command = {"command": "/bin/zsh -lc 'ls -a'", "aggregated_output": "", "exit_code": 0, "status": "completed"}
    found += read("codex-exec", exec_item("item_0", "command_execution", **command))

    assert [given["command"] for given in inputs(found)] == ["ls -a"] * 4
    assert {call.name for call in claude.calls(found)} == {"Bash"}


def test_unknown_items_and_events_are_reported() -> None:
    found = read(
        "codex-exec",
        {"type": "thread.started", "thread_id": "t"},
        {"type": "turn.started"},
        exec_item("item_0", "future_item", detail="x"),
        exec_item("item_1", "tool_call", name="ship_it", status="completed"),
        {"type": "turn.rate_limited", "retry_after_ms": 5},
    )

    assert [(event.reason, event.line) for event in claude.of(Unparsed, found)] == [("unknown-type", 3)]
    assert calls(found) == [("item_1", "ship_it")]
    assert [(event.level, event.code) for event in claude.of(Notice, found)] == [("warning", "rate-limit")]


def test_session_meta_may_repeat_or_be_absent() -> None:
    meta = rollout("session_meta", id="t-1", cwd="/ws", cli_version="0.50.0")
    twice = read("codex-rollout", meta, meta, codex_prompt())

    assert [event.state for event in claude.of(SessionEvent, twice)] == ["started", "resumed"]
    assert {event.session for event in twice} == {"t-1"}
    never = read("codex-rollout", codex_prompt())
    assert [event.text for event in claude.of(Message, never)] == ["go"]
    assert {event.session for event in never} == {"s"}


def test_aborted_turn_cancels_its_call() -> None:
    aborted = rollout("event_msg", type="turn_aborted", reason="interrupted")
    found = read("codex-rollout", codex_prompt(), codex_function("shell_command", "a", command="sleep 9"), aborted)

    assert last(found).status == "cancelled"
    assert [(turn.state, turn.reason) for turn in claude.of(Turn, found)][-1] == ("cancelled", "interrupted")


def test_input_may_be_empty_or_absent() -> None:
    found = claude.read(
        claude.init(),
        claude.assistant(
            *[claude.use(name, name) for name in ("EnterPlanMode", "TaskList", "mcp__linear__list_teams")]
        ),
    )
    found += acp.read(
        *acp.set_up(), acp.tool("a", title="Think", kind="think", rawInput=None), acp.tool("b", title="Go")
    )
    found += read("codex-exec", exec_item("item_0", "mcp_tool_call", server="s", tool="t", arguments=None))

    assert [call.name for call in claude.calls(found)][:3] == ["EnterPlanMode", "Task", "mcp__linear__list_teams"]
    assert inputs(found)[0] == {}
    assert claude.calls(found)[-1].name == "mcp__s__t"
    assert len(claude.calls(found)) == 6


@pytest.mark.parametrize("given", [None, "ls", ["ls"], 3, True])
def test_non_object_input_is_kept(given: Any) -> None:
    used = {"type": "tool_use", "id": "a", "name": "Bash", "input": given}
    [call] = claude.calls(read("claude-stream", *claude_lines(claude.init(), claude.assistant(used))))

    assert call.input["_raw"]["input"] == given
    assert given is None or given in claude.answer(call.input).values()


def test_object_object_error_is_kept() -> None:
    failed = acp.tool_update("a", status="failed", content=acp.content("[object Object]"))
    found = acp.read(*acp.set_up(), acp.prompt(), acp.tool("a", title="Fetch", kind="fetch"), failed)

    assert (last(found).status, last(found).output["errorMessage"]) == ("failed", "[object Object]")


def test_synthetic_model_text_is_a_system_message() -> None:
    line = claude.assistant(claude.text("No response requested."))
    line["message"]["model"] = "<synthetic>"
    found = claude.read(claude.init(), line)

    assert [(message.role, message.text) for message in claude.of(Message, found)] == [
        ("system", "No response requested.")
    ]


def test_bare_api_messages_have_no_dialect() -> None:
    found = read(
        AUTO,
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [claude.text("ok"), claude.use("toolu_1", "Bash", command="ls")]},
        {"role": "user", "content": [claude.tool_result("toolu_1", "a")]},
    )

    *lines, notice = found
    assert {(event.dialect, getattr(event, "reason", None)) for event in lines} == {("unknown", "unknown-dialect")}
    assert getattr(notice, "code", None) == "unknown-format"


def test_parallel_subagents_keep_calls_apart() -> None:
    parents = [f"toolu_task{number}" for number in range(20)]
    lines = [claude.init(), claude.assistant(*[claude.use(parent, "Task", prompt="p") for parent in parents])]
    for step in range(5):
        for number, parent in enumerate(parents):
            used = claude.use(f"{number}.{step}", "Read", file_path=parent)
            lines.append(claude.assistant(used, message_id=f"m{number}.{step}", parent_tool_use_id=parent))
        for number, parent in reversed(list(enumerate(parents))):
            lines.append(claude.user(claude.tool_result(f"{number}.{step}", "x"), parent_tool_use_id=parent))
    found = claude.read(*lines)

    reads = [call for call in claude.calls(found) if call.name == "Read"]
    assert len(reads) == 100
    assert all(call.parent == call.input["file_path"] for call in reads)
    ended = [result for result in claude.results(found) if result.name == "Read"]
    assert {(result.call_id, result.parent) for result in ended} == {(call.call_id, call.parent) for call in reads}
    assert {result.status for result in ended} == {"completed"}


# -- OpenAI-compatible servers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("none", [{"tool_calls": None}, {"tool_calls": []}, {}], ids=["null", "empty", "absent"])
def test_null_empty_and_absent_calls_mean_none(none: dict[str, Any]) -> None:
    message = {"role": "assistant", "content": "4", "executed_tools": None, "reasoning_details": [], **none}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    found = read("openai-chat", {"id": "c", "object": "chat.completion", "choices": [choice]})
    found += read("openai-chat", openai_chunk("", content="4", **none), openai_chunk("stop", content=""))

    assert [message.text for message in claude.of(Message, found)] == ["4", "4"]
    assert claude.calls(found) == []
    assert claude.of(Unparsed, found) == []


def test_empty_finish_reason_is_ignored() -> None:
    found = read("openai-chat", openai_chunk("", content="one "), openai_chunk("", content="two"), openai_chunk("stop"))

    assert [message.text for message in claude.of(Message, found)] == ["one two"]
    assert [turn.state for turn in claude.of(Turn, found)] == ["started", "completed"]


def test_tool_use_failed_error_fails_turn() -> None:
    error = {"message": "Failed to call a function.", "type": "invalid_request_error", "code": "tool_use_failed"}
    found = read("openai-chat", {"error": {**error, "failed_generation": "<function=look>"}})

    assert [(event.code, event.text) for event in claude.of(Notice, found)] == [("provider-error", error["message"])]
    assert [turn.state for turn in claude.of(Turn, found)][-1:] == ["failed"]
