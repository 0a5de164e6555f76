"""OpenAI-compatible servers that make up ids: an answer is what lies between a request and its end, a call is known by
its place, and the usage is what an answer has stated when it ends.

The shapes are those of public reports: LiteLLM #38098 and #16584 (another id in each chunk), KoboldCpp (one id for all
answers), nanobot #3943 (one id for parallel calls), LiteLLM #20480 (a call told again), tau #665 (a client's own ids),
CLIProxyAPI #3077 (zeros before the usage), OpenCode #39061 (a cost by itself).
"""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.normalizers.dialects.openai.chatting import chunk, completion, read_chat, request, result, use, user
from tests.normalizers.reading import emitted, of, read
from tooltap.normalizers.core.exchanges import MANY_CALLS
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.dialects.openai.chat import OpenAIChat
from tooltap.normalizers.stream.normalizer import SETTLED_INDEX
from tooltap.protocol.events import Event, Message, Notice, ToolCall, ToolResult, Turn, Usage
from tooltap.testing import Line

DONE = Line(b"data: [DONE]")
USED = {"prompt_tokens": 11, "completion_tokens": 7}
ASKED = request(user("Go."))


def part(index: int | None, call_id: str | None, name: str | None, arguments: str) -> dict[str, Any]:
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    stated = {"index": index, "id": call_id, "function": function}
    return {key: value for key, value in stated.items() if value is not None}


def named(completion_id: str, value: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**value, "id": completion_id, **more}


def called(found: list[Event]) -> list[tuple[str, Any]]:
    return [(one.call_id, one.input.get("path", one.input.get("value"))) for one in of(ToolCall, found)]


def tokens(found: list[Event]) -> list[tuple[int | None, int | None]]:
    return [(one.input_tokens, one.output_tokens) for one in of(Usage, found)]


# -- answers ----------------------------------------------------------------------------------------------------------


def test_answer_is_one_whatever_the_ids_of_its_chunks() -> None:
    chunks = [
        chunk(role="assistant", content="Hello"),
        chunk(content=" big"),
        chunk(content=" world."),
        chunk(tool_calls=[part(0, "c", "look", '{"path":')]),
        chunk(tool_calls=[part(0, None, None, '"a.txt"}')]),
        chunk("tool_calls"),
        {"choices": [], "usage": USED},
    ]
    ids = [f"chatcmpl-{number}-of-a-made-up-series" for number in range(len(chunks))]

    found = read_chat(ASKED, *map(named, ids, chunks), DONE)

    assert [one.text for one in of(Message, found)] == ["Go.", "Hello big world."]
    assert called(found) == [("c", "a.txt")]
    assert tokens(found) == [(11, 7)]
    assert [one.request for one in of(Usage, found)] == [None]


def test_answers_of_one_id_are_all_read() -> None:
    answer = "koboldcpp-has-one-id-for-all"
    asked_again = request(user("Go."), {"role": "assistant", "content": "One."}, user("On."))

    found = read_chat(
        ASKED,
        named(answer, chunk(content="One.")),
        named(answer, chunk("stop"), usage=USED),
        DONE,
        asked_again,
        named(answer, chunk(content="Two.")),
        named(answer, chunk("stop"), usage={"prompt_tokens": 20, "completion_tokens": 8}),
        DONE,
    )

    assert [one.text for one in of(Message, found)] == ["Go.", "One.", "On.", "Two."]
    assert tokens(found) == [(11, 7), (20, 8)]
    assert [one.request for one in of(Usage, found)] == [answer, None]
    assert [one.state for one in of(Turn, found)] == ["started", "completed"] * 2


def test_chunks_without_requests_begin_another_answer_after_a_finish() -> None:
    found = read_chat(*(named(f"a{number}", chunk("stop", content=f"{number}.")) for number in (1, 2)))

    assert [one.text for one in of(Message, found)] == ["1.", "2."]


def test_responses_of_one_id_are_all_read() -> None:
    def answer(text: str) -> dict[str, Any]:
        message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
        usage = {"input_tokens": 3, "output_tokens": 2}
        body = {"object": "response", "id": "resp_0", "status": "completed", "model": "m", "output": [message]}
        return {**body, "usage": usage}

    asked = [{"model": "m", "input": text, "previous_response_id": "resp_0"} for text in ("Go.", "On.")]
    streamed = {"type": "response.completed", "response": answer("Three.")}

    found = read(
        "openai-responses",
        asked[0],
        answer("One."),
        asked[1],
        answer("Two."),
        {"type": "response.created", "response": {"id": "resp_0", "model": "m"}},
        streamed,
        streamed,
    )

    assert [one.text for one in of(Message, found)] == ["Go.", "One.", "On.", "Two.", "Three."]
    assert len(of(Usage, found)) == 3


# -- calls ------------------------------------------------------------------------------------------------------------

TWO = [part(0, "c", "look", '{"path":"a"}'), part(1, "c", "look", '{"path":"b"}')]


@pytest.mark.parametrize(
    "deltas",
    [
        pytest.param(TWO, id="one id"),
        pytest.param([part(0, "c", "look", '{"path":"a"}'), part(0, "c", "look", '{"path":"b"}')], id="and one index"),
        pytest.param([part(None, "c", "look", '{"path":"a"}'), part(None, "c", "look", '{"path":"b"}')], id="no index"),
        pytest.param(
            [
                part(0, "c", "look", ""),
                part(1, "c", "look", ""),
                part(0, "c", None, '{"path":'),
                part(1, "c", None, '{"path":'),
                part(1, "c", None, '"b"}'),
                part(0, "c", None, '"a"}'),
            ],
            id="in turns",
        ),
    ],
)
def test_parallel_calls_of_one_id_are_two(deltas: list[dict[str, Any]]) -> None:
    uses = [use("c", "look", '{"path":"a"}'), use("c", "look", '{"path":"b"}')]
    answered = request(user("Go."), {"role": "assistant", "tool_calls": uses}, result("c", "A"), result("c", "B"))

    found = read_chat(ASKED, *(chunk(tool_calls=[one]) for one in deltas), chunk("tool_calls"), DONE, answered)

    assert called(found) == [("c", "a"), ("t1/c", "b")]
    assert [(one.call_id, one.output["value"]) for one in of(ToolResult, found)] == [("c", "A"), ("t1/c", "B")]


@pytest.mark.parametrize("again", ['{"path":"hi"}', '{ "path": "hi" }'])
@pytest.mark.parametrize(("index", "call_id"), [(0, "c"), (None, "c"), (0, None)])
def test_call_that_is_told_again_is_one(index: int | None, call_id: str | None, again: str) -> None:
    told = part(index, call_id, "look", again)
    found = read_chat(
        ASKED,
        chunk(tool_calls=[part(0, "c", "look", '{"path":')]),
        chunk(tool_calls=[part(0, None, None, '"hi"}')]),
        chunk("tool_calls", tool_calls=[told]),
        DONE,
    )

    assert called(found) == [("c", "hi")]


def test_empty_object_stands_for_the_arguments_that_follow() -> None:
    deltas = [part(0, "c", "look", "{}"), part(0, None, None, '{"path":'), part(0, None, None, '"a}"}')]

    assert called(read_chat(ASKED, *(chunk(tool_calls=[one]) for one in deltas), DONE)) == [("c", "a}")]


def test_braces_and_quotes_in_texts_end_no_arguments() -> None:
    whole = '{"path":"}\\"}\\\\"}'
    deltas = [part(0, "c", "look", ""), *(part(0, None, None, sign) for sign in whole)]

    assert called(read_chat(ASKED, *(chunk(tool_calls=[one]) for one in deltas), DONE)) == [("c", '}"}\\')]


def test_calls_of_an_answer_are_bounded() -> None:
    parts = [part(number, "c", "look", "{}") for number in range(MANY_CALLS + 1)]

    assert len(of(ToolCall, read_chat(ASKED, chunk(tool_calls=parts), DONE))) == MANY_CALLS


def test_client_may_write_its_own_call_ids() -> None:
    own = {"role": "assistant", "tool_calls": [use("mine-1", "look", '{ "path": "a" }'), use("mine-2", "look", "{}")]}

    found = read_chat(
        ASKED,
        completion({"tool_calls": [use("c1", "look", '{"path":"a"}'), use("c2", "look", "{}")]}, "tool_calls"),
        request(user("Go."), own, result("mine-1", "A"), result("mine-2", "B")),
        completion({"content": "Done."}),
    )

    assert called(found) == [("c1", "a"), ("c2", None)]
    assert [(one.call_id, one.output["value"]) for one in of(ToolResult, found)] == [("c1", "A"), ("c2", "B")]
    assert [one.state for one in of(Turn, found)] == ["started", "completed"]


def test_parallel_calls_of_one_id_in_a_response_are_two() -> None:
    def item(path: str) -> dict[str, Any]:
        return {"type": "function_call", "call_id": "c", "name": "look", "arguments": f'{{"path":"{path}"}}'}

    def event(kind: str, index: int, **keys: Any) -> dict[str, Any]:
        return {"type": f"response.output_item.{kind}", "output_index": index, "item": {**item("ab"[index]), **keys}}

    outputs = [{"type": "function_call_output", "call_id": "c", "output": text} for text in ("A", "B")]
    found = read(
        "openai-responses",
        {"model": "m", "input": "Go.", "stream": True},
        {"type": "response.created", "response": {"id": "r1", "model": "m"}},
        *(event("added", index, arguments="") for index in (0, 1)),
        *(event("done", index) for index in (1, 0)),
        {"type": "response.completed", "response": {"id": "r1", "output": [item("a"), item("b")]}},
        {"model": "m", "input": outputs, "previous_response_id": "r1"},
    )

    assert [one.call_id for one in of(ToolCall, found)] == ["c", "t1/c"]
    assert [(one.call_id, one.output["value"]) for one in of(ToolResult, found)] == [("c", "A"), ("t1/c", "B")]


# -- usage ------------------------------------------------------------------------------------------------------------

ZEROS = {"prompt_tokens": 11, "completion_tokens": 0}


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param(
            [{**chunk(content="x"), "usage": ZEROS}, chunk("stop"), {**chunk(), "usage": USED}],
            id="the real one comes last",
        ),
        pytest.param(
            [{**chunk("stop", content="x"), "usage": USED}, {**chunk(), "usage": {"prompt_tokens": 0}}],
            id="zeros come last",
        ),
        pytest.param([chunk("stop", content="x"), {"id": "c", "choices": None, "usage": USED}], id="choices are null"),
        pytest.param([chunk("stop", content="x"), {"id": "c", "usage": USED}], id="no choices"),
        pytest.param(
            [chunk("stop", content="x"), {"id": "c", "usage": {"input_tokens": 11, "output_tokens": 7}}],
            id="other names",
        ),
    ],
)
def test_usage_is_the_greatest_that_an_answer_states(chunks: list[dict[str, Any]]) -> None:
    assert tokens(read_chat(ASKED, *chunks, DONE)) == [(11, 7)]


def test_text_behind_a_finish_and_a_usage_is_read() -> None:
    chunks = [{**chunk("stop", content=text), "usage": USED} for text in ("One", " two", " three.")]

    assert [one.text for one in of(Message, read_chat(ASKED, *chunks, DONE))] == ["Go.", "One two three."]


@pytest.mark.parametrize(
    ("usage", "prompt"),
    [
        ({"prompt_tokens": 90, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 50}, 90),
        ({"prompt_tokens": 90, "prompt_tokens_details": {"cached_tokens": 50, "cache_creation_tokens": 30}}, 90),
        ({"input_tokens": 10, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 50}, 90),
        ({"input_tokens": 90, "input_tokens_details": {"cached_tokens": 50, "cache_write_tokens": 30}}, 90),
    ],
)
def test_cached_tokens_under_other_names(usage: dict[str, Any], prompt: int) -> None:
    """LiteLLM's prompt includes what is read from and written to the cache, Anthropic's input does not."""
    (found,) = of(Usage, read_chat(ASKED, completion({"content": "x"}, usage={**usage, "output_tokens": 7})))

    assert (found.input_tokens, found.cache_read_tokens, found.cache_write_tokens) == (prompt, 50, 30)
    assert found.output_tokens == 7


def test_cost_may_come_in_a_chunk_of_its_own() -> None:
    chunks = [chunk(content="x"), {**chunk("stop"), "usage": USED}, {"choices": [], "cost": "0.0039"}]
    (found,) = of(Usage, read_chat(ASKED, *chunks, DONE))

    assert (found.input_tokens, found.output_tokens, found.cost_usd) == (11, 7, 0.0039)


def test_cost_may_come_with_a_ping() -> None:
    pings = [{"type": "ping"}, {"type": "ping", "cost": "0.0039"}]
    (found,) = of(Usage, read_chat(ASKED, chunk(content="x"), {**chunk("stop"), "usage": USED}, *pings, DONE))

    assert (found.input_tokens, found.output_tokens, found.cost_usd) == (11, 7, 0.0039)


def test_error_in_the_middle_keeps_what_was_used() -> None:
    found = read_chat(ASKED, {**chunk(content="Half"), "usage": USED}, {"id": "c", "error": {"message": "cut"}}, DONE)

    assert [one.text for one in of(Message, found)] == ["Go.", "Half"]
    assert [one.text for one in of(Notice, found)] == ["cut"]
    assert tokens(found) == [(11, 7)]
    assert [one.state for one in of(Turn, found)] == ["started", "failed"]


def test_answer_without_its_end_on_the_wire_ends_when_the_stream_is_silent() -> None:
    parser = OpenAIChat(Context(stream="s"))
    for line in (ASKED, chunk(content="x"), {**chunk("stop"), "usage": USED}):
        parser.feed(orjson.dumps(line), 1_790_000_000_000)
    assert parser.is_unsettled

    found = emitted(parser.settle_all(SETTLED_INDEX))

    assert [one.text for one in of(Message, found)] == ["x"]
    assert tokens(found) == [(11, 7)]
    assert [(one.state, one.provisional) for one in of(Turn, found)] == [("completed", False)]
    assert not parser.is_unsettled
