"""The `tooltap-trace` dialect: traces are replayed, stream by stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from tests.normalizers.reading import emitted
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.dialects.tooltap.parser import TooltapTrace
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import Event, Message, Notice, SessionEvent, ToolCall, ToolResult, Turn, Unparsed, encode
from tooltap.testing import Line, check_recording, normalize, read_recording

FIXTURES = Path(__file__).parents[3] / "fixtures"
TRACES = FIXTURES / "tooltap-trace" / "tooltap-0.1"

SOURCES = {
    "run-5f1c": ("claude-stream", "claude", "claude-stream/claude-code-2.1.330/shell-fails.jsonl"),
    "proxy-77aa": ("acp", "gemini", "acp/gemini-0.61.0/shell-fails.jsonl"),
    "run-9b02": ("codex-mcp", "codex", "codex-mcp/codex-0.120/command-denied.jsonl"),
}
"""What `three-agents` interleaves: stream -> (dialect, provider, the stream alone)."""


def recorded(name: str) -> list[Event]:
    return check_recording("tooltap-trace", read_recording((TRACES / f"{name}.jsonl").read_bytes()))


def record(line: str, n: int, stream: str = "a", dialect: str | None = "gemini-stream", **keys: Any) -> dict[str, Any]:
    return {"v": 1, "stream": stream, "n": n, "line": line, **({"dialect": dialect} if dialect else {}), **keys}


def prompt(text: str) -> str:
    message = {"type": "message", "timestamp": "2026-11-21T20:45:12.000Z", "role": "user", "content": text}
    return orjson.dumps(message).decode()


def call(call_id: str) -> str:
    use = {"type": "tool_use", "timestamp": "2026-11-21T20:45:12.000Z", "tool_name": "read_file", "tool_id": call_id}
    return orjson.dumps({**use, "parameters": {"file_path": "a"}}).decode()


def run(*records: dict[str, Any] | bytes) -> tuple[list[Any], list[str]]:
    parser = TooltapTrace(Context(stream="s"))
    events: list[Any] = []
    classes = []
    for value in records:
        line_class, items = parser.feed(value if isinstance(value, bytes) else orjson.dumps(value))
        classes.append(line_class)
        events += emitted(items)
    return events + emitted(parser.close("end")), classes


def comparable(event: Event, prefix: str) -> dict[str, Any]:
    """An event without its position, and with the ids it has in its own stream."""
    value: dict[str, Any] = orjson.loads(encode(event))
    for key in ("id", "stream", "line", "replaces", "ts", "waitMs"):
        value.pop(key, None)
    for key in ("callId", "permissionId", "parent"):
        if key in value:
            value[key] = value[key].removeprefix(prefix)
    return value


def test_traced_stream_has_same_events_as_alone() -> None:
    trace = recorded("three-agents")

    for number, (stream, (dialect, provider, path)) in enumerate(SOURCES.items()):
        context = Context(stream="alone", session=stream, provider=provider)
        alone = normalize(dialect, read_recording((FIXTURES / path).read_bytes()), context)
        prefix = f"{stream}/" if number else ""
        assert [comparable(event, prefix) for event in trace if event.dialect == dialect] == [
            comparable(event, prefix) for event in alone
        ]


def test_ids_are_of_the_trace() -> None:
    calls = [event for event in recorded("three-agents") if isinstance(event, ToolCall)]

    assert [(one.protocol, one.provider, one.dialect) for one in calls] == [
        ("claude", "claude", "claude-stream"),
        ("acp", "gemini", "acp"),
        ("codex", "codex", "codex-mcp"),
    ]
    assert all(one.id == f"recording:{one.line}:0" and one.stream == "recording" for one in calls)
    assert len({one.session for one in calls}) == 3


def test_call_ids_have_stream_prefix() -> None:
    events, _ = run(record(call("c1"), 1), record(call("c1"), 1, stream="b"), record(call("c2"), 2, stream="b"))

    assert [event.call_id for event in events if isinstance(event, ToolCall)] == ["c1", "b/c1", "b/c2"]
    assert [event.call_id for event in events if isinstance(event, ToolResult)] == ["c1", "b/c1", "b/c2"]
    assert len({event.id for event in events}) == len(events)


def test_recorder_oddities_are_read() -> None:
    events = recorded("recorder-oddities")

    unparsed = [(one.reason, one.line, one.bytes) for one in events if isinstance(one, Unparsed)]
    assert unparsed == [("unknown-dialect", 1, 84), ("too-long", 7, 70_000_000), ("unknown-dialect", 9, 123)]
    texts = [one.text for one in events if isinstance(one, Message) and one.role == "user"]
    assert texts[1:3] == ["the token is [masked github-token]", "caf�"]
    assert [(one.line, one.code, one.data) for one in events if isinstance(one, Notice)] == [
        (7, "lost", {"lines": 2, "bytes": 0, "reason": "not in the trace"})
    ]


def test_record_without_dialect_is_recognised() -> None:
    started = [event for event in recorded("recorder-oddities") if isinstance(event, SessionEvent)]

    assert [(one.line, one.dialect) for one in started] == [(2, "gemini-stream"), (14, "gemini-stream")]


def test_repeated_line_is_skipped() -> None:
    events, classes = run(record(prompt("a"), 1), record(prompt("b"), 2), record(prompt("b"), 2))

    assert [event.text for event in events if isinstance(event, Message)] == ["a", "b"]
    assert classes[-1] == "skipped.repeated"


def test_restarted_stream_ends_previous_one() -> None:
    events, _ = run(record(prompt("a"), 1), record(call("c"), 2), record(prompt("a"), 1), record(call("c"), 2))

    calls = [(event.id, event.status) for event in events if isinstance(event, ToolResult)]
    assert calls == [("s:3:0", "interrupted"), ("s:4c:0", "interrupted")]
    assert [event.state for event in events if isinstance(event, Turn)] == ["started", "cancelled"] * 2


def mark(op: str, n: int, stream: str = "a", **keys: Any) -> dict[str, Any]:
    return {"v": 1, "stream": stream, "dialect": "gemini-stream", "n": n, "op": op, **keys}


def test_lost_mark_is_replayed() -> None:
    lost = mark("lost", 3, lines=2, bytes=70, reason="spool full")
    events, classes = run(record(prompt("a"), 1), lost, lost, record(prompt("b"), 4))

    assert [event.data for event in events if isinstance(event, Notice)] == [
        {"lines": 2, "bytes": 70, "reason": "spool full"}
    ]
    assert classes == ["withEvents", "withEvents", "skipped.repeated", "withEvents"]


def test_closed_stream_may_continue() -> None:
    close = mark("close", 2, reason="end")
    events, classes = run(record(prompt("a"), 1), record(call("c"), 2), close, close, record(prompt("b"), 3))

    [result] = [event for event in events if isinstance(event, ToolResult)]
    assert (result.call_id, result.status, result.line) == ("c", "interrupted", 3)
    assert [event.text for event in events if isinstance(event, Message)] == ["a", "b"]
    assert classes == ["withEvents"] * 3 + ["skipped.mark", "withEvents"]


def test_damaged_marks_are_unparsed() -> None:
    damaged = (mark("lost", 1, lines=2), mark("lost", 1), mark("open", 1))

    assert run(mark("close", 7), *damaged)[1] == ["skipped.mark", *["unparsed"] * 3]


def test_truncated_last_record_is_unparsed() -> None:
    events, _ = run(record(prompt("a"), 1), orjson.dumps(record(prompt("b"), 2))[:-40])

    assert [(event.reason, event.line) for event in events if isinstance(event, Unparsed)] == [("truncated", 2)]


def test_two_records_on_one_line_are_read() -> None:
    both = orjson.dumps(record(prompt("a"), 1)) + orjson.dumps(record(prompt("b"), 1, stream="b"))

    events, _ = run(both)

    assert [event.text for event in events if isinstance(event, Message)] == ["a", "b"]
    assert len({event.id for event in events}) == len(events)


def test_invalid_records_are_unparsed() -> None:
    incomplete = {"v": 1, "stream": "a", "dialect": "acp", "n": 1}

    assert run(incomplete, {**incomplete, "b64": "!"}, {**incomplete, "n": "1", "line": "{}"})[1] == ["unparsed"] * 3


def test_nested_trace_is_read() -> None:
    inner = orjson.dumps(record(call("c"), 1)).decode()

    events, _ = run(record(inner, 1, dialect="tooltap-trace"), record(inner, 1, stream="b", dialect="tooltap-trace"))

    calls = [(event.call_id, event.dialect, event.id) for event in events if isinstance(event, ToolCall)]
    assert calls == [("c", "gemini-stream", "s:1:1"), ("b/c", "gemini-stream", "s:2:1")]


def test_receipt_time_is_of_the_record() -> None:
    line = '{"type":"message","timestamp":"never","role":"user","content":"hi"}'

    events, _ = run(record(line, 1, t=1795293851050))

    assert {event.ts for event in events if isinstance(event, Message)} == {1795293851050}


def test_oldest_streams_end_beyond_budget() -> None:
    normalizer = StreamNormalizer(Context(stream="s"), "tooltap-trace")
    big = orjson.dumps(
        {"type": "message", "timestamp": "x", "role": "assistant", "content": "x" * 60_000, "delta": True}
    ).decode()
    ended = []

    for n in range(256):
        for output in normalizer.feed(orjson.dumps(record(big, 1, stream=f"s{n}"))):
            ended.append(getattr(output, "event", None))

    assert len(normalizer.dump()) < 5_000_000
    assert {event.session for event in ended if isinstance(event, Message)} >= {"s0", "s100"}


def test_direction_is_replayed() -> None:
    params = {"sessionId": "x", "prompt": [{"type": "text", "text": "go"}]}
    asked = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": params}).decode()
    lines = [Line(orjson.dumps(record(asked, 1, dialect="acp", dir="in")))]

    texts = [event.text for event in check_recording("tooltap-trace", lines) if isinstance(event, Message)]

    assert texts == ["go"]
