"""Fan-out: what has been committed goes to every subscriber that wants it, each event encoded and joined once.

Subscribers that want the same (filter and partials) form an audience; a commit is cut into pieces once per audience,
and every live member is written the same bytes. A member whose socket does not take them leaves its audience: nothing
is kept for it, and it is served from the journal, at its own pace, until it has caught up (`subscription.py`).

The newest events stay in memory, in bounds. They bridge the moment between the last read of the journal and the next
commit, so that whoever has caught up joins without a loop of ever shorter reads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from anyio.abc import TaskGroup

from tooltap.daemon.journal import Committed, Journal, meta_of
from tooltap.normalizers.bounds import Produced
from tooltap.protocol.events import with_seq
from tooltap.protocol.filters import EventMeta, Filter

if TYPE_CHECKING:
    from tooltap.daemon.subscription import Subscription

__all__ = ["Audience", "Hub", "Line", "Piece", "Recent", "cut"]

PIECE_BYTES = 65_536
"""A piece is written when it is this long, so that a client that stops reading gets little more than its limit."""


class Line(NamedTuple):
    """One line of the stream of events, newline included."""

    seq: int | None
    """None for a partial."""
    meta: EventMeta
    data: bytes


class Piece(NamedTuple):
    data: bytes
    upto: int
    """Whoever has this piece misses nothing it wants up to here."""


class Audience(NamedTuple):
    """What a subscriber wants."""

    filter: Filter
    partials: bool


def cut(lines: Iterable[Line], audience: Audience, after: int) -> Iterator[Piece]:
    """What the audience wants of `lines`, joined; the lines come right behind `after`."""
    everything = audience.filter == Filter()
    parts: list[bytes] = []
    size = 0
    for line in lines:
        if line.seq is not None:
            after = line.seq
        elif not audience.partials:
            continue
        if everything or audience.filter.matches(line.meta):
            parts.append(line.data)
            size += len(line.data)
            if size >= PIECE_BYTES:
                yield Piece(b"".join(parts), after)
                parts, size = [], 0
    if parts:
        yield Piece(b"".join(parts), after)


class Recent:
    """The newest events: all with a `seq` greater than `start`."""

    def __init__(self, limit: int, start: int) -> None:
        self.start = start
        self._limit = limit
        self._lines: deque[Line] = deque()
        self._size = 0

    def add(self, lines: list[Line]) -> None:
        for line in lines:
            if line.seq is not None:
                self._lines.append(line)
                self._size += len(line.data)
        while self._size > self._limit:
            dropped = self._lines.popleft()
            self._size -= len(dropped.data)
            self.start = dropped.seq or self.start

    def after(self, seq: int) -> list[Line] | None:
        """None where some of them are too old to be here."""
        if seq < self.start:
            return None
        newer = []
        for line in reversed(self._lines):
            if (line.seq or 0) <= seq:
                break
            newer.append(line)
        newer.reverse()
        return newer


class Hub:
    def __init__(self, journal: Journal, tasks: TaskGroup, *, recent_bytes: int) -> None:
        self.journal = journal
        self.tasks = tasks
        self.latest = journal.latest
        """`seq` of the last event published; the journal may be ahead of it for a moment."""
        self.recent = Recent(recent_bytes, self.latest)
        self.subscriptions: set[Subscription] = set()
        self.partials_wanted = False
        self._live: dict[Audience, set[Subscription]] = {}

    def add(self, subscription: Subscription) -> None:
        self.subscriptions.add(subscription)
        self.partials_wanted |= subscription.audience.partials

    def remove(self, subscription: Subscription) -> None:
        self.leave(subscription)
        self.subscriptions.discard(subscription)
        self.partials_wanted = any(one.audience.partials for one in self.subscriptions)

    def join(self, subscription: Subscription) -> None:
        """From the next commit on, `subscription` is delivered to. It must have everything up to `latest`."""
        self._live.setdefault(subscription.audience, set()).add(subscription)

    def leave(self, subscription: Subscription) -> None:
        members = self._live.get(subscription.audience, set())
        members.discard(subscription)
        if not members:
            self._live.pop(subscription.audience, None)

    def publish(self, commits: list[Committed]) -> None:
        """Deliver what the journal has made durable."""
        lines = list(_lines(commits))
        before = self.latest
        self.latest = max((line.seq for line in lines if line.seq is not None), default=before)
        self.recent.add(lines)
        for audience, members in list(self._live.items()):
            pieces = list(cut(lines, audience, before))
            if pieces:
                for subscription in list(members):
                    subscription.deliver(pieces, before)


def _lines(commits: list[Committed]) -> Iterator[Line]:
    for commit, seqs in commits:
        for output, seq in zip(commit.outputs, seqs, strict=True):
            if isinstance(output, Produced):
                body = output.body if seq is None else with_seq(seq, output.body)
                yield Line(seq, meta_of(output.event), body + b"\n")
