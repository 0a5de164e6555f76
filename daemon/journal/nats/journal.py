"""The journal on NATS JetStream, shared by any number of daemons on any number of hosts.

One message is one commit of one stream, on the stream's own subject. The last message of the subject is the stream's
position; nothing else has to be kept consistent with it. Rows (`state.py`) are a cache, which is brought up to date
from messages. After any failed commit, the stream's row is dropped: it may lack a commit that was stored after all. The
next load derives it from the messages.

Publishing. A daemon learns of commits, including its own, from one feed that runs while there are subscribers; a daemon
that only publishes costs the server no consumer. Partials are not stored. So a daemon keeps its own commits until they
come back in the feed (`_unconfirmed`), and then publishes them with their partials.

The other modules, in reading order: `place.py` parses the URL, `connection.py` has the connection and the requests to
JetStream, `identity.py` checks whether the server still has the same journal, `message.py` encodes a commit,
`commits.py` stores it exactly once, `requests.py` knows who has reported a request first, `state.py` has the rows of
streams, `events.py` reads commits and delivers new ones of all daemons, `rebuild.py` rebuilds a stream from its
commits, `retention.py` deletes them.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter, OrderedDict
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Self

import anyio
import msgspec

from tooltap.daemon.journal.interface import (
    REMEMBER_STREAMS_MS,
    REMOVED,
    Commit,
    Committed,
    DeletedError,
    Gaps,
    Journal,
    JournalError,
    OutputSlice,
    StoredEvent,
    StoredStream,
    StreamInfo,
    decode_removed,
    drop_fields,
)
from tooltap.daemon.journal.nats.commits import Commits, PurgedError
from tooltap.daemon.journal.nats.connection import AwayError, Connection, StoredMessage
from tooltap.daemon.journal.nats.events import Feed, Messages, Outputs, Read, read, read_back
from tooltap.daemon.journal.nats.identity import Identity, Memory
from tooltap.daemon.journal.nats.message import EVENTS_A_MESSAGE, CommitPart, encode_commit, end_of, events_of
from tooltap.daemon.journal.nats.place import NatsPlace
from tooltap.daemon.journal.nats.rebuild import CatchUp, advance, load, missing, rebuild_rows
from tooltap.daemon.journal.nats.requests import Requests
from tooltap.daemon.journal.nats.retention import Retention, decode_question, encode_answer, sessions_named
from tooltap.daemon.journal.nats.state import (
    OwnRow,
    Row,
    State,
    changes_of,
    open_calls_of,
    read_event,
    sessions_of,
    spending_of,
)
from tooltap.daemon.sessions.files import report_files
from tooltap.daemon.sessions.listing import (
    ANY_SESSION,
    FACETS,
    MOST_COUNTED,
    PINNED,
    SessionFilter,
    SessionOrder,
    SessionPlace,
    place_of,
)
from tooltap.daemon.sessions.repetitions import Compared
from tooltap.daemon.sessions.usage import report
from tooltap.daemon.system.clock import Clock, wall_clock
from tooltap.daemon.system.failpoints import failpoint
from tooltap.daemon.system.logs import faults, get_logger
from tooltap.normalizers.core.items import OutputChunk, Produced
from tooltap.protocol.filters import ALL_EVENTS, Filter
from tooltap.protocol.frames import ChangedFilesRequest, UsageRequest
from tooltap.protocol.replies import ChangedFilesResult, StreamState, UsageResult
from tooltap.protocol.stats import RetentionStatistics

SCAN_BYTES = 4_194_304
"""Bytes of one read when scanning for missing messages."""
LIST_TIMEOUT = 2.0
"""Timeout in seconds for listing streams; after that, the list has the rows known to this daemon."""

MESSAGE_BYTES = 1_048_576
"""Longest message in bytes, if the server's `max_payload` allows it. Short, because a read returns whole messages."""
BODY_BYTES = 65_536
"""A commit with more bytes of output bodies is encoded in a thread, because compression takes time."""
STREAMS_IN_MEMORY = 4_096
CLOSING_LEASE, RETENTION_LEASE = 5, 300
"""Seconds of the leases for closing abandoned streams and for deleting old events."""
CHECK_PERIOD = 5.0
"""Seconds between two checks whether the server still has the same journal. Most changes are noticed earlier: by a
commit, a subscription, or a reconnect."""
CLOSE_TIMEOUT = 0.3
"""Timeout in seconds for writing the last rows at shutdown."""

_log = get_logger("journal")


class NatsJournal(Journal):
    """A `Journal` on NATS JetStream, created by `open`."""

    def __init__(self, connection: Connection, clock: Clock, memory: Memory) -> None:
        daemon = secrets.token_hex(6)
        super().__init__()
        self.daemon = daemon
        self.id = ""
        self._connection = connection
        self._messages = Messages(connection, self._note_damaged)
        self._state = State(connection, daemon)
        self._outputs = Outputs(connection, self._messages)
        self._requests = Requests(connection, self._messages, self._state)
        self._rows: OrderedDict[str, OwnRow] = OrderedDict()
        """Stream -> row, for streams that this daemon has loaded or commits to. An LRU cache."""
        self._oldest = 1
        self._latest = self._last_expired = 0
        self._bytes = 0
        self._damages = 0
        self._holes = -1
        """Number of messages deleted between others, when last checked; -1: unknown."""
        self._clock = clock
        self._identity = Identity(connection, self._messages, self._state, memory, daemon)
        self._writer = Commits(connection, self._messages, daemon)
        self._not_noted = RetentionStatistics()
        """What this daemon has removed, and has not added to the journal's total yet."""
        self._noting: tuple[RetentionStatistics, RetentionStatistics] | None = None
        """What it was adding when the server did not answer, and the total before that."""
        self._catch_up = CatchUp(connection, self._messages, self._state, self._requests)
        self._retention = Retention(
            connection,
            self._messages,
            self._state,
            self.load_stream,
            daemon,
            self.ask_daemon,
            self._unwritten,
            self._catch_up.bring_up,
        )
        self._feed: Feed | None = None
        self._unconfirmed: dict[str, Commit] = {}
        """Commit id -> own commit that the feed has not delivered yet."""
        self._storing: dict[str, tuple[Commit, OwnRow]] = {}
        """Commit id -> own commit that the server may have stored, and the row that does not include it yet."""
        self._states: dict[str, tuple[StreamState, bool]] = {}
        """Stream -> state, and whether it is of a followed file: all streams that this daemon has committed to and that
        have not ended, and some that have."""
        self._resets = 0
        self._holes_counted_on = 0
        """Number of the connection on which deleted messages were last counted."""
        self._tasks: list[asyncio.Task[None]] = []
        self._repairing: asyncio.Task[None] | None = None
        self._checking = asyncio.Lock()

    @classmethod
    async def open(cls, place: NatsPlace, *, clock: Clock = wall_clock, memory: Path | None = None) -> Self:
        """Connect, and create the journal if it does not exist. `memory`: folder for the anchors of journals
        (`identity.py`). Raises `JournalError`, one sentence for the user."""
        connection = await Connection.open(place)
        try:
            journal = cls(connection, clock, Memory(memory))
            await connection.retry(journal._check, timeout=place.options.connect_timeout)
            await connection.serve(journal._asking(journal.daemon), journal._answer)
            # Before its first commit: others take the streams of a daemon without a heartbeat for suspended.
            await connection.retry(journal._state.send_heartbeat, timeout=place.options.connect_timeout)
        except BaseException:
            await connection.close()
            raise
        connection.verify_journal = journal._check
        journal._tasks = [asyncio.create_task(work) for work in (journal._state.run(), journal._watch())]
        return journal

    @property
    def oldest(self) -> int:
        return min(self._oldest, self._latest + 1)

    @property
    def latest(self) -> int:
        return self._latest

    @property
    def last_expired(self) -> int:
        return self._last_expired

    @property
    def problem(self) -> str:
        return self._connection.waits_for or self._writer.refusal

    def statistics(self) -> dict[str, int]:
        found = {"corrupt": self.corrupt.events, "damages": self._damages, "resets": self._resets}
        return {**super().statistics(), "bytes": self._bytes, "connected": int(self._connection.connected), **found}

    def stop_waiting(self) -> None:
        self._connection.stop_waiting()

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
                    await self._state.withdraw()  # last: without a heartbeat, it is not asked for what rows lack
            except (TimeoutError, AwayError, JournalError):  # rows are hints
                pass
            await self._identity.remember()
            await self._connection.close()

    # -- which journal it is -------------------------------------------------------------------------------------

    async def _check(self) -> None:
        """Check whether the server still has this journal; if not, switch to the one that it has. Raises `AwayError`,
        `JournalError`."""
        async with self._checking:
            identity = self._identity
            await identity.check()
            if identity.rows_are_stale:
                self._state.reread(drop_changes=self.id != identity.id)
                self._rows.clear()
                self._requests.forget()
            was = self.id
            if was in ("", identity.id):
                if self._holes_counted_on != self._connection.connections:  # a server drops messages when it starts
                    self._holes_counted_on, self._holes = self._connection.connections, -1
                await self._refresh()
            else:
                await self._begin_again()
            self.removed = decode_removed(await self._state.note(REMOVED))
            self.id = identity.id
            identity.rows_are_stale = False
            if identity.rows_are_lost and (self._repairing is None or self._repairing.done()):
                identity.rows_are_lost = False
                self._repairing = asyncio.create_task(self._repair())
            if was not in ("", identity.id):
                _log.warning("the journal was replaced", journal=str(self._connection.place), was=was, id=self.id)
                self.on_reset()

    async def _begin_again(self) -> None:
        """Discard all state of the replaced journal, and read the range of the new one."""
        state = (await self._connection.api(f"STREAM.INFO.{self._messages.stream}"))["state"]
        expired = await self._state.expired()
        # Nothing below awaits: whoever reads meanwhile gets all of one journal or all of the other.
        self._connection.journals += 1
        self._resets += 1
        self._writer.replaced()
        self._outputs.forget()
        self._requests.forget()
        self._rows.clear()
        self._states.clear()
        self._unconfirmed.clear()
        self._oldest, self._latest, self._last_expired, self._holes = 1, 0, 0, -1
        self.corrupt = Gaps()
        last = self._take_range(state, expired)
        if self._feed is not None:
            self._feed.stop()
            self._feed = self._new_feed(last)

    async def _refresh(self) -> int:
        """Ask the server for the journal's range, and for missing messages in it. Returns the sequence of the last
        message. What the server says of a journal that is replaced meanwhile is not taken for the new one's."""
        while True:
            journals = self._connection.journals
            state = (await self._connection.api(f"STREAM.INFO.{self._messages.stream}"))["state"]
            holes, lost = state.get("num_deleted", 0), list[int]()
            if holes != self._holes:
                lost = await missing(self._connection, self._messages)
            expired = await self._state.expired()  # it is raised before anything is deleted
            if self._connection.journals == journals:
                break
        last = self._take_range(state, expired)
        for seq in lost:
            await self._note_missing(seq, seq)
        self._holes = holes
        return last

    def _take_range(self, state: dict[str, Any], expired: int) -> int:
        first, last = state["first_seq"], int(state["last_seq"])
        self._bytes = state["bytes"]
        self._latest = max(self._latest, end_of(last) if last else 0)
        self._oldest = max(first, 1) * EVENTS_A_MESSAGE if state["messages"] else self._latest + 1
        self._last_expired = max(self._last_expired, expired, self._oldest - 1 if first > 1 else 0)
        return last

    def _note_damaged(self, first: int, last: int) -> None:
        """Record the events of unreadable messages as damaged."""
        if self.corrupt.add(first * EVENTS_A_MESSAGE, end_of(last)):
            self._damages += last - first + 1
            _log.error(
                "messages of the journal are damaged", first=first, last=last, journal=str(self._connection.place)
            )

    async def _repair(self) -> None:
        try:
            made = await rebuild_rows(self._connection, self._messages, self._state, self._requests)
        except JournalError as error:
            _log.warning("cannot rebuild the journal's list of sessions", reason=str(error))
            self._identity.rows_are_lost = True
        else:
            self._state.reread(drop_changes=False)
            _log.info("rebuilt the journal's list of sessions", streams=made)

    async def _watch(self) -> None:
        """Run `_check` periodically and after each reconnect, until cancelled."""
        reconnected = self._connection.reconnected
        while True:
            reconnected.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(reconnected.wait(), CHECK_PERIOD)
            try:
                await self._check()
                await self._catch_up.bring_up_rows()
            except AwayError:
                continue
            except JournalError as error:
                _log.warning("cannot examine the journal", reason=str(error))

    # -- writing ------------------------------------------------------------------------------------------------

    async def commit(self, commit: Commit) -> None:
        stream = commit.info.stream
        compared = await self._connection.retry(self._requests.compared, stream, commit.outputs, timeout=None)
        commit = commit._replace(outputs=compared.outputs)
        try:
            await self._store(commit, compared)
        except PurgedError:
            if not await self._begins_anew(commit):
                raise
            await self._store(commit, compared)

    async def _begins_anew(self, commit: Commit) -> bool:
        """Whether a commit continues what retention has deleted since its stream was loaded, and needs nothing of
        it."""
        if commit.snapshot is None or commit.info.followed:
            return False
        stored = await self._connection.retry(self._state.get, commit.info.stream, timeout=None)
        if stored is None or not stored.row.expired:
            return False
        if commit.remembers:
            raise DeletedError(f"what stream {commit.info.stream} had said was deleted")
        return self._writer.begin_anew(commit, stored.row.message)

    async def _store(self, commit: Commit, compared: Compared) -> None:
        stream = commit.info.stream
        row = await self._row_of(commit)
        self._commits += 1
        self._transactions += 1
        commit_id = f"{self.daemon}/{self._commits}"
        restarts = commit.snapshot is not None or not row.row.since
        parts = await self._encoded(commit, commit_id, 0 if restarts else row.row.since)
        if self._feed is not None and len(parts) == 1:
            self._unconfirmed[commit_id] = commit
        self._storing[commit_id] = commit, row
        journals = self._connection.journals
        failpoint("before-commit")
        try:
            last = await self._writer.store(commit, parts)
        except BaseException:
            self._unconfirmed.pop(commit_id, None)
            self._states.pop(stream, None)
            if self._rows.get(stream) is row:
                del self._rows[stream]
                self._state.drop(stream)
            raise
        finally:
            del self._storing[commit_id]
        failpoint("after-commit")
        self._count(commit.info)
        if self._connection.journals == journals:
            self._apply(row, commit, compared, last - len(parts) + 1, parts)
        self._identity.learn(last, commit_id)
        self._latest = max(self._latest, end_of(last))

    async def _encoded(self, commit: Commit, commit_id: str, since: int) -> list[CommitPart]:
        limit = min(MESSAGE_BYTES, self._connection.max_payload)
        if sum(len(one.data) for one in commit.outputs if isinstance(one, OutputChunk)) > BODY_BYTES:
            return await asyncio.to_thread(encode_commit, commit, commit_id, since, limit)
        return encode_commit(commit, commit_id, since, limit)

    def _count(self, info: StreamInfo) -> None:
        """Remember the stream's state; if there are too many, ended streams are not kept."""
        self._states.pop(info.stream, None)
        self._states[info.stream] = info.state, info.followed
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

    def _apply(self, own: OwnRow, commit: Commit, compared: Compared, first: int, parts: list[CommitPart]) -> None:
        """Apply a stored commit to the row. `first`: sequence of its first message."""
        produced = [one for one in commit.outputs if isinstance(one, Produced) and not one.partial]
        seqs = [stored.seq for index, part in enumerate(parts) for stored in events_of(first + index, part.events)]
        self._events += len(seqs)
        if own.row.message < first:  # else it was loaded after the commit was stored
            own.projection.apply(commit.info.stream, zip(seqs, produced, strict=True), compared.forks, compared.copies)
            advance(own, first, parts[-1], commit.info)
        drop_fields(commit.outputs)
        self._state.change(own)

    async def load_stream(self, stream: str) -> StoredStream | None:
        loaded = await load(self._connection, self._messages, self._state, self._requests, stream)
        if loaded is None:
            return None
        self._rows[stream] = loaded.own
        self._writer.loaded(loaded.stored.info)
        self._latest = max(self._latest, end_of(loaded.own.row.message))  # it may be another daemon's
        if loaded.advanced:
            self._state.change(loaded.own)
        return loaded.stored

    async def count_streams(self, *states: StreamState, followed: bool | None = None) -> int:
        """Count only streams that this daemon has committed to: each daemon has its own limit of streams."""
        return sum(state in states and followed in (None, is_file) for state, is_file in self._states.values())

    async def suspend_all(self) -> int:
        """Write nothing: streams of a dead daemon are read as suspended. Only brings rows of earlier daemons up to
        date."""
        await self._catch_up.at_start()
        return 0

    async def abandoned(self, before: int) -> list[str]:
        own = [one.row.info for one in self._rows.values()]
        left = set[str]()
        for stream in [one.stream for one in own if one.state != "ended" and one.updated <= before]:
            if await self._connection.retry(self._is_own, stream):
                left.add(stream)
        if await self._connection.retry(self._state.take_lease, "closing", CLOSING_LEASE):
            rows = await self._connection.retry(self._state.rows)
            left |= {row.info.stream for row in rows if row.info.state == "suspended" and row.info.updated <= before}
        return sorted(left)

    async def _is_own(self, stream: str) -> bool:
        """Whether this daemon was the last to commit to the stream."""
        last = await self._messages.last(stream)
        part = None if last is None else self._messages.part(last)
        return part is not None and self._writer.is_own(part)

    async def store_note(self, name: str, data: bytes) -> None:
        await self._connection.retry(self._state.put_note, name, data)

    async def expire(self, before: int, max_bytes: int | None = None) -> int:
        forget_before = min(before, self._clock() - REMEMBER_STREAMS_MS)

        removed = RetentionStatistics()

        def add(one: RetentionStatistics) -> None:
            nonlocal removed
            removed = removed.plus(one)
            self._not_noted = self._not_noted.plus(one)

        async def expire_with_lease() -> None:
            if not await self._state.take_lease("retention", RETENTION_LEASE):
                return
            self._requests.forget()
            pinned = await self.pinned()
            await self._retention.expire(before, forget_before, max_bytes, pinned, self._clock(), add)
            await self._note_removed()

        try:
            await self._connection.retry(expire_with_lease)
        finally:
            self._say_removed(removed)
        await self._connection.retry(self._refresh)
        return removed.age.events + removed.size.events

    async def _note_removed(self) -> None:
        """Add to the journal's total what was removed. This is not one step with the deletion: what a daemon has
        removed just before it dies may be missing in the total, but nothing is counted twice. Raises `AwayError`,
        `JournalError`."""
        total = decode_removed(await self._state.note(REMOVED))
        if self._noting is not None:
            added, before = self._noting
            if total == before:  # it was not stored
                self._not_noted = self._not_noted.plus(added)
            self._noting = None
        if self._not_noted != RetentionStatistics():
            self._noting, self._not_noted = (self._not_noted, total), RetentionStatistics()
            total = total.plus(self._noting[0])
            await self._state.put_note(REMOVED, msgspec.json.encode(total))
            self._noting = None
        self.removed = total

    async def remove_session(self, session: str) -> int:
        removed = await self._connection.retry(self._retention.remove_session, session)
        self._requests.forget()
        await self._connection.retry(self._refresh)
        await self.pin(session, pinned=False)
        return removed

    async def forget_expired(self, stream: str) -> bool:
        stored = await self._connection.retry(self._state.get, stream)
        if stored is None or not stored.row.expired or stored.row.purge:
            return False
        await self._connection.retry(self._state.forget, stream)
        self._rows.pop(stream, None)
        self._outputs.forget_stream(stream)
        self._writer.forget(stream)
        return True

    # -- reading ------------------------------------------------------------------------------------------------

    async def read(
        self, after: int, wanted: Filter = ALL_EVENTS, *, up_to: int | None = None, max_bytes: int = 262_144
    ) -> tuple[list[StoredEvent], int]:
        self._reads += 1
        end = self._latest if up_to is None else min(up_to, self._latest)
        journals = self._connection.journals
        found = await read(self._messages, after, end, wanted, max_bytes)
        await self._note_what_is_missing(found, wanted, journals)
        return found.events, found.searched

    async def _note_what_is_missing(self, found: Read, wanted: Filter, journals: int) -> None:
        """After a read, before the caller looks into `corrupt` and `last_expired`. `journals`: how many journals there
        had been when the read began. Raises `JournalError`."""
        if found.missing or not wanted.matches_all:
            await self._connection.retry(self._refresh)
        if self._connection.journals != journals:
            return  # the old journal lacked it
        for first, last in found.missing:
            await self._note_missing(first, last, are_all=not wanted.stream)

    async def _note_missing(self, first: int, last: int, *, are_all: bool = True) -> None:
        """Record missing messages as damaged, except those that retention has deleted. Without `are_all`, only some of
        the range are missing, and it is scanned for them. Raises `JournalError`."""
        first = max(first, (self._last_expired + 1) // EVENTS_A_MESSAGE)
        if first > last:
            return
        if are_all:
            self._note_damaged(first, last)
        else:
            after, end = first * EVENTS_A_MESSAGE - 1, end_of(last)
            while after < end:
                found = await read(self._messages, after, end, ALL_EVENTS, SCAN_BYTES)
                after = found.searched
                for lost in found.missing:
                    self._note_damaged(*lost)

    async def read_back(
        self, before: int, wanted: Filter = ALL_EVENTS, *, limit: int, max_bytes: int = 262_144
    ) -> tuple[list[StoredEvent], int]:
        self._reads += 1
        if before > self._latest:  # other daemons may have committed since
            await self._connection.retry(self._refresh)
        end = min(before, self._latest + 1)
        journals = self._connection.journals
        found = await read_back(self._messages, end, self.oldest, wanted, limit, max_bytes)
        await self._note_what_is_missing(found, wanted, journals)
        return found.events, found.searched

    async def event(self, seq: int) -> StoredEvent | None:
        message = await self._messages.message(seq // EVENTS_A_MESSAGE)
        part = None if message is None else self._messages.part(message)
        index = seq % EVENTS_A_MESSAGE
        return StoredEvent(seq, part.events[index]) if part is not None and index < len(part.events) else None

    async def streams(self, state: StreamState | None = None, limit: int | None = None) -> list[StreamInfo]:
        try:
            await self._connection.retry(
                self._refresh, timeout=LIST_TIMEOUT
            )  # for `oldest`, `latest` and `bytes` in `stats`
            rows = await self._connection.retry(self._state.rows, timeout=LIST_TIMEOUT)
        except JournalError:
            if not self._connection.waits_for:
                raise
            rows = self._state.known_rows()
        return [row.info for row in rows if state in (None, row.info.state)][:limit]

    async def streams_of(self, session: str) -> list[StreamInfo]:
        rows = await self._connection.retry(self._state.rows)
        return [row.info for row in rows if session in row.sessions and not row.expired]

    async def sessions(
        self,
        *,
        limit: int = 100,
        before: SessionPlace | None = None,
        order: SessionOrder = "seq",
        wanted: SessionFilter = ANY_SESSION,
    ) -> list[dict[str, Any]]:
        rows = await self._connection.retry(self._state.rows)
        pinned = await self.pinned()

        def page() -> list[dict[str, Any]]:
            found = [
                (key, one)
                for one in sessions_of(rows)
                if wanted.matches(one)
                and (key := place_of(one).key(order))
                and (before is None or key < before.key(order))
            ]
            found.sort(key=lambda item: item[0], reverse=True)
            return [one | PINNED if one["session"] in pinned else one for _, one in found[:limit]]

        return await asyncio.to_thread(page)

    async def remotes(self) -> list[str]:
        rows = await self._connection.retry(self._state.rows)
        return sorted({one.host for row in rows for one in row.sessions.values() if one.host is not None})

    async def count_sessions(self, wanted: SessionFilter = ANY_SESSION) -> dict[str, dict[str, int]]:
        rows = await self._connection.retry(self._state.rows)

        def count() -> dict[str, dict[str, int]]:
            found = [one for one in sessions_of(rows) if wanted.matches(one)]
            counts = {key: Counter(one[key] for one in found if key in one) for key in FACETS}
            return {key: dict(counted.most_common(MOST_COUNTED)) for key, counted in counts.items()}

        return await asyncio.to_thread(count)

    async def usage(self, request: UsageRequest) -> UsageResult:
        rows = await self._connection.retry(self._state.rows)
        return await asyncio.to_thread(lambda: report(spending_of(rows), request))

    async def changed_files(self, request: ChangedFilesRequest) -> ChangedFilesResult:
        rows = await self._connection.retry(self._state.rows)
        return await asyncio.to_thread(lambda: report_files(changes_of(rows), request))

    async def open_calls(
        self, session: str | None = None, stream: str | None = None
    ) -> dict[str, list[dict[str, Any]]]:
        if stream is not None:
            row = await self._current_row(stream)
            rows = [] if row is None else [row]
        else:
            rows = await self._connection.retry(self._state.rows)
        return open_calls_of(rows, session, stream)

    async def _current_row(self, stream: str) -> Row | None:
        """A stream's row that has the last commits of other daemons, too. Raises `JournalError`."""
        own = self._rows.get(stream)
        if own is not None:
            row: Row | None = own.row
        else:
            rows = await self._connection.retry(self._state.rows)
            row = next((one for one in rows if one.info.stream == stream), None)
        last = await self._connection.retry(self._messages.last, stream)
        if last is None or (row is not None and row.message >= last.seq):
            return row
        part = self._messages.part(last)
        if own is not None and part is not None and self._writer.is_own(part):
            return row  # the commit is being applied
        await self.load_stream(stream)
        return self._rows[stream].row if stream in self._rows else row

    async def is_current(self, info: StreamInfo) -> bool:
        return await self._connection.retry(self._writer.is_current, info)

    async def output(
        self, output_id: str, offset: int, length: int, unit: Literal["bytes", "lines"]
    ) -> OutputSlice | None:
        return await self._outputs.read(output_id, offset, length, unit)

    async def ask_daemon(self, daemon: str, request: bytes, timeout: float) -> bytes | None:
        return await self._connection.ask(self._asking(daemon), request, timeout)

    def _asking(self, daemon: str) -> str:
        """The subject on which a daemon is asked. No JetStream stream stores it."""
        return f"{self._connection.place.name}.ask.{daemon}"

    async def _answer(self, request: bytes) -> bytes:
        if (asked := decode_question(request)) is not None:
            return encode_answer(self._unwritten(asked))
        return b"" if self.on_ask is None else await self.on_ask(request)

    def _unwritten(self, sessions: Collection[str]) -> set[str]:
        """Those of the sessions of which this daemon has committed something that the stored rows may lack."""
        found: set[str] = set()
        for row in (*self._state.unwritten(), *(own.row for _, own in self._storing.values())):
            found |= sessions_named(row.info, row.sessions)
        for commit, _ in self._storing.values():
            produced = {one.session for one in commit.outputs if isinstance(one, Produced)}
            found |= sessions_named(commit.info, produced)
        return found.intersection(sessions)

    async def daemons(self) -> set[str]:
        return await self._connection.retry(self._state.alive)

    async def load_note(self, name: str) -> bytes | None:
        return await self._connection.retry(self._state.note, name)

    # -- the commits of all daemons ------------------------------------------------------------------------------

    async def listen(self) -> int:
        while True:
            last = await self._connection.retry(self._refresh)
            if self._feed is None:
                self._feed = self._new_feed(last)
                break
            if self._feed.last >= last:
                break
            await self._connection.retry(self._feed.fill, last)
        self._latest = max(self._latest, end_of(self._feed.last) if self._feed.last else 0)
        return end_of(self._feed.last) if self._feed.last else 0

    def stop_listening(self) -> None:
        if self._feed is not None:
            self._feed.stop()
            self._feed = None
            self._unconfirmed.clear()

    def _new_feed(self, last: int) -> Feed:
        return Feed(self._connection, self._messages, last, self._deliver, self._skip)

    async def _skip(self, first: int, last: int) -> None:
        """Handle messages that the feed cannot deliver. Raises `AwayError`, `JournalError`."""
        await self._refresh()
        await self._note_missing(first, last)
        self.on_skip(end_of(last))

    def _deliver(self, message: StoredMessage) -> None:
        self._latest = max(self._latest, end_of(message.seq))
        part = self._messages.part(message)
        if part is None:
            self.on_skip(end_of(message.seq))
            return
        self._identity.learn(message.seq, part.commit)
        stored = events_of(message.seq, part.events)
        own = self._unconfirmed.pop(part.commit, None)
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
