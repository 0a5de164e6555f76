"""The journal on NATS JetStream, shared by any number of daemons on any number of hosts.

One message is one commit of one stream, on the stream's own subject. The last message of the subject is the stream's
position; nothing else has to be kept consistent with it. Rows (`state.py`) are hints, which are caught up from
messages.

Fencing. Two daemons may believe that they own the same stream, for instance when a network partition heals. A commit
may only extend the stream that its parser was rebuilt from:

1. `load_stream` returns the sequence of the subject's last message as `StreamInfo.position`.
2. The first commit after that is published with this position as the expected last sequence, each later one with the
   sequence of the commit before it (`_chains`). The server compares and stores in one step, so of two commits on the
   same position one is refused. A commit of several messages is an atomic batch with one expectation.
3. A commit without an answer may have been stored. It is published again with the same expectation. If it is refused
   then, the last message tells the cases apart: with this commit's id it was stored the first time, with another id a
   different daemon has resumed the stream, and the publisher gets `StreamConflictError`.
4. After any failure the stream's row is dropped: it may lack a commit that was stored after all. The next load reads it
   from the messages.

The key of a chain holds the position too. So when a stream is loaded again within this daemon, the old connection's
chain cannot lend its position to the new one, nor the reverse.

Publishing. A daemon hears of commits, including its own, from one feed that runs while there are subscribers; a daemon
that only publishes costs the server no consumer. Partials are not stored. So a daemon retains its own commits until
they come back in the feed (`_own`), and publishes those with their partials.

`message.py` is the format, `log.py` and `read.py` read it, `link.py` is the connection.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from typing import Any, Literal, NamedTuple, Self

import anyio

from tooltap.daemon.journal.interface import (
    REMEMBER_STREAMS_MS,
    Commit,
    Committed,
    Journal,
    JournalError,
    OutputSlice,
    StoredEvent,
    StoredStream,
    StreamConflictError,
    StreamInfo,
    StreamState,
    drop_fields,
)
from tooltap.daemon.journal.nats.feed import Feed
from tooltap.daemon.journal.nats.link import AwayError, FencedError, Link, StoredMessage
from tooltap.daemon.journal.nats.load import advance, load
from tooltap.daemon.journal.nats.log import Log
from tooltap.daemon.journal.nats.message import (
    EVENTS_A_MESSAGE,
    CommitPart,
    decode_part,
    encode_commit,
    encode_part,
    end_of,
    events_of,
)
from tooltap.daemon.journal.nats.outputs import Outputs
from tooltap.daemon.journal.nats.place import NatsPlace
from tooltap.daemon.journal.nats.read import read, read_back
from tooltap.daemon.journal.nats.retention import Retention
from tooltap.daemon.journal.nats.rows import Row, read_event
from tooltap.daemon.journal.nats.setup import set_up
from tooltap.daemon.journal.nats.state import OwnRow, State, open_calls_of, sessions_of
from tooltap.daemon.system.clock import Clock, wall_clock
from tooltap.daemon.system.failpoints import failpoint
from tooltap.normalizers.core.items import OutputChunk, Produced
from tooltap.protocol.filters import Filter

__all__ = ["NatsJournal"]

MESSAGE_BYTES = 1_048_576
"""Longest message, if the server's `max_payload` allows it. A read returns whole messages."""
STREAMS_IN_MEMORY = 4_096
CLOSING_LEASE, RETENTION_LEASE = 5, 300
"""Seconds for which one daemon alone closes abandoned streams, or deletes old events."""
CLOSE_TIMEOUT = 2.0
"""Seconds that a shutdown waits for a server that is away."""


class Tip(NamedTuple):
    """The newest commit of a chain of commits."""

    message: int
    """Sequence of its last message."""
    lines: int


class NatsJournal(Journal):
    """Created by `open`."""

    def __init__(self, link: Link, clock: Clock) -> None:
        super().__init__()
        self._daemon = secrets.token_hex(6)
        self._link = link
        self._clock = clock
        self._log = Log(link)
        self._state = State(link, self._daemon)
        self._outputs = Outputs(self._log)
        self._retention = Retention(link, self._log, self._state, self.load_stream)
        self._feed: Feed | None = None
        self._own: dict[str, Commit] = {}
        """Commit id -> a commit that the feed has not brought back yet."""
        self._chains: OrderedDict[tuple[str, int], Tip] = OrderedDict()
        """By stream, and `StreamInfo.position` when it was loaded."""
        self._rows: OrderedDict[str, OwnRow] = OrderedDict()
        self._states: dict[str, StreamState] = {}
        """Of the streams this daemon has committed to: all that have not ended, and some that have."""
        self._oldest = 1
        self._latest = self._expired = 0
        self._bytes = 0
        self._state_task: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, place: NatsPlace, *, clock: Clock = wall_clock) -> Self:
        """Connect, and create the journal if it does not exist. Raises `JournalError`, one sentence for the user."""
        link = await Link.open(place)
        try:
            journal = cls(link, clock)
            await link.retry(journal._set_up, timeout=place.options.connect_timeout)
        except BaseException:
            await link.close()
            raise
        journal._state_task = asyncio.create_task(journal._state.run())
        return journal

    async def _set_up(self) -> None:
        log, state = self._log, self._state
        self.id = await set_up(self._link, (log.stream, log.everything), (state.stream, state.subjects))
        await self._refresh()

    @property
    def oldest(self) -> int:
        return min(self._oldest, self._latest + 1)

    @property
    def latest(self) -> int:
        return self._latest

    @property
    def expired(self) -> int:
        return self._expired

    def statistics(self) -> dict[str, int]:
        return {**super().statistics(), "bytes": self._bytes, "connected": int(self._link.connected)}

    async def close(self) -> None:
        if self._state_task is None:
            return
        self.stop_listening()
        self._state_task.cancel()
        self._state_task = None
        with anyio.CancelScope(shield=True):
            try:
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    await self._state.write()
            except (TimeoutError, AwayError, JournalError):  # rows are hints
                pass
            await self._link.close()

    # -- writing ------------------------------------------------------------------------------------------------

    async def commit(self, commit: Commit) -> None:
        stream = commit.info.stream
        key = (stream, commit.info.position)
        tip = self._chains.get(key)
        if tip is not None and tip.lines != commit.base_lines:
            raise StreamConflictError(f"stream {stream} has {tip.lines} lines, not {commit.base_lines}")
        row = await self._row_of(stream, commit.info)
        self._commits += 1
        self._transactions += 1
        commit_id = f"{self._daemon}/{self._commits}"
        restarts = commit.snapshot is not None or not row.row.since
        limit = min(MESSAGE_BYTES, self._link.max_payload)
        parts = encode_commit(commit, commit_id, 0 if restarts else row.row.since, limit)
        expected = commit.info.position if tip is None else tip.message
        if self._feed is not None and len(parts) == 1:
            self._own[commit_id] = commit
        failpoint("before-commit")
        try:
            last = await self._store(stream, parts, expected)
        except BaseException:
            self._own.pop(commit_id, None)
            self._states.pop(stream, None)
            if self._rows.get(stream) is row:
                del self._rows[stream]
                self._state.drop(stream)
            raise
        failpoint("after-commit")
        self._chains[key] = Tip(last, commit.info.lines)
        self._chains.move_to_end(key)
        if len(self._chains) > STREAMS_IN_MEMORY:
            self._chains.popitem(last=False)
        self._count(commit.info)
        first = last - len(parts) + 1
        self._apply(row, commit, first, parts)
        self._latest = max(self._latest, end_of(last))

    async def _store(self, stream: str, parts: list[CommitPart], expected: int) -> int:
        """Store the messages and return the sequence of the last. Waits while the server is away. Raises
        `StreamConflictError`."""
        subject = self._log.subject(stream)
        messages = [encode_part(part) for part in parts]

        async def store() -> int:
            try:
                return await self._link.publish(subject, messages, expected=expected)
            except FencedError:
                last = await self._log.last(stream)
                if last is not None and decode_part(last.data).commit == parts[0].commit:
                    return last.seq  # it was stored, and the answer was lost
            raise StreamConflictError(f"another daemon has resumed stream {stream}")

        return await self._link.retry(store, timeout=None)

    def _count(self, info: StreamInfo) -> None:
        """Remember the stream's state. Of too many, an ended stream is forgotten."""
        self._states.pop(info.stream, None)
        self._states[info.stream] = info.state
        if len(self._states) > STREAMS_IN_MEMORY and info.state == "ended":
            del self._states[info.stream]

    async def _row_of(self, stream: str, info: StreamInfo) -> OwnRow:
        row = self._rows.get(stream)
        if row is None:
            if info.position or (stream, 0) in self._chains:
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

    async def suspend_all(self) -> int:
        """Nothing to write: the other daemons notice when a daemon is gone."""
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
        return last is not None and decode_part(last.data).commit.startswith(f"{self._daemon}/")

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
                log = self._log
                self._feed = Feed(self._link, log.stream, log.everything, last, self._deliver)
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

    def _deliver(self, message: StoredMessage) -> None:
        self._latest = max(self._latest, end_of(message.seq))
        part = decode_part(message.data)
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
        self.on_commit([committed])

    async def _refresh(self) -> int:
        """Ask the server for the journal's range; returns the sequence of its last message."""
        answer = await self._link.api(f"STREAM.INFO.{self._log.stream}")
        state = answer["state"]
        first, last = state["first_seq"], state["last_seq"]
        self._bytes = state["bytes"]
        self._latest = max(self._latest, end_of(last) if last else 0)
        self._oldest = max(first, 1) * EVENTS_A_MESSAGE if state["messages"] else self._latest + 1
        self._expired = max(self._expired, await self._state.expired(), self._oldest - 1 if first > 1 else 0)
        return int(last)

    # -- reading ------------------------------------------------------------------------------------------------

    async def read(
        self, after: int, wanted: Filter | None = None, *, up_to: int | None = None, max_bytes: int = 262_144
    ) -> tuple[list[StoredEvent], int]:
        self._reads += 1
        end = self._latest if up_to is None else min(up_to, self._latest)
        events, searched, contiguous = await read(self._link, self._log, after, end, wanted, max_bytes)
        if not contiguous:  # events may have been deleted: the caller compares with `expired`
            await self._link.retry(self._refresh)
        return events, searched

    async def read_back(
        self, before: int, wanted: Filter | None = None, *, limit: int, max_bytes: int = 262_144
    ) -> tuple[list[StoredEvent], int]:
        self._reads += 1
        if before > self._latest:  # other daemons may have committed since
            await self._link.retry(self._refresh)
        end = min(before, self._latest + 1)
        return await read_back(self._link, self._log, end, self.oldest, wanted, limit, max_bytes)

    async def event(self, seq: int) -> StoredEvent | None:
        message = await self._log.message(seq // EVENTS_A_MESSAGE)
        events = [] if message is None else decode_part(message.data).events
        index = seq % EVENTS_A_MESSAGE
        return StoredEvent(seq, events[index]) if index < len(events) else None

    async def load_stream(self, stream: str) -> StoredStream | None:
        loaded = await load(self._link, self._log, self._state, stream)
        if loaded is None:
            return None
        self._rows[stream] = loaded.own
        self._chains.pop((stream, loaded.position), None)
        if loaded.advanced:
            self._state.change(loaded.own)
        return loaded.stored

    async def streams(self, state: StreamState | None = None, limit: int | None = None) -> list[StreamInfo]:
        await self._link.retry(self._refresh)  # for `oldest`, `latest` and `bytes` in `stats`
        rows = await self._link.retry(self._state.rows)
        return [row.info for row in rows if state in (None, row.info.state)][:limit]

    async def count_streams(self, *states: StreamState) -> int:
        """Of the streams this daemon has committed to: other daemons have their own limit."""
        return sum(state in states for state in self._states.values())

    async def streams_of(self, session: str) -> list[StreamInfo]:
        rows = await self._link.retry(self._state.rows)
        return [row.info for row in rows if session in row.sessions]

    async def sessions(self, *, limit: int = 100, before: int | None = None) -> list[dict[str, Any]]:
        rows = await self._link.retry(self._state.rows)
        return await asyncio.to_thread(sessions_of, rows, limit, before)

    async def open_calls(
        self, session: str | None = None, stream: str | None = None
    ) -> dict[str, list[dict[str, Any]]]:
        if stream is not None and (own := self._rows.get(stream)) is not None:
            rows = [own.row]
        else:
            rows = await self._link.retry(self._state.rows)
        return open_calls_of(rows, session, stream)

    async def output(
        self, output_id: str, offset: int, length: int, unit: Literal["bytes", "lines"]
    ) -> OutputSlice | None:
        return await self._outputs.read(output_id, offset, length, unit)
