"""The journal on NATS JetStream, shared by any number of daemons on any number of hosts.

One message is one commit of one stream, on the stream's own subject. The last message of the subject is the stream's
position; nothing else has to be kept consistent with it. Rows (`state.py`) are hints, which are caught up from
messages. After any failure to commit, the stream's row is dropped: it may lack a commit that was stored after all. The
next load reads it from the messages.

Publishing. A daemon learns of commits, including its own, from one feed that runs while there are subscribers; a daemon
that only publishes costs the server no consumer. Partials are not stored. So a daemon retains its own commits until
they come back in the feed (`_own`), and publishes those with their partials.

`commits.py` stores a commit exactly once, `message.py` is the format, `log.py` and `read.py` read it, `link.py` is what
JetStream is asked, `connection.py` and `client.py` the connection, `identity.py` finds out whether it is still the same
journal.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Self

import anyio

from tooltap.daemon.journal.gaps import Gaps
from tooltap.daemon.journal.interface import (
    REMEMBER_STREAMS_MS,
    Commit,
    Committed,
    JournalError,
    StoredStream,
    StreamInfo,
    drop_fields,
)
from tooltap.daemon.journal.nats.commits import Commits
from tooltap.daemon.journal.nats.feed import Feed
from tooltap.daemon.journal.nats.identity import Identity
from tooltap.daemon.journal.nats.link import AwayError, Link, StoredMessage
from tooltap.daemon.journal.nats.load import advance, load
from tooltap.daemon.journal.nats.memory import Memory
from tooltap.daemon.journal.nats.message import (
    CommitPart,
    encode_commit,
    end_of,
    events_of,
)
from tooltap.daemon.journal.nats.place import NatsPlace
from tooltap.daemon.journal.nats.reading import Reading
from tooltap.daemon.journal.nats.repair import CatchUp, make_rows
from tooltap.daemon.journal.nats.retention import Retention
from tooltap.daemon.journal.nats.rows import Row, read_event
from tooltap.daemon.journal.nats.state import OwnRow, State
from tooltap.daemon.system.clock import Clock, wall_clock
from tooltap.daemon.system.failpoints import failpoint
from tooltap.daemon.system.logs import faults, get_logger
from tooltap.normalizers.core.items import OutputChunk, Produced
from tooltap.protocol.replies import StreamState

__all__ = ["NatsJournal"]

MESSAGE_BYTES = 1_048_576
"""Longest message, if the server's `max_payload` allows it. A read returns whole messages."""
BODY_BYTES = 65_536
"""A commit with longer bodies is encoded in a thread: they are compressed."""
STREAMS_IN_MEMORY = 4_096
CLOSING_LEASE, RETENTION_LEASE = 5, 300
"""Seconds for which one daemon alone closes abandoned streams, or deletes old events."""
CHECK_PERIOD = 5.0
"""Seconds after which a daemon looks whether the server still has the same journal. Most changes are noticed earlier:
by a commit, a subscription, or a new connection."""
CLOSE_TIMEOUT = 0.3
"""Seconds that the last rows may take when the daemon ends."""

_log = get_logger("journal")


class NatsJournal(Reading):
    """Created by `open`."""

    def __init__(self, link: Link, clock: Clock, memory: Memory) -> None:
        daemon = secrets.token_hex(6)
        super().__init__(link, State(link, daemon))
        self.daemon = daemon
        self._clock = clock
        self._identity = Identity(link, self._log, self._state, memory, daemon)
        self._writer = Commits(link, self._log, daemon)
        self._retention = Retention(link, self._log, self._state, self.load_stream)
        self._catch_up = CatchUp(link, self._log, self._state)
        self._feed: Feed | None = None
        self._own: dict[str, Commit] = {}
        """Commit id -> a commit that the feed has not brought back yet."""
        self._states: dict[str, StreamState] = {}
        """Of the streams this daemon has committed to: all that have not ended, and some that have."""
        self._resets = 0
        self._looked = 0
        """Number of the connection on which holes were looked for."""
        self._tasks: list[asyncio.Task[None]] = []
        self._repairing: asyncio.Task[None] | None = None
        self._checking = asyncio.Lock()

    @classmethod
    async def open(cls, place: NatsPlace, *, clock: Clock = wall_clock, memory: Path | None = None) -> Self:
        """Connect, and create the journal if it does not exist. `memory`: a folder in which this host remembers which
        journals it has seen. Raises `JournalError`, one sentence for the user."""
        link = await Link.open(place)
        try:
            journal = cls(link, clock, Memory(memory))
            await link.retry(journal._check, timeout=place.options.connect_timeout)
        except BaseException:
            await link.close()
            raise
        link.on_doubt = journal._check
        journal._tasks = [asyncio.create_task(work) for work in (journal._state.run(), journal._watch())]
        return journal

    @property
    def problem(self) -> str:
        return self._link.waits_for or self._writer.refusal

    def statistics(self) -> dict[str, int]:
        found = {"corrupt": self.corrupt.events, "damages": self._damages, "resets": self._resets}
        return {**super().statistics(), "bytes": self._bytes, "connected": int(self._link.connected), **found}

    def hurry(self) -> None:
        self._link.hurry()

    async def close(self) -> None:
        if not self._tasks:
            return
        self.stop_listening()
        for task in (*self._tasks, *([] if self._repairing is None else [self._repairing])):
            task.cancel()
        self._tasks = []
        with anyio.CancelScope(shield=True):
            try:
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    await self._state.write()
                    await self._state.withdraw()
            except (TimeoutError, AwayError, JournalError):  # rows are hints
                pass
            await self._identity.remember()
            await self._link.close()

    # -- which journal it is -------------------------------------------------------------------------------------

    async def _check(self) -> None:
        """Find out whether the server still has this journal; if not, begin with the one that it has. Raises
        `AwayError`, `JournalError`."""
        async with self._checking:
            identity = self._identity
            await identity.check()
            if identity.rows_are_others:
                self._state.reread(drop_changes=self.id != identity.id)
                self._rows.clear()
            was = self.id
            if was in ("", identity.id):
                if self._looked != self._link.connections:  # a server drops messages when it starts
                    self._looked, self._holes = self._link.connections, -1
                await self._refresh()
            else:
                await self._begin_again()
            self.id = identity.id
            identity.rows_are_others = False
            if identity.rows_are_lost and (self._repairing is None or self._repairing.done()):
                identity.rows_are_lost = False
                self._repairing = asyncio.create_task(self._repair())
            if was not in ("", identity.id):
                _log.warning("the journal was replaced", journal=str(self._link.place), was=was, id=self.id)
                self.on_reset()

    async def _begin_again(self) -> None:
        """Forget everything about the journal that was there before."""
        state = (await self._link.api(f"STREAM.INFO.{self._log.stream}"))["state"]
        expired = await self._state.expired()
        # Nothing below awaits: whoever reads meanwhile gets all of one journal or all of the other.
        self._link.journals += 1
        self._resets += 1
        self._writer.replaced()
        self._outputs.forget()
        self._rows.clear()
        self._states.clear()
        self._own.clear()
        self._oldest, self._latest, self._last_expired, self._holes = 1, 0, 0, -1
        self.corrupt = Gaps()
        last = self._take_range(state, expired)
        if self._feed is not None:
            self._feed.stop()
            self._feed = self._new_feed(last)

    async def _repair(self) -> None:
        try:
            made = await make_rows(self._link, self._log, self._state)
        except JournalError as error:
            _log.warning("cannot rebuild the journal's list of sessions", reason=str(error))
            self._identity.rows_are_lost = True
        else:
            self._state.reread(drop_changes=False)
            _log.info("rebuilt the journal's list of sessions", streams=made)

    async def _watch(self) -> None:
        """Look regularly whether it is still the same journal, until cancelled."""
        came_back = self._link.came_back
        while True:
            came_back.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(came_back.wait(), CHECK_PERIOD)
            try:
                await self._check()
                await self._catch_up.look()
            except AwayError:
                continue
            except JournalError as error:
                _log.warning("cannot examine the journal", reason=str(error))

    # -- writing ------------------------------------------------------------------------------------------------

    async def commit(self, commit: Commit) -> None:
        stream = commit.info.stream
        row = await self._row_of(commit)
        self._commits += 1
        self._transactions += 1
        commit_id = f"{self.daemon}/{self._commits}"
        restarts = commit.snapshot is not None or not row.row.since
        parts = await self._encoded(commit, commit_id, 0 if restarts else row.row.since)
        if self._feed is not None and len(parts) == 1:
            self._own[commit_id] = commit
        journals = self._link.journals
        failpoint("before-commit")
        try:
            last = await self._writer.store(commit, parts)
        except BaseException:
            self._own.pop(commit_id, None)
            self._states.pop(stream, None)
            if self._rows.get(stream) is row:
                del self._rows[stream]
                self._state.drop(stream)
            raise
        failpoint("after-commit")
        self._count(commit.info)
        if self._link.journals == journals:
            self._apply(row, commit, last - len(parts) + 1, parts)
        self._identity.learn(last, commit_id)
        self._latest = max(self._latest, end_of(last))

    async def _encoded(self, commit: Commit, commit_id: str, since: int) -> list[CommitPart]:
        limit = min(MESSAGE_BYTES, self._link.max_payload)
        if sum(len(one.data) for one in commit.outputs if isinstance(one, OutputChunk)) > BODY_BYTES:
            return await asyncio.to_thread(encode_commit, commit, commit_id, since, limit)
        return encode_commit(commit, commit_id, since, limit)

    def _count(self, info: StreamInfo) -> None:
        """Remember the stream's state. Of too many, an ended stream is forgotten."""
        self._states.pop(info.stream, None)
        self._states[info.stream] = info.state
        if len(self._states) > STREAMS_IN_MEMORY and info.state == "ended":
            del self._states[info.stream]

    async def _row_of(self, commit: Commit) -> OwnRow:
        info = commit.info
        stream = info.stream
        row = self._rows.get(stream)
        if row is None or row.is_lost:
            self._rows.pop(stream, None)
            if info.position or commit.base_lines or self._writer.has(stream, 0):
                await self.load_stream(stream)
            row = self._rows.get(stream) or OwnRow(Row(info=info))
        self._rows[stream] = row
        self._rows.move_to_end(stream)
        if len(self._rows) > STREAMS_IN_MEMORY:
            self._rows.popitem(last=False)
        return row

    def _apply(self, own: OwnRow, commit: Commit, first: int, parts: list[CommitPart]) -> None:
        """Bring the row up to a commit that was stored from message `first` on."""
        produced = [one for one in commit.outputs if isinstance(one, Produced) and not one.partial]
        seqs = [stored.seq for index, part in enumerate(parts) for stored in events_of(first + index, part.events)]
        self._events += len(seqs)
        if own.row.message < first:  # else it was loaded after the commit was stored
            own.projection.apply(commit.info.stream, zip(seqs, produced, strict=True))
            advance(own, first, parts[-1], commit.info)
        drop_fields(commit.outputs)
        self._state.change(own)

    async def load_stream(self, stream: str) -> StoredStream | None:
        loaded = await load(self._link, self._log, self._state, stream)
        if loaded is None:
            return None
        self._rows[stream] = loaded.own
        self._writer.loaded(loaded.stored.info)
        if loaded.advanced:
            self._state.change(loaded.own)
        return loaded.stored

    async def count_streams(self, *states: StreamState) -> int:
        """Of the streams this daemon has committed to: other daemons have their own limit."""
        return sum(state in states for state in self._states.values())

    async def suspend_all(self) -> int:
        """Nothing to write: the other daemons notice when a daemon is gone. But it may have left its rows behind."""
        await self._catch_up.at_start()
        return 0

    async def abandoned(self, before: int) -> list[str]:
        own = [one.row.info for one in self._rows.values()]
        left = set[str]()
        for stream in [one.stream for one in own if one.state != "ended" and one.updated <= before]:
            if await self._link.retry(self._is_own, stream):
                left.add(stream)
        if await self._link.retry(self._state.take_lease, "closing", CLOSING_LEASE):
            rows = await self._link.retry(self._state.rows)
            left |= {row.info.stream for row in rows if row.info.state == "suspended" and row.info.updated <= before}
        return sorted(left)

    async def _is_own(self, stream: str) -> bool:
        """Whether this daemon was the last to commit to the stream."""
        last = await self._log.last(stream)
        part = None if last is None else self._log.part(last)
        return part is not None and part.commit.startswith(f"{self.daemon}/")

    async def store_note(self, name: str, data: bytes) -> None:
        await self._link.retry(self._state.put_note, name, data)

    async def expire(self, before: int, max_bytes: int | None = None) -> int:
        forget_before = min(before, self._clock() - REMEMBER_STREAMS_MS)

        async def expire_with_lease() -> int:
            if not await self._state.take_lease("retention", RETENTION_LEASE):
                return 0
            return await self._retention.expire(before, forget_before, max_bytes)

        expired = await self._link.retry(expire_with_lease)
        await self._link.retry(self._refresh)
        return expired

    async def remove_session(self, session: str) -> int:
        removed = await self._link.retry(self._retention.remove_session, session)
        await self._link.retry(self._refresh)
        return removed

    # -- the commits of all daemons ------------------------------------------------------------------------------

    async def listen(self) -> int:
        while True:
            last = await self._link.retry(self._refresh)
            if self._feed is None:
                self._feed = self._new_feed(last)
                break
            if self._feed.last >= last:
                break
            await self._link.retry(self._feed.fill, last)
        self._latest = max(self._latest, end_of(self._feed.last) if self._feed.last else 0)
        return end_of(self._feed.last) if self._feed.last else 0

    def stop_listening(self) -> None:
        if self._feed is not None:
            self._feed.stop()
            self._feed = None
            self._own.clear()

    def _new_feed(self, last: int) -> Feed:
        return Feed(self._link, self._log, last, self._deliver, self._skip)

    async def _skip(self, first: int, last: int) -> None:
        """Messages do not come in the feed. Raises `AwayError`, `JournalError`."""
        await self._refresh()
        await self._note_missing(first, last)
        self.on_skip(end_of(last))

    def _deliver(self, message: StoredMessage) -> None:
        self._latest = max(self._latest, end_of(message.seq))
        part = self._log.part(message)
        if part is None:
            self.on_skip(end_of(message.seq))
            return
        self._identity.learn(message.seq, part.commit)
        stored = events_of(message.seq, part.events)
        own = self._own.pop(part.commit, None)
        if own is not None:
            seqs = iter(stored)
            committed = Committed(
                own.outputs,
                [None if isinstance(one, OutputChunk) or one.partial else next(seqs).seq for one in own.outputs],
            )
        else:
            read = [(one, event) for one in stored if (event := read_event(one)) is not None]
            committed = Committed([Produced.of(event, one.body) for one, event in read], [one.seq for one, _ in read])
        try:
            self.on_commit([committed])
        except Exception as fault:  # the commit is durable, and whoever waits for it must learn of it
            faults.note("subscribers read a commit later", "daemon.journal.nats.journal:on_commit", fault)
            self.on_skip(end_of(message.seq))
