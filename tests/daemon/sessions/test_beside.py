"""What a tap states, and the agent's file beside it, counts once, in whatever order the two are read."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as some

from tests.daemon.sessions.test_counters import figures, step, total, usage_of
from tooltap.daemon.sessions.usage import Total
from tooltap.normalizers.core.items import Produced

SHORT = settings(deadline=None, max_examples=60)


def merged(data: some.DataObject, *streams: Sequence[Produced]) -> list[Produced]:
    """Return the events in one of the orders in which the streams may be read."""
    order = data.draw(some.permutations([number for number, stream in enumerate(streams) for _ in stream]))
    left = [iter(stream) for stream in streams]
    return [next(left[number]) for number in order]


@SHORT
@given(data=some.data(), used=some.lists(some.integers(1, 1000), max_size=6))
def test_requests_that_the_tap_does_not_name(data: some.DataObject, used: list[int]) -> None:
    """The file goes on after the tap has ended. Cline's tap states costs, its file none."""
    tap = [step("tap", one, 1, cost=one / 1000) for one in used]
    file = [step("file", one, 1, request=f"r{number}", beside="tap") for number, one in enumerate(used)]
    later = [step("file", 5, 1, request="later", cost=0.005)]
    events = merged(data, tap, file + later)
    assert figures(events) == (sum(used) + 5, len(used) + 1, round((sum(used) + 5) / 1000, 9))


@SHORT
@given(data=some.data(), lost=some.booleans())
def test_either_side_may_state_less(data: some.DataObject, lost: bool) -> None:
    """The tap lost its first request, or the file lacks one that is no message; and the tap knows no cached tokens."""
    own = [(100, 10), (200, 20), (300, 30)]
    tap = [step("tap", prompt, output) for prompt, output in own[lost:]]
    file = [
        step("file", prompt, output, cache_read_tokens=prompt // 2, request=str(prompt), beside="tap")
        for prompt, output in (own if lost else own[:2])
    ]
    usage = usage_of(merged(data, tap, file))
    amount = Total.of(usage).amount
    assert (amount.input_tokens, amount.output_tokens) == (600, 60)
    assert amount.cache_read_tokens == (300 if lost else 150)


def test_requests_that_both_name_add_up() -> None:
    """The journal has left out those that both have reported."""
    events = [step("tap", 100, request="a"), step("file", 70, request="b", beside="tap")]
    assert figures(events) == (170, 0, None)


def test_two_taps_count_each_by_itself() -> None:
    """The first states no tokens, the second states them all."""
    events = [
        step("file", 100, request="a", beside="first"),
        step("file", 70, request="b", beside="second"),
        step("second", 70),
    ]
    assert figures(events) == (170, 0, None)


@SHORT
@given(data=some.data())
def test_corrections(data: some.DataObject) -> None:
    """The file states the output of a message, and later the request's whole figures."""
    file = [
        step("file", 0, 42, id="file:1:0", beside="tap"),
        step("file", 1200, 42, id="file:2:0", replaces="file:1:0", beside="tap"),
    ]
    events = merged(data, [step("tap", 1200, 42, id="tap:1:0")], file)
    assert figures(events) == (1200, 42, None)


@SHORT
@given(data=some.data())
def test_lower_bound_of_the_file(data: some.DataObject) -> None:
    file = [step("file", 100, 1, estimated_output_tokens=40, request="a", beside="tap")]
    usage = usage_of(merged(data, [step("tap", 100, 50)], file))
    assert Total.of(usage).amount.output_tokens == 50
    assert Total.of(usage).amount.estimated_output_tokens is None


@SHORT
@given(data=some.data(), ends=some.booleans())
def test_totals(data: some.DataObject, ends: bool) -> None:
    """Claude Code: a session of $0.5, resumed under a tap, whose process states its own totals, two of them, and the
    file those of the session; perhaps the tap was killed before its second."""
    before = total("file", 500, 50, 0.5, counter="lineage")
    file = [total("file", 500 + one, 50, 0.5 + one / 1000, counter="lineage", beside="tap") for one in (100, 250)]
    tap = [total("tap", one, 0, one / 1000, counter="process") for one in ((100, 250) if ends else (100,))]
    assert figures([before, *merged(data, tap, file)]) == (750, 50, 0.75)


@SHORT
@given(data=some.data())
def test_totals_of_the_tap_beside_requests_of_the_file(data: some.DataObject) -> None:
    """The tap also counts a request that is not in the file."""
    tap = [total("tap", 300, 30, 0.3, counter="process")]
    file = [step("file", one, 10, request=str(one), beside="tap") for one in (100, 150)]
    assert figures(merged(data, tap, file)) == (300, 30, 0.3)
