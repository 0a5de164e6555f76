"""Live events for subscribers: fan-out, and catching up from the journal. Depends on the journal, not on connections.

Fan-out: each commit goes to every live subscriber, and every line is encoded and joined once.

Subscribers with the same selection (filter, partials, events or display lines) form a group. A batch is cut into chunks
once per selection, and all members of the group are written the same bytes.

A subscription to sessions has all their events: what is stored under earlier ids is read from the journal, and the
selection has the ids under which the sessions go on. When a session gets another id, subscriptions to it follow.

The hub has no buffer per subscriber. A subscriber whose socket is full leaves its group and catches up at its own pace
(`Subscription`): from the newest batches, which the hub retains for all subscribers, or from the journal if those do
not reach back far enough.

Invariants by which each subscriber gets each event exactly once and in order:

- Everything here runs in the event loop, and nothing between `recent` and `join` awaits. So no batch is published
  between the last batch a subscriber has taken from memory and its membership.
- `latest` moves only in `publish` and `listen`. The journal may be ahead of it for a moment: a transaction is durable
  before the event loop learns of it. A subscriber that catches up therefore reads the journal up to `latest`, never up
  to the journal's own end, or else `publish` would send it the events between the two again.
- The retained batches are contiguous: `recent` returns None unless they reach from the cursor to `latest`. A hole
  appears when a shared journal was not listened to for a while (`listen` raises `latest` without a batch).
- `recent` also returns None if retention has deleted events after the cursor: only the journal knows the gap to report.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from typing import NamedTuple, Protocol, cast

import msgspec
from anyio.abc import TaskGroup

from tooltap.daemon.export.ag_ui_live import LiveAgUi
from tooltap.daemon.journal.interface import Committed, Journal, JournalError, StoredEvent
from tooltap.daemon.sessions.stored import SessionEvents
from tooltap.daemon.show.skins.display import CallTimes, display_body
from tooltap.daemon.system.logs import faults, get_logger
from tooltap.daemon.system.loop import Work
from tooltap.normalizers.core.items import OutputChunk, Produced
from tooltap.normalizers.stream.reset import place_of
from tooltap.protocol.events import event_lines, numbered_lines
from tooltap.protocol.filters import Filter
from tooltap.protocol.frames import (
    At,
    DaemonFrame,
    ErrorCode,
    ErrorFrame,
    Form,
    FrameError,
    Gap,
    Live,
    Subscribe,
    Subscribed,
)

CHUNK_BYTES = 65_536
"""Size of a chunk in bytes: it ends with the line that reaches it. Small, so that a client that stops reading is sent
little more than its limit."""


class Chunk(NamedTuple):
    """Joined lines of events, ready to be written, with the events themselves, for receivers that need more than
    bytes."""

    data: bytes
    upto: int
    """Cursor after this chunk: a subscriber that has received it misses no selected event up to this `seq`."""
    events: Sequence[Produced | StoredEvent]
    seqs: Sequence[int | None]
    """`seq` of each event; None for a partial."""


class _Line(NamedTuple):
    seq: int | None
    """`seq` of the event; None for a partial."""
    body: bytes
    """Encoded event, or its display line."""
    event: Produced


class Renamed(NamedTuple):
    earlier: str
    """The id that the session had."""
    session: str


class _Alias(msgspec.Struct):
    alias: str | None = None


class Selection:
    """The selection of a subscriber: filter, with or without partials, events or display lines."""

    def __init__(self, filter: Filter, partials: bool, as_: Form = "events") -> None:  # noqa: A002 -- the frame's word
        self.filter = filter
        self.partials = partials
        self.as_ = as_
        self.is_selective = not filter.matches_all or as_ == "display"
        """True if some events may have no line in this selection."""
        self._key = filter, partials, as_
        self._hash = hash(self._key)  # kept: each batch is looked up by its selections

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Selection) and self._key == other._key)

    def without_partials(self) -> Selection:
        return Selection(self.filter, False, self.as_) if self.partials else self


class Batch:
    """The events of one transaction, contiguous after `before`. `times`: those of calls, to which it adds its own."""

    def __init__(self, commits: Iterable[Committed], before: int, times: CallTimes) -> None:
        self.before = before
        self._times = times
        outputs: list[Produced | OutputChunk] = []
        seqs: list[int | None] = []
        for committed in commits:
            outputs += committed.outputs
            seqs += committed.seqs
        if None in seqs:  # chunks of output bodies are not for subscribers; partials are
            events = [(one, seq) for one, seq in zip(outputs, seqs, strict=True) if isinstance(one, Produced)]
            self._events, self._seqs = [one for one, _ in events], [seq for _, seq in events]
        else:
            self._events, self._seqs = cast("list[Produced]", outputs), seqs
        self.upto = next((seq for seq in reversed(self._seqs) if seq is not None), before)
        self._size = self.bytes = sum([len(event.body) for event in self._events])
        """Memory used: the events and everything encoded from them."""
        self._chunks: dict[Selection, list[Chunk]] = {}
        self._displayed: list[bytes | None] | None = None
        self.renamed: list[Renamed] = []
        """Sessions that have got another id in it."""
        for event in self._events:
            if event.kind == "tool-call":
                times.note(event.head.key, event.ts)
            elif event.kind == "session" and b'"alias":' in event.body:
                alias = msgspec.json.decode(event.body, type=_Alias).alias
                self.renamed += [Renamed(alias, event.session)] if alias else []

    def chunks(self, selection: Selection) -> list[Chunk]:
        """The selected lines, joined to chunks. Cached per selection."""
        chunks = self._chunks.get(selection)
        if chunks is None:
            chunks = self._chunks[selection] = self._join(selection)
            self.bytes += sum([len(chunk.data) for chunk in chunks])
        return chunks

    def chunks_after(self, cursor: int, selection: Selection) -> list[Chunk]:
        """The selected lines after `cursor`, which may lie inside the batch."""
        chunks = self.chunks(selection)
        if cursor <= self.before or any(chunk.upto == cursor for chunk in chunks):
            return [chunk for chunk in chunks if chunk.upto > cursor]
        selected = self._selected(selection)
        return list(_join([one for one in selected if one.seq is not None and one.seq > cursor], cursor))

    def _join(self, selection: Selection) -> list[Chunk]:
        if not self._events:
            return []
        if selection.is_selective or self._size >= CHUNK_BYTES or None in self._seqs:
            return list(_join(self._selected(selection), self.before))
        # Nearly every batch: one chunk of all events.
        lines = numbered_lines(self._seqs, [event.body for event in self._events])
        return [Chunk(lines, self.upto, self._events, self._seqs)]

    def _selected(self, selection: Selection) -> list[_Line]:
        pairs = zip(self._seqs, self._events, strict=True)
        if not selection.is_selective:
            return [_Line(seq, event.body, event) for seq, event in pairs if seq is not None or selection.partials]
        bodies = self._display() if selection.as_ == "display" else [event.body for event in self._events]
        matches = selection.filter.matches
        return [
            _Line(seq, body, event)
            for (seq, event), body in zip(pairs, bodies, strict=True)
            if body is not None and (seq is not None or selection.partials) and matches(event)
        ]

    def _display(self) -> list[bytes | None]:
        """The display line of each event, computed once for all selections; None where there is none."""
        if self._displayed is None:
            self._displayed = [display_of(event.body, self._times) for event in self._events]
            self.bytes += sum([len(body) for body in self._displayed if body is not None])
        return self._displayed


def display_of(body: bytes, times: CallTimes) -> bytes | None:
    """The display line of an event; None if it has none, or it cannot be made (logged)."""
    try:
        return display_body(body, times)
    except Exception as error:
        faults.note("an event has no display line", place_of(error), error)
        return None


def _join(lines: list[_Line], after: int) -> Iterator[Chunk]:
    start = size = 0
    for end, (seq, body, _) in enumerate(lines, 1):
        after = after if seq is None else seq
        size += len(body)
        if size >= CHUNK_BYTES or end == len(lines):
            part = lines[start:end]
            data = event_lines([(one.seq, one.body) for one in part])
            yield Chunk(data, after, [one.event for one in part], [one.seq for one in part])
            start, size = end, 0


RECENT_BYTES = 2 * 1024 * 1024
"""Most bytes of recent events retained in memory for subscribers; older ones are read from the journal."""


class Hub:
    def __init__(self, journal: Journal, tasks: TaskGroup, *, recent_bytes: int = RECENT_BYTES) -> None:
        self.journal = journal
        self.tasks = tasks
        self.latest = journal.latest
        """`seq` of the last published event; the journal may be ahead of it for a moment."""
        self.subscriptions: set[Subscription] = set()
        self.partials_wanted = False
        self.call_times = CallTimes()
        self._groups: dict[Selection, set[Subscription]] = {}
        self._recent: deque[Batch] = deque()
        """The newest batches, contiguous."""
        self._recent_bytes = 0
        self._recent_limit = recent_bytes
        self._knows_open_calls = False
        self._delivering = Work("delivery of events", "", lambda: f"after {self.latest}")

    async def listen(self) -> None:
        """Bring `latest` up to date before a subscription begins. Raises `JournalError`."""
        latest = await self.journal.listen()  # meanwhile, another journal may have begun: see `restart`
        self.latest = max(self.latest, latest)
        if not self._knows_open_calls:  # they began before the daemon did
            self._knows_open_calls = True
            for call in (await self.journal.open_calls())["calls"]:
                self.call_times.note((call["stream"], call["callId"]), call.get("ts"))

    def add(self, subscription: Subscription) -> None:
        self.subscriptions.add(subscription)
        self.partials_wanted |= subscription.selection.partials

    async def subscription(
        self, connection: Subscriber, frame: Subscribe, *, at_interval: float, read_bytes: int
    ) -> Subscription:
        """Make a subscription, which is to be started at once. The sessions of its filter are looked up: it has their
        events under all ids. Raises `FrameError` and `JournalError`."""
        await self.listen()
        stored: SessionEvents | None = None
        published: list[Batch] | None = None
        while frame.filter.session is not None and published is None:
            latest = self.latest
            stored = await SessionEvents.of(self.journal, frame.filter.session)
            published = self.recent(latest)  # None: so much that it is not in memory, and they are looked up again
        made = Subscription(self, connection, frame, stored, at_interval=at_interval, read_bytes=read_bytes)
        for batch in published or ():
            self._rename(batch, made)
        return made

    def remove(self, subscription: Subscription) -> None:
        self.leave(subscription)
        self.subscriptions.discard(subscription)
        self.partials_wanted = any(one.selection.partials for one in self.subscriptions)
        if not self.subscriptions:
            self.journal.stop_listening()

    def join(self, subscription: Subscription) -> None:
        """Deliver everything published from now on, after `latest`, to `subscription`."""
        self._groups.setdefault(subscription.selection, set()).add(subscription)

    def leave(self, subscription: Subscription) -> None:
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
        """Restart every subscription at the oldest event: the journal was replaced."""
        self.latest = self.journal.latest
        self._forget_recent()
        for subscription in list(self.subscriptions):
            _do(subscription, subscription.restart)

    def skip(self, upto: int) -> None:
        """Advance past events that will not be published: live subscriptions continue from the journal, which reports
        why."""
        for subscription in list(self.subscriptions):
            _do(subscription, subscription.interrupt)
        self._forget_recent()
        self.latest = max(self.latest, upto)

    def publish(self, commits: list[Committed]) -> None:
        """Deliver durable commits to live subscribers. An error of one subscriber or selection does not affect others.
        Nothing raises once `latest` has changed: exactly those subscribers that got nothing read the journal from
        `before`."""
        before = self.latest
        groups = self._members()
        try:
            batch = Batch(commits, before, self.call_times)
        except Exception as error:
            faults.note("a batch is read from the journal", place_of(error), error)
            self.latest = max([before, *(seq for one in commits for seq in one.seqs if seq is not None)])
            for _, members in groups:
                _fall_behind(members, before)
            return
        self.latest = batch.upto
        if batch.renamed:
            for subscription in list(self.subscriptions):
                _do(subscription, partial(self._rename, batch, subscription))
            groups = self._members()
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

    def _members(self) -> list[tuple[Selection, list[Subscription]]]:
        return [(selection, list(members)) for selection, members in self._groups.items()]

    def _rename(self, batch: Batch, subscription: Subscription) -> None:
        for renamed in batch.renamed:
            subscription.rename(renamed, batch.before)

    def _deliver(self, batch: Batch, selection: Selection, members: list[Subscription]) -> None:
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


def _fall_behind(members: list[Subscription], cursor: int) -> None:
    for member in members:
        _do(member, partial(member.fall_behind, cursor))


def _do(member: Subscription, work: Callable[[], None]) -> None:
    """Call a method of a subscription. An error ends only this subscription."""
    try:
        work()
    except Exception as error:
        _fail(member, error)


def _fail(member: Subscription, error: Exception) -> None:
    try:
        member.fail(error)
    except Exception as again:
        faults.note("ending a subscription took two attempts", place_of(again), again)
        member.fail(error)


# -- one subscriber ---------------------------------------------------------------------------------------------------

_log = get_logger("subscription")

_CURSOR = re.compile(r"(?P<journal>.+):(?P<seq>[0-9]{1,19})")


class Subscriber(Protocol):
    """The interface of the connection to which a subscription writes."""

    @property
    def writable(self) -> bool: ...
    @property
    def closed(self) -> bool: ...
    @property
    def ended(self) -> bool: ...
    @property
    def bytes_written(self) -> int: ...

    def deliver(self, chunk: Chunk) -> None: ...
    def send(self, frame: DaemonFrame) -> None: ...
    async def drain(self) -> None: ...
    def close(self) -> None: ...


AT_INTERVAL = 5.0
"""Seconds after which an idle filtered subscription gets an `at` frame."""
SUBSCRIBER_BYTES = 65_536
"""Most bytes written to a client that it has not read. Beyond this, a subscription is behind: it catches up at its own
pace."""


class Subscription:
    """One subscription: replay from the journal, then live, and back to the journal when its client does not keep up.

    A subscription is in one of two states:

    - Behind: it has a task, and is in no group of the hub. The task waits until the client has read what it was sent,
      then sends the next part: from the journal until the cursor is within the batches that the hub retains, then from
      those.
    - Live: it is a member of a group and has no task. The hub calls `deliver`.

    `cursor` is the `seq` up to which the client has been sent everything it selected. Each event reaches the client
    once and in order, because of how the states change:

    - Behind to live: `_follow` takes the retained batches and joins the group without awaiting, so that no batch is
      published in between.
    - Live to behind: `deliver` writes whole chunks. When the connection is full before a chunk, the cursor is the end
      of the chunk before it, and the task starts from there.
    - The task reads the journal up to `hub.latest` only: later events are published to the groups soon.

    Partials are not journaled. They reach live subscribers, and are dropped when the connection is full.

    A journal on a server may be replaced by another one: see `restart`.

    Retention may delete events that a subscription has not reached. After every read, `journal.last_expired` is
    compared with the cursor, and a `gap` precedes the events that were read. The order matters: retention may run
    during the read.

    Damaged events are left out by the journal, which lists them in `corrupt`. They are replaced by a `gap`.

    Raises `FrameError` for a cursor that cannot be read.
    """

    def __init__(
        self,
        hub: Hub,
        connection: Subscriber,
        frame: Subscribe,
        stored: SessionEvents | None = None,
        *,
        at_interval: float,
        read_bytes: int,
    ) -> None:
        self.cursor, self._first_gap = _begin(hub, frame.after)
        self._after, self._as = self.cursor, frame.as_
        self._stored = stored
        self._last_earlier = 0 if stored is None else stored.last_earlier
        """`seq` up to which events of the sessions may be stored under ids that are not in the selection."""
        if frame.as_ == "ag-ui":
            self.selection = Selection(_of_sessions(_of_one_session(frame.filter), stored), frame.partials)
            connection = _AgUiConnection(connection, self.cursor)
            self.cursor = hub.journal.oldest - 1  # what a run is depends on all before it
        else:
            self.selection = Selection(_of_sessions(frame.filter, stored), frame.partials, frame.as_)
        self.behind = True
        self.journal_reads = 0
        self.journal_events = 0
        self._hub = hub
        self._connection = connection
        self._end = None if frame.follow else hub.latest
        self._times = CallTimes(hub.call_times)
        self._gone = hub.journal.last_expired
        """`seq` up to which the client has been told that retention may have deleted events."""
        self._greeted = False
        self._restarts = 0
        self._read_bytes = read_bytes
        self._at_interval = at_interval
        self._loop = asyncio.get_running_loop()
        self._written_at = self._loop.time()
        self._timer = self._loop.call_later(at_interval, self._tick)

    def start(self) -> None:
        """Confirm the subscription and begin the replay."""
        self._confirm(self._after, self._first_gap)
        self._hub.add(self)
        self.fall_behind(self.cursor)

    def restart(self) -> None:
        """Begin again with the oldest event, after the journal was replaced. The client gets a new `subscribed` frame,
        and a gap."""
        journal = self._hub.journal
        self.cursor = journal.oldest - 1
        self._gone = journal.last_expired
        self._last_earlier = 0
        self._end = None if self._end is None else self._hub.latest
        self._greeted = False
        self._restarts += 1
        self._confirm(self.cursor, Gap(from_=1, to=self.cursor, reason="reset"))
        if not self.behind:
            self.fall_behind(self.cursor)

    def rename(self, renamed: Renamed, before: int) -> None:
        """Add the new id of a session to the selection, if it has the earlier one. `before`: the `seq` after which the
        session may have events under the new id."""
        names = self.selection.filter.session
        if names is None or renamed.earlier not in names or renamed.session in names:
            return
        self._hub.leave(self)
        wanted = msgspec.structs.replace(self.selection.filter, session=(*names, renamed.session))
        self.selection = Selection(wanted, self.selection.partials, self.selection.as_)
        if not self.behind:
            self.fall_behind(before)

    def interrupt(self) -> None:
        """Continue from the journal, if the subscription is live."""
        if not self.behind:
            self.fall_behind(self._hub.latest)

    def _confirm(self, after: int, gap: Gap | None) -> None:
        hub, journal = self._hub, self._hub.journal
        self._connection.send(Subscribed(after=after, journal=journal.id, oldest=journal.oldest, latest=hub.latest))
        if gap is not None:
            self._connection.send(gap)

    @property
    def position(self) -> int:
        return self.cursor if self.behind else self._hub.latest

    def statistics(self) -> dict[str, object]:
        return {
            "after": self.position,
            "behind": self.behind,
            "filter": msgspec.to_builtins(self.selection.filter),
            "partials": self.selection.partials,
            "as": self._as,
            "bytesWritten": self._connection.bytes_written,
            "journalReads": self.journal_reads,
            "journalEvents": self.journal_events,
        }

    def deliver(self, chunks: list[Chunk], before: int) -> None:
        """Write the chunks, which follow `before`; fall behind if the connection is full."""
        self._written_at = self._loop.time()
        for chunk in chunks:
            if self._connection.writable:
                self._connection.deliver(chunk)
            elif chunk.upto > before:
                self.fall_behind(before)
                return
            before = chunk.upto  # a full connection drops a chunk that has nothing but partials

    def close(self) -> None:
        self._timer.cancel()
        self._hub.remove(self)

    def fail(self, error: Exception) -> None:
        """End with an internal error; the client may subscribe again."""
        faults.note("a subscription failed", place_of(error), error)
        self._fail("internal", "the subscription failed; the daemon's log says why")

    def fall_behind(self, cursor: int) -> None:
        """Leave the live group, and send the events after `cursor` from the journal."""
        self.behind = True
        self.cursor = cursor
        self._hub.leave(self)
        self._hub.tasks.start_soon(self._catch_up)

    async def _catch_up(self) -> None:
        try:
            while self.behind and not self._connection.closed:
                await self._connection.drain()
                if self._end is None:
                    await self._follow()
                elif self.cursor < self._end:
                    await self._read(self._end)
                else:
                    self._connection.send(Live(seq=self.cursor))
                    self._connection.close()
                    return
        except JournalError as error:
            _log.error("cannot read the journal", error=str(error))
            self._fail("journal", str(error))
        except Exception as error:
            self.fail(error)

    def _fail(self, code: ErrorCode, message: str) -> None:
        """Send an error frame, if possible, and close the connection in any case."""
        try:
            self._connection.send(ErrorFrame(code=code, message=message))
        except Exception as error:
            faults.note("could not tell a subscriber why its subscription ended", place_of(error), error)
        self._connection.close()

    async def _follow(self) -> None:
        """Take one step towards `hub.latest`; become live when it is reached."""
        hub, connection = self._hub, self._connection
        batches = None if self.cursor < self._last_earlier else hub.recent(self.cursor)
        if batches is None:
            await self._read(hub.latest)
            return
        # Nothing below awaits, so nothing is published before this returns.
        for batch in batches:
            for chunk in hub.chunks_after(self.cursor, batch, self.selection):
                if not connection.writable:
                    return
                self._write(chunk)
                self.cursor = chunk.upto
            self.cursor = batch.upto
        if not connection.writable:
            return
        self.behind = False
        self._times = CallTimes(hub.call_times)
        hub.join(self)
        if not self._greeted:
            self._greeted = True
            connection.send(Live(seq=hub.latest))

    async def _read(self, up_to: int) -> None:
        """Read the next part of the journal and send it."""
        journal = self._hub.journal
        wanted = self.selection.filter
        restarts = self._restarts
        source: Journal | SessionEvents = journal
        if self._stored is not None and self.cursor < self._last_earlier:
            source, up_to = self._stored, min(up_to, self._last_earlier)
        events, searched = await source.read(self.cursor, wanted, up_to=up_to, max_bytes=self._read_bytes)
        self.journal_reads += 1
        self.journal_events += len(events)
        if self._restarts != restarts:
            return  # what was read is of a journal that is gone
        if max(self.cursor, self._gone) < journal.last_expired:
            # Retention has overtaken the subscriber, and may have deleted events it selected.
            first = max(self.cursor, self._gone) + 1
            self._gone = journal.last_expired
            self._connection.send(Gap(from_=first, to=self._gone, reason="retention"))
        damaged = journal.corrupt.within(self.cursor + 1, searched) if journal.corrupt else ()
        self.cursor = searched
        for first, last in damaged:
            before = bisect_left(events, first, key=lambda event: event.seq)
            self._send_events(events[:before])
            events = events[before:]
            self._connection.send(Gap(from_=first, to=last, reason="corrupt"))
        self._send_events(events)

    def _send_events(self, events: list[StoredEvent]) -> None:
        if lines := _lines(events, self.selection.as_, self._times):
            self._write(Chunk(lines, self.cursor, events, [event.seq for event in events]))

    def _write(self, chunk: Chunk) -> None:
        self._written_at = self._loop.time()
        self._connection.deliver(chunk)

    def _tick(self) -> None:
        """Send an idle subscriber its position. Writing also detects a client that half-closed and then
        disconnected."""
        idle = self._loop.time() - self._written_at
        if idle >= self._at_interval:
            if self._connection.writable and (self.selection.is_selective or self._connection.ended):
                self._connection.send(At(seq=self.position))
            self._written_at = self._loop.time()
            idle = 0
        self._timer = self._loop.call_later(self._at_interval - idle, self._tick)


class _AgUiConnection:
    """Stands between a subscription and its connection, and writes AG-UI events instead of events. They depend on what
    this subscriber has got, so they are not shared as lines are."""

    def __init__(self, connection: Subscriber, after: int) -> None:
        self._connection = connection
        self._after = after
        self._session = LiveAgUi(after)

    @property
    def writable(self) -> bool:
        return self._connection.writable

    @property
    def closed(self) -> bool:
        return self._connection.closed

    @property
    def ended(self) -> bool:
        return self._connection.ended

    @property
    def bytes_written(self) -> int:
        return self._connection.bytes_written

    def deliver(self, chunk: Chunk) -> None:
        self._write(self._session.read(chunk.events, chunk.seqs), chunk.upto)

    def send(self, frame: DaemonFrame) -> None:
        if isinstance(frame, Gap):
            self._write(self._session.gap(frame).encode(), frame.to)
            self._after = 0 if frame.reason == "reset" else self._after
        elif isinstance(frame, Live | At):
            self._write(self._session.reach(frame.seq).encode(), frame.seq)
            if isinstance(frame, At) and frame.seq < self._after:
                return  # reads what the client has
        self._connection.send(frame)

    def _write(self, lines: bytes, upto: int) -> None:
        if lines:
            self._connection.deliver(Chunk(lines, upto, (), ()))

    async def drain(self) -> None:
        await self._connection.drain()

    def close(self) -> None:
        self._connection.close()


def _of_one_session(wanted: Filter) -> Filter:
    """Return a filter if it is one that AG-UI events can be made of. Raises `FrameError`."""
    if wanted.session is None or len(wanted.session) != 1 or wanted != Filter(session=wanted.session):
        raise FrameError("bad-frame", 'subscribe: with "as": "ag-ui", `filter` names one session and nothing else')
    return wanted


def _of_sessions(wanted: Filter, stored: SessionEvents | None) -> Filter:
    """Return a filter with the ids under which its sessions go on."""
    if wanted.session is None or stored is None:
        return wanted
    return msgspec.structs.replace(wanted, session=tuple(dict.fromkeys((*wanted.session, *stored.present_ids))))


def _lines(events: list[StoredEvent], as_: Form, times: CallTimes) -> bytes:
    if as_ == "display":
        shown = [(event.seq, display_of(event.body, times)) for event in events]
        return event_lines([(seq, body) for seq, body in shown if body is not None])
    return event_lines(events)


def _begin(hub: Hub, after: str | int) -> tuple[int, Gap | None]:
    """The cursor a subscription begins with, and the gap before it. Raises `FrameError`."""
    journal = hub.journal
    if after == "start":
        return journal.oldest - 1, None
    if after == "now":
        return hub.latest, None
    name, seq = journal.id, after
    if isinstance(seq, str):
        cursor = _CURSOR.fullmatch(seq)
        if cursor is None:
            raise FrameError("bad-frame", 'subscribe: `after` is "start", "now", a seq or "<journal>:<seq>"')
        name, seq = cursor["journal"], int(cursor["seq"])
    if name != journal.id or seq > journal.latest:
        first = journal.oldest - 1
        return first, Gap(from_=1, to=first, reason="reset")
    if seq < journal.last_expired:
        return seq, Gap(from_=seq + 1, to=journal.last_expired, reason="retention")
    return seq, None
