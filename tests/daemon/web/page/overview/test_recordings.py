"""The overview of every recording, compared with counts that are taken from its events in another way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.daemon.web.page.overview.histories import FIXTURES, RECORDINGS, map_of, stored
from tooltap.daemon.sessions.row import SessionRow
from tooltap.daemon.show.minimap import LANES, WIDTH
from tooltap.normalizers.core.items import Context, Produced
from tooltap.protocol.events import Event, ToolCall, ToolResult, Turn
from tooltap.testing import normalize, read_recording

DIALECTS = sorted({path.relative_to(FIXTURES).parts[0] for path in RECORDINGS})


def recordings_of(dialect: str) -> list[Path]:
    return [path for path in RECORDINGS if path.relative_to(FIXTURES).parts[0] == dialect]


def name_of(path: Path) -> str:
    return "/".join(path.parts[-3:])


def events_of(path: Path) -> list[Event]:
    dialect = path.relative_to(FIXTURES).parts[0]
    name = "auto" if dialect == "display-tools" else dialect
    return normalize(name, read_recording(path.read_bytes()), Context(stream="s"))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_calls_failures_and_turns_are_those_of_the_recordings(dialect: str, subtests: pytest.Subtests) -> None:
    for path in recordings_of(dialect):
        with subtests.test(name_of(path)):
            _check_counts(path)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_costs_of_turns_add_up_to_that_of_the_session(dialect: str, subtests: pytest.Subtests) -> None:
    for path in recordings_of(dialect):
        with subtests.test(name_of(path)):
            _check_costs(path)


def _check_counts(path: Path) -> None:
    events = [event for event in events_of(path) if not event.replay and not getattr(event, "partial", False)]
    calls = {event.call_id for event in events if isinstance(event, ToolCall)}
    outcome = {event.call_id: event.is_error for event in events if isinstance(event, ToolResult) and not event.async_}
    turns = [event for event in events if isinstance(event, Turn) and event.agent is None]
    agents = {event.agent for event in events if event.agent is not None}
    failed_turns = sum(turn.state == "failed" for turn in turns)

    found = map_of(stored(*events))
    bars = [bar for lane in found.lanes for bar in lane.bars]

    assert sum(bar.calls for bar in bars) == found.calls == len(calls)
    assert sum(bar.calls for bar in bars if bar.failed) == sum(outcome[call] for call in calls & outcome.keys())
    assert sum(entry.calls for entry in found.outline) == len(calls)
    assert sum(entry.errors for entry in found.outline) == sum(outcome.values()) + failed_turns
    assert len([entry for entry in found.outline if entry.number]) == sum(turn.state == "started" for turn in turns)
    assert len(found.marks) == sum(turn.state == "started" for turn in turns)
    assert len(found.lanes) == min(1 + len(agents), LANES)
    assert sum(len(entry.subagents) + entry.more_subagents for entry in found.outline) == len(agents)
    assert all(0 <= bar.x <= bar.x + bar.width <= WIDTH + 0.1 for bar in bars)


def _check_costs(path: Path) -> None:
    events = [event for event in events_of(path) if not event.replay and not getattr(event, "partial", False)]
    row = SessionRow(provider="", first_seq=1, last_seq=1)
    for seq, event in enumerate(events, 1):
        row.note(seq, Produced.of(event))
    stated = row.used.own_cost

    entries = map_of(stored(*events)).outline
    costs = [entry.cost for entry in entries if entry.cost is not None]

    if stated is not None:
        assert sum(cost.usd for cost in costs) == pytest.approx(stated)
    else:
        assert all(cost.estimated or cost.usd == 0 for cost in costs)  # a local model costs nothing
