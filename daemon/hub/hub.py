"""Fan-out: what has been committed goes to every subscriber that wants it, each event encoded and joined once.

Subscribers that want the same (filter, partials, events or what is shown of them) form an audience; a commit is cut
into pieces once per audience, and every member is written the same bytes. A member whose socket does not take them
leaves its audience: nothing is kept for it. It is served at its own pace until it has caught up (`subscription.py`),
from the newest batches, which are kept for all, or where those do not reach back far enough from the journal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from anyio.abc import TaskGroup

from tooltap.daemon.journal.interface import Committed, Journal
from tooltap.normalizers.stream.bounds import Produced
from tooltap.normalizers.stream.display import display_body
from tooltap.protocol.events import event_lines
from tooltap.protocol.filters import EventMeta, Filter, meta_of
from tooltap.protocol.frames import Form

if TYPE_CHECKING:
    from tooltap.daemon.hub.subscription import Subscription

__all__ = ["Audience", "Batch", "Hub", "Piece"]

PIECE_BYTES = 65_536
"""A piece is written when it is this long, so that a client that stops reading gets little more than its limit."""
EVERYTHING = Filter()


class Piece(NamedTuple):
    data: bytes
    upto: int
    """Whoever has this piece misses nothing it wants up to here."""


class Audience(NamedTuple):
    """What a subscriber wants."""

    filter: Filter
    partials: bool
    as_: Form = "events"

    @property
    def is_selective(self) -> bool:
        """Whether there may be events it gets no line for."""
        return self.filter != EVERYTHING or self.as_ == "display"


class Batch:
    """The events of one transaction; they come right behind `before`."""

    def __init__(self, commits: Iterable[Committed], before: int) -> None:
        self.before = before
        self._events = [
            (seq, output)
            for outputs, seqs in commits
            for output, seq in zip(outputs, seqs, strict=True)
            if isinstance(output, Produced)
        ]
        self.upto = next((seq for seq, _ in reversed(self._events) if seq is not None), before)
        self.bytes = sum([len(output.body) for _, output in self._events])
        """Of the events, and of all that has been made of them."""
        self._pieces: dict[Audience, list[Piece]] = {}
        self._metas: list[EventMeta] | None = None
        self._shown: list[bytes | None] | None = None

    def pieces(self, audience: Audience) -> list[Piece]:
        """What the audience wants of it, joined."""
        pieces = self._pieces.get(audience)
        if pieces is None:
            pieces = self._pieces[audience] = list(_cut(self._wanted(audience), self.before))
            self.bytes += sum([len(piece.data) for piece in pieces])
        return pieces

    def pieces_after(self, cursor: int, audience: Audience) -> list[Piece]:
        """What the audience wants of what comes after `cursor`, which may lie inside the batch."""
        pieces = self.pieces(audience)
        if cursor <= self.before or any(piece.upto == cursor for piece in pieces):
            return [piece for piece in pieces if piece.upto > cursor]
        wanted = self._wanted(audience)
        return list(_cut([(seq, body) for seq, body in wanted if seq is not None and seq > cursor], cursor))

    def _wanted(self, audience: Audience) -> list[tuple[int | None, bytes]]:
        """(`seq`, None for a partial; the body)."""
        if not audience.is_selective:
            return [(seq, output.body) for seq, output in self._events if seq is not None or audience.partials]
        bodies = self._display() if audience.as_ == "display" else [output.body for _, output in self._events]
        matches = audience.filter.matches
        return [
            (seq, body)
            for (seq, _), body, meta in zip(self._events, bodies, self._meta(), strict=True)
            if body is not None and (seq is not None or audience.partials) and matches(meta)
        ]

    def _meta(self) -> list[EventMeta]:
        """What filters look at, made once for all who have one."""
        if self._metas is None:
            self._metas = [meta_of(output.event) for _, output in self._events]
        return self._metas

    def _display(self) -> list[bytes | None]:
        """What is shown of the events, made once for all who want it; None where that is nothing."""
        if self._shown is None:
            self._shown = [display_body(output.body) for _, output in self._events]
            self.bytes += sum([len(body) for body in self._shown if body is not None])
        return self._shown


def _cut(events: list[tuple[int | None, bytes]], after: int) -> Iterator[Piece]:
    start = size = 0
    for end, (seq, body) in enumerate(events, 1):
        after = after if seq is None else seq
        size += len(body)
        if size >= PIECE_BYTES or end == len(events):
            yield Piece(event_lines(events[start:end]), after)
            start, size = end, 0


class Hub:
    def __init__(self, journal: Journal, tasks: TaskGroup, *, recent_bytes: int) -> None:
        self.journal = journal
        self.tasks = tasks
        self.latest = journal.latest
        """`seq` of the last event published; the journal may be ahead of it for a moment."""
        self.subscriptions: set[Subscription] = set()
        self.partials_wanted = False
        self._members: dict[Audience, set[Subscription]] = {}
        self._recent: deque[Batch] = deque()
        """The newest batches without a hole between them."""
        self._recent_bytes = 0
        self._recent_limit = recent_bytes

    async def listen(self) -> None:
        """Before a subscription begins: `latest` is up to now. Raises `JournalError`."""
        self.latest = max(self.latest, await self.journal.listen())

    def add(self, subscription: Subscription) -> None:
        self.subscriptions.add(subscription)
        self.partials_wanted |= subscription.audience.partials

    def remove(self, subscription: Subscription) -> None:
        self.leave(subscription)
        self.subscriptions.discard(subscription)
        self.partials_wanted = any(one.audience.partials for one in self.subscriptions)
        if not self.subscriptions:
            self.journal.rest()

    def join(self, subscription: Subscription) -> None:
        """What is published from here on, after `latest`, is delivered to `subscription`."""
        self._members.setdefault(subscription.audience, set()).add(subscription)

    def leave(self, subscription: Subscription) -> None:
        members = self._members.get(subscription.audience, set())
        members.discard(subscription)
        if not members:
            self._members.pop(subscription.audience, None)

    def recent(self, cursor: int) -> list[Batch] | None:
        """What has been published after `cursor`; None if that is not all in memory, or deleted in part."""
        if cursor >= self.latest:
            return []
        recent = self._recent
        if not recent or recent[0].before > cursor or recent[-1].upto < self.latest:
            return None
        if cursor < self.journal.expired:
            return None
        return list(takewhile(lambda batch: batch.upto > cursor, reversed(recent)))[::-1]

    def pieces_after(self, cursor: int, batch: Batch, audience: Audience) -> list[Piece]:
        """What the audience wants of one of the recent batches; previews are only for those who keep up."""
        before = batch.bytes
        pieces = batch.pieces_after(cursor, audience._replace(partials=False))
        self._recent_bytes += batch.bytes - before
        return pieces

    def publish(self, commits: list[Committed]) -> None:
        """Deliver what the journal has made durable."""
        batch = Batch(commits, self.latest)
        self.latest = batch.upto
        for audience, members in list(self._members.items()):
            if pieces := batch.pieces(audience):
                for subscription in list(members):
                    subscription.deliver(pieces, batch.before)
        if batch.upto > batch.before:
            self._remember(batch)

    def _remember(self, batch: Batch) -> None:
        recent = self._recent
        if recent and recent[-1].upto != batch.before:  # something was published elsewhere in between
            recent.clear()
            self._recent_bytes = 0
        recent.append(batch)
        self._recent_bytes += batch.bytes
        while recent and self._recent_bytes > self._recent_limit:
            self._recent_bytes -= recent.popleft().bytes
