"""The turns of a session, as far as a comparison tells of them: what was asked, answered and done.

Only events of some kinds are read, and of a long session the first `MOST_BYTES` of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import anyio

from tooltap.daemon.journal.interface import Journal, StoredEvent
from tooltap.daemon.sessions.title import title_of
from tooltap.normalizers.tools.registry import family_of
from tooltap.protocol.filters import Filter
from tooltap.protocol.heads import EventHead

__all__ = ["MOST_BYTES", "MOST_TURNS", "Said", "Turn", "Turns", "turns_of"]

KINDS = ("turn", "message", "tool-call", "tool-result")
MOST_BYTES = 33_554_432
MOST_TURNS = 100
CHUNK = 1_048_576
PROMPT = 1_200
ANSWER = 1_500
"""Code points of a prompt and of an answer that are shown."""


class Said(NamedTuple):
    text: str
    seq: int
    is_cut: bool

    @classmethod
    def of(cls, text: str, seq: int, most: int) -> Said:
        return cls(text[:most], seq, len(text) > most)


@dataclass(slots=True)
class Turn:
    number: int
    first: int
    """`seq` of its first event."""
    started: int | None
    prompt: Said | None = None
    answer: Said | None = None
    """The last that the main agent has said."""
    families: Counter[str] = field(default_factory=Counter)
    """Family -> calls."""
    errors: int = 0
    """Calls that failed, and the turn itself if it did."""
    milliseconds: int | None = None
    last: int | None = None
    """When its last event happened."""
    ended: bool = False

    @property
    def calls(self) -> int:
        return self.families.total()

    @property
    def duration(self) -> int | None:
        """As the agent states it, else from the first event to the last."""
        if self.milliseconds is None and self.started is not None and self.last is not None:
            return max(self.last - self.started, 0)
        return self.milliseconds


class Turns(NamedTuple):
    turns: list[Turn]
    complete: bool
    """Whether these are all turns of the session, with all that happened in them."""


async def turns_of(journal: Journal, session: str) -> Turns:
    """Raises `JournalError`."""
    wanted = Filter(session=(session,), kind=KINDS)
    found = _Found()
    after, last, left = journal.oldest - 1, journal.latest, MOST_BYTES
    while after < last and left > 0 and not found.is_full:
        events, after = await journal.read(after, wanted, up_to=last, max_bytes=min(CHUNK, left))
        left -= sum(len(one.body) for one in events)
        await anyio.to_thread.run_sync(found.note, events)
    return Turns(found.turns[:MOST_TURNS], after >= last and not found.is_full)


class _Found:
    def __init__(self) -> None:
        self.turns: list[Turn] = []

    @property
    def is_full(self) -> bool:
        return len(self.turns) > MOST_TURNS

    def note(self, events: Iterable[StoredEvent]) -> None:
        for stored in events:
            event = stored.head
            if not event.replay:
                self._note(stored.seq, event)

    def _note(self, seq: int, event: EventHead) -> None:
        is_main = event.agent is None
        prompts = is_main and event.kind == "message" and event.role == "user" and bool(title_of(event.text))
        starts = is_main and event.kind == "turn" and event.state == "started"
        if not self.turns or starts or (prompts and self.turns[-1].ended):
            self.turns.append(Turn(len(self.turns) + 1, seq, event.ts))
        turn = self.turns[-1]
        turn.last = event.ts if event.ts is not None else turn.last
        if event.kind == "tool-call":
            turn.families[family_of(event.name)] += 1
        elif event.kind == "tool-result":
            turn.errors += event.is_error
        elif prompts:
            turn.prompt = turn.prompt or Said.of(event.text, seq, PROMPT)
        elif event.kind == "message" and is_main and event.role == "assistant" and event.text.strip():
            turn.answer = Said.of(event.text, seq, ANSWER)
        elif event.kind == "turn" and is_main and not starts:
            turn.ended = True
            turn.errors += event.state == "failed"
            turn.milliseconds = event.duration_ms
