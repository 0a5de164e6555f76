"""Processes of one session, each with totals on a stream of its own, read in any order. The sum is known by
construction."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as some

from tests.daemon.sessions.test_counters import step, total, usage_of
from tooltap.daemon.sessions.usage import SessionUsage, Total
from tooltap.normalizers.core.items import Produced


class Run(NamedTuple):
    """Processes of one session: what each used from one total to the next, and which of their streams is read next."""

    used: list[list[int]]
    order: list[int]


@some.composite
def runs(draw: some.DrawFn) -> Run:
    used = draw(some.lists(some.lists(some.integers(1, 1000), min_size=1, max_size=4), min_size=1, max_size=5))
    order = [number for number, grown in enumerate(used) for _ in grown]
    return Run(used, draw(some.permutations(order)))


def in_order(run: Run, totals: list[list[int]], counter: str) -> list[Produced]:
    """Return the totals of all processes as they are read; each stream is read from its beginning."""
    streams = [iter(one) for one in totals]
    return [
        total(f"p{number}", prompt := next(streams[number]), prompt // 2, prompt / 1000, counter=counter)
        for number in run.order
    ]


def check(events: list[Produced], expected: int) -> None:
    """Assert that one row has this sum, and so have rows of each stream that are put together as on NATS: in the order
    in which the streams were read last."""
    by_stream: dict[str, list[Produced]] = {}
    for one in events:
        by_stream[one.stream] = [*by_stream.pop(one.stream, []), one]
    rows = [usage_of(of_stream) for of_stream in by_stream.values()]
    whole = rows[0]
    for later in rows[1:]:
        later.absorb(whole)
        whole = later
    assert [sums(usage_of(events)), sums(whole)] == [(expected, round(expected / 1000, 6))] * 2


def sums(usage: SessionUsage) -> tuple[int, float]:
    found = Total.of(usage)
    assert found.dollars is not None
    return found.amount.input_tokens, round(found.dollars, 6)


@settings(deadline=None, max_examples=60)
@given(run=runs(), counter=some.sampled_from(["session", "lineage"]))
def test_a_total_of_the_session_counts_once(run: Run, counter: str) -> None:
    reached, totals = 0, []
    for grown in run.used:
        totals.append([reached := reached + more for more in grown])
    check(in_order(run, totals, counter), reached)


@settings(deadline=None, max_examples=60)
@given(run=runs(), again=some.sets(some.integers(0, 20)))
def test_totals_of_processes_add_up(run: Run, again: set[int]) -> None:
    """Some processes begin again at 0 in between. A total that does not fall then cannot be told from one that goes
    on."""
    whole, number, totals = 0, 0, []
    for grown in run.used:
        reached, stated = 0, list[int]()
        for more in grown:
            if number in again and more < reached:
                whole, reached = whole + reached, 0
            reached, number = reached + more, number + 1
            stated.append(reached)
        totals.append(stated)
        whole += reached
    check(in_order(run, totals, "process"), whole)


@settings(deadline=None, max_examples=60)
@given(run=runs(), fallen=some.integers(0, 20), counter=some.sampled_from(["session", "lineage"]))
def test_a_total_of_the_session_begins_again(run: Run, fallen: int, counter: str) -> None:
    """In the stream of one process, once; the later processes go on from there. Read in the order of time: else a
    lower total may as well be an earlier one."""
    whole, reached, number, totals = 0, 0, 0, []
    for grown in run.used:
        stated = list[int]()
        for more in grown:
            if number >= fallen and not whole and stated and more < reached:
                whole, reached = reached, 0
            reached, number = reached + more, number + 1
            stated.append(reached)
        totals.append(stated)
    check(in_order(Run(run.used, sorted(run.order)), totals, counter), whole + reached)


@settings(deadline=None, max_examples=60)
@given(run=runs(), goes_on=some.booleans())
def test_totals_that_say_nothing_are_told_by_the_steps(run: Run, goes_on: bool) -> None:
    """Each process states what it uses in steps, and then the total of it, or of the whole session. Read in the order
    of time."""
    events, reached = list[Produced](), 0
    for number, grown in enumerate(run.used):
        reached = reached if goes_on else 0
        for more in grown:
            reached += more
            events.append(step(f"p{number}", more))
            events.append(total(f"p{number}", reached, 0, reached / 1000))
    check(events, sum(map(sum, run.used)))


@settings(deadline=None, max_examples=60)
@given(run=runs(), stated=some.sets(some.integers(0, 5)))
def test_a_total_of_the_session_includes_its_processes(run: Run, stated: set[int]) -> None:
    """Each process states its own total, and a file that of the session, after some of them."""
    events, whole = list[Produced](), 0
    for number, grown in enumerate(run.used):
        reached = 0
        for more in grown:
            reached += more
            events.append(total(f"p{number}", reached, 0, reached / 1000, counter="process"))
        whole += reached
        if number in stated:
            events.append(total("file", whole, 0, whole / 1000, counter="lineage"))
    check(events, whole)
