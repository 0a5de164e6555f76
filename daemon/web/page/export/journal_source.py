"""Reads a session of the journal for an export: all of it or a part, within bounds, without secrets.

source = JournalSource(journal, session, part, bodies, redaction)
async for batch in source:          # of `(event, its output bodies)`
    ...
source.is_cut                       # the session has more than an export may have
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal, NamedTuple, TypeAlias

import anyio

from tooltap.daemon.journal.interface import Journal, StoredEvent
from tooltap.daemon.views.select import whole_body
from tooltap.daemon.web.page.export.bodies import Bodies, Body, body_ids
from tooltap.daemon.web.page.export.redaction import Redaction, masked_event
from tooltap.protocol.events import AnyEvent
from tooltap.protocol.filters import Filter

__all__ = ["Batch", "JournalSource", "Part"]

READ = 262_144
"""Bytes of events that are read at a time."""
MAX_BYTES = 67_108_864
"""Bytes of events in an export; `tooltap export` has no such limit."""
CONVERSATION = ("message", "turn")

Batch: TypeAlias = list[tuple[AnyEvent, dict[str, Body]]]


class Part(NamedTuple):
    """What of a session is exported."""

    first: int = 0
    last: int | None = None
    """The range of `seq`."""
    content: Literal["all", "conversation"] = "all"
    """`conversation`: what the user and the agent said to each other, without calls and subagents."""

    def has(self, stored: StoredEvent) -> bool:
        return self.content == "all" or stored.head.agent is None


class JournalSource:
    def __init__(self, journal: Journal, session: str, part: Part, bodies: Bodies, redaction: Redaction) -> None:
        self._journal = journal
        self._wanted = Filter(session=(session,), kind=CONVERSATION if part.content == "conversation" else None)
        self._part = part
        self._bodies = bodies
        self._redaction = redaction
        self.is_cut = False

    async def __aiter__(self) -> AsyncIterator[Batch]:
        """Raises `JournalError`."""
        last = self._journal.latest if self._part.last is None else min(self._part.last, self._journal.latest)
        reached, left = max(self._part.first - 1, self._journal.oldest - 1), MAX_BYTES
        while reached < last:
            events, reached = await self._journal.read(reached, self._wanted, up_to=last, max_bytes=READ)
            left -= sum(len(one.body) for one in events)
            if left < 0:
                self.is_cut = True
                return
            decoded = await anyio.to_thread.run_sync(self._decoded, events)
            batch = [(event, await self._bodies_of(event)) for event in decoded]
            if batch:
                yield batch

    def _decoded(self, events: list[StoredEvent]) -> list[AnyEvent]:
        return [self._masked(one) for one in events if self._part.has(one)]

    def _masked(self, stored: StoredEvent) -> AnyEvent:
        event = masked_event(stored.body, lambda body: self._redaction.mask(body, stored.seq))
        event.seq = stored.seq
        return event

    async def _bodies_of(self, event: AnyEvent) -> dict[str, Body]:
        found: dict[str, Body] = {}
        for output_id, size, mime_type in body_ids(event):
            if not self._bodies.has_room(size):
                continue
            data = await whole_body(self._journal, output_id)
            if data is not None:
                masked = await anyio.to_thread.run_sync(self._redaction.mask, data, event.seq)
                found[output_id] = Body(masked, mime_type)
        return found
