"""The journal on NATS JetStream, shared by any number of daemons on any number of hosts.

One message is one commit of one stream, on the stream's own subject. It is published with the sequence of the subject's
last message, which makes it atomic and fences out a second writer: whoever has not seen that message is refused. What
got no answer is published again; if it was stored the first time, the fence says so. So the subject's last message is
the stream's position, and nothing else has to be kept in step with it.

A daemon hears of commits, its own too, from one feed that runs while somebody subscribes; a daemon that only publishes
costs the server no consumer. `journal_nats_message.py` is the format, `journal_nats_log.py` reads it back,
`journal_nats_state.py` is what daemons know of each other's streams.
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
)
from tooltap.daemon.journal.nats.back import only_stream, read_back
from tooltap.daemon.journal.nats.feed import Feed
from tooltap.daemon.journal.nats.link import AwayError, FencedError, Link, StoredMessage
from tooltap.daemon.journal.nats.load import advance, load
from tooltap.daemon.journal.nats.log import Log
from tooltap.daemon.journal.nats.message import (
    EVENTS_A_MESSAGE,
    Group,
    decode_group,
    encode_commit,
    encode_group,
    end_of,
    events_of,
)
from tooltap.daemon.journal.nats.outputs import Outputs
from tooltap.daemon.journal.nats.place import NatsPlace
from tooltap.daemon.journal.nats.retention import Retention
from tooltap.daemon.journal.nats.rows import Row, matches, read_event
from tooltap.daemon.journal.nats.setup import set_up
from tooltap.daemon.journal.nats.state import Kept, State, sessions_of
from tooltap.daemon.journal.projection import CALL, PERMISSION
from tooltap.daemon.system.clock import Clock, wall_clock
from tooltap.daemon.system.failpoints import failpoint
from tooltap.normalizers.core.items import OutputPiece
from tooltap.normalizers.stream.bounds import Produced
from tooltap.protocol.filters import Filter

__all__ = ["NatsJournal"]

MESSAGE_BYTES = 1_048_576
"""Longest message, if the server's `max_payload` allows it: a read gives whole messages."""
STREAMS_IN_MEMORY = 4_096
CLOSING_TURN, RETENTION_TURN = 5, 300
"""Seconds for which one daemon alone looks after the streams that others have left."""
LAST_WORDS = 2.0
"""Seconds that a daemon which ends waits for a server that is away."""


class Held(NamedTuple):
    """How far a stream has come since this daemon loaded it."""

    message: int
    lines: int


class NatsJournal(Journal):
    """Made by `open`."""

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
        """Commits on their way, for what only this daemon has of them: their partials."""
        self._held: OrderedDict[tuple[str, int], Held] = OrderedDict()
        """By stream, and `StreamInfo.position` of whoever loaded it."""
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._states: dict[str, StreamState] = {}
        """Of the streams this daemon has committed to; the unended ones, and some of the others."""
        self._oldest = 1
        self._latest = self._expired = 0
        self._bytes = 0
        self._state_task: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, place: NatsPlace, *, clock: Clock = wall_clock) -> Self:
        """Connect, and create what is not there. Raises `JournalError`, one sentence for the user."""
        link = await Link.open(place)
        try:
            journal = cls(link, clock)
            await link.insist(journal._set_up, patience=place.options.connect_timeout)
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
        self.rest()
        self._state_task.cancel()
        self._state_task = None
        with anyio.CancelScope(shield=True):
            try:
                async with asyncio.timeout(LAST_WORDS):
                    await self._state.write()
            except (TimeoutError, AwayError, JournalError):  # rows are hints
                pass
            await self._link.close()

    # -- writing ------------------------------------------------------------------------------------------------

    async def commit(self, commit: Commit) -> None:
        stream = commit.info.stream
        key = (stream, commit.info.position)
        held = self._held.get(key)
        if held is not None and held.lines != commit.base_lines:
            raise StreamConflictError(f"stream {stream} has {held.lines} lines, not {commit.base_lines}")
        kept = await self._keep(stream, commit.info)
        self._commits += 1
        self._transactions += 1
        commit_id = f"{self._daemon}/{self._commits}"
        begins_anew = commit.snapshot is not None or not kept.row.since
        limit = min(MESSAGE_BYTES, self._link.max_payload)
        groups = encode_commit(commit, commit_id, 0 if begins_anew else kept.row.since, limit)
        expected = commit.info.position if held is None else held.message
        if self._feed is not None and len(groups) == 1:
            self._own[commit_id] = commit
        failpoint("before-commit")
        try:
            last = await self._store(stream, groups, expected)
        except BaseException:
            self._own.pop(commit_id, None)
            self._states.pop(stream, None)
            if self._kept.get(stream) is kept:
                del self._kept[stream]
                self._state.drop(stream)
            raise
        failpoint("after-commit")
        self._held[key] = Held(last, commit.info.lines)
        self._held.move_to_end(key)
        if len(self._held) > STREAMS_IN_MEMORY:
            self._held.popitem(last=False)
        self._count(commit.info)
        first = last - len(groups) + 1
        self._bring_up(kept, commit, first, groups)
        self._latest = max(self._latest, end_of(last))

    async def _store(self, stream: str, groups: list[Group], expected: int) -> int:
        """Sequence of the last message. Waits while the server is away. Raises `StreamConflictError`."""
        subject = self._log.subject(stream)
        messages = [encode_group(group) for group in groups]

        async def store() -> int:
            try:
                return await self._link.publish(subject, messages, expected=expected)
            except FencedError:
                last = await self._log.last(stream)
                if last is not None and decode_group(last.data).commit == groups[0].commit:
                    return last.seq  # it was stored, and the answer was lost
            raise StreamConflictError(f"stream {stream} has been gone on with elsewhere")

        return await self._link.insist(store, patience=None)

    def _count(self, info: StreamInfo) -> None:
        """An ended stream comes last, and is forgotten first."""
        self._states.pop(info.stream, None)
        self._states[info.stream] = info.state
        if len(self._states) > STREAMS_IN_MEMORY and info.state == "ended":
            del self._states[info.stream]

    async def _keep(self, stream: str, info: StreamInfo) -> Kept:
        kept = self._kept.get(stream)
        if kept is None:
            if info.position or (stream, 0) in self._held:
                await self.load_stream(stream)
            kept = self._kept.get(stream) or Kept(Row(info=info))
        self._kept[stream] = kept
        self._kept.move_to_end(stream)
        if len(self._kept) > STREAMS_IN_MEMORY:
            self._kept.popitem(last=False)
        return kept

    def _bring_up(self, kept: Kept, commit: Commit, first: int, groups: list[Group]) -> None:
        produced = iter([one.event for one in commit.outputs if isinstance(one, Produced) and not _partial(one)])
        seqs = [stored.seq for part, group in enumerate(groups) for stored in events_of(first + part, group.events)]
        self._events += len(seqs)
        if kept.row.message < first:  # else it was loaded after this had been stored
            kept.projection.apply_all(zip(seqs, produced, strict=True))
            advance(kept, first, groups[-1], commit.info)
        self._state.change(kept)

    async def suspend_all(self) -> int:
        """A daemon that is gone is missed by the others: nothing has to be written."""
        return 0

    async def abandoned(self, before: int) -> list[str]:
        own = [kept.row.info for kept in self._kept.values()]
        left = set[str]()
        for stream in [one.stream for one in own if one.state != "ended" and one.updated <= before]:
            if await self._link.insist(self._is_own, stream):
                left.add(stream)
        if await self._link.insist(self._state.turn, "closing", CLOSING_TURN):
            rows = await self._link.insist(self._state.rows)
            left |= {row.info.stream for row in rows if row.info.state == "suspended" and row.info.updated <= before}
        return sorted(left)

    async def _is_own(self, stream: str) -> bool:
        """Whether this daemon was the last to commit to the stream."""
        last = await self._log.last(stream)
        return last is not None and decode_group(last.data).commit.startswith(f"{self._daemon}/")

    async def expire(self, before: int, max_bytes: int | None = None) -> int:
        forget_before = min(before, self._clock() - REMEMBER_STREAMS_MS)

        async def take_turn() -> int:
            if not await self._state.turn("retention", RETENTION_TURN):
                return 0
            return await self._retention.expire(before, forget_before, max_bytes)

        expired = await self._link.insist(take_turn)
        await self._link.insist(self._refresh)
        return expired

    async def remove_session(self, session: str) -> int:
        removed = await self._link.insist(self._retention.remove_session, session)
        await self._link.insist(self._refresh)
        return removed

    # -- what is committed, here and elsewhere ------------------------------------------------------------------

    async def listen(self) -> int:
        while True:
            last = await self._link.insist(self._refresh)
            if self._feed is None:
                log = self._log
                self._feed = Feed(self._link, log.stream, log.everything, last, self._deliver)
                break
            if self._feed.last >= last:
                break
            await self._link.insist(self._feed.fill, last)
        self._latest = max(self._latest, end_of(self._feed.last) if self._feed.last else 0)
        return end_of(self._feed.last) if self._feed.last else 0

    def rest(self) -> None:
        if self._feed is not None:
            self._feed.stop()
            self._feed = None
            self._own.clear()

    def _deliver(self, message: StoredMessage) -> None:
        self._latest = max(self._latest, end_of(message.seq))
        group = decode_group(message.data)
        stored = events_of(message.seq, group.events)
        own = self._own.pop(group.commit, None)
        if own is not None:
            seqs = iter(stored)
            committed = Committed(
                own.outputs,
                [None if isinstance(one, OutputPiece) or _partial(one) else next(seqs).seq for one in own.outputs],
            )
        else:
            read = [(one, event) for one in stored if (event := read_event(one)) is not None]
            committed = Committed([Produced(event, one.body) for one, event in read], [one.seq for one, _ in read])
        self.on_commit([committed])

    async def _refresh(self) -> int:
        """Ask the server how far the journal reaches; gives the sequence of its last message."""
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
        """As in `Journal`, in whole messages: up to one more than asked for."""
        self._reads += 1
        end = self._latest if up_to is None else min(up_to, self._latest)
        first, last = (after + 1) // EVENTS_A_MESSAGE, end // EVENTS_A_MESSAGE
        stream = only_stream(wanted)
        events: list[StoredEvent] = []
        wanted = None if wanted == Filter() else wanted
        contiguous = wanted is None
        while after < end and not events:
            found = await self._link.insist(self._log.after, max(first, 1), last, stream, 2 * max_bytes)
            if not found:
                contiguous, after = False, end
                break
            size = 0
            for message in found:
                contiguous = contiguous and message.seq == max(first, 1)
                for stored in events_of(message.seq, decode_group(message.data).events):
                    if after < stored.seq <= end and matches(wanted, stored):
                        events.append(stored)
                        size += len(stored.body)
                first = message.seq + 1
                if size >= max_bytes:
                    break
            after = min(end_of(first - 1), end)
        if not contiguous:
            await self._link.insist(self._refresh)
        return events, after

    async def read_back(
        self, before: int, wanted: Filter | None = None, *, limit: int, max_bytes: int = 262_144
    ) -> tuple[list[StoredEvent], int]:
        self._reads += 1
        if before > self._latest:  # others may have committed since
            await self._link.insist(self._refresh)
        end = min(before, self._latest + 1)
        return await read_back(self._link, self._log, end, self.oldest, wanted, limit, max_bytes)

    async def event(self, seq: int) -> StoredEvent | None:
        message = await self._log.message(seq // EVENTS_A_MESSAGE)
        events = [] if message is None else decode_group(message.data).events
        index = seq % EVENTS_A_MESSAGE
        return StoredEvent(seq, events[index]) if index < len(events) else None

    async def load_stream(self, stream: str) -> StoredStream | None:
        loaded = await load(self._link, self._log, self._state, stream)
        if loaded is None:
            return None
        self._kept[stream] = loaded.kept
        self._held.pop((stream, loaded.position), None)
        if loaded.advanced:
            self._state.change(loaded.kept)
        return loaded.stored

    async def streams(self, state: StreamState | None = None, limit: int | None = None) -> list[StreamInfo]:
        await self._link.insist(self._refresh)  # whoever asks for all streams wants to see how the journal stands
        rows = await self._link.insist(self._state.rows)
        return [row.info for row in rows if state in (None, row.info.state)][:limit]

    async def count_streams(self, *states: StreamState) -> int:
        """Of the streams this daemon has committed to: others have their own bound."""
        return sum(state in states for state in self._states.values())

    async def streams_of(self, session: str) -> list[StreamInfo]:
        rows = await self._link.insist(self._state.rows)
        return [row.info for row in rows if session in row.sessions]

    async def sessions(self, *, limit: int = 100, before: int | None = None) -> list[dict[str, Any]]:
        rows = await self._link.insist(self._state.rows)
        return await asyncio.to_thread(sessions_of, rows, limit, before)

    async def open_calls(
        self, session: str | None = None, stream: str | None = None
    ) -> dict[str, list[dict[str, Any]]]:
        if stream is not None and (kept := self._kept.get(stream)) is not None:
            rows = [kept.row]
        else:
            rows = await self._link.insist(self._state.rows)
        calls = [
            (call, row.info.stream)
            for row in rows
            for call in row.calls.values()
            if stream in (None, row.info.stream) and session in (None, call.session)
        ]
        calls.sort(key=lambda one: one[0].seq)
        found: dict[str, list[dict[str, Any]]] = {CALL: [], PERMISSION: []}
        for call, of_stream in calls:
            found[call.kind].append({"stream": of_stream, "session": call.session, "seq": call.seq, **call.data})
        return {"calls": found[CALL], "permissions": found[PERMISSION]}

    async def output(
        self, output_id: str, offset: int, length: int, unit: Literal["bytes", "lines"]
    ) -> OutputSlice | None:
        return await self._outputs.read(output_id, offset, length, unit)


def _partial(output: Produced) -> bool:
    return bool(getattr(output.event, "partial", False))
