"""The stream of Qwen Code, where it differs from Claude's."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.normalizers.reading import answer, of
from tooltap.normalizers.catalog.registry import builtin, recognise
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import (
    Event,
    Message,
    Notice,
    SessionEvent,
    ToolCall,
    ToolResult,
    ToolUpdate,
    Turn,
    Unparsed,
    Usage,
)
from tooltap.testing import Line, check_recording, normalize, read_recording

FIXTURES = Path(__file__).parents[3] / "fixtures"
OWN = FIXTURES / "qwen-stream" / "qwen-0.24.4"
ALL = sorted(OWN.glob("*.jsonl"))
SESSION = "11111111-2222-3333-4444-555555555555"


def events(name: str) -> list[Event]:
    return normalize("qwen-stream", read_recording((OWN / f"{name}.jsonl").read_bytes()), Context(stream="s"))


def line(kind: str, uuid: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "uuid": uuid, "session_id": SESSION, "parent_tool_use_id": None, **more}


def streamed(**event: Any) -> dict[str, Any]:
    return line("stream_event", "s", event=event)


def assistant(uuid: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return line("assistant", uuid, message={"id": uuid, "role": "assistant", "content": list(blocks)})


def result(call_id: str, content: str, *, is_error: bool) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": is_error}
    return line("user", f"r{call_id}", message={"role": "user", "content": [block]})


def read(*lines: dict[str, Any]) -> list[Event]:
    return check_recording("qwen-stream", [Line(orjson.dumps(one)) for one in lines])


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_fixtures_have_no_unparsed_lines(path: Path) -> None:
    found = check_recording("qwen-stream", read_recording(path.read_bytes()))

    assert of(Unparsed, found) == []


def test_marked_lines_are_recognised() -> None:
    alike = {"content_block_start", "content_block_delta", "content_block_stop", "message_stop"}
    for path in ALL:
        for raw in path.read_bytes().splitlines():
            value = orjson.loads(raw)
            expected = None if value.get("event", {}).get("type") in alike else "qwen-stream"
            assert recognise(dict(reversed(value.items()))) == expected


@pytest.mark.parametrize("dialect", ["claude-stream", "claude-transcript"])
def test_claude_lines_are_not_recognised(dialect: str) -> None:
    for path in sorted((FIXTURES / dialect).rglob("*.jsonl")):
        for raw in path.read_bytes().splitlines():
            if b"}{" not in raw and raw.strip():
                assert not builtin()["qwen-stream"].recognises(orjson.loads(raw)), (path, raw)


def test_session_has_provider_and_version() -> None:
    found = events("shell-fails")
    (session,) = of(SessionEvent, found)

    assert (session.state, session.mode, session.agent_version) == ("started", "yolo", "0.24.4")
    assert {event.provider for event in found} == {"qwen"}


def test_failed_command_is_parsed() -> None:
    found = events("shell-fails")
    (failed,) = of(ToolResult, found)

    assert (failed.status, failed.is_error) == ("failed", True)
    assert answer(failed.output) == {
        "stdout": "partial output\nboom: something broke",
        "exit_code": 3,
        "errorMessage": "Exit Code: 3",
    }
    assert [message.text for message in of(Message, found)] == ["The command failed with exit code 3."]
    assert [turn.state for turn in of(Turn, found)] == ["started", "completed"]


def test_successful_command_has_no_exit_code() -> None:
    (shell,) = [one for one in of(ToolResult, events("parallel-calls")) if one.name == "Bash"]

    assert answer(shell.output) == {"stdout": "done"}


@pytest.mark.parametrize(
    ("text", "output"),
    [
        (
            "Command: true\nDirectory: (root)\nOutput: (empty)\nError: (none)\nExit Code: 1\nSignal: (none)",
            {"exit_code": 1, "errorMessage": "Exit Code: 1"},
        ),
        (
            "Command: a\nb\nDirectory: src\nOutput: Error: x\nError: spawn ENOENT\nExit Code: (none)\nSignal: 9",
            {"stdout": "Error: x", "signal": "9", "errorMessage": "spawn ENOENT"},
        ),
    ],
)
def test_fields_of_failed_command(text: str, output: dict[str, Any]) -> None:
    call = {"type": "tool_use", "id": "c", "name": "run_shell_command", "input": {"command": "true"}}
    (failed,) = of(ToolResult, read(assistant("a", call), result("c", text, is_error=True)))

    assert {key: failed.output.get(key) for key in output} == output


def test_proxied_call_is_inner_tool() -> None:
    call = of(ToolCall, events("mcp-through-proxy"))[0]

    assert call.name == "mcp__fixture__echo"
    assert call.input["text"] == "hi there"
    assert call.input["_happy"]["rawToolName"] == "mcp__fixture__echo"
    assert call.input["_raw"]["name"] == "tool_call"
    assert call.input["_raw"]["input"] == {"name": "mcp__fixture__echo", "arguments": {"text": "hi there"}}


def test_mcp_error_is_unwrapped() -> None:
    failed = of(ToolResult, events("mcp-through-proxy"))[2]

    assert (failed.name, failed.status) == ("mcp__fixture__fail", "failed")
    assert failed.output["errorMessage"] == "failed: testing"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("[Operation Cancelled] Reason: User intentionally cancelled.", "cancelled"),
        ("[Operation Cancelled] Reason: User did not allow tool call", "denied"),
        ('Qwen Code requires permission to use "write_file", but that permission was declined.', "denied"),
        ('Tool "no_such_tool" not found in registry.', "failed"),
    ],
)
def test_failure_status_from_text(text: str, status: str) -> None:
    call = {"type": "tool_use", "id": "c", "name": "write_file", "input": {"file_path": "/a", "content": ""}}
    (failed,) = of(ToolResult, read(assistant("a", call), result("c", text, is_error=True)))

    assert (failed.status, failed.output["errorMessage"]) == (status, text)


def test_deferred_and_disabled_tools() -> None:
    found = events("disabled-tool")

    assert [call.name for call in of(ToolCall, found)] == ["ToolSearch", "TodoWrite", "TodoWrite", "TodoWrite"]
    assert [one.status for one in of(ToolResult, found)] == ["completed", "failed", "failed", "failed"]


def test_streamed_text_is_emitted_once() -> None:
    """One answer is a thinking and a text message under two ids; `message_start` has only the first id."""
    found = read(
        streamed(type="message_start", message={"id": "m1", "role": "assistant", "content": []}),
        streamed(type="content_block_start", index=0, content_block={"type": "thinking", "thinking": ""}),
        streamed(type="content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "Hm."}),
        streamed(type="content_block_stop", index=0),
        assistant("m1", {"type": "thinking", "thinking": "Hm."}),
        streamed(type="content_block_start", index=0, content_block={"type": "text", "text": ""}),
        streamed(type="content_block_delta", index=0, delta={"type": "text_delta", "text": "Yes."}),
        streamed(type="content_block_stop", index=0),
        assistant("m2", {"type": "text", "text": "Yes."}),
        streamed(type="message_stop"),
    )

    assert [(message.text, message.synthetic) for message in of(Message, found)] == [("Yes.", False)]


def test_usage_includes_cached_tokens() -> None:
    (usage,) = of(Usage, events("shell-fails"))

    # input_tokens 2400, cache_read_input_tokens 1800, total_tokens 2484
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (2400, 1800, 84)


def test_results_state_the_total_of_the_session() -> None:
    """A process that resumes a session goes on from its figures: 2400 and then 3600 tokens are 3600 in all."""
    found = read(
        line("system", "i", subtype="init", qwen_code_version="0.24.4"),
        line("result", "r1", subtype="success", is_error=False, usage={"input_tokens": 2400, "output_tokens": 84}),
        line("system", "i2", subtype="init", qwen_code_version="0.24.4"),
        line("result", "r2", subtype="success", is_error=False, usage={"input_tokens": 3600, "output_tokens": 126}),
    )

    assert [(one.scope, one.counter, one.input_tokens) for one in of(Usage, found)] == [
        ("session", "session", 2400),
        ("session", "session", 3600),
    ]


def test_failed_request_fails_turn() -> None:
    found = events("api-error")

    assert [notice.text for notice in of(Notice, found)] == ["[API Error: 400 scripted bad request]"]
    assert of(Message, found) == []
    assert of(Turn, found)[-1].state == "failed"


def test_goals_skipped_and_progress_updates_call() -> None:
    call = {"type": "tool_use", "id": "c", "name": "mcp__a__b", "input": {}}
    progress = {"type": "mcp_tool_progress", "progress": 1, "total": 2, "message": "half"}
    lines = [
        assistant("a", call),
        streamed(type="tool_progress", tool_use_id="c", content=progress),
        streamed(type="goal_state", goal_state={"v": 2}),
    ]
    normalizer = StreamNormalizer(Context(stream="s"), "qwen-stream")
    for one in lines:
        normalizer.feed(orjson.dumps(one))

    assert normalizer.statistics.skipped == {"goal-state": 1}
    assert [update.progress for update in of(ToolUpdate, read(*lines))] == [{"text": "half", "data": progress}]


def test_interrupted_run() -> None:
    found = events("interrupted")

    assert [(one.status, one.synthetic) for one in of(ToolResult, found)] == [("cancelled", False)]
    assert [(turn.state, turn.synthetic) for turn in of(Turn, found)] == [("started", False), ("cancelled", True)]


# -- results in the middle of a turn ----------------------------------------------------------------------------------

CALL = {"type": "tool_use", "id": "c", "name": "run_shell_command", "input": {"command": "ls"}}
EARLY = line("result", "r1", subtype="success", is_error=False, duration_ms=5)


def test_result_in_mid_turn_does_not_split_the_turn() -> None:
    found = read(
        line("system", "i", subtype="init", qwen_code_version="0.24.4"),
        assistant("a", CALL),
        EARLY,
        result("c", "a.py", is_error=False),
        assistant("b", {"type": "text", "text": "One file."}),
        line("result", "r2", subtype="success", is_error=False, duration_ms=9),
    )

    assert [(turn.turn, turn.state, turn.duration_ms) for turn in of(Turn, found)] == [
        ("t1", "started", None),
        ("t1", "completed", 9),
    ]
    assert [one.status for one in of(ToolResult, found)] == ["completed"]


def test_result_with_an_open_call_is_the_end_if_nothing_follows() -> None:
    found = read(line("system", "i", subtype="init", qwen_code_version="0.24.4"), assistant("a", CALL), EARLY)

    assert [(turn.state, turn.duration_ms) for turn in of(Turn, found)] == [("started", None), ("completed", 5)]


def test_result_of_a_subagent_ends_no_turn() -> None:
    found = read(
        line("system", "i", subtype="init", qwen_code_version="0.24.4"),
        {**EARLY, "parent_tool_use_id": "c", "usage": {"input_tokens": 3, "output_tokens": 1}},
        line("result", "r2", subtype="success", is_error=False),
    )

    assert [turn.line for turn in of(Turn, found)] == [1, 3]
    assert [(usage.agent, usage.input_tokens) for usage in of(Usage, found)] == [("c", 3)]


def test_stop_of_a_background_command_ends_it() -> None:
    given = {"command": "npm run watch", "is_background": True}
    output = "Background shell started.\nid: bg_a0\npid: 27\noutput file: /t/shell-bg_a0.output\n"
    found = read(
        line("system", "i", subtype="init", qwen_code_version="0.24.4"),
        assistant("a", {**CALL, "input": given}),
        result("c", output, is_error=False),
        assistant("b", {"type": "tool_use", "id": "d", "name": "task_stop", "input": {"task_id": "bg_a0"}}),
        result("d", "Cancellation requested.", is_error=False),
    )
    started, stop, ended = of(ToolResult, found)

    assert (started.async_, stop.name, stop.status) == (True, "TaskStop", "completed")
    assert (ended.call_id, ended.status, ended.final) == ("c", "cancelled", True)
