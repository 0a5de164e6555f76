"""The `openai-chat` dialect: conversations. Its fixtures are synthetic, in shapes that many hosts use."""

from typing import Any

import msgspec
import pytest

from tests.normalizers.dialects.openai.chatting import (
    chat,
    chunk,
    completion,
    read_chat,
    recording,
    request,
    result,
    shell,
    use,
    user,
)
from tests.normalizers.reading import answer, of, outline, statistics
from tooltap.normalizers.wire.exchange import ExchangeEnd
from tooltap.protocol.events import Message, Notice, Reasoning, ToolCall, ToolResult, Turn, Unparsed
from tooltap.testing import Line

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
    assert [(one.role, one.turn) for one in of(Message, retried)] == [("user", "t1"), ("assistant", "t1")]
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


def test_reused_ids_of_one_history_are_all_calls() -> None:
    history = [user("Go."), shell("c", "ls"), result("c", "1"), shell("c", "ls"), result("c", "2")]
    history += [shell("c", "pwd"), result("c", "3"), {"role": "assistant", "content": "Done."}]

    for given in ({"messages": history}, request(*history)):
        found = read_chat(given)
        assert [one.input["command"] for one in of(ToolCall, found)] == ["ls", "ls", "pwd"]
        assert [one.output["stdout"] for one in of(ToolResult, found)] == ["1", "2", "3"]
        assert len({one.call_id for one in of(ToolResult, found)}) == 3
        assert [turn.state for turn in of(Turn, found)] == ["started", "completed"]


def test_each_recorded_conversation_is_another() -> None:
    """Two attempts at one task begin alike; the second line of a conversation that grows repeats the first."""
    one = [user("Go."), shell("c", "ls"), result("c", "1"), {"role": "assistant", "content": "Done."}]
    other = [user("Go."), shell("c", "ls"), result("c", "1"), {"role": "assistant", "content": "Gave up."}]

    found = read_chat({"messages": one}, {"messages": other}, {"messages": [*other, user("Why?")]})

    assert [message.text for message in of(Message, found)] == ["Go.", "Done.", "Go.", "Gave up.", "Why?"]
    assert len(of(ToolCall, found)) == len(of(ToolResult, found)) == 2
    assert not any(message.replay for message in of(Message, found))


def test_client_that_drops_messages_repeats_the_rest() -> None:
    asked, called, answered = user("Go."), shell("c", "ls"), result("c", "1")
    found = read_chat(
        request(user("Long ago."), asked, called, answered, shell("d", "pwd"), result("d", "2")),
        request(asked, called, answered, shell("d", "pwd"), result("d", "2"), shell("c", "date"), result("c", "3")),
    )

    assert [one.input["command"] for one in of(ToolCall, found)] == ["ls", "pwd", "date"]
    assert [one.output["stdout"] for one in of(ToolResult, found)] == ["1", "2", "3"]


def test_client_that_shortens_a_result_repeats_the_rest() -> None:
    called = [shell("c", "ls"), result("c", "1"), {"role": "assistant", "content": "Done."}, user("And?")]
    shortened = [called[0], result("c", "[cleared]"), *called[2:], shell("d", "pwd"), result("d", "2")]
    found = read_chat(request(user("Go."), *called), request(user("Go."), *shortened))

    assert [one.text for one in of(Message, found) if one.role == "user"] == ["Go.", "And?"]
    assert [one.input["command"] for one in of(ToolCall, found)] == ["ls", "pwd"]


def test_same_words_said_again_are_a_prompt() -> None:
    first = [user("Go."), {"role": "assistant", "content": "Done."}]
    changed = {"role": "assistant", "content": "Done!"}
    asked = [request(user("Go.")), request(*first, user("Go on.")), request(user("Go."), changed, user("Go on."))]
    answers = [completion({"content": text}, id=text) for text in ("Done.", "Yes.", "Again.")]
    found = read_chat(*(line for pair in zip(asked, answers, strict=True) for line in pair))

    assert [one.text for one in of(Message, found) if one.role == "user"] == ["Go.", "Go on.", "Go on."]


def test_requests_of_other_conversations_keep_their_calls() -> None:
    def conversation(task: str) -> dict[str, Any]:
        return request(user(task), shell("0", "ls"), result("0", task), shell("1", "pwd"), result("1", f"/{task}"))

    found = read_chat(conversation("a"), conversation("b"))

    assert [one.output["stdout"] for one in of(ToolResult, found)] == ["a", "/a", "b", "/b"]


def test_lines_that_keep_the_connection_open_are_skipped() -> None:
    """`{"type":"ping"}` is OpenCode Zen's (anomalyco/opencode issue 40171)."""
    idle = [{"type": "ping"}, {"type": "keepalive"}, Line(b"data: {}"), Line(b"data: null")]
    found = read_chat(request(user("Hi.")), chunk(content="Hel"), *idle, chunk(content="lo."), chunk("stop"), DONE)

    assert outline(found) == ["turn started", "message user", "message assistant", "turn completed"]
    assert [one.text for one in of(Message, found)] == ["Hi.", "Hello."]


# -- the end of an exchange, as the gateway states it -----------------------------------------------------------------


def ends(*values: Any) -> list[tuple[str, str | None]]:
    """Outcomes and reasons of the turns that these lines end; what the end of the stream ends is in none."""
    turns = [one for one in of(Turn, read_chat(*values)) if one.state != "started" and not one.synthetic]
    return [(one.state, one.reason) for one in turns]


def ended(by: Any = "server", complete: bool = True, status: int | None = 200, **more: Any) -> Line:
    return Line(ExchangeEnd(by, complete, status, **more).write(), direction="out")


DONE = Line(b"data: [DONE]")


@pytest.mark.parametrize(
    ("lines", "end"),
    [
        ([chunk(content="Hel"), ended("client", False)], ("cancelled", "client-left")),
        ([ended("client", False, None)], ("cancelled", "client-left")),
        ([chunk(content="Hel"), ended("server", False)], ("failed", "connection-lost")),
        ([chunk(content="Hel"), ended("tap", False)], ("failed", "gateway-stopped")),
        ([chunk(content="Hel"), ended()], ("failed", "unfinished")),
        ([chunk(content="Hello."), chunk("stop"), ended()], ("completed", "stop")),
        ([chunk(content="Hello."), chunk("stop"), ended("client", False)], ("completed", "stop")),
        ([chunk(content="Hello."), DONE, ended()], ("completed", None)),
        ([{"choices": [{"message": {"content": "Hello."}}]}, ended()], ("completed", None)),
        ([ended(status=502, body="<html>Bad</html>")], ("failed", "502")),
        ([ended(status=503)], ("failed", "503")),
        ([{"error": {"message": "Too many.", "code": "limit"}}, ended(status=429)], ("failed", "limit")),
    ],
)
def test_turn_ends_with_its_exchange(lines: list[Any], end: tuple[str, str | None]) -> None:
    assert ends(request(user("Hi.")), *lines) == [end]


@pytest.mark.parametrize(
    "lines",
    [
        [chunk("tool_calls", tool_calls=[{"index": 0, **use("a")}]), ended()],
        [chunk("tool_calls", tool_calls=[{"index": 0, **use("a")}]), ended("client", False)],
        [chunk(tool_calls=[{"index": 0, **use("a")}]), ended()],
        [completion({"tool_calls": [use("a")]}, "tool_calls"), ended()],
        [ended(unread=900)],
    ],
)
def test_turn_goes_on_after_an_exchange_that_calls_tools_or_was_not_read(lines: list[Any]) -> None:
    assert ends(request(user("Hi.")), *lines) == []


REFUSED = {"error": {"message": "Later.", "code": "limit"}}


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 503, 529])
def test_answer_to_a_retried_request_is_in_its_turn(status: int) -> None:
    asked, answered = request(user("Hi.")), completion({"content": "Hello."})
    refused = [asked, REFUSED, ended(status=status)]
    found = read_chat(*refused, *refused, asked, answered, ended())

    assert [one.turn for one in of(Message, found)] == ["t1", "t1"]
    assert [(one.state, one.reason) for one in of(Turn, found)] == [("started", None), ("completed", "stop")]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_turn_ends_when_the_server_says_that_the_request_is_wrong(status: int) -> None:
    asked, answered = request(user("Hi.")), completion({"content": "Hello."})
    found = read_chat(asked, REFUSED, ended(status=status), asked, answered, ended())

    assert [one.turn for one in of(Message, found)] == ["t1", "t2"]
    assert [one.state for one in of(Turn, found)] == ["started", "failed", "started", "completed"]


@pytest.mark.parametrize(
    "then",
    [
        pytest.param([request(user("Well?"))], id="another-prompt"),
        pytest.param([request(user("Hi."), user("Well?"))], id="one-prompt-more"),
        pytest.param([completion({"content": "Hello."})], id="an-answer-without-its-request"),
        pytest.param([], id="the-end"),
    ],
)
def test_turn_has_failed_if_its_request_is_not_made_again(then: list[Any]) -> None:
    lines = [Line(msgspec.json.encode(one), t) for t, one in enumerate([request(user("Hi.")), REFUSED, *then])]
    [end] = [one for one in of(Turn, read_chat(*lines)) if one.turn == "t1" and one.state != "started"]

    assert (end.state, end.reason, end.ended_by, end.ts) == ("failed", "limit", "provider", 1)


def test_request_of_an_earlier_state_of_the_conversation_is_no_retry() -> None:
    first = [request(user("Hi.")), completion({"content": "Hello."})]
    longer = request(user("Hi."), {"role": "assistant", "content": "Hello."}, user("Well?"))
    found = read_chat(*first, longer, REFUSED, ended(status=429), *first)

    assert [one.state for one in of(Turn, found) if one.turn == "t2"] == ["started", "failed"]


def test_turn_goes_on_when_a_failed_request_is_made_again_with_results() -> None:
    """The connection breaks off after a call, which the client runs all the same."""
    called = {"role": "assistant", "tool_calls": [use("a")]}
    broken = [chunk(tool_calls=[{"index": 0, **use("a")}]), ended("server", False)]
    found = read_chat(request(user("Hi.")), *broken, request(user("Hi."), called, result("a", "1")))

    assert {one.turn for one in of(Turn, found)} == {"t1"}
    assert [one.status for one in of(ToolResult, found)][-1] == "completed"


def test_text_before_a_failure_is_no_answer_once_the_request_is_made_again() -> None:
    """The gateway stops while the second answer is on its way."""
    found = read_chat(request(user("Hi.")), chunk(content="Hel"), ended("server", False), request(user("Hi.")))

    assert [(one.state, one.reason) for one in of(Turn, found)][1:] == [("cancelled", "interrupted")]


def test_error_of_an_exchange_is_one_notice_after_what_was_said() -> None:
    found = read_chat(request(user("Hi.")), chunk(content="Hel"), ended("server", False, problem="reset"))

    assert outline(found) == ["turn started", "message user", "message assistant", "notice", "turn failed"]
    assert [one.text for one in of(Notice, found)] == ["the server broke off the answer: reset"]
    assert of(Unparsed, found) == []


def test_client_cannot_end_an_exchange() -> None:
    line = Line(ExchangeEnd("client", False).write(), direction="in")

    assert ends(request(user("Hi.")), line) == []
