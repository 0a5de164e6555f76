"""`codex exec --json`: recordings, and written lines of its older generations."""

from pathlib import Path
from typing import Any

import pytest

from tests.normalizers.dialects.codex.helpers import calls, plain, recognised, results, statistics
from tests.normalizers.reading import answer, of
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import Event, Message, Notice, Reasoning, SessionEvent, ToolUpdate, Turn, Usage
from tooltap.testing import Line, check_recording, check_survives, normalize, read_recording

FIXTURES = Path(__file__).parents[3] / "fixtures" / "codex-exec"
ALL = sorted(FIXTURES.glob("*/*.jsonl"))
STARTED = {"type": "turn.started"}
COMPLETED = {"type": "turn.completed", "usage": {"input_tokens": 5, "output_tokens": 1}}


def recording(name: str) -> list[Line]:
    (path,) = FIXTURES.glob(f"*/{name}.jsonl")
    return read_recording(path.read_bytes())


def events(name: str) -> list[Event]:
    return normalize("codex-exec", recording(name), Context(stream="s"))


def read(*made: dict[str, Any]) -> list[Event]:
    return check_recording("codex-exec", plain(*made), Context(stream="s"))


def item(state: str, item_id: str, kind: str, **keys: Any) -> dict[str, Any]:
    return {"type": f"item.{state}", "item": {"id": item_id, "type": kind, **keys}}


def command(state: str, item_id: str, text: str, output: str = "", code: int | None = None) -> dict[str, Any]:
    keys = {"command": text, "aggregated_output": output, "exit_code": code}
    return item(state, item_id, "command_execution", status="in_progress" if code is None else "completed", **keys)


def turns(found: list[Event]) -> list[tuple[str | None, str, bool]]:
    return [(turn.turn, turn.state, turn.synthetic) for turn in of(Turn, found)]


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_recordings_are_fully_parsed(path: Path) -> None:
    lines = read_recording(path.read_bytes())

    check_recording("codex-exec", lines)

    assert statistics(lines, "codex-exec").unparsed == 0


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_single_line_is_recognised_unless_error(path: Path) -> None:
    lines = path.read_bytes().splitlines()

    assert {recognised(line) for line in lines if b'"type":"error"' not in line} == {"codex-exec"}
    assert {recognised(line) for line in lines if b'"type":"error"' in line} <= {None}


# -- tools ------------------------------------------------------------------------------------------------------------


def test_failing_command_is_one_call_and_result() -> None:
    found = events("shell-fails")

    (call,), (result,) = calls(found), results(found)
    assert (call.call_id, call.name, call.status, call.turn) == ("item_0", "Bash", "running", "t1")
    assert call.input["command"] == "echo partial output; echo 'boom: something broke' >&2; exit 3"
    assert call.preview == "echo partial output; echo 'boom: somethi"
    assert call.input["_happy"]["rawToolName"] == "command_execution"
    assert call.input["_raw"] == {
        "id": "item_0",
        "type": "command_execution",
        "command": "/bin/bash -lc \"echo partial output; echo 'boom: something broke' >&2; exit 3\"",
        "aggregated_output": "",
        "exit_code": None,
        "status": "in_progress",
    }
    assert (result.status, result.is_error) == ("failed", True)
    assert answer(result.output) == {"stdout": "partial output\nboom: something broke\n", "exit_code": 3}


def test_run_emits_events_in_order() -> None:
    found = events("shell-fails")

    kinds = ["SessionEvent", "Turn", "ToolCall", "ToolResult", "Message", "Usage", "Turn"]
    assert [type(event).__name__ for event in found] == kinds
    (usage,) = of(Usage, found)
    assert (usage.scope, usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (
        "session",
        2400,
        1800,
        84,
    )
    assert (usage.cache_write_tokens, usage.reasoning_tokens, usage.counter) == (0, 14, "lineage")


def test_patch_has_paths_and_kinds_only() -> None:
    (call,) = calls(events("patch"))

    assert call.name == "Patch"
    assert {path: change["type"] for path, change in call.input["changes"].items()} == {
        "/tmp/ws/docs/new.md": "add",
        "/tmp/ws/package.json": "delete",
        "/tmp/ws/src/util.py": "modify",
    }


def test_todo_list_is_one_call_with_updates() -> None:
    found = events("plan")

    (call,), updates, (result,) = calls(found), of(ToolUpdate, found), results(found)
    inputs = [call.input, *(update.input or {} for update in updates)]
    states = [[todo["status"] for todo in value["todos"]] for value in inputs]
    assert states == [
        ["pending", "pending", "pending"],
        ["completed", "pending", "pending"],
        ["completed", "completed", "completed"],
    ]
    assert (call.name, call.line, [one.line for one in updates], result.line) == ("TodoWrite", 4, [6, 8], 10)


def test_duplicate_id_key_is_repaired() -> None:
    (call,) = calls(events("web-search"))

    assert (call.call_id, call.name, call.input["query"]) == (
        "it_0ec95babce4a473ea392ba40",
        "WebSearch",
        "fixture page answer",
    )
    assert statistics(recording("web-search"), "codex-exec").repaired == 2


def test_mcp_tool_refused_by_policy_is_denied() -> None:
    found = events("mcp")

    echo, title = calls(found)[:2]
    assert (echo.name, title.name) == ("mcp__fixture__echo", "mcp__fixture__change_title")
    assert [result.status for result in results(found)] == ["completed", "denied", "denied", "denied"]
    words = "MCP tool call requires approval, but approval policy is never"
    assert results(found)[1].output["errorMessage"] == words


def test_subagent_is_task_output_and_stop() -> None:
    found = events("subagent")

    assert [call.name for call in calls(found)] == ["Task", "TaskOutput", "TaskStop"]
    assert calls(found)[0].input["prompt"] == "[[S12sub]] Find where greet is defined and report the line."
    started, ended, waited, _ = results(found)
    (state,) = waited.output["agents_states"].values()
    assert state == {"status": "completed", "message": "greet is defined at src/app.py line 4."}
    assert (started.call_id, started.async_) == (calls(found)[0].call_id, True)
    assert (ended.call_id, ended.final, ended.status) == (started.call_id, True, "completed")
    assert ended.output["content"] == "greet is defined at src/app.py line 4."


def collab(item_id: str, tool: str, **states: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Lines of a call that starts, waits for or closes the agents of these states."""
    item = {"id": item_id, "type": "collab_tool_call", "tool": tool, "receiver_thread_ids": list(states)}
    return (
        {"type": "item.started", "item": {**item, "agents_states": {}, "status": "in_progress"}},
        {"type": "item.completed", "item": {**item, "agents_states": states, "status": "completed"}},
    )


@pytest.mark.parametrize(
    ("tool", "state", "status", "error"),
    [
        ("wait", {"status": "errored", "message": "No quota."}, "failed", "No quota."),
        ("wait", {"status": "shutdown", "message": None}, "cancelled", None),
        ("close_agent", {"status": "running", "message": None}, "cancelled", None),
        ("close_agent", {"status": "errored", "message": "No quota."}, "failed", "No quota."),
    ],
)
def test_subagent_ends_as_its_state_says(tool: str, state: dict[str, Any], status: str, error: str | None) -> None:
    spawned = collab("i0", "spawn_agent", t2={"status": "pending_init", "message": None})
    again = collab("i2", "close_agent", t2={"status": "completed", "message": "Too late."})
    found = read(STARTED, *spawned, *collab("i1", tool, t2=state), *again, COMPLETED)
    task = [one for one in results(found) if one.name == "Task"]

    assert [(one.async_, one.final, one.status) for one in task] == [
        (True, False, "completed"),
        (False, True, status),
    ]
    assert task[1].output.get("errorMessage") == error


@pytest.mark.parametrize("state", ["pending_init", "running", "interrupted"])
def test_subagent_that_has_not_ended_runs_on(state: str) -> None:
    spawned = collab("i0", "spawn_agent", t2={"status": "pending_init", "message": None})
    waited = collab("i1", "wait", t2={"status": state, "message": None})
    found = read(STARTED, *spawned, *waited, COMPLETED)

    assert [(one.name, one.status, one.synthetic) for one in results(found)] == [
        ("Task", "completed", False),
        ("TaskOutput", "completed", False),
        ("Task", "interrupted", True),
    ]


def test_texts_keep_their_order() -> None:
    found = events("reasoning-edit")

    texts = [(type(one).__name__, one.message_id) for one in found if isinstance(one, Reasoning | Message)]
    assert texts == [
        ("Reasoning", "item_0"),
        ("Message", "item_1"),
        ("Reasoning", "item_3"),
        ("Message", "item_4"),
        ("Reasoning", "item_6"),
        ("Reasoning", "item_8"),
        ("Message", "item_9"),
    ]


def test_aborted_run_interrupts_call_and_cancels_turn() -> None:
    found = events("interrupted")

    (result,) = results(found)
    assert (result.call_id, result.status, result.synthetic) == ("item_1", "interrupted", True)
    assert turns(found) == [("t1", "started", False), ("t1", "cancelled", True)]


def test_interrupted_command_keeps_printed_output() -> None:
    found = read(
        STARTED, command("started", "item_0", "slow"), command("updated", "item_0", "slow", "a\n"),
        command("updated", "item_0", "slow", "a\nb\n"),
    )  # fmt: skip

    (result,) = results(found)
    assert (result.status, answer(result.output)) == ("interrupted", {"stdout": "a\nb\n"})


def test_cumulative_output_becomes_chunks() -> None:
    normalizer = StreamNormalizer(Context(stream="s", partials=True), "codex-exec")
    lines = plain(
        STARTED, command("started", "item_0", "slow"), command("updated", "item_0", "slow", "a\n"),
        command("updated", "item_0", "slow", "a\nb\n"),
    )  # fmt: skip

    outputs = [output for line in lines for output in normalizer.feed(line.data)]

    updates = of(ToolUpdate, [output.event for output in outputs])  # type: ignore[union-attr]
    assert [(one.chunk.text, one.chunk.offset) for one in updates if one.chunk] == [("a\n", 0), ("b\n", 2)]


@pytest.mark.parametrize("kind", ["file_change", "command_execution", "web_search", "todo_list", "mcp_tool_call"])
def test_completed_item_without_start_is_call_and_result(kind: str) -> None:
    found = read(STARTED, item("completed", "item_0", kind, server="s", tool="t", status="completed"), COMPLETED)

    assert [call.call_id for call in calls(found)] == ["item_0"]
    assert [(result.call_id, result.status) for result in results(found)] == [("item_0", "completed")]


def test_unknown_item_is_unparsed() -> None:
    lines = plain(STARTED, item("completed", "item_0", "hologram", text="?"))

    assert statistics(lines, "codex-exec").unparsed == 1


# -- turns and sessions -----------------------------------------------------------------------------------------------


def test_repeated_item_ids_get_turn_prefix() -> None:
    found = read(
        {"type": "thread.started", "thread_id": "a"}, STARTED, command("completed", "item_0", "one", "1", 0), COMPLETED,
        STARTED, command("started", "item_0", "two"), command("completed", "item_0", "two", "2", 0), COMPLETED,
        {"type": "thread.started", "thread_id": "b"}, STARTED, command("completed", "item_0", "three", "3", 0),
        item("completed", "it_9f", "web_search", query="q"), COMPLETED,
    )  # fmt: skip

    assert [call.call_id for call in calls(found)] == ["item_0", "t2/item_0", "t3/item_0", "it_9f"]
    assert [result.output.get("stdout") for result in results(found)] == ["1", "2", "3", None]
    assert [call.session for call in calls(found)] == ["a", "a", "b", "b"]


def test_late_result_replaces_synthetic_one() -> None:
    found = read(STARTED, command("started", "item_0", "x"), COMPLETED, command("completed", "item_0", "x", "late", 0))

    ours, real = results(found)
    assert (ours.status, real.status, real.replaces) == ("interrupted", "completed", ours.id)
    assert len(of(Turn, found)) == 2


def test_restarted_thread_is_resumed() -> None:
    thread = {"type": "thread.started", "thread_id": "a"}

    found = read(thread, STARTED, thread, STARTED, COMPLETED)

    assert [session.state for session in of(SessionEvent, found)] == ["started", "resumed"]
    assert turns(found) == [
        ("t1", "started", False),
        ("t1", "cancelled", True),
        ("t2", "started", False),
        ("t2", "completed", False),
    ]


def test_mid_stream_content_opens_synthetic_turn() -> None:
    found = read(item("completed", "item_7", "agent_message", text="hi"), COMPLETED)

    assert turns(found) == [("t1", "started", True), ("t1", "completed", False)]


def test_error_and_failed_turn_yield_one_notice() -> None:
    found = events("api-error")

    (notice,) = of(Notice, found)
    assert (notice.level, notice.code, notice.line) == ("error", "provider-error", 3)
    assert "scripted bad request" in notice.text
    assert turns(found) == [("t1", "started", False), ("t1", "failed", False)]


def test_retry_does_not_fail_turn() -> None:
    assert [(notice.level, notice.code) for notice in of(Notice, events("retries"))] == [
        ("warning", "retry"),
        ("error", "provider-error"),
    ]


# -- older generations ------------------------------------------------------------------------------------------------


def test_item_type_generation_is_read() -> None:
    """Codex 0.42, as in banteg/takopi, tests/fixtures/codex_exec_json_all_formats.jsonl."""
    found = read(
        {"type": "session.created", "session_id": "a"}, STARTED,
        {"type": "item.completed", "item": {"id": "i1", "item_type": "assistant_message", "text": "hello"}},
        {"type": "item.completed", "item": {
            "id": "i2", "item_type": "command_execution", "command": "echo x", "output": "x\n", "exit_code": 0,
            "status": "completed"}},
    )  # fmt: skip

    assert [message.text for message in of(Message, found)] == ["hello"]
    assert [answer(result.output) for result in results(found)] == [{"stdout": "x\n", "exit_code": 0}]
    assert calls(found)[0].input["_happy"]["rawToolName"] == "command_execution"


def test_core_events_generation_is_read() -> None:
    """The output of Codex to 0.41 (codex-rs/exec/src/event_processor_with_json_output.rs)."""
    found = read(
        {"workdir": "/ws", "model": "gpt-5", "provider": "openai", "approval": "never", "sandbox": "read-only"},
        {"prompt": "List the files."},
        {"id": "0", "msg": {"type": "task_started", "model_context_window": 272000}},
        {"id": "0", "msg": {"type": "exec_command_begin", "call_id": "c1", "command": ["bash", "-lc", "ls"],
                            "cwd": "/ws", "parsed_cmd": []}},
        {"id": "0", "msg": {"type": "exec_command_end", "call_id": "c1", "stdout": "a\n", "stderr": "",
                            "exit_code": 0, "duration": {"secs": 0, "nanos": 5_000_000}}},
        {"id": "0", "msg": {"type": "agent_message", "message": "One file."}},
        {"id": "0", "msg": {"type": "task_complete", "last_agent_message": "One file."}},
    )  # fmt: skip

    (session,) = of(SessionEvent, found)
    assert (session.cwd, session.model, session.mode) == ("/ws", "gpt-5", "never/read-only")
    assert [(one.role, one.text) for one in of(Message, found)] == [
        ("user", "List the files."),
        ("assistant", "One file."),
    ]
    assert [(call.name, call.input["command"]) for call in calls(found)] == [("Bash", "ls")]
    assert turns(found) == [("0", "started", False), ("0", "completed", False)]


def test_malformed_lines_do_not_raise() -> None:
    check_survives(
        "codex-exec",
        plain(
            {"type": "item.started"}, {"type": "item.completed", "item": {"type": 5, "id": []}},
            {"type": "turn.completed", "usage": 3}, {"type": "turn.failed", "error": "x"}, {"type": ["turn.started"]},
            {"id": 1, "msg": {"type": {}}}, {"type": "thread.started", "thread_id": {}},
            {"type": "item.completed", "item": {"type": "reasoning", "id": "a", "text": None}},
            {"type": "item.completed", "item": {"type": "userMessage", "id": "a", "content": [3, None]}},
        ),
    )  # fmt: skip
