"""Tests of the tokens of Copilot CLI: of single requests, and of processes."""

from typing import Any

from tests.normalizers.dialects.copilot.test_copilot_json import PROMPT, line
from tests.normalizers.reading import of, read
from tooltap.protocol.events import Event, SessionEvent, Usage

MODEL = "claude-sonnet-4.5"
RESUME = line("session.resume", context={"cwd": "/w"})


def answer(message_id: str, output: int | None = None, **more: Any) -> dict[str, Any]:
    stated = {} if output is None else {"outputTokens": output}
    return line("assistant.message", messageId=message_id, model=MODEL, content="It parses.", **stated, **more)


def request(kind: str, output: int, **more: Any) -> dict[str, Any]:
    used = {"model": MODEL, "inputTokens": 1_200, "outputTokens": output, "cacheReadTokens": 900, **more}
    return line(kind, **({"usage": used} if kind == "session.usage_record" else used))


def shutdown(requests: int, prompt: int, output: int, read_: int = 0, model: str = MODEL) -> dict[str, Any]:
    used = {"inputTokens": prompt, "outputTokens": output, "cacheReadTokens": read_}
    metrics = {model: {"requests": {"count": requests, "cost": 1}, "usage": used}}
    return line("session.shutdown", shutdownType="routine", modelMetrics=metrics)


def totals(*lines: dict[str, Any]) -> list[tuple[int | None, int | None]]:
    return [(one.input_tokens, one.output_tokens) for one in of(Usage, read("copilot-json", *lines)) if one.models]


def steps(*lines: dict[str, Any]) -> list[Usage]:
    return [one for one in of(Usage, read("copilot-json", *lines)) if one.scope == "step"]


def model_of(events: list[Event]) -> list[str | None]:
    return [one.model for one in of(SessionEvent, events) if one.model is not None]


def test_totals_of_processes_that_begin_at_zero_are_added_up() -> None:
    """1.0.67."""
    first = [PROMPT, answer("m1", 100), shutdown(1, 20_000, 100, 15_000)]
    second = [RESUME, PROMPT, answer("m2", 50), shutdown(1, 10_000, 50, 8_000)]
    found = of(Usage, read("copilot-json", *first, *second))

    last = found[-1]
    assert (last.scope, last.counter) == ("session", "session")
    assert (last.input_tokens, last.output_tokens, last.cache_read_tokens) == (30_000, 150, 23_000)
    assert [(one.model, one.input_tokens) for one in last.models or []] == [(MODEL, 30_000)]


def test_total_that_is_larger_than_the_one_before_may_have_begun_at_zero() -> None:
    first = [PROMPT, answer("m1", 100), shutdown(1, 20_000, 100)]
    second = [RESUME, PROMPT, answer("m2", 150), shutdown(1, 30_000, 150)]

    assert totals(*first, *second) == [(20_000, 100), (50_000, 250)]


def test_total_that_goes_on_after_a_resume_is_counted_once() -> None:
    first = [PROMPT, answer("m1", 100), shutdown(1, 20_000, 100)]
    second = [RESUME, PROMPT, answer("m2", 50), shutdown(2, 30_000, 150)]

    assert totals(*first, *second) == [(20_000, 100), (30_000, 150)]


def test_requests_show_whether_a_total_goes_on_where_messages_state_no_tokens() -> None:
    first = [PROMPT, answer("m1"), shutdown(1, 20_000, 100)]

    assert totals(*first, RESUME, PROMPT, answer("m2"), shutdown(1, 30_000, 150))[-1] == (50_000, 250)
    assert totals(*first, RESUME, PROMPT, answer("m2"), shutdown(2, 30_000, 150))[-1] == (30_000, 150)


def test_requests_show_whether_a_total_includes_a_compaction_where_messages_state_no_tokens() -> None:
    used = {"model": MODEL, "inputTokens": 5_000, "outputTokens": 40}
    lines = [PROMPT, answer("m1"), line("session.compaction_complete", compactionTokensUsed=used)]

    assert totals(*lines, shutdown(1, 20_000, 100)) == [(25_000, 140)]
    assert totals(*lines, shutdown(2, 25_000, 140)) == [(25_000, 140)]


def test_total_of_another_model_began_at_zero() -> None:
    first = [PROMPT, answer("m1"), shutdown(1, 20_000, 100)]
    second = [RESUME, PROMPT, shutdown(3, 50_000, 300, model="gpt-5.1")]

    assert totals(*first, *second)[-1] == (70_000, 400)


def test_process_that_ended_without_a_total_counts_with_its_messages() -> None:
    killed = [PROMPT, answer("m1", 100)]

    assert totals(*killed, RESUME, PROMPT, answer("m2", 50), shutdown(1, 10_000, 50)) == [(10_000, 150)]
    assert totals(*killed, RESUME, PROMPT, answer("m2", 50), shutdown(2, 30_000, 150)) == [(30_000, 150)]


def test_shutdown_without_figures_is_no_total() -> None:
    assert totals(PROMPT, answer("m1", 100), line("session.shutdown", shutdownType="error", modelMetrics={})) == []


def test_message_states_its_output_and_its_model() -> None:
    found = read("copilot-json", PROMPT, answer("m1", 100))
    (used,) = of(Usage, found)

    assert (used.scope, used.input_tokens, used.output_tokens, used.request) == ("step", None, 100, "m1")
    assert model_of(found) == [MODEL]


def test_message_after_its_request_adds_nothing() -> None:
    """1.0.102."""
    record, message = request("session.usage_record", 42, apiCallId="call"), answer("m1", 42, apiCallId="call")
    (used,) = steps(PROMPT, record, message)

    assert (used.input_tokens, used.output_tokens, used.cache_read_tokens, used.request) == (1_200, 42, 900, "call")


def test_request_after_its_message_replaces_the_figure_of_the_message() -> None:
    for ids in ({"apiCallId": "call"}, {}):
        message, whole = steps(PROMPT, answer("m1", 42, **ids), request("assistant.usage", 42, **ids))

        assert message.replaces is None
        assert (whole.replaces, whole.input_tokens) == (message.id, 1_200)


def test_equal_requests_are_two() -> None:
    one, other = request("session.usage_record", 42, apiCallId="a"), request("session.usage_record", 42, apiCallId="b")
    messages = answer("m1", 42, apiCallId="a"), answer("m2", 42, apiCallId="b")

    assert [used.request for used in steps(PROMPT, one, messages[0], other, messages[1])] == ["a", "b"]
    assert [
        used.output_tokens for used in steps(PROMPT, request("assistant.usage", 42), answer("m1", 42), answer("m2", 42))
    ] == [
        42,
        42,
    ]


def test_request_of_a_subagent_is_the_subagents() -> None:
    main = answer("m1", 42, apiCallId="a")
    child = {**answer("m2", 42, apiCallId="b"), "agentId": "explore"}

    assert [(used.agent, used.request) for used in steps(PROMPT, main, child)] == [(None, "a"), ("explore", "b")]
