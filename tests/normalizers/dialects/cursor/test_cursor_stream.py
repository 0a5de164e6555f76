"""Cursor's agent: Claude's stream, with thoughts and tool calls as lines of their own."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.normalizers.dialects.claude.helpers import calls, results
from tests.normalizers.reading import answer, of, outline
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.stream.normalizer import AUTO, StreamNormalizer
from tooltap.protocol.events import Event, Message, Reasoning, ToolResult, Turn, Unparsed, Usage
from tooltap.testing import Line, check_recording, read_recording

FIXTURE = Path(__file__).parents[3] / "fixtures/cursor-stream/cursor-written/session.jsonl"
INIT = {"type": "system", "subtype": "init", "apiKeySource": "login", "cwd": "/ws", "model": "Auto"}


def session() -> list[Event]:
    return check_recording("cursor-stream", read_recording(FIXTURE.read_bytes()))


def read(*lines: dict[str, Any]) -> list[Event]:
    made = [Line(orjson.dumps({"session_id": "s-1", **line})) for line in lines]
    return check_recording("cursor-stream", made, Context(stream="s"))


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": text}]}, **more}


def call(subtype: str, **tool_call: Any) -> dict[str, Any]:
    return {"type": "tool_call", "subtype": subtype, "call_id": "c", "tool_call": tool_call}


def last(found: list[Event]) -> ToolResult:
    return results(found)[-1]


def test_first_line_is_recognised() -> None:
    normalizer = StreamNormalizer(Context(stream="s"), AUTO)
    normalizer.feed(orjson.dumps({**INIT, "session_id": "s-1"}))

    assert normalizer.dialect == "cursor-stream"


def test_session_is_one_turn() -> None:
    found = session()

    assert {event.provider for event in found} == {"cursor"}
    assert of(Unparsed, found) == []
    assert [thought.text for thought in of(Reasoning, found)] == ["I should look first."]
    assert [(message.role, message.text) for message in of(Message, found)] == [
        ("user", "Fix the greeting"),
        ("assistant", "Looking."),
        ("assistant", "Fixed."),
    ]
    assert [turn.state for turn in of(Turn, found)] == ["started", "completed"]


def test_tools_have_canonical_names_and_inputs() -> None:
    given = {call.call_id: (call.name, answer(call.input)) for call in calls(session())}

    assert [name for name, _ in given.values()] == [
        *("Read", "LS", "Glob", "Grep", "Edit", "Write", "Bash", "Bash", "Bash", "mcp__notes__find", "Read")
    ]
    assert given["tool_1"][1]["file_path"] == "/ws/hello.txt"
    assert (given["tool_3"][1]["pattern"], given["tool_3"][1]["path"]) == ("*.txt", "/ws")
    assert given["tool_6"][1]["content"] == "done\n"
    assert given["tool_7"][1]["command"] == "cat hello.txt"
    assert given["tool_10"][1]["q"] == "x"


def test_results_match_by_id() -> None:
    ended = {result.call_id: (result.status, answer(result.output)) for result in results(session())}

    assert ended["tool_1"][1]["file"]["content"] == "helo\n"
    assert ended["tool_7"] == ("completed", {"stdout": "hello\n", "stderr": "", "exit_code": 0})
    assert ended["tool_8"] == ("failed", {"stdout": "", "stderr": "no\n", "exit_code": 1, "errorMessage": "no"})
    assert ended["tool_9"] == ("denied", {"errorMessage": "not allowed"})
    assert ended["tool_11"] == ("failed", {"errorMessage": "EPERM: operation not permitted"})


def test_usage_includes_cached_tokens() -> None:
    [usage] = of(Usage, session())

    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens) == (2640, 2000, 138)


def test_chunks_precede_whole_message() -> None:
    """`--stream-partial-output`: pieces have a time and no call; the whole comes before a call, or at the end."""
    pieces = [said("Hel", timestamp_ms=1), said("lo.", timestamp_ms=2)]

    assert [message.text for message in of(Message, read(INIT, *pieces, said("Hello.")))] == ["Hello."]
    whole = said("Hello.", timestamp_ms=3, model_call_id="m")
    assert [message.text for message in of(Message, read(INIT, *pieces, whole))] == ["Hello."]
    cut = of(Message, read(INIT, *pieces))
    assert [(message.text, message.synthetic) for message in cut] == [("Hello.", True)]


def test_result_without_start_opens_call() -> None:
    found = read(call("completed", lsToolCall={"args": {"path": "/ws"}, "result": {"success": {}}}))

    assert outline(found)[:3] == ["turn started", "tool-call LS", "tool-result LS completed"]


@pytest.mark.parametrize(
    ("result", "status", "words"),
    [
        ({"permissionDenied": {"error": "Command blocked"}}, "denied", "Command blocked"),
        ({"timeout": {}}, "failed", "timeout"),
        ({}, "completed", None),
    ],
)
def test_result_key_is_outcome(result: dict[str, Any], status: str, words: str | None) -> None:
    ended = last(read(call("completed", webFetchToolCall={"args": {"url": "u"}, "result": result})))

    assert (ended.status, ended.output.get("errorMessage")) == (status, words)


def test_function_call_has_function_name() -> None:
    [opened] = calls(read(call("started", function={"name": "ship_it", "arguments": '{"to": "prod"}'})))

    assert (opened.name, opened.input["to"]) == ("ship_it", "prod")


def test_unknown_tool_passes_through() -> None:
    [opened] = calls(read(call("started", futureToolCall={"args": {"a": 1}})))

    assert (opened.name, answer(opened.input)) == ("futureToolCall", {"a": 1})


@pytest.mark.parametrize("tool_call", [{}, {"toolCallId": "c"}])
def test_call_without_kind_is_unparsed(tool_call: dict[str, Any]) -> None:
    assert [event.reason for event in of(Unparsed, read(call("started", **tool_call)))] == ["unknown-type"]
