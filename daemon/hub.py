"""Fan-out: what has been committed goes to every subscriber that wants it, each event encoded and joined once.

Subscribers that want the same (filter, partials, events or what is shown of them) form an audience; a commit is cut
into pieces once per audience, and every member is written the same bytes. A member whose socket does not take them
leaves its audience: nothing is kept for it, and it is served from the journal, at its own pace, until it has caught up
(`subscription.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

from anyio.abc import TaskGroup

from tooltap.daemon.journal import Committed, Journal
from tooltap.normalizers.bounds import Produced
from tooltap.normalizers.display import display_of
from tooltap.protocol.display import encode_display
from tooltap.protocol.events import event_line
from tooltap.protocol.filters import EventMeta, Filter, meta_of
from tooltap.protocol.frames import Form

if TYPE_CHECKING:
    from tooltap.daemon.subscription import Subscription

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
        self._events: list[Produced] = []
        self._seqs: list[int | None] = []
        for commit, seqs in commits:
            for output, seq in zip(commit.outputs, seqs, strict=True):
                if isinstance(output, Produced):
                    self._events.append(output)
                    self._seqs.append(seq)
        self.upto = next((seq for seq in reversed(self._seqs) if seq is not None), before)
        self._metas: list[EventMeta] | None = None
        self._shown: list[bytes | None] | None = None

    def pieces(self, audience: Audience) -> list[Piece]:
        """What the audience wants of it, joined."""
        return list(_cut(self._lines(audience), self.before))

    def _lines(self, audience: Audience) -> list[tuple[int | None, bytes]]:
        """(`seq`, None for a partial; the line)."""
        bodies = self._display() if audience.as_ == "display" else [event.body for event in self._events]
        rows: Iterable[tuple[int | None, bytes | None]] = zip(self._seqs, bodies, strict=True)
        if audience.filter != EVERYTHING:
            if self._metas is None:
                self._metas = [meta_of(produced.event) for produced in self._events]
            rows = compress(rows, map(audience.filter.matches, self._metas))
        return [
            (seq, event_line(seq, body))
            for seq, body in rows
            if body is not None and (audience.partials or seq is not None)
        ]

    def _display(self) -> list[bytes | None]:
        """What is shown of each event, the same for all who want it."""
        if self._shown is None:
            shown = (display_of(produced.event) for produced in self._events)
            self._shown = [None if one is None else encode_display(one) for one in shown]
        return self._shown


def _cut(lines: list[tuple[int | None, bytes]], after: int) -> Iterator[Piece]:
    parts: list[bytes] = []
    size = 0
    for seq, line in lines:
        after = after if seq is None else seq
        parts.append(line)
        size += len(line)
        if size >= PIECE_BYTES:
            yield Piece(b"".join(parts), after)
            parts, size = [], 0
    if parts:
        yield Piece(b"".join(parts), after)


class Hub:
    def __init__(self, journal: Journal, tasks: TaskGroup) -> None:
        self.journal = journal
        self.tasks = tasks
        self.latest = journal.latest
        """`seq` of the last event published; the journal may be ahead of it for a moment."""
        self.subscriptions: set[Subscription] = set()
        self.partials_wanted = False
        self._members: dict[Audience, set[Subscription]] = {}

    def add(self, subscription: Subscription) -> None:
        self.subscriptions.add(subscription)
        self.partials_wanted |= subscription.audience.partials

    def remove(self, subscription: Subscription) -> None:
        self.leave(subscription)
        self.subscriptions.discard(subscription)
        self.partials_wanted = any(one.audience.partials for one in self.subscriptions)

    def join(self, subscription: Subscription) -> None:
        """What is published from here on, after `latest`, is delivered to `subscription`."""
        self._members.setdefault(subscription.audience, set()).add(subscription)

    def leave(self, subscription: Subscription) -> None:
        members = self._members.get(subscription.audience, set())
        members.discard(subscription)
        if not members:
            self._members.pop(subscription.audience, None)

    def publish(self, commits: list[Committed]) -> None:
        """Deliver what the journal has made durable."""
        batch = Batch(commits, self.latest)
        self.latest = batch.upto
        for audience, members in list(self._members.items()):
            if pieces := batch.pieces(audience):
                for subscription in list(members):
                    subscription.deliver(pieces, batch.before)
