"""The journal on one SQLite file: one writer thread, a few reader threads, and nothing that blocks the event loop."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Literal, Self, TypeVar

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
    StreamInfo,
    StreamState,
    drop_fields,
)
from tooltap.daemon.journal.sqlite import reader
from tooltap.daemon.journal.sqlite.retention import Step, expire_step, remove_step, size_of_step
from tooltap.daemon.journal.sqlite.schema import Durability, JournalLock, connect, create_or_check
from tooltap.daemon.journal.sqlite.tables import get_meta
from tooltap.daemon.journal.sqlite.writer import Outcome, Writer
from tooltap.daemon.system.clock import Clock, wall_clock
from tooltap.protocol.filters import Filter

__all__ = ["SqliteJournal"]

READERS = 2

T = TypeVar("T")


class SqliteJournal(Journal):
    """Created by `open`; `close` waits for everything queued."""

    def __init__(
        self,
        path: Path,
        lock: JournalLock,
        connection: sqlite3.Connection,
        readers: list[sqlite3.Connection],
        clock: Clock,
    ) -> None:
        super().__init__()
        self.path = path
        self.id = str(get_meta(connection, "id"))
        self._lock = lock
        self._clock = clock
        self._latest = int(get_meta(connection, "next_seq") or 1) - 1
        self._expired = int(get_meta(connection, "expired") or 0)
        (self._oldest,) = connection.execute("SELECT min(seq) FROM events").fetchone()
        self._writer = Writer(connection, asyncio.get_running_loop(), self._report)
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="journal-reader")
        self._readers: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        for one in readers:
            self._readers.put(one)
        self._closed = False

    @classmethod
    async def open(cls, path: Path, *, durability: Durability = "process", clock: Clock = wall_clock) -> Self:
        """Open or create the journal. Raises `JournalError`, one sentence for the user."""

        def open_files() -> tuple[JournalLock, sqlite3.Connection, list[sqlite3.Connection]]:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = JournalLock(path)
            try:
                connection = create_or_check(path, durability)
                return lock, connection, [connect(path, durability) for _ in range(READERS)]
            except BaseException:
                lock.release()
                raise

        try:
            lock, connection, readers = await asyncio.to_thread(open_files)
        except sqlite3.DatabaseError as error:
            raise JournalError(f"{path} is not a tooltap journal: {error}") from error
        except OSError as error:
            raise JournalError(f"the journal {path} cannot be opened: {error.strerror}") from error
        return cls(path, lock, connection, readers, clock)

    @property
    def oldest(self) -> int:
        return self._latest + 1 if self._oldest is None else self._oldest

    @property
    def latest(self) -> int:
        return self._latest

    @property
    def expired(self) -> int:
        return self._expired

    def statistics(self) -> dict[str, int]:
        size = sum(_size(Path(f"{self.path}{suffix}")) for suffix in ("", "-wal", "-shm"))
        return {**super().statistics(), "bytes": size}

    # -- writing ------------------------------------------------------------------------------------------------

    async def commit(self, commit: Commit) -> None:
        self._check_open()
        await self._writer.put(commit)

    async def listen(self) -> int:
        return self._latest

    def stop_listening(self) -> None:
        """Nothing to stop: no other daemon commits to this file."""

    async def suspend_all(self) -> int:
        now = self._clock()

        def suspend(connection: sqlite3.Connection) -> int:
            return connection.execute(
                "UPDATE streams SET state='suspended', updated=? WHERE state='open'", (now,)
            ).rowcount

        self._check_open()
        return int(await self._writer.put(suspend))

    async def expire(self, before: int, max_bytes: int | None = None) -> int:
        forget_before = min(before, self._clock() - REMEMBER_STREAMS_MS)
        return await self._delete(partial(expire_step, before=before, forget_before=forget_before, max_bytes=max_bytes))

    async def remove_session(self, session: str) -> int:
        return await self._delete(partial(remove_step, session=session))

    async def _delete(self, step: Callable[..., Step]) -> int:
        """One step per transaction, so that commits get their turn in between. Returns how many events were deleted."""
        deleted, committed = 0, self._events
        while True:
            self._check_open()
            budget = size_of_step(self._events - committed)
            committed = self._events
            taken: Step = await self._writer.put(partial(step, budget=budget))
            deleted += taken.events
            if taken.done:
                return deleted

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with anyio.CancelScope(shield=True):
            await asyncio.to_thread(self._pool.shutdown)
            while not self._readers.empty():
                self._readers.get().close()
            await asyncio.to_thread(self._writer.stop)
            await asyncio.sleep(0)  # let the event loop handle the last transaction's report
            self._lock.release()

    def _report(self, outcomes: list[Outcome]) -> None:
        """Handle one transaction's outcomes: publish the events, then wake those who wait for their commits."""
        self._transactions += 1
        committed = [one.value for one in outcomes if isinstance(one.value, Committed)]
        if committed:
            seqs = [seq for one in committed for seq in one.seqs if seq is not None]
            for one in committed:
                drop_fields(one.outputs)
            self._commits += len(committed)
            self._events += len(seqs)
            if seqs:
                self._latest = seqs[-1]
                self._oldest = seqs[0] if self._oldest is None else self._oldest
            self.on_commit(committed)
        for future, value, error in outcomes:
            if isinstance(value, Step):
                self._oldest, self._expired = value.oldest, max(self._expired, value.expired)
            if future.done():  # the waiting task was cancelled
                continue
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(value)

    # -- reading ------------------------------------------------------------------------------------------------

    async def read(
        self, after: int, wanted: Filter | None = None, *, up_to: int | None = None, max_bytes: int = 262_144
    ) -> tuple[list[StoredEvent], int]:
        self._reads += 1
        end = self._latest if up_to is None else min(up_to, self._latest)

        def read(connection: sqlite3.Connection) -> tuple[list[StoredEvent], int, int]:
            events, searched = reader.read(connection, after, end, wanted, max_bytes)
            # Asked after the events: what a deletion has just taken from them is not above it.
            return events, searched, int(get_meta(connection, "expired") or 0)

        events, searched, expired = await self._query(read)
        # The deletion may be durable before the event loop hears of it, and the caller compares with `expired`.
        self._expired = max(self._expired, expired)
        return events, searched

    async def read_back(
        self, before: int, wanted: Filter | None = None, *, limit: int, max_bytes: int = 262_144
    ) -> tuple[list[StoredEvent], int]:
        self._reads += 1
        end = min(before, self._latest + 1)
        return await self._query(reader.read_back, end, self.oldest, wanted, limit, max_bytes)

    async def event(self, seq: int) -> StoredEvent | None:
        return await self._query(reader.read_event, seq)

    async def load_stream(self, stream: str) -> StoredStream | None:
        return await self._query(reader.load_stream, stream)

    async def streams(self, state: StreamState | None = None, limit: int | None = None) -> list[StreamInfo]:
        return await self._query(reader.streams, state, limit)

    async def count_streams(self, *states: StreamState) -> int:
        return await self._query(reader.count_streams, states)

    async def streams_of(self, session: str) -> list[StreamInfo]:
        return await self._query(reader.streams_of, session)

    async def sessions(self, *, limit: int = 100, before: int | None = None) -> list[dict[str, Any]]:
        return await self._query(reader.sessions, limit, before)

    async def open_calls(
        self, session: str | None = None, stream: str | None = None
    ) -> dict[str, list[dict[str, Any]]]:
        return await self._query(reader.open_calls, session, stream)

    async def output(
        self, output_id: str, offset: int, length: int, unit: Literal["bytes", "lines"]
    ) -> OutputSlice | None:
        return await self._query(reader.read_output, output_id, offset, length, unit)

    async def _query(self, function: Callable[..., T], *arguments: Any) -> T:
        def query() -> T:
            connection = self._readers.get()
            try:
                return function(connection, *arguments)
            except sqlite3.Error as error:
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
    except FileNotFoundError:
        return 0
