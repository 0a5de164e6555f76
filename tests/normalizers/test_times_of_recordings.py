"""Over all recordings: nothing ends later than its own last line plus a second, unless the provider states when, and no
event is later than the last time that the recording states, however late it is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.normalizers.reading import FIXTURES
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.testing import read_recording

SECOND = 1_000
NOW = 1_893_456_000_000
"""When recordings without times of receipt are read: years later."""
DIALECTS = sorted({path.name for path in FIXTURES.iterdir() if path.is_dir()} - {"curated", "tooltap-trace"})
"""Without traces, as each of their streams has times of its own."""


def recordings_of(dialect: str) -> list[Path]:
    return sorted(path for path in (FIXTURES / dialect).glob("*/*.json*") if path.stat().st_size)


def read(path: Path) -> tuple[list[Produced], int]:
    """Return the events of a recording, and the latest time that it states or, if it states none, was received.

    A line that has no time of receipt is read at `NOW`, once a line has stated its time."""
    normalizer = StreamNormalizer(Context(stream="s"))
    lines = read_recording(path.read_bytes())
    outputs = []
    for line in lines:
        received = NOW if line.t is None and normalizer.states_times else line.t
        outputs += normalizer.feed(line.data, received, line.direction)
    last = max([line.t for line in lines if line.t is not None], default=0)
    latest = max(normalizer.written or 0, last)
    outputs += normalizer.close("end", NOW if latest else None)
    return [one for one in outputs if isinstance(one, Produced) and not one.partial and not one.replay], latest


def late(events: list[Produced], latest: int) -> Iterator[str]:
    """Return the ids of events that are too late, and why they are."""
    worked: dict[tuple[str, str | None], int] = {}
    of_call: dict[tuple[str, str], int] = {}
    stated = {
        (one.session, one.turn, one.ts) for one in events if one.kind == "turn" and one.fields.ended_by == "provider"
    }
    for event in events:
        if event.ts is None:
            continue
        if event.ts > latest + SECOND:
            yield f"{event.id}: {event.kind} after the last line"
        turn = event.session, event.turn
        if event.kind == "turn" and event.fields.state != "started":
            if event.fields.ended_by != "provider" and event.ts > worked.get(turn, event.ts) + SECOND:
                yield f"{event.id}: end of a turn after its last line"
        elif event.kind != "usage":
            worked[turn] = max(worked.get(turn, 0), event.ts)
        if event.parent is not None:
            of_call[event.session, event.parent] = max(of_call.get((event.session, event.parent), 0), event.ts)
        if event.kind not in ("tool-call", "tool-update", "tool-result"):
            continue
        call = event.session, event.fields.call_id
        is_inferred = event.kind == "tool-result" and event.synthetic and (*turn, event.ts) not in stated
        if is_inferred and event.ts > of_call.get(call, event.ts) + SECOND:
            yield f"{event.id}: inferred end of a call after its last line"
        of_call[call] = max(of_call.get(call, 0), event.ts)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_nothing_ends_after_its_last_line(dialect: str, subtests: pytest.Subtests) -> None:
    for path in recordings_of(dialect):
        with subtests.test(path.stem):
            assert list(late(*read(path))) == []
