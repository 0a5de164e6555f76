"""Usage in what Claude Code stores and prints: each request once, by its id, with all tokens that its lines state, and
totals that say what they cover."""

from typing import Any

import orjson
import pytest

from tests.normalizers.dialects.claude.helpers import assistant, init, result
from tests.normalizers.dialects.claude.helpers import read as read_stream
from tests.normalizers.dialects.claude.transcripts import line, read, said
from tests.normalizers.reading import of
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import Event, Message, Usage

REQUEST = "msg_0000000000000001/req_00000000000000000001"
MODEL, ADVISOR = "claude-sonnet-4-5-20250929", "claude-opus-4-5-20251101"
TEXT, THOUGHT = {"type": "text", "text": "Hello."}, {"type": "thinking", "thinking": "Hm."}
START = 1_788_256_800_000  # 2026-09-01T10:00:00Z


def at(second: int) -> str:
    return f"2026-09-01T10:00:{second:02}.000Z"


def asked(uuid: str = "u1", second: int = 0, **more: Any) -> dict[str, Any]:
    return said("user", {"type": "text", "text": "Hi."}, uuid=uuid, timestamp=at(second), **more)


def answered(
    uuid: str, second: int, block: dict[str, Any], usage: dict[str, Any], stop: str | None = None, **more: Any
) -> dict[str, Any]:
    """A line of the message `m1`."""
    one = said("assistant", block, uuid=uuid, timestamp=at(second), requestId="req_00000000000000000001", **more)
    one["message"] |= {"id": "msg_0000000000000001", "model": MODEL, "stop_reason": stop, "usage": usage}
    return one


def tokens(fresh: int, output: int, **more: Any) -> dict[str, Any]:
    return {"input_tokens": fresh, "output_tokens": output, **more}


def steps(found: list[Event]) -> list[Usage]:
    return [usage for usage in of(Usage, found) if usage.scope == "step"]


def test_step_names_its_request() -> None:
    (step,) = steps(read(asked(), answered("u2", 1, TEXT, tokens(7, 5), "end_turn")))

    assert step.request == REQUEST


def test_step_without_request_id_is_named_by_its_message() -> None:
    answer = answered("u2", 1, TEXT, tokens(7, 5), "end_turn")
    del answer["requestId"]

    assert [step.request for step in steps(read(asked(), answer))] == ["msg_0000000000000001"]


def test_step_has_time_of_the_last_line_of_its_message() -> None:
    lines = [answered("u2", 1, THOUGHT, tokens(7, 1)), answered("u3", 4, TEXT, tokens(7, 5))]
    (step,) = steps(read(asked(), *lines, asked("u4", 50)))

    assert (step.line, step.ts, step.output_tokens) == (4, START + 4_000, 5)


def test_each_request_of_a_message_is_counted_by_itself() -> None:
    """The message's own figures are the sum of the first and last request: 1 + 1, 20 + 30; the advisor's are extra."""
    iterations = [
        {"type": "message", **tokens(1, 20, cache_read_input_tokens=150_000)},
        {"type": "advisor_message", "model": ADVISOR, **tokens(159_419, 7_805)},
        {"type": "message", **tokens(1, 30, cache_read_input_tokens=160_000)},
    ]
    usage = tokens(2, 50, cache_read_input_tokens=310_000, iterations=iterations)
    lines = [answered("u2", 1, THOUGHT, usage), answered("u3", 2, TEXT, usage, "end_turn")]

    assert [
        (step.request, step.model, step.input_tokens, step.output_tokens) for step in steps(read(asked(), *lines))
    ] == [
        (f"{REQUEST}#1", MODEL, 150_001, 20),
        (f"{REQUEST}#2", ADVISOR, 159_419, 7_805),
        (f"{REQUEST}#3", MODEL, 160_001, 30),
    ]


def test_message_of_one_request_is_one_step() -> None:
    usage = tokens(7, 5, iterations=[{"type": "message", **tokens(7, 5)}])
    (step,) = steps(read(asked(), answered("u2", 1, TEXT, usage, "end_turn")))

    assert (step.request, step.input_tokens, step.output_tokens) == (REQUEST, 7, 5)


def test_compaction_before_the_answer_is_a_request_of_its_own() -> None:
    iterations = [{"type": "compaction", **tokens(180_000, 3_500)}, {"type": "message", **tokens(23_000, 1_000)}]
    usage = tokens(23_000, 1_000, iterations=iterations)
    found = steps(read(asked(), answered("u2", 1, TEXT, usage, "end_turn")))

    assert [(step.input_tokens, step.output_tokens) for step in found] == [(180_000, 3_500), (23_000, 1_000)]


def test_text_refutes_figures_of_the_beginning() -> None:
    """400 characters of text, 200 of thought, and `{"command":"…"}` of 114 bytes: 714 bytes are 178 tokens."""
    lines = [
        answered("u2", 1, {"type": "thinking", "thinking": "t" * 200}, tokens(7, 1)),
        answered("u3", 2, {"type": "text", "text": "a" * 400}, tokens(7, 1)),
        answered(
            "u4", 3, {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "x" * 100}}, tokens(7, 1)
        ),
    ]
    (step,) = steps(read(asked(), *lines))

    assert (step.output_tokens, step.estimated_output_tokens) == (1, 178)


@pytest.mark.parametrize(
    ("text", "stated", "stop"),
    [
        ("a" * 400, 66, None),  # 100 tokens are not clearly more than 66
        ("a" * 40, 1, None),  # nor 10 than 1
        ("a" * 400, 1, "end_turn"),  # final: it is what the API counted
    ],
)
def test_figures_that_the_text_does_not_refute_stand(text: str, stated: int, stop: str | None) -> None:
    (step,) = steps(read(asked(), answered("u2", 1, {"type": "text", "text": text}, tokens(7, stated), stop)))

    assert (step.output_tokens, step.estimated_output_tokens) == (stated, None)


def test_subagents_last_request_is_counted_when_its_answer_says_that_it_is_the_last() -> None:
    more: dict[str, Any] = {"isSidechain": True, "agentId": "a1"}
    lines = [
        asked(**more),
        answered("u2", 1, THOUGHT, tokens(7, 5), "end_turn", **more),
        answered("u3", 2, TEXT, tokens(7, 5), "end_turn", **more),
    ]
    (step,) = steps(read(*lines))

    assert (step.agent, step.line, step.id.split(":")[1]) == ("a1", 3, "3")  # not at the end of the stream: `3c`


def test_subagents_last_request_is_counted_with_the_result_of_its_call() -> None:
    """Lines of 1.0 do not say that an answer is the last."""
    call = {"type": "tool_use", "id": "c1", "name": "Task", "input": {"prompt": "Hi.", "description": "d"}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "Hello."}
    lines = [
        asked("p1"),
        line("assistant", "p2", message={"id": "m0", "role": "assistant", "content": [call]}),
        asked("s1", isSidechain=True),
        answered("s2", 2, TEXT, tokens(7, 5), parentUuid="s1", isSidechain=True),
        said("user", result, uuid="p3"),
    ]
    (step,) = steps(read(*lines))

    assert (step.parent, step.line, step.ts) == ("c1", 5, START + 2_000)


# -- totals of streams --------------------------------------------------------------------------------------------


def used(fresh: int, output: int, cost: float) -> dict[str, Any]:
    return {"m": {"inputTokens": fresh, "outputTokens": output, "costUSD": cost}}


def ended(fresh: int, total: dict[str, Any], cost: float, since: dict[str, Any] | None = None) -> dict[str, Any]:
    more: dict[str, Any] = {} if since is None else {"model_usage_since_last_result": since}
    return result(usage=tokens(fresh, 5), total_cost_usd=cost, modelUsage=total, **more)


def totals(*lines: dict[str, Any]) -> list[tuple[int | None, float | None, str | None]]:
    return [
        (usage.input_tokens, usage.cost_usd, usage.counter)
        for usage in of(Usage, read_stream(*lines))
        if usage.scope == "session"
    ]


@pytest.mark.parametrize(("version", "counter"), [("2.1.276", "process"), ("2.1.277", "lineage"), (None, None)])
def test_totals_say_what_they_cover_by_version(version: str | None, counter: str | None) -> None:
    assert totals(init(claude_code_version=version), ended(10, used(30, 15, 0.03), 0.03)) == [(30, 0.03, counter)]


def test_totals_of_a_resumed_session_or_a_fork_are_those_of_the_process() -> None:
    """The session had used 100 tokens and $0.25 before; then two turns use 10 ($0.125) and 20 ($0.5)."""
    lines = [
        init(claude_code_version="2.1.330"),
        ended(10, used(110, 15, 0.375), 0.375, used(10, 5, 0.125)),
        init(claude_code_version="2.1.330"),
        ended(20, used(130, 20, 0.875), 0.875, used(20, 5, 0.5)),
    ]
    assert totals(*lines) == [(10, 0.125, "process"), (30, 0.625, "process")]


def test_totals_that_fall_are_those_of_another_process() -> None:
    """A file of two processes: the second one began at 0."""
    lines = [
        ended(10, used(110, 15, 0.375), 0.375, used(10, 5, 0.125)),
        ended(20, used(20, 5, 0.5), 0.5, used(20, 5, 0.5)),
    ]
    assert totals(init(), *lines) == [(10, 0.125, "process"), (20, 0.5, "process")]


def printed(message_id: str, fresh: int, text: str = "Hello.") -> dict[str, Any]:
    one = assistant({"type": "text", "text": text}, message_id=message_id)
    one["message"] |= {"stop_reason": None, "usage": tokens(fresh, 1)}
    return one


def test_turn_that_is_cut_off_has_the_usage_that_its_messages_state() -> None:
    """No `result` states it. Two messages of 10 and 20 tokens; 400 characters are 100 tokens, 1 of them stated."""
    (usage,) = of(Usage, read_stream(init(), printed("m1", 10), printed("m2", 20, "a" * 400)))

    assert (usage.scope, usage.turn, usage.synthetic) == ("turn", "t1", True)
    assert (usage.input_tokens, usage.output_tokens, usage.estimated_output_tokens) == (30, 2, 101)
    assert [(one.model, one.input_tokens) for one in usage.models or []] == [("m", 30)]


def test_turn_with_a_result_has_the_usage_of_the_result() -> None:
    found = read_stream(init(), printed("m1", 10), ended(10, used(10, 5, 0.1), 0.1))

    assert [(usage.scope, usage.input_tokens, usage.output_tokens) for usage in of(Usage, found)] == [
        ("turn", 10, 5),
        ("session", 10, 5),
    ]


def test_result_after_the_end_of_the_stream_corrects_the_usage() -> None:
    """A stream that is silent for long ends, and may be resumed."""
    parser = StreamNormalizer(Context(stream="s"), "claude-stream")
    lines = [{"session_id": "x", **one} for one in (init(), printed("m1", 10), ended(10, used(10, 5, 0.1), 0.1))]
    found = [*parser.feed(orjson.dumps(lines[0])), *parser.feed(orjson.dumps(lines[1])), *parser.close("silent")]
    cut = next(event for event in found if isinstance(event, Produced) and event.kind == "usage")
    found = list(parser.feed(orjson.dumps(lines[2])))

    assert [event.fields.replaces for event in found if isinstance(event, Produced) and event.kind == "usage"] == [
        cut.id,
        None,
    ]


def test_short_ids_identify_no_request() -> None:
    """A server that counts its messages gives the same ids in each session."""
    answer = said("assistant", {"type": "text", "text": "Hi."}, uuid="a1", timestamp=at(1), requestId="req_1")
    answer["message"] |= {"id": "m1", "model": MODEL, "stop_reason": "end_turn", "usage": {"input_tokens": 7}}

    assert [step.request for step in steps(read(asked(), answer))] == [None]


REQUESTS = [f"req_0000000000000000000{number}" for number in (1, 2, 3)]


def test_answers_of_one_message_id_are_as_many_as_their_requests() -> None:
    """Some servers give all messages one id (claude-code #64880). The second answer has two lines."""
    given = [(REQUESTS[0], TEXT, 20), (REQUESTS[1], THOUGHT, 20), (REQUESTS[1], TEXT, 21), (REQUESTS[2], TEXT, 20)]
    lines = [
        {**answered(f"a{second}", second, block, tokens(100, output)), "requestId": request}
        for second, (request, block, output) in enumerate(given, 1)
    ]

    found = read(asked(), *lines)

    assert [(one.input_tokens, one.output_tokens) for one in steps(found)] == [(100, 20), (100, 21), (100, 20)]
    assert [one.request for one in steps(found)] == [f"msg_0000000000000001/{request}" for request in REQUESTS]
    said_by_model = [one for one in of(Message, found) if one.role == "assistant"]
    assert [(one.text, one.block) for one in said_by_model] == [("Hello.", 0), ("Hello.", 1), ("Hello.", 0)]


def test_answers_of_one_message_id_in_turns_of_their_own() -> None:
    lines = []
    for second, request in enumerate(REQUESTS, 1):
        answer = answered(f"a{second}", second, TEXT, tokens(100, 20), "end_turn")
        lines += [asked(f"u{second}", second), {**answer, "requestId": request}]

    assert [(one.turn, one.input_tokens) for one in steps(read(*lines))] == [("t1", 100), ("t2", 100), ("t3", 100)]


def test_printed_answers_of_one_message_id_are_as_many_as_their_requests() -> None:
    found = read_stream(init(), *({**printed("m1", 100), "request_id": request} for request in REQUESTS))

    assert [(one.scope, one.input_tokens, one.output_tokens) for one in of(Usage, found)] == [("turn", 300, 3)]
    assert [one.text for one in of(Message, found)] == ["Hello."] * 3
