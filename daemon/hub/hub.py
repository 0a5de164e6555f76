"""Fan-out: each commit goes to every live subscriber, and every line is encoded and joined once.

Subscribers with the same selection (filter, partials, events or display lines) form a group. A batch is cut into chunks
once per selection, and all members of the group are written the same bytes.

The hub buffers nothing for a single subscriber. One whose socket is full leaves its group and catches up at its own
pace (`subscription.py`), from the newest batches, which the hub retains for all subscribers, or from the journal where
those do not reach back far enough.

What must hold for a subscriber to get each event once, in order:

- Everything here runs in the event loop, and nothing between `recent` and `join` awaits. So no batch is published
  between the last batch a subscriber has taken from memory and its membership.
- `latest` moves only in `publish` and `listen`. The journal may be ahead of it for a moment: a transaction is durable
  before the event loop hears of it. A subscriber that catches up therefore reads the journal up to `latest`, never up
  to the journal's own end, else it would get the events between the two again from `publish`.
- The retained batches have no hole: `recent` is None unless they reach from the cursor to `latest`. A hole appears when
  a shared journal was not listened to for a while (`listen` raises `latest` without a batch).
- `recent` is None as well where retention has deleted events after the cursor: the journal knows the gap to report,
  memory does not.
"""

from __future__ import annotations

from collections import deque
from itertools import takewhile
from typing import Protocol

from anyio.abc import TaskGroup

from tooltap.daemon.hub.batch import Batch, Chunk, Selection
from tooltap.daemon.journal.interface import Committed, Journal

__all__ = ["Hub", "Member"]


class Member(Protocol):
    """What the hub needs of a subscription."""

    @property
    def selection(self) -> Selection: ...

    def deliver(self, chunks: list[Chunk], before: int) -> None:
        """Write what is new after `before`. Must not block."""

    def statistics(self) -> dict[str, object]: ...


class Hub:
    def __init__(self, journal: Journal, tasks: TaskGroup, *, recent_bytes: int) -> None:
        self.journal = journal
        self.tasks = tasks
        self.latest = journal.latest
        """`seq` of the last event published; the journal may be ahead of it for a moment."""
        self.subscriptions: set[Member] = set()
        self.partials_wanted = False
        self._groups: dict[Selection, set[Member]] = {}
        self._recent: deque[Batch] = deque()
        """The newest batches, without a hole between them."""
        self._recent_bytes = 0
        self._recent_limit = recent_bytes

    async def listen(self) -> None:
        """Bring `latest` up to now, before a subscription begins. Raises `JournalError`."""
        self.latest = max(self.latest, await self.journal.listen())

    def add(self, subscription: Member) -> None:
        self.subscriptions.add(subscription)
        self.partials_wanted |= subscription.selection.partials

    def remove(self, subscription: Member) -> None:
        self.leave(subscription)
        self.subscriptions.discard(subscription)
        self.partials_wanted = any(one.selection.partials for one in self.subscriptions)
        if not self.subscriptions:
            self.journal.stop_listening()

    def join(self, subscription: Member) -> None:
        """Deliver everything published from now on, after `latest`, to `subscription`."""
        self._groups.setdefault(subscription.selection, set()).add(subscription)

    def leave(self, subscription: Member) -> None:
        members = self._groups.get(subscription.selection, set())
        members.discard(subscription)
        if not members:
            self._groups.pop(subscription.selection, None)

    def recent(self, cursor: int) -> list[Batch] | None:
        """The batches published after `cursor`; None unless all of them are in memory and no event was deleted."""
        if cursor >= self.latest:
            return []
        recent = self._recent
        if not recent or recent[0].before > cursor or recent[-1].upto < self.latest:
            return None
        if cursor < self.journal.expired:
            return None
        return list(takewhile(lambda batch: batch.upto > cursor, reversed(recent)))[::-1]

    def chunks_after(self, cursor: int, batch: Batch, selection: Selection) -> list[Chunk]:
        """The selected lines of one of the recent batches. Partials are only for live subscribers."""
        before = batch.bytes
        chunks = batch.chunks_after(cursor, selection.without_partials())
        self._recent_bytes += batch.bytes - before
        return chunks

    def publish(self, commits: list[Committed]) -> None:
        """Deliver what the journal has made durable."""
        batch = Batch(commits, self.latest)
        self.latest = batch.upto
        for selection, members in list(self._groups.items()):
            if chunks := batch.chunks(selection):
                for member in list(members):
                    member.deliver(chunks, batch.before)
        if batch.upto > batch.before:
            self._retain(batch)

    def _retain(self, batch: Batch) -> None:
        recent = self._recent
        if recent and recent[-1].upto != batch.before:  # `listen` has skipped what other daemons committed
            recent.clear()
            self._recent_bytes = 0
        recent.append(batch)
        self._recent_bytes += batch.bytes
        while recent and self._recent_bytes > self._recent_limit:
            self._recent_bytes -= recent.popleft().bytes
