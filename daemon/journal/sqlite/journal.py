"""The journal on one SQLite file: one writer thread, a few reader threads, and nothing that blocks the event loop.

The other modules, in reading order: `tables.py` has the tables and the checksums of their rows. `file.py` locks and
opens the file and its side files, and `opening.py` checks the journal's metadata. `writer.py` commits, and
`sessions.py` derives and lists rows of sessions. `reader.py` and `streams.py` read; `damage.py` recognises damage.
`retention.py` deletes; `check.py`, `repair.py` and `backup.py` are for maintenance.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal, NamedTuple, Self, TypeVar

import anyio
import msgspec

from tooltap.daemon.journal.interface import (
    REMEMBER_STREAMS_MS,
    REMOVED,
    Commit,
    Committed,
    CorruptError,
    FilePosition,
    Journal,
    JournalError,
    OutputSlice,
    RemovedBody,
    StoredEvent,
    StoredStream,
    StreamInfo,
    decode_removed,
    drop_fields,
)
from tooltap.daemon.journal.sqlite import reader, streams
from tooltap.daemon.journal.sqlite.check import Scrub, survey
from tooltap.daemon.journal.sqlite.damage import Damages, is_corrupt, read_again
from tooltap.daemon.journal.sqlite.file import (
    SCRUB_NOTE,
    Durability,
    HighWaterFile,
    JournalLock,
    OpenFiles,
    Scrubbed,
    check_foreign,
    connect,
    connect_guard,
    copy_some,
    create_or_check,
    finish_swap,
    journal_files,
    set_log_aside,
    steady_place,
    swap_path,
)
from tooltap.daemon.journal.sqlite.opening import OpenState, check_at_open, read_gaps
from tooltap.daemon.journal.sqlite.reader import EventsRead, KnownDamage
from tooltap.daemon.journal.sqlite.retention import (
    Deletion,
    DeletionStep,
    count_notes_of_bodies,
    forget_expired,
    note_removed,
    removed_bodies,
)
from tooltap.daemon.journal.sqlite.sessions import Descriptions, changed_files, count_sessions, remotes, sessions, usage
from tooltap.daemon.journal.sqlite.tables import STREAM_SUM, get_meta, note_key, set_meta, verified_meta
from tooltap.daemon.journal.sqlite.writer import Outcome, Writer
from tooltap.daemon.sessions.listing import ANY_SESSION, SessionFilter, SessionOrder, SessionPlace
from tooltap.daemon.system.clock import Clock, wall_clock
from tooltap.daemon.system.logs import Trouble, faults, get_logger
from tooltap.normalizers.stream.reset import place_of
from tooltap.protocol.filters import ALL_EVENTS, Filter
from tooltap.protocol.frames import ChangedFilesRequest, UsageRequest
from tooltap.protocol.replies import ChangedFilesResult, StreamState, UsageResult

READERS = 2
ROOM_NOTE = "room"
"""Name of the note with which `can_store` tries the disk."""
STAMP_PERIOD_MS = 600_000
"""Least time between two stamps of the file."""
SURVEYED_FIRST = 256 * 1024 * 1024
"""Bytes of the largest journal whose survey the first reader with a filter waits for: a quarter of a second or so."""
SUSPENDED_SUM = STREAM_SUM.format(state="'suspended'", updated="?1", expired="expired")

HARMLESS_FOR_FILTERS = frozenset({"tail", "snapshots", "pieces", "bodies", "contents", "calls", "sessions", "log"})
"""Tables whose damage cannot make a filter miss events."""
MOST_NOTED = 20
"""Most damages whose descriptions are stored with the result of a scrub."""

T = TypeVar("T")

_log = get_logger("journal")


class _Opened(NamedTuple):
    lock: JournalLock
    connection: sqlite3.Connection
    """The one that writes."""
    readers: list[sqlite3.Connection]
    guard: sqlite3.Connection
    """One that cannot write; see `SqliteJournal.close`."""
    state: OpenState
    mark: HighWaterFile


class SqliteJournal(Journal):
    """A `Journal` in a SQLite file, created by `open`. `close` waits until everything queued is written."""

    def __init__(
        self,
        path: Path,
        lock: JournalLock,
        connection: sqlite3.Connection,
        readers: list[sqlite3.Connection],
        guard: sqlite3.Connection,
        opened: OpenState,
        mark: HighWaterFile,
        damages: Damages,
        durability: Durability,
        clock: Clock,
    ) -> None:
        super().__init__()
        self.path = path
        self.id = opened.mark.journal
        self.corrupt = opened.gaps
        self._lost = opened.gaps.events
        """Number of events that the journal records as lost, for example after a repair."""
        self._lock = lock
        self._clock = clock
        self._latest = opened.mark.next_seq - 1
        self._last_expired = opened.mark.expired
        self._oldest = opened.oldest
        self._damages = damages
        self._descriptions = Descriptions()
        loop = asyncio.get_running_loop()
        (stamp,) = connection.execute("PRAGMA user_version").fetchone()
        self._files = OpenFiles(path, lock, stamp)
        self._guard = guard
        self._stamped, self._stamped_after = clock(), 0
        """When the file was stamped last, and the number of transactions then."""
        self._trouble = Trouble(_log, "nothing can be stored in the journal", "the journal's files are back")
        self._mark = mark
        self._writer = Writer(connection, loop, self._report, opened, mark, damages, self._files)
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="journal-reader")
        self._readers: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        for one in readers:
            self._readers.put(one)
        note = verified_meta(connection, note_key(REMOVED))
        self.removed = decode_removed(note if isinstance(note, bytes) else None)
        self._notes_of_bodies = count_notes_of_bodies(connection)
        self._deletion = Deletion(self._delete, self._query, lambda: self._events, clock)
        self._closed = False
        self._suspect = False
        """True once an index or a name is known to be damaged: filters then scan all events."""
        self._surveying: asyncio.Task[None] | None = None
        self._is_large = False
        self._durability: Durability = durability
        self._scrub = Scrub(path, durability, 1.0)
        self._scrubbing = False
        self._scrubs = self._scrubbed_at = 0

    @classmethod
    async def open(cls, path: Path, *, durability: Durability = "process", clock: Clock = wall_clock) -> Self:
        """Open or create the journal. Raises `JournalError`, one sentence for the user."""
        path = steady_place(path)  # what stands beside the file stands beside it under any name
        damages = Damages()

        def open_files() -> _Opened:
            if not swap_path(path).exists():
                check_foreign(path)
            lock = JournalLock(path)
            try:
                finish_swap(path)
                connection = create_or_check(path, durability)
                opened = check_at_open(connection, path, damages)
                readers = [connect(path, durability) for _ in range(READERS)]
                return _Opened(lock, connection, readers, connect_guard(path), opened, HighWaterFile(path))
            except BaseException:
                lock.release()
                raise

        try:
            found = await asyncio.to_thread(open_files)
        except sqlite3.DatabaseError as error:
            advice = "; run `tooltap journal repair`" if is_corrupt(error) else ""
            raise JournalError(f"the journal {path} cannot be opened: {error}{advice}") from error
        except UnicodeError as error:  # in the schema, or in SQLite's error message about it
            raise JournalError(f"the journal {path} cannot be opened: {error}; run `tooltap journal repair`") from error
        except OSError as error:
            raise JournalError(f"the journal {path} cannot be opened: {error.strerror}") from error
        return cls(path, *found, damages, durability, clock)

    @property
    def oldest(self) -> int:
        # Above the last expired one none may be missing: if the first there is comes later, those before it are lost.
        return min(self._last_expired + 1, self._latest + 1 if self._oldest is None else self._oldest)

    @property
    def latest(self) -> int:
        return self._latest

    @property
    def last_expired(self) -> int:
        return self._last_expired

    @property
    def problem(self) -> str:
        return self._files.problem()

    @property
    def files(self) -> list[Path]:
        return journal_files(self.path)

    def check_files(self) -> None:
        with suppress(OSError):  # a commit says what is wrong with it
            self._mark.keep()
        if problem := self.problem:
            self._trouble.begin(problem)
        else:
            self._trouble.end()

    def statistics(self) -> dict[str, int]:
        size = sum(_size(Path(f"{self.path}{suffix}")) for suffix in ("", "-wal", "-shm"))
        damages = {"damages": self._damages.found, "damagedSessions": self._damages.by_table["sessions"]}
        found = {"corrupt": self.corrupt.events, "lost": self._lost, **damages}
        scrubbed = {"scrubs": self._scrubs, "scrubbedAt": self._scrubbed_at, "scrubbedRows": self._scrub.rows}
        return {**super().statistics(), "bytes": size, **found, **scrubbed, "scrubbing": int(self._scrubbing)}

    # -- writing ------------------------------------------------------------------------------------------------

    async def commit(self, commit: Commit) -> None:
        self._check_open()
        await self._writer.put(commit)

    async def listen(self) -> int:
        return self._latest

    def stop_listening(self) -> None:
        """Do nothing: no other daemon commits to this file, so listening costs nothing."""

    async def suspend_all(self) -> int:
        now = self._clock()

        def suspend(connection: sqlite3.Connection) -> int:
            return connection.execute(
                f"UPDATE streams SET state='suspended', updated=?1, checksum={SUSPENDED_SUM} WHERE state='open'", (now,)
            ).rowcount

        self._check_open()
        for is_second in (False, True):  # SQLite calls a file damaged, too, that the system failed to read once
            try:
                return int(await self._writer.put(suspend))
            except CorruptError as error:
                if is_second:
                    self._damages.add("streams", error)
        # One by one: what cannot be suspended is when its publisher comes back.
        suspended = 0
        for info in await self.streams("open"):
            info.state, info.updated = "suspended", now
            with suppress(CorruptError):
                await self._writer.put(partial(streams.put_stream, info=info))
                suspended += 1
        return suspended

    async def store_note(self, name: str, data: bytes) -> None:
        self._check_open()
        await self._writer.put(partial(set_meta, key=note_key(name), value=data))

    async def can_store(self, size: int) -> bool:
        try:
            await self.store_note(ROOM_NOTE, bytes(size))
        except JournalError:
            return False
        with suppress(JournalError):  # it is written over the next time
            await self.store_note(ROOM_NOTE, b"")
        return True

    async def expire(self, before: int, max_bytes: int | None = None) -> int:
        forget_before = min(before, self._clock() - REMEMBER_STREAMS_MS)
        pinned = await self.pinned()
        try:
            deleted = await self._deletion.expire(before, forget_before, max_bytes, pinned)
        finally:
            self._say_removed(self._deletion.removed)
        await self._renew_stamp()
        await self._query(self._copy_some)
        return deleted

    def _copy_some(self, connection: sqlite3.Connection) -> None:
        if not self._files.overwritten():
            copy_some(connection)

    async def _renew_stamp(self) -> None:
        """Have a copy of the file that is made now told from the file itself later, if it is not idle."""
        now = self._clock()
        if self._transactions > self._stamped_after and now >= self._stamped + STAMP_PERIOD_MS:
            await self._writer.put(self._files.restamp)
            self._stamped, self._stamped_after = now, self._transactions + 1

    async def remove_session(self, session: str) -> int:
        removed = await self._deletion.remove_session(session)
        await self.pin(session, pinned=False)
        return removed

    async def forget_expired(self, stream: str) -> bool:
        self._check_open()
        forgotten: bool = await self._writer.put(partial(forget_expired, stream=stream))
        return forgotten

    async def _delete(self, step: Callable[[sqlite3.Connection], DeletionStep]) -> DeletionStep:
        self._check_open()
        taken: DeletionStep = await self._writer.put(step)
        return taken

    async def scrub(self, share: float) -> int:
        self._check_open()
        scrub = self._scrub = Scrub(self.path, self._durability, share)
        self._scrubbing = True
        try:
            found = await anyio.to_thread.run_sync(scrub.run, abandon_on_cancel=True)
        finally:
            scrub.stop()
            self._scrubbing = False
        if found is None:
            return 0
        # Damage that is no longer found was a passing fault of the disk.
        self.corrupt = await self._query(read_gaps, self._damages)
        self._lost = self.corrupt.events
        self._suspect = False
        for one in found:
            if one.first is not None and one.last is not None and self.corrupt.add(one.first, one.last):
                _log.error("events are damaged", first=one.first, last=one.last, journal=str(self.path))
            if one.part != "events":
                self._damages.add(one.part, one.text)
                self._suspect = self._suspect or one.part not in HARMLESS_FOR_FILTERS
        self._scrubs += 1
        self._scrubbed_at = self._clock()
        note = Scrubbed(self._scrubbed_at, len(found), [one.text for one in found[:MOST_NOTED]])
        await self.store_note(SCRUB_NOTE, msgspec.json.encode(note))
        return len(found)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._scrub.stop()
        with anyio.CancelScope(shield=True):
            if self._surveying is not None:  # what it has come to does not matter any more
                await asyncio.gather(self._surveying, return_exceptions=True)
            await asyncio.to_thread(self._pool.shutdown)
            while not self._readers.empty():
                self._readers.get().close()
            # SQLite would copy its log into what another program has put there. It cannot if the last connection only
            # reads.
            is_overwritten = bool(self._files.overwritten())
            if not is_overwritten:
                self._guard.close()
            await asyncio.to_thread(self._writer.stop)
            await asyncio.sleep(0)  # let the event loop handle the last transaction's report
            if is_overwritten:
                self._guard.close()
                self._set_log_aside()
            self._files.close()
            self._lock.release()

    def _set_log_aside(self) -> None:
        try:
            if (aside := set_log_aside(self.path)) is not None:
                _log.warning("the log of the journal that was overwritten is kept", log=str(aside))
        except OSError as error:
            _log.error("the log of the journal that was overwritten is still there", reason=error.strerror)

    def _report(self, outcomes: list[Outcome]) -> None:
        """Handle one transaction's outcomes: publish the events, then resolve the futures of the commits."""
        self._transactions += 1
        committed = [one.value for one in outcomes if isinstance(one.value, Committed)]
        if committed:
            seqs = [seq for one in committed for seq in one.seqs if seq is not None]
            self._commits += len(committed)
            self._events += len(seqs)
            if seqs:
                self._latest = seqs[-1]
                self._oldest = seqs[0] if self._oldest is None else self._oldest
            # The commits are durable: whatever fails here, even the call, whoever waits for them must learn of it.
            try:
                self._publish(committed)
            except Exception as fault:
                faults.note("subscribers read commits later", place_of(fault), fault)
                self._skip()
        for future, value, error in outcomes:
            if isinstance(value, DeletionStep):
                self._oldest, self._last_expired = value.oldest, max(self._last_expired, value.expired)
                self.removed = value.total or self.removed
            if future.done():  # the waiting task was cancelled
                continue
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(value)

    def _publish(self, committed: list[Committed]) -> None:
        for one in committed:
            drop_fields(one.outputs)
        self.on_commit(committed)

    def _skip(self) -> None:
        try:
            self.on_skip(self._latest)
        except Exception as again:
            faults.note("subscribers learn of commits with the next ones", place_of(again), again)

    # -- reading ------------------------------------------------------------------------------------------------

    async def read(
        self, after: int, wanted: Filter = ALL_EVENTS, *, up_to: int | None = None, max_bytes: int = 262_144
    ) -> tuple[list[StoredEvent], int]:
        self._reads += 1
        end = self._latest if up_to is None else min(up_to, self._latest)
        await self._survey(wanted)
        known = self._known(after + 1, end)

        def read(connection: sqlite3.Connection) -> tuple[EventsRead, int]:
            found = reader.read(connection, after, end, wanted, max_bytes, known)
            # Asked after the events: what a deletion has just taken from them is not above it.
            return found, int(get_meta(connection, "expired") or 0)

        found, expired = await self._query(read)
        # The deletion may be durable before the event loop learns of it, and the caller compares with `last_expired`.
        self._last_expired = max(self._last_expired, expired)
        self._note(found)
        return found.events, found.searched

    async def read_back(
        self, before: int, wanted: Filter = ALL_EVENTS, *, limit: int, max_bytes: int = 262_144
    ) -> tuple[list[StoredEvent], int]:
        self._reads += 1
        await self._survey(wanted)
        end = min(before, self._latest + 1)
        known = self._known(self.oldest, end - 1)
        found = await self._query(reader.read_back, end, self.oldest, wanted, limit, max_bytes, known)
        self._note(found)
        return found.events, found.searched

    async def event(self, seq: int) -> StoredEvent | None:
        return await self._query(reader.read_event, seq, self._known(seq, seq))

    async def _survey(self, wanted: Filter) -> None:
        """Before the first read with a filter (from then on in a large journal), check what leads to the events that it
        selects, and that none is missing. Who reads everything sees both."""
        if wanted.matches_all:
            return
        if self._surveying is None:
            self._is_large = _size(self.path) > SURVEYED_FIRST
            self._surveying = asyncio.create_task(self._look())
            self._surveying.add_done_callback(lambda done: done.cancelled() or done.exception())
        if not self._is_large:
            await asyncio.shield(self._surveying)

    async def _look(self) -> None:
        try:
            found = await self._query(survey, lambda: self._closed)
        except JournalError:
            self._surveying = None  # the next reader tries again
            raise
        for part in found.damaged:
            self._damages.add("indexes", part)
        self._suspect = self._suspect or bool(found.damaged)
        self._note(EventsRead([], 0, found.missing))

    def _known(self, first: int, last: int) -> KnownDamage:
        return KnownDamage(self.corrupt.within(first, last), self._suspect)

    def _note(self, found: EventsRead) -> None:
        for first, last in found.damaged:
            if self.corrupt.add(first, last):
                _log.error("events are damaged", first=first, last=last, journal=str(self.path))

    async def load_stream(self, stream: str) -> StoredStream | None:
        loaded = await self._query(streams.load_stream, stream, self._damages)
        if loaded is None:
            return None
        if loaded.is_rebuilt:
            await self._writer.put(partial(streams.put_stream, info=loaded.stored.info))
            _log.warning("rewriting the damaged row of a stream", stream=stream)
        return loaded.stored

    async def streams(self, state: StreamState | None = None, limit: int | None = None) -> list[StreamInfo]:
        return await self._query(streams.streams, state, limit, self._damages)

    async def abandoned(self, before: int) -> list[str]:
        return await self._query(streams.abandoned, before, self._damages)

    async def file_positions(self) -> list[FilePosition]:
        return await self._query(streams.file_positions, self._damages)

    async def count_streams(self, *states: StreamState, followed: bool | None = None) -> int:
        return await self._query(streams.count_streams, states, followed, self._damages)

    async def streams_of(self, session: str) -> list[StreamInfo]:
        return await self._query(streams.streams_of, session, self._damages)

    async def sessions(
        self,
        *,
        limit: int = 100,
        before: SessionPlace | None = None,
        order: SessionOrder = "seq",
        wanted: SessionFilter = ANY_SESSION,
    ) -> list[dict[str, Any]]:
        pinned = await self.pinned()
        return await self._query(sessions, limit, before, order, wanted, pinned, self._damages, self._descriptions)

    async def remotes(self) -> list[str]:
        return await self._query(remotes, self._damages)

    async def count_sessions(self, wanted: SessionFilter = ANY_SESSION) -> dict[str, dict[str, int]]:
        return await self._query(count_sessions, wanted, self._damages)

    async def usage(self, request: UsageRequest) -> UsageResult:
        return await self._query(usage, request, self._damages)

    async def changed_files(self, request: ChangedFilesRequest) -> ChangedFilesResult:
        return await self._query(changed_files, request, self._damages)

    async def open_calls(
        self, session: str | None = None, stream: str | None = None
    ) -> dict[str, list[dict[str, Any]]]:
        return await self._query(reader.open_calls, session, stream, self._damages)

    async def output(
        self, output_id: str, offset: int, length: int, unit: Literal["bytes", "lines"]
    ) -> OutputSlice | None:
        return await self._query(reader.read_output, output_id, offset, length, unit)

    async def removed_bodies(self, output_ids: Collection[str]) -> dict[str, RemovedBody]:
        if not self.removals:
            return {}
        return await self._query(removed_bodies, output_ids)

    @property
    def removals(self) -> int:
        return self.removed.size.bodies + self._notes_of_bodies

    async def note_removed(self, output_id: str, removed: RemovedBody) -> None:
        self._check_open()
        await self._writer.put(partial(note_removed, output_id=output_id, removed=removed))
        self._notes_of_bodies += 1

    async def load_note(self, name: str) -> bytes | None:
        try:
            found = await self._query(verified_meta, note_key(name))
        except CorruptError:
            return None
        return found if isinstance(found, bytes) else None

    async def _query(self, function: Callable[..., T], *arguments: Any) -> T:
        def query() -> T:
            connection = self._readers.get()
            try:
                return read_again(lambda: function(connection, *arguments))
            except sqlite3.Error as error:
                if problem := self._files.problem():
                    raise JournalError(problem) from error
                if is_corrupt(error):
                    raise CorruptError(
                        f"a part of the journal is damaged ({error}); run `tooltap journal check`"
                    ) from error
                raise JournalError(f"the journal cannot be read: {error}") from error
            finally:
                self._readers.put(connection)

        self._check_open()
        return await asyncio.get_running_loop().run_in_executor(self._pool, query)

    def _check_open(self) -> None:
        if self._closed:
            raise JournalError("the journal is closed")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # the daemon has the file open, so that only the statistics need this
        return 0
