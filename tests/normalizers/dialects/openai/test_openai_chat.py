"""Tests of the `openai-chat` dialect. Its fixtures are synthetic, in shapes that many hosts use."""

from pathlib import Path
from typing import Any

import pytest

from tests.normalizers.reading import answer, lines_of, of, outline, read, statistics
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.stream.contract import Line, normalize, read_recording
from tooltap.protocol.events import Event, Message, Notice, Reasoning, ToolCall, ToolResult, Turn, Usage

WRITTEN = Path(__file__).parents[3] / "fixtures" / "openai-chat" / "openai-written"


def recording(name: str) -> list[Line]:
    return read_recording((WRITTEN / f"{name}.jsonl").read_bytes())


def chat(name: str) -> list[Event]:
    return normalize("openai-chat", recording(name), Context(stream="s"))


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def request(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"model": "small", "messages": list(messages)}


def completion(message: dict[str, Any], finish: str = "stop", **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion", "choices": [choice], **more}


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "choices": [choice]}


def use(call_id: str, name: str = "look", arguments: Any = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(call_id: str, content: str = "x") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def read_chat(*values: Any) -> list[Event]:
    return read("openai-chat", *values)


# -- conversations ----------------------------------------------------------------------------------------------------


def test_request_emits_only_new_messages() -> None:
    assert outline(chat("whole")) == [
        "turn started",
        "message user",
        "session",
        "tool-call get_weather",
        "usage",
        "tool-result get_weather completed",
        "reasoning",
        "message assistant",
        "usage",
        "turn completed",
        "turn started",
        "message user",
        "notice",
        "turn failed",
    ]
    assert [one.text for one in of(Message, chat("whole"))] == ["How warm is it in Paris?", "18 degrees.", "Thanks."]


def test_error_body_fails_the_turn() -> None:
    (notice,) = of(Notice, chat("whole"))

    assert (notice.code, notice.text) == ("provider-error", "Rate limit reached")
    assert of(Turn, chat("whole"))[-1].reason == "rate_limit_exceeded"


def test_first_request_replays_its_history() -> None:
    earlier = {"role": "assistant", "content": "Hi."}
    found = read_chat(request(user("Hello."), earlier, user("And?")), completion({"content": "So."}))

    assert [(one.text, one.replay) for one in of(Message, found)] == [
        ("Hello.", True),
        ("Hi.", True),
        ("And?", False),
        ("So.", False),
    ]
    assert [turn.state for turn in of(Turn, found)] == ["started", "completed"]


def test_answers_are_read_from_requests_alone() -> None:
    called = {"role": "assistant", "content": None, "tool_calls": [use("c1", "bash", '{"command": "ls"}')]}
    found = read_chat(request(user("Go.")), request(user("Go."), called, result("c1", "a\n")))

    (call,), (answered,) = of(ToolCall, found), of(ToolResult, found)
    assert (call.name, call.input["command"], call.replay) == ("Bash", "ls", False)
    assert answer(answered.output) == {"stdout": "a\n"}


def test_repeated_answer_may_be_split_in_two_messages() -> None:
    said, called = {"role": "assistant", "content": "Look."}, {"role": "assistant", "tool_calls": [use("c1")]}
    found = read_chat(
        request(user("Go.")),
        completion({"content": "Look.", "tool_calls": [use("c1")]}, "tool_calls"),
        request(user("Go."), said, called, result("c1")),
        completion({"content": "Done."}),
    )

    assert [one.text for one in of(Message, found)] == ["Go.", "Look.", "Done."]
    assert [turn.state for turn in of(Turn, found)] == ["started", "completed"]


# -- answers ----------------------------------------------------------------------------------------------------------


def test_deltas_become_one_text_and_whole_calls() -> None:
    found = chat("streamed")

    assert [one.text for one in of(Reasoning, found)] == ["Two cities."]
    assert [one.text for one in of(Message, found)][1:] == ["Let me look.", "18 and 20."]
    assert [(one.call_id, one.input["city"]) for one in of(ToolCall, found)] == [
        ("call_a", "Paris"),
        ("call_b", "Rome"),
    ]
    assert [(one.call_id, one.output["value"]) for one in of(ToolResult, found)] == [("call_b", "20"), ("call_a", "18")]
    assert [turn.state for turn in of(Turn, found)] == ["started", "completed"]


def test_framing_and_blank_lines_are_counted() -> None:
    stats = statistics("openai-chat", recording("streamed"))

    assert stats.unparsed == 0
    assert stats.skipped == {"framing": 2, "blank": 1}


@pytest.mark.parametrize(
    "deltas",
    [
        pytest.param([{**use("a", arguments=""), "index": 0}, {"function": {"arguments": '{"n":1}'}}], id="no-index"),
        pytest.param(
            [{"index": 0, "function": {"name": "look"}}, {"index": 0, **use("a", "look", '{"n":1}')}], id="late-id"
        ),
        pytest.param(
            [{"index": 0, "id": "a", "function": {}}, {"index": 0, **use("", "look", '{"n":1}')}], id="late-name"
        ),
        pytest.param([{"index": 0, **use("a", arguments={"n": 1})}], id="arguments-as-object"),
    ],
)
def test_incomplete_deltas_find_their_call(deltas: list[dict[str, Any]]) -> None:
    found = read_chat(*(chunk(tool_calls=[delta]) for delta in deltas), chunk("tool_calls"))

    assert [(one.call_id, one.name, one.input["n"]) for one in of(ToolCall, found)] == [("a", "look", 1)]


def test_new_id_at_a_used_index_is_another_call() -> None:
    found = read_chat(
        chunk(tool_calls=[{"index": 0, **use("a", arguments='{"n":1}')}]),
        chunk(tool_calls=[{"index": 0, **use("b", arguments='{"n":2}')}]),
        chunk("tool_calls"),
    )

    assert [(one.call_id, one.input["n"]) for one in of(ToolCall, found)] == [("a", 1), ("b", 2)]


def test_repeated_request_is_a_retry_until_answered() -> None:
    """Recordings of OpenRouter have both: after errors it is a retry, after answers it requests another one."""
    error = {"error": {"message": "overloaded", "code": 503}}
    asked, answered = request(user("Go.")), completion({"content": "Done."})

    retried = read_chat(asked, error, asked, answered)
    assert [one.text for one in of(Message, retried) if one.role == "user"] == ["Go."]
    again = read_chat(asked, answered, asked, answered)
    assert [(one.role, one.turn) for one in of(Message, again)] == [
        ("user", "t1"),
        ("assistant", "t1"),
        ("user", "t2"),
        ("assistant", "t2"),
    ]


def test_reused_id_is_another_call() -> None:
    def round_of(text: str) -> list[dict[str, Any]]:
        called = {"role": "assistant", "tool_calls": [use("0")]}
        answered = request(user(text), called, result("0", text))
        return [request(user(text)), completion(called, "tool_calls"), answered, completion({"content": "Done."})]

    found = read_chat(*round_of("One."), *round_of("Two."))

    assert [one.call_id for one in of(ToolCall, found)] == ["0", "t2/0"]
    assert [(one.call_id, one.output["value"]) for one in of(ToolResult, found)] == [("0", "One."), ("t2/0", "Two.")]


def test_legacy_function_call_without_id() -> None:
    legacy = {"content": None, "function_call": {"name": "look", "arguments": "None"}}
    found = read_chat(
        request(user("Go.")),
        completion(legacy, "function_call"),
        request(user("Go."), {"role": "assistant", **legacy}, {"role": "function", "name": "look", "content": "x"}),
    )

    assert [(one.call_id, one.name, answer(one.input)) for one in of(ToolCall, found)] == [("call-1", "look", {})]
    assert [(one.call_id, one.output["value"]) for one in of(ToolResult, found)] == [("call-1", "x")]


def test_agent_tools_have_canonical_names() -> None:
    """Both calls have the id `call_1` on the wire. The first result names its call in a list."""
    found = chat("agent")

    assert [(one.call_id, one.name) for one in of(ToolCall, found)] == [("call_1", "Bash"), ("t1/call_1", "Read")]
    first, second = of(ToolResult, found)
    assert (first.call_id, answer(first.output)) == ("call_1", {"stdout": "1 failed\n"})
    assert (second.call_id, second.output["file"]["content"]) == ("t1/call_1", "assert 1 == 2")
    assert [turn.state for turn in of(Turn, found)] == ["started", "completed"]


def test_result_may_name_its_calls_in_a_list() -> None:
    answered = {"role": "tool", "tool_call_ids": ["c1"], "content": "x"}
    called = {"role": "assistant", "tool_calls": [use("c1")]}

    assert [one.call_id for one in of(ToolResult, read_chat(request(user("Go."), called, answered)))] == ["c1"]


def test_answer_in_parts() -> None:
    """Mistral thinks in parts of the content."""
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    found = read_chat(completion({"content": [thinking, {"type": "text", "text": "4"}], "tool_calls": []}))

    assert [one.text for one in of(Reasoning, found)] == ["Hm."]
    assert [one.text for one in of(Message, found)] == ["4"]


def test_truncated_answer_is_emitted() -> None:
    found = read_chat(chunk(content="Half a"), chunk(tool_calls=[{"index": 0, **use("a", arguments='{"n":')}]))

    assert [one.text for one in of(Message, found)] == ["Half a"]
    assert [one.status for one in of(ToolResult, found)] == ["interrupted"]


def test_usage_is_emitted_once_per_answer() -> None:
    """Line 2 states 40 prompt tokens, 30 of them cached; line 4 a total that adds 7 reasoning tokens to the 5."""
    first, second = of(Usage, chat("whole"))

    assert (first.scope, first.input_tokens, first.output_tokens, first.cache_read_tokens) == ("step", 40, 10, 30)
    assert (second.input_tokens, second.output_tokens, second.reasoning_tokens) == (60, 12, 7)


def test_usage_of_every_chunk_is_emitted_once() -> None:
    usage = [{**chunk(content="x"), "usage": {"prompt_tokens": 3, "completion_tokens": n}} for n in (1, 2)]
    found = read_chat(*usage, {**chunk("stop"), "usage": {"prompt_tokens": 3, "completion_tokens": 3}})

    assert [(one.input_tokens, one.output_tokens) for one in of(Usage, found)] == [(3, 3)]


def test_bare_messages_are_read() -> None:
    called = {"role": "assistant", "content": "Look.", "tool_calls": [use("c1")]}
    lines = (user("Go."), called, result("c1"), {"role": "assistant", "content": "Done."})

    assert outline(read_chat(*lines)) == [
        "turn started",
        "message user",
        "message assistant",
        "tool-call look",
        "tool-result look completed",
        "message assistant",
        "turn completed",
    ]
    assert statistics("openai-chat", lines_of(lines)).with_events == 4
