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
  before the event loop learns of it. A subscriber that catches up therefore reads the journal up to `latest`, never up
  to the journal's own end, or else `publish` would send it the events between the two again.
- The retained batches have no hole: `recent` is None unless they reach from the cursor to `latest`. A hole appears when
  a shared journal was not listened to for a while (`listen` raises `latest` without a batch).
- `recent` is None as well where retention has deleted events after the cursor: the journal knows the gap to report,
  memory does not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import takewhile
from typing import Protocol

from anyio.abc import TaskGroup

from tooltap.daemon.hub.batch import Batch, Chunk, Selection
from tooltap.daemon.journal.interface import Committed, Journal
from tooltap.daemon.system.logs import faults
from tooltap.daemon.system.loop.watchdog import Work
from tooltap.normalizers.stream.guard import place_of

__all__ = ["Hub", "Member"]


class Member(Protocol):
    """What the hub needs of a subscription."""

    @property
    def selection(self) -> Selection: ...

    def deliver(self, chunks: list[Chunk], before: int) -> None:
        """Write what is new after `before`. Must not block."""

    def restart(self) -> None:
        """Begin with the oldest event of the journal, which was replaced."""

    def interrupt(self) -> None:
        """Continue from the journal."""

    def fall_behind(self, cursor: int) -> None:
        """Read what is after `cursor` from the journal."""

    def fail(self, error: Exception) -> None:
        """End because of an internal error."""

    def statistics(self) -> dict[str, object]: ...


RECENT_BYTES = 2 * 1024 * 1024
"""Bytes of the newest events that are held in memory for subscribers; older ones are read from the journal."""


class Hub:
    def __init__(self, journal: Journal, tasks: TaskGroup, *, recent_bytes: int = RECENT_BYTES) -> None:
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
        self._delivering = Work("delivery of events", "", lambda: f"after {self.latest}")

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
        if cursor < self.journal.last_expired:
            return None
        return list(takewhile(lambda batch: batch.upto > cursor, reversed(recent)))[::-1]

    def chunks_after(self, cursor: int, batch: Batch, selection: Selection) -> list[Chunk]:
        """The selected lines of one of the recent batches. Partials are only for live subscribers."""
        before = batch.bytes
        chunks = batch.chunks_after(cursor, selection.without_partials())
        self._recent_bytes += batch.bytes - before
        return chunks

    def restart(self) -> None:
        """The journal was replaced: every subscription begins with its oldest event."""
        self.latest = self.journal.latest
        self._forget_recent()
        for subscription in list(self.subscriptions):
            _do(subscription, subscription.restart)

    def skip(self, upto: int) -> None:
        """Events up to here are not published: subscriptions find out in the journal why."""
        for subscription in list(self.subscriptions):
            _do(subscription, subscription.interrupt)
        self._forget_recent()
        self.latest = max(self.latest, upto)

    def publish(self, commits: list[Committed]) -> None:
        """Deliver what the journal has made durable. What goes wrong for one subscriber or selection concerns no
        other. Nothing raises here once `latest` has changed: who was not delivered to reads the journal from `before`,
        and nobody else does."""
        before = self.latest
        groups = [(selection, list(members)) for selection, members in self._groups.items()]
        try:
            batch = Batch(commits, before)
        except Exception as error:
            faults.note("a batch is read from the journal", place_of(error), error)
            self.latest = max([before, *(seq for one in commits for seq in one.seqs if seq is not None)])
            for _, members in groups:
                _fall_behind(members, before)
            return
        self.latest = batch.upto
        done = 0
        try:
            with self._delivering:
                for selection, members in groups:
                    self._deliver(batch, selection, members)
                    done += 1
        except Exception as error:
            faults.note("subscribers read from the journal", place_of(error), error)
            for _, members in groups[done:]:
                _fall_behind(members, before)
        try:
            if batch.upto > batch.before:
                self._retain(batch)
        except Exception as error:
            faults.note("subscribers that are behind read from the journal", place_of(error), error)
            self._forget_recent()

    def _deliver(self, batch: Batch, selection: Selection, members: list[Member]) -> None:
        try:
            chunks = batch.chunks(selection)
        except Exception as error:
            faults.note("subscribers read from the journal", place_of(error), error)
            _fall_behind(members, batch.before)
            return
        for member in members if chunks else ():
            try:
                member.deliver(chunks, batch.before)
            except Exception as error:
                _fail(member, error)

    def _retain(self, batch: Batch) -> None:
        recent = self._recent
        if recent and recent[-1].upto != batch.before:  # `listen` has skipped what other daemons committed
            self._forget_recent()
        recent.append(batch)
        self._recent_bytes += batch.bytes
        while recent and self._recent_bytes > self._recent_limit:
            self._recent_bytes -= recent.popleft().bytes

    def _forget_recent(self) -> None:
        self._recent.clear()
        self._recent_bytes = 0


def _fall_behind(members: list[Member], cursor: int) -> None:
    for member in members:
        _do(member, partial(member.fall_behind, cursor))


def _do(member: Member, work: Callable[[], None]) -> None:
    """What goes wrong for one subscriber ends that one."""
    try:
        work()
    except Exception as error:
        _fail(member, error)


def _fail(member: Member, error: Exception) -> None:
    try:
        member.fail(error)
    except Exception as again:
        faults.note("ending a subscription took two attempts", place_of(again), again)
        member.fail(error)
