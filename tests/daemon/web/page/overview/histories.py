"""Events as the overview gets them: of recordings, and made for a test."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.daemon.events import call, event, result
from tooltap.daemon.journal.interface import StoredEvent
from tooltap.daemon.show.minimap import SessionHistory, SessionMap, drawn
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import Event, Message, Turn, encode

__all__ = ["FIXTURES", "RECORDINGS", "ended", "prompt", "started", "stored", "took"]

FIXTURES = Path(__file__).parents[4] / "fixtures"
RECORDINGS = sorted(
    path for path in FIXTURES.glob("*/*/*.jsonl") if path.relative_to(FIXTURES).parts[0] not in ("curated", "legacy")
)


def stored(*events: Produced | Event) -> list[StoredEvent]:
    """Number events from 1."""
    bodies = [one.body if isinstance(one, Produced) else encode(one) for one in events]
    return [StoredEvent(seq, body) for seq, body in enumerate(bodies, 1)]


def started(ts: int | None = None, **fields: Any) -> Produced:
    return event(Turn, state="started", ts=ts, **fields)


def ended(ts: int | None = None, state: str = "completed", **fields: Any) -> Produced:
    return event(Turn, state=state, ts=ts, **fields)


def prompt(text: str, ts: int | None = None) -> Produced:
    return event(Message, role="user", text=text, ts=ts)


def took(
    call_id: str, begin: int | None, end: int | None, name: str = "Bash", *, failed: bool = False, **fields: Any
) -> list[Produced]:
    """Return a call and its result. `fields`: of both."""
    outcome: dict[str, Any] = {"status": "failed", "is_error": True} if failed else {}
    return [call(call_id, name=name, ts=begin, **fields), result(call_id, ts=end, **fields, **outcome)]


def map_of(events: Iterable[StoredEvent]) -> SessionMap:
    """Return the map of all these events of one session."""
    history = SessionHistory()
    history.add(events)
    return drawn(history, is_live=False)
