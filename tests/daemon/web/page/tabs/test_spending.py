"""The curve of the context, its compactions, and what each turn took."""

from __future__ import annotations

from typing import Any

import pytest

from tests.daemon.web.page.tabs.noting import Noting
from tooltap.daemon.sessions.usage import Cost
from tooltap.daemon.web.page.tabs.digests import Place
from tooltap.daemon.web.page.tabs.usage import DRAWN, POINTS, Compaction, Costs, Point, Spending, curve_of, usage_values
from tooltap.protocol.replies import UsageResult, UsageRow

NOTHING = UsageRow(
    sessions=0, input_tokens=0, output_tokens=0, cache_read_tokens=0, cache_write_tokens=0, reasoning_tokens=0
)


def spending() -> tuple[Spending, Noting]:
    known = Spending()
    return known, Noting(known)


def values(known: Spending, *, wide: bool = True) -> dict[str, Any]:
    nothing = UsageResult(rows=[], total=NOTHING, complete=True)
    return usage_values(known, Costs(nothing, nothing), {"session": "one"}, wide=wide)


def test_turns_have_what_was_used_between_them() -> None:
    known, agent = spending()
    agent.turn()
    agent.call("Bash", {"command": "ls"})
    agent.usage("step", input_tokens=100, output_tokens=10, cost_usd=0.5)
    agent.usage("step", input_tokens=200, output_tokens=20, cost_usd=0.25)
    agent.turn("completed", duration_ms=60_000)
    agent.turn()
    agent.usage("step", input_tokens=300, output_tokens=30, cost_usd=1.0)

    first, second = values(known)["turns"]

    assert (first.calls, first.input, first.output, first.milliseconds) == (1, 300, 30, 60_000)
    assert first.cost == Cost(0.75, False)
    assert first.context_used == 220
    assert (second.place.turn, second.state, second.cost) == (2, "started", Cost(1.0, False))


def test_totals_of_the_session_are_shared_among_turns() -> None:
    known, agent = spending()
    for total in (1.0, 2.5):
        agent.turn()
        agent.usage("session", input_tokens=int(1_000 * total), output_tokens=0, cost_usd=total)
        agent.turn("completed")

    first, second = values(known)["turns"]

    assert (first.input, first.cost.usd) == (1_000, 1.0)
    assert (second.input, second.cost.usd) == (1_500, 1.5)


def test_cost_is_not_known_unless_all_of_it_is() -> None:
    known, agent = spending()
    agent.turn()
    agent.usage("step", input_tokens=100, output_tokens=10, model="claude-sonnet-4-5")
    agent.usage("step", input_tokens=100, output_tokens=10, model="a model that no price list has")

    (turn,) = values(known)["turns"]

    assert turn.cost is None
    assert turn.is_counted


def test_cost_that_the_agent_states_is_that_of_the_turn() -> None:
    """As that of the session is (`SessionUsage.own_cost`)."""
    known, agent = spending()
    agent.turn()
    agent.usage("step", input_tokens=100, output_tokens=10, cost_usd=0.5, model="a")
    agent.usage("step", input_tokens=100, output_tokens=10, model="a model that no price list has")

    (turn,) = values(known)["turns"]

    assert turn.cost == Cost(0.5, False)


def test_subagents_do_not_fill_the_context() -> None:
    known, agent = spending()
    agent.turn()
    agent.usage("step", input_tokens=100, output_tokens=10)
    agent.usage("step", input_tokens=9_000, output_tokens=10, agent="a", parent="c1")

    assert [point.used for point in known.points] == [110]


def test_beginning_and_end_of_a_compaction_are_one() -> None:
    known, agent = spending()
    agent.usage("step", input_tokens=100, output_tokens=0)
    agent.compaction("compacting", status="compacting")
    end = agent.compaction(preTokens=100, postTokens=20)
    agent.usage("step", input_tokens=20, output_tokens=0)
    failed = agent.compaction("no memory", level="warning")

    first, second = known.compactions
    assert (first.place.seq, first.before, first.after, first.has_failed) == (end, 100, 20, False)
    assert (second.place.seq, second.has_failed) == (failed, True)


def test_curve_has_the_window_as_its_height() -> None:
    points = [Point(1, 0, 1), Point(2, 100, 1), Point(4, 50, 2)]
    compacted = Compaction(Place(3, None, 1), False, None, None)

    curve = curve_of(points, [compacted], 200, 100, 52)

    assert curve is not None
    assert curve.line == "M0 51 L50 31.5 L100 41.2"
    assert [(mark.x, mark.word) for mark in curve.marks] == [(75.0, "compacted")]
    assert curve.turns == [100.0]


@pytest.mark.parametrize("count", [0, 1])
def test_one_request_is_no_curve(count: int) -> None:
    assert curve_of([Point(1, 5, 1)] * count, [], None, 100, 50) is None


def test_long_sessions_have_a_bounded_curve_with_all_peaks() -> None:
    known, agent = spending()
    for number in range(3 * POINTS):
        agent.usage("step", input_tokens=1_000_000 if number == POINTS // 2 else 10 + number % 7, output_tokens=0)

    shown = values(known)

    assert len(known.points) <= POINTS
    assert shown["highest"] == 1_000_000
    assert all(len(curve.line.split("L")) <= DRAWN + 1 for curve in shown["curves"])
    assert known.points[-1].used == 10 + (3 * POINTS - 1) % 7


def test_words_do_not_overlap() -> None:
    points = [Point(10 * at, 10, 1) for at in range(100)]
    compactions = [Compaction(Place(10 * at + 5, None, 1), False, None, None) for at in (10, 11, 90, 98)]

    curve = curve_of(points, compactions, 100, 318, 84)

    assert curve is not None
    assert [mark.word for mark in curve.marks] == ["compacted", "", "compacted", ""]
    assert len(curve.marks) == len(compactions)


def test_lower_bound_has_an_estimate() -> None:
    known, agent = spending()
    agent.turn()
    agent.usage("step", input_tokens=100, output_tokens=1, estimated_output_tokens=900, model="gpt-5.1")
    agent.usage("step", input_tokens=100, output_tokens=20, model="gpt-5.1")

    (turn,) = values(known)["turns"]

    assert (turn.output, turn.estimated_output, turn.cost.at_least) == (21, 920, True)
