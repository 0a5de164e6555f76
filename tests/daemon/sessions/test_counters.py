"""Totals that agents state: over processes that begin at 0, go on, or do not say; and events that correct others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.daemon.events import event
from tooltap.daemon.sessions.row import SessionRow
from tooltap.daemon.sessions.usage import DAY_MS, QUARTER_MS, Ledger, SessionUsage, Spent, Total, cost_of, report
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import ModelUsage, SessionEvent, Usage
from tooltap.protocol.frames import UsageRequest


def total(stream: str, prompt: int, output: int = 0, cost: float | None = None, **fields: Any) -> Produced:
    values = {"scope": "session", "input_tokens": prompt, "output_tokens": output, "cost_usd": cost, "ts": DAY_MS}
    return event(Usage, stream, **{**values, **fields})


def step(stream: str, prompt: int, output: int = 0, **fields: Any) -> Produced:
    return total(stream, prompt, output, scope="step", **fields)


def resumed(stream: str) -> Produced:
    return event(SessionEvent, stream, state="resumed")


def usage_of(events: Iterable[Produced]) -> SessionUsage:
    usage = SessionUsage()
    for one in events:
        usage.note(1, one.ts, one)
    return usage


def figures(events: Iterable[Produced]) -> tuple[int, int, float | None]:
    """Return input, output and dollars, as one row has them, and assert that rows of each stream give the same when
    they are put together."""
    events = list(events)
    found = Total.of(usage_of(events))
    rows = [
        usage_of(one for one in events if one.stream == stream) for stream in dict.fromkeys(e.stream for e in events)
    ]
    whole = rows[0]
    for later in rows[1:]:
        later.absorb(whole)
        whole = later
    together = Total.of(whole)
    sums = found.amount.input_tokens, found.amount.output_tokens
    assert (together.amount.input_tokens, together.amount.output_tokens) == sums
    assert together.dollars == (None if found.dollars is None else pytest.approx(found.dollars))
    return (*sums, None if found.dollars is None else round(found.dollars, 9))


def test_a_total_that_falls_adds_up() -> None:
    events = [total("a", 1000, 10, 2.0), total("a", 3000, 40, 3.0), total("a", 500, 5, 0.5), total("a", 700, 6, 0.6)]
    assert figures(events) == (3700, 46, 3.6)


def test_each_process_begins_at_zero() -> None:
    events = [total(name, 10, 1, cost, counter="process") for name, cost in (("a", 0.5), ("b", 0.3), ("c", 0.6))]
    assert figures(events) == (30, 3, 1.4)


def test_a_process_begins_with_the_session_in_the_same_stream() -> None:
    events = [total("a", 10, 1, 0.5, counter="process"), resumed("a"), total("a", 12, 2, 0.6, counter="process")]
    assert figures(events) == (22, 3, 1.1)


@pytest.mark.parametrize("counter", ["session", "lineage"])
def test_totals_of_a_session_go_on(counter: str) -> None:
    events = [total("a", 100, 10, 0.5, counter=counter), total("b", 250, 20, 0.8, counter=counter)]
    assert figures(events) == (250, 20, 0.8)
    # One of an earlier time, reported by another stream.
    assert figures([*events, total("c", 100, 10, 0.5, counter=counter)]) == (250, 20, 0.8)


def test_two_processes_that_report_one_total_in_turns() -> None:
    events = [
        total(name, prompt, counter="session") for name, prompt in (("a", 100), ("b", 150), ("a", 170), ("b", 180))
    ]
    assert Total.of(usage_of(events)).amount.input_tokens == 180


def test_two_processes_that_count_by_themselves_in_turns() -> None:
    events = [total(name, prompt, counter="process") for name, prompt in (("a", 100), ("b", 50), ("a", 170), ("b", 60))]
    assert Total.of(usage_of(events)).amount.input_tokens == 230


def test_total_of_a_session_includes_its_processes() -> None:
    """A file states the session's totals. While a tap reports a process, the file's lines are left out."""
    first, tapped = total("file", 100, 10, 0.5, counter="lineage"), total("tap", 50, 5, 0.25, counter="process")
    later = total("file", 180, 18, 1.0, counter="lineage")
    for events, expected in (
        ([first, tapped], (150, 15, 0.75)),
        ([first, tapped, later], (180, 18, 1.0)),
        ([tapped, later], (180, 18, 1.0)),
        ([first, tapped, later, total("tap", 60, 6, 0.375, counter="process")], (190, 19, 1.125)),
    ):
        found = Total.of(usage_of(events))
        assert (found.amount.input_tokens, found.amount.output_tokens, found.dollars) == expected


def test_total_of_a_session_after_several_processes() -> None:
    """And after a process that began again at 0."""
    processes = [total(name, prompt, counter="process") for name, prompt in (("a", 100), ("b", 50), ("b", 20))]
    found = Total.of(usage_of([*processes, total("c", 200, counter="session")]))
    assert found.amount.input_tokens == 200


def test_process_that_says_nothing_is_told_by_its_own_steps() -> None:
    first = [step("a", 100), total("a", 100, cost=0.5)]
    assert figures([*first, step("b", 120), total("b", 120, cost=0.6)]) == (220, 0, 1.1)
    assert figures([*first, step("b", 20), total("b", 120, cost=0.6)]) == (120, 0, 0.6)


def test_cost_alone_over_two_processes() -> None:
    """As ACP states it: $0.50, and $0.10 after the session was loaded again."""
    events = [
        event(Usage, name, scope="session", cost_usd=cost, cost_scope="session")
        for name, cost in (("a", 0.5), ("b", 0.1))
    ]
    assert figures(events) == (0, 0, 0.6)


def test_cost_alone_between_totals_of_tokens() -> None:
    events = [total("a", 100, 10, 0.5), total("a", 0, 0, 0.6), total("a", 250, 20, 0.8)]
    assert figures(events) == (250, 20, 0.8)


def test_models_begin_at_zero_together() -> None:
    def models(stream: str, *given: tuple[str, int]) -> Produced:
        stated = [ModelUsage(model=name, input_tokens=prompt) for name, prompt in given]
        return total(stream, 0, models=stated)

    events = [models("a", ("big", 1000), ("small", 10)), models("a", ("big", 100), ("small", 50))]
    assert figures(events) == (1160, 0, None)


def test_subagents_have_counters_of_their_own() -> None:
    events = [total("a", 1000), total("a", 50, agent="x"), total("a", 1200), total("a", 70, agent="x")]
    assert figures(events) == (1270, 0, None)


def test_correction_replaces_the_figures_of_an_event() -> None:
    events = [
        step("a", 100, 1, id="a:1:0", cost=0.25),
        step("a", 50, 5, id="a:2:0", cost=0.5),
        step("a", 100, 80, id="a:3:0", cost=1.0, replaces="a:1:0"),
        step("a", 100, 90, id="a:4:0", cost=1.5, replaces="a:3:0"),
    ]
    assert figures(events) == (150, 95, 2.0)


def test_correction_of_what_is_not_known_adds_nothing() -> None:
    assert figures([step("a", 100, 1), step("a", 100, 80, replaces="a:9:9")]) == (100, 1, None)


def test_correction_after_a_quarter_of_an_hour_removes_the_old_part() -> None:
    usage = usage_of([step("a", 10, id="x"), step("a", 20, ts=DAY_MS + QUARTER_MS, replaces="x")])
    assert [(part.key.slot, part.amount.input_tokens) for part in usage.parts] == [(97, 20)]


def test_row_of_an_older_version_goes_on() -> None:
    """It has the latest totals and costs, and no processes."""
    old = SessionUsage(latest={"": usage_of([total("a", 100, 10)]).parts[0].amount}, costs={"session": 0.5})
    old.parts = usage_of([total("a", 100, 10)]).parts
    for one in (total("a", 150, 15, 0.75), total("a", 20, 1, 0.25)):
        old.note(1, one.ts, one)
    found = Total.of(old)
    assert (found.amount.input_tokens, found.amount.output_tokens, found.dollars) == (170, 16, 1.0)


def test_lower_bounds() -> None:
    row = SessionRow(provider="toy", first_seq=1, last_seq=1)
    row.note(1, step("a", 100, 5, estimated_output_tokens=900))
    row.note(2, step("a", 100, 50))
    session = row.describe("s", {}, pending="")
    assert (session["outputTokens"], session["estimatedOutputTokens"]) == (55, 950)
    # A total that the agent states covers what the steps lacked.
    row.note(3, total("a", 200, 1000))
    session = row.describe("s", {}, pending="")
    assert session["outputTokens"] == 1000
    assert "estimatedOutputTokens" not in session


def test_lower_bounds_of_reports_and_of_turns() -> None:
    row = SessionRow(provider="toy", first_seq=1, last_seq=1)
    row.note(1, step("a", 1_000_000, 1_000, model="gpt-5.1", estimated_output_tokens=9_000))
    result = report([row.spending("s")], UsageRequest(id=None, by="model"))
    assert [(one.output_tokens, one.estimated_output_tokens) for one in (*result.rows, result.total)] == [
        (1_000, 9_000)
    ] * 2
    spent = Spent(Ledger())
    spent.add(
        step("a", 1_000_000, 1_000, model="gpt-5.1", estimated_output_tokens=9_000).fields, None, DAY_MS, "a", "a:1:0"
    )
    cost = cost_of([spent])
    assert cost is not None
    assert cost.at_least
    assert spent.amount.estimated_output_tokens == 9_000


def test_correction_of_a_total_is_a_total() -> None:
    assert figures([total("a", 100, 10, id="x"), total("a", 150, 20, replaces="x")]) == (150, 20, None)
