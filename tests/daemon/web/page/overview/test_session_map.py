"""The minimap: its axis, lanes, bars and frames, over events that are made for it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.daemon.events import call, event, result
from tests.daemon.web.page.overview.histories import ended, map_of, prompt, started, stored, took
from tooltap.daemon.show.minimap import BARS, CALLS, LANES, TURNS, WIDTH, Bar, SessionHistory, SessionMap, drawn
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import PermissionRequest, PermissionResponse

T = 1_790_000_000_000
HOUR = 3_600_000


def bars(found: SessionMap, lane: int = 0) -> list[Bar]:
    return found.lanes[lane].bars


def asked(ts: int, **fields: Any) -> Produced:
    return event(PermissionRequest, permission_id="p", type="permission", ts=ts, **fields)


def test_width_of_bar_is_duration_and_pauses_are_short() -> None:
    night = T + 9 * HOUR
    events = [started(T), *took("1", T, T + 10_000), *took("2", T + 10_000, T + 40_000), ended(T + 40_000)]
    later = [started(night), *took("3", night, night + 10_000), ended(night + 10_000)]

    first, second, third = bars(map_of(stored(*events, *later)))

    assert second.width == pytest.approx(3 * first.width, rel=0.05)
    assert third.width == pytest.approx(first.width, rel=0.05)
    pause = third.x - (second.x + second.width)
    assert first.width < pause < 2.5 * first.width, "the night is as wide as twenty seconds"


def test_long_call_takes_logarithm_of_its_time() -> None:
    events = [*took("1", T, T + 60_000), *took("2", T + 60_000, T + 60_000 + HOUR)]

    first, second = bars(map_of(stored(*events)))

    assert 4 * first.width < second.width < 6 * first.width


def test_waiting_for_a_person_takes_no_time() -> None:
    events = [
        *took("1", T, T + 20_000),
        call("2", ts=T + 20_000),
        asked(T + 20_000, call_id="2"),
        event(PermissionResponse, permission_id="p", outcome="allowed", call_id="2", ts=T + HOUR),
        *took("2", T + HOUR, T + HOUR + 20_000)[1:],
    ]

    found = map_of(stored(*events))
    first, second = bars(found)
    (frame,) = found.frames

    assert frame.width == pytest.approx(first.width, rel=0.05)
    assert second.width == pytest.approx(2 * first.width, rel=0.05)
    assert not frame.is_open


def test_wait_of_a_call_is_stated_apart_from_its_duration() -> None:
    events = [call("1", name="Bash", preview="ls", ts=T), result("1", ts=T + 75_000, wait_ms=60_000)]

    (bar,) = bars(map_of(stored(*events)))

    assert bar.title == "Bash ls · waited 1 min · 15 s"


@pytest.mark.parametrize("ts", [None, T], ids=["no time", "one time"])
def test_calls_without_different_times_lie_side_by_side(ts: int | None) -> None:
    found = map_of(stored(started(ts), *(one for n in range(20) for one in took(str(n), ts, ts)), ended(ts)))

    assert found.start == ts
    assert len({bar.x for bar in bars(found)}) == 20
    assert [bar.seq for bar in bars(found)] == sorted(bar.seq for bar in bars(found))


def test_times_that_are_none_do_no_harm() -> None:
    events = [*took("1", -5, 2**62), *took("2", T, T + 1_000), *took("3", T - HOUR, 0)]

    for bar in bars(map_of(stored(*events))):
        assert 0 <= bar.x <= bar.x + bar.width <= WIDTH + 0.1


def test_failure_is_a_bar_of_its_own_however_many_there_are() -> None:
    events = [one for n in range(3_000) for one in took(str(n), T + 300 * n, T + 300 * n + 200)]
    failed = took("failed", T + 450_000, T + 450_100, failed=True)
    middle = len(events) // 2

    found = map_of(stored(*events[:middle], *failed, *events[middle:]))

    assert len(bars(found)) <= BARS
    assert sum(bar.calls for bar in bars(found)) == 3_001
    (bad,) = [bar for bar in bars(found) if bar.failed]
    assert bad.calls == 1
    assert bad.title.startswith("Bash · failed")
    merged = max(bars(found), key=lambda bar: bar.calls)
    assert merged.title == f"{merged.calls} calls: {merged.calls} Bash"


def test_running_call_and_open_question_reach_to_the_end() -> None:
    found = map_of(stored(*took("1", T, T + 5_000), call("2", ts=T + 5_000), asked(T + 6_000, call_id="2")))

    running = bars(found)[1]
    assert running.running
    assert running.x + running.width == pytest.approx(WIDTH, abs=0.2)
    assert found.frames[0].is_open
    assert found.frames[0].x + found.frames[0].width == pytest.approx(WIDTH, abs=0.2)


def test_question_that_a_rule_answers_has_no_frame() -> None:
    answered = event(PermissionResponse, permission_id="p", outcome="allowed", ts=T + 50)

    assert map_of(stored(asked(T), answered, *took("1", T, T + 9_000))).frames == []


def test_each_subagent_has_a_lane() -> None:
    tasks = [call(f"t{n}", name="Task", preview=f"Look at {n}", ts=T) for n in range(2)]
    inside = [one for n in range(2) for one in took(f"c{n}", T + 1_000, T + 2_000, agent=f"a{n}", parent=f"t{n}")]

    found = map_of(stored(*tasks, *inside))

    assert [lane.name for lane in found.lanes] == ["", "Look at 0", "Look at 1"]
    assert [len(lane.bars) for lane in found.lanes] == [2, 1, 1]
    assert all(above.y + above.height <= below.y for above, below in pairwise(found.lanes))
    assert found.lanes[-1].y + found.lanes[-1].height <= found.height


def test_many_subagents_share_lanes_when_they_do_not_overlap() -> None:
    inside = [one for n in range(20) for one in took(f"c{n}", T + 5_000 * n, T + 5_000 * n + 1_000, agent=f"a{n}")]

    found = map_of(stored(*inside))

    assert len(found.lanes) == 2, "one after the other"
    together = [one for n in range(20) for one in took(f"c{n}", T, T + 1_000, agent=f"a{n}")]
    assert len(map_of(stored(*together)).lanes) == LANES
    assert found.lanes[1].name == "20 subagents"


def test_history_is_extended_by_new_events() -> None:
    events = stored(
        started(T), prompt("Do it", T), *took("1", T, T + 1_000), ended(T + 2_000), *took("2", T + 3_000, T + 4_000)
    )
    history = SessionHistory()
    for one in events:
        history.add([one])
        drawn(history, is_live=True)
        history.add([one])

    assert drawn(history, is_live=False) == map_of(events)


def test_memory_of_a_session_is_bounded() -> None:
    history = SessionHistory()
    seq = 0
    for _ in range(5):
        events = [
            part
            for n in range(CALLS // 2)
            for part in (started(T), *took(str(n), T, T + 1, stream=f"s{seq}"), ended(T + 1))
        ]
        history.add([one._replace(seq=seq + one.seq) for one in stored(*events)])
        seq += len(events)

    assert len(history.calls) <= CALLS
    assert len(history.turns) <= TURNS
    assert history.earlier_turns + len(history.turns) == 5 * CALLS // 2
    found = drawn(history, is_live=False)
    assert found.calls == sum(bar.calls for bar in bars(found)) == 5 * CALLS // 2
    assert found.earlier_turns + len(found.outline) == 5 * CALLS // 2
