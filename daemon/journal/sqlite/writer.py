"""The journal's one writer: a thread that takes everything queued and commits it in one transaction.

There is no batch window. While one transaction is written, the next batch accumulates in the queue. The event loop is
called once per transaction.

Invariants, and how they are kept:

- A commit is stored entirely or not at all, with its derived rows. Everything is written between BEGIN and COMMIT on
  the one writing connection.
- A commit continues its stream. `base_lines` is compared inside the transaction. A conflict fails that commit alone: it
  has written nothing yet, and the others of the batch are stored.
- `seq` has no duplicates and is never reused, though the newest events may be deleted: the next one is stored in `meta`
  by the transaction that uses it, not derived from the events.
- One bad commit must not fail the others. When a transaction fails, it is rolled back with everything that memory
  mirrors (`next_seq`, the numbers of names, the projection's rows), and each of its commits is tried again in a
  transaction of its own.
- Nothing is written to a damaged place: SQLite refuses the write, the commit fails with one sentence, and nothing of it
  is acknowledged. Commits to intact places continue.
- Nothing is acknowledged that only a removed file has: `OpenFiles` is asked before each transaction and after it.
- Nobody learns of a commit before it is durable. `report` is scheduled after COMMIT, in the order of the transactions,
  hence in `seq` order. It publishes the events first and then wakes the publisher's commit.
- After a failed sync nothing is acknowledged until the whole log has been written and synced again: the kernel may have
  dropped what it could not write, and reports that only once.
- Operations (retention, removal, suspension) run in the queue's order, each in its own transaction, so that one
  that fails rolls back nothing else.

What "durable" means is `Durability`: with `process` SQLite does not sync the write-ahead log on commit (NORMAL), with
`power` it does (FULL).
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeAlias

import msgspec

from tooltap.daemon.journal.interface import (
    Commit,
    Committed,
    CorruptError,
    DeletedError,
    JournalError,
    NotEndedError,
    StreamConflictError,
    UnstorableError,
)
from tooltap.daemon.journal.sqlite.damage import Damages, is_corrupt
from tooltap.daemon.journal.sqlite.file import HighWater, HighWaterFile, OpenFiles, copy_log
from tooltap.daemon.journal.sqlite.opening import OpenState, Tally, write_tally
from tooltap.daemon.journal.sqlite.retention import DeletionStep, StuckError
from tooltap.daemon.journal.sqlite.sessions import SqliteProjection, put_requests, with_repetitions
from tooltap.daemon.journal.sqlite.streams import is_forgotten, put_stream
from tooltap.daemon.journal.sqlite.tables import (
    event_sum,
    label_id,
    piece_sum,
    put_content,
    row_sum,
    set_meta,
    source_id,
    tail_sum,
)
from tooltap.daemon.sessions.repetitions import Compared
from tooltap.daemon.system.failpoints import failpoint
from tooltap.daemon.system.logs import faults, get_logger
from tooltap.normalizers.core.items import OutputChunk, Produced
from tooltap.normalizers.stream.reset import place_of

CHUNK_BYTES = 262_144
"""Longest chunk of an output body, in bytes: a slice of a body reads only a few."""

NAMES_IN_MEMORY = 10_000
"""Most sources, and most labels, whose ids are cached."""

SUM_OF_BODY = "row_sum('bodies', id, output_id, stream, mime_type, ?1, ?2, ?3)"

_log = get_logger("journal")

Operation: TypeAlias = Callable[[sqlite3.Connection], Any]
"""Work other than a commit, done in its own transaction."""


class Job(NamedTuple):
    """Work for the writer, and the future that receives its outcome."""

    work: Commit | Operation
    future: asyncio.Future[Any]


class Outcome(NamedTuple):
    """The outcome of a job: the value is a `Committed`, or the return value of an operation. With both a value and an
    error, it is done, but whoever waits must not rely on it."""

    future: asyncio.Future[Any]
    value: Any = None
    error: Exception | None = None


READ_ONLY = "its file system has become read-only"
REMOUNT = "repair it, mount it again, and restart the daemon"


class Writer:
    """The writer's thread and queue; owns the writing connection. `report` is called in the event loop with the
    outcomes of each transaction."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        loop: asyncio.AbstractEventLoop,
        report: Callable[[list[Outcome]], None],
        opened: OpenState,
        mark: HighWaterFile,
        damages: Damages,
        files: OpenFiles,
    ) -> None:
        self._connection = connection
        self._files = files
        self._loop = loop
        self._answer: Callable[[list[Outcome]], object] = partial(
            loop.call_soon_threadsafe,
            report,  # type: ignore[arg-type]  # mypy takes this for the whole call
            # The context of the writer's thread names no event loop. If Trio is installed too, anyio then refuses to
            # start tasks.
            context=copy_context(),
        )
        """Schedules `report` in the event loop. Raises nothing but `RuntimeError`, if the loop is closed: a commit that
        is durable must be reported."""
        self._projection = SqliteProjection(connection, damages)
        self._sources: dict[tuple[str, str], int] = {}
        self._labels: dict[tuple[str, str, str | None, str | None], int] = {}
        self._rows: list[tuple[int, int, int, str | None, bytes, int]] = []
        """Event rows of the current transaction, inserted together."""
        self._mark, self._tally = opened.mark, opened.tally
        self._mark_file = mark
        self._next_seq = opened.mark.next_seq
        self._mark_failed = False
        self._in_doubt = False
        """True after a failed sync: the disk may not have what the kernel's page cache returns."""
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="journal-writer", daemon=True)
        self._thread.start()

    def put(self, work: Commit | Operation) -> asyncio.Future[Any]:
        future = self._loop.create_future()
        self._queue.put(Job(work, future))
        return future

    def stop(self) -> None:
        """Stop the thread. Blocks until everything queued is written."""
        self._queue.put(None)
        self._thread.join()

    # -- the thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        running = True
        while running:
            jobs: list[Job | None] = []
            try:
                jobs = self._take()
                running = jobs[-1] is not None
                self._write_all(jobs)
            except Exception as error:  # an internal error; whoever waits must learn of it
                faults.note("the journal's writer failed", place_of(error), error)
                self._roll_back()
                with suppress(RuntimeError):
                    self._answer([Outcome(job.future, error=self._refusal(error)) for job in jobs if job is not None])
        self._connection.close()
        self._mark_file.close()

    def _write_all(self, jobs: Sequence[Job | None]) -> None:
        """Write each run of consecutive commits in one transaction, and every operation in its own."""
        batch: list[Job] = []
        for job in jobs:
            if job is not None and isinstance(job.work, Commit):
                batch.append(job)
                continue
            self._write(batch)
            batch = []
            if job is not None:
                self._write([job])
        self._write(batch)

    def _take(self) -> list[Job | None]:
        jobs = [self._queue.get()]
        try:
            while jobs[-1] is not None:
                jobs.append(self._queue.get_nowait())
        except Empty:
            pass
        return jobs

    def _write(self, jobs: Sequence[Job]) -> None:
        if not jobs:
            return
        try:
            outcomes = self._transact(jobs)
        except Exception as error:
            self._roll_back()
            self._in_doubt |= getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_IOERR_FSYNC
            if len(jobs) > 1:  # try each alone, so that one bad commit does not fail the others
                for job in jobs:
                    self._write([job])
                return
            outcomes = [Outcome(jobs[0].future, error=self._refusal(error))]
        if isinstance(jobs[0].work, Commit):
            failpoint("after-commit")
        with suppress(RuntimeError):  # the event loop is closed, and nobody waits any more
            self._answer(outcomes)

    def _transact(self, jobs: Sequence[Job]) -> list[Outcome]:
        if problem := self._files.problem():
            raise JournalError(problem)
        if self._in_doubt:
            copy_log(self._connection)
            self._in_doubt = False
        self._connection.execute("BEGIN IMMEDIATE")
        mark, tally = self._mark, self._tally
        outcomes = [self._do(job) for job in jobs]
        if self._rows:
            self._connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", self._rows)
            self._rows = []
        self._projection.flush()
        if self._next_seq != mark.next_seq:
            set_meta(self._connection, "next_seq", self._next_seq)
        step = outcomes[0].value
        deleted, expired = (
            (step.events, max(step.expired, mark.expired)) if isinstance(step, DeletionStep) else (0, mark.expired)
        )
        tally = Tally(tally.transactions + 1, tally.events + self._next_seq - mark.next_seq - deleted)
        write_tally(self._connection, tally)
        if isinstance(jobs[0].work, Commit):
            failpoint("before-commit")
        elif isinstance(step, DeletionStep):
            failpoint("before-deletion")
        self._connection.execute("COMMIT")
        self._tally, self._mark = (
            tally,
            HighWater(mark.journal, tally.transactions, self._next_seq, expired),
        )
        # What is committed is committed, whether or not it can be noted.
        try:
            self._mark_file.write(self._mark)
        except Exception as error:
            if not self._mark_failed:
                _log.warning("cannot note how far the journal is written", reason=str(error))
            self._mark_failed = True
        else:
            self._mark_failed = False
        if problem := self._files.problem():  # readers get what is there; it is not acknowledged
            return [one._replace(error=JournalError(problem)) for one in outcomes]
        return outcomes

    def _refusal(self, error: Exception) -> Exception:
        if isinstance(error, StuckError | JournalError):  # if one stream is stuck, retention continues with the others
            return error
        if isinstance(error, sqlite3.Error) and is_corrupt(error):
            return CorruptError(
                f"the journal is damaged where it was to be written ({error}): run `tooltap journal repair`"
            )
        kind = JournalError if _is_of_storage(error) else UnstorableError
        why = f"{READ_ONLY} ({error}); {REMOUNT}" if kind is JournalError and self._files.is_read_only() else error
        return kind(f"the journal cannot be written: {why}").with_traceback(error.__traceback__)

    def _roll_back(self) -> None:
        self._next_seq = self._mark.next_seq
        self._forget()
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:  # the transaction is gone anyway; the error that led here is reported
            pass

    def _forget(self) -> None:
        self._projection.reset()
        self._sources.clear()
        self._labels.clear()
        self._rows = []

    def _do(self, job: Job) -> Outcome:
        if not isinstance(job.work, Commit):
            self._forget()  # the operation may delete rows that are in memory
            try:
                return Outcome(job.future, job.work(self._connection))
            except NotEndedError as error:
                return Outcome(job.future, error=error)
        info = job.work.info
        sql = "SELECT lines, expired, CASE state WHEN 'ended' THEN info END FROM streams WHERE stream=?"
        stored, is_deleted, ended = self._connection.execute(sql, (info.stream,)).fetchone() or (0, False, None)
        if stored != job.work.base_lines:
            message = f"stream {info.stream} has {stored} lines, not {job.work.base_lines}"
            return Outcome(job.future, error=StreamConflictError(message))
        if is_deleted and info.followed and not info.expired:
            message = f"stream {info.stream} was deleted, and its file is to be read again"
            return Outcome(job.future, error=StreamConflictError(message))
        if job.work.remembers and ended is not None and is_forgotten(ended):
            return Outcome(job.future, error=DeletedError(f"what stream {info.stream} had said was deleted"))
        return Outcome(job.future, self._commit(job.work))

    # -- one commit ---------------------------------------------------------------------------------------------

    def _commit(self, commit: Commit) -> Committed:
        execute = self._connection.execute
        info = commit.info
        compared = with_repetitions(self._connection, info.stream, commit.outputs)
        put_requests(self._connection, compared, lambda origin: self._source(origin.stream, origin.session))
        seqs = self._insert_outputs(info.stream, compared)
        if info.state == "ended":
            self._projection.end_stream(info.stream)
            failpoint("during-close")
        put_stream(self._connection, info)
        if commit.snapshot is not None:
            snapshot = (info.stream, info.lines, commit.snapshot)
            execute(
                "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?)", (*snapshot, row_sum("snapshots", *snapshot))
            )
            failpoint("during-snapshot")
            execute("DELETE FROM tail WHERE stream=?", (info.stream,))
        elif commit.tail:
            records = msgspec.msgpack.encode(commit.tail)
            checksum = tail_sum(info.stream, commit.base_lines, records)
            execute("INSERT INTO tail (stream, records, checksum) VALUES (?, ?, ?)", (info.stream, records, checksum))
        return Committed(compared.outputs, seqs)

    def _insert_outputs(self, stream: str, compared: Compared) -> list[int | None]:
        seqs: list[int | None] = []
        entries: list[tuple[int, Produced]] = []
        rows, labels = self._rows, self._labels
        seq = self._next_seq
        session: str | None = None
        source = 0
        for output in compared.outputs:
            if isinstance(output, OutputChunk):
                self._append(stream, output)
                seqs.append(None)
                continue
            if output.partial:
                seqs.append(None)
                continue
            if output.session != session:
                session = output.session
                source = self._source(stream, session)
            key = (output.kind, output.provider, output.tool, output.raw_tool)
            label = labels.get(key) or self._label(key)
            checksum = event_sum(seq, source, label, output.agent, output.body)
            rows.append((seq, source, label, output.agent, output.body, checksum))
            entries.append((seq, output))
            seqs.append(seq)
            seq += 1
        self._next_seq = seq
        self._projection.apply(stream, entries, compared.forks, compared.copies)
        return seqs

    def _source(self, stream: str, session: str) -> int:
        source = self._sources.get((stream, session))
        if source is None:
            if len(self._sources) >= NAMES_IN_MEMORY:
                self._sources.clear()
            source = self._sources[stream, session] = source_id(self._connection, stream, session)
        return source

    def _label(self, key: tuple[str, str, str | None, str | None]) -> int:
        if len(self._labels) >= NAMES_IN_MEMORY:
            self._labels.clear()
        label = self._labels[key] = label_id(self._connection, *key)
        return label

    def _append(self, stream: str, piece: OutputChunk) -> None:
        """Append a chunk to its body."""
        execute = self._connection.execute
        found = execute("SELECT id, bytes, newlines FROM bodies WHERE output_id=?", (piece.output_id,)).fetchone()
        if found is None:
            found = execute(
                "INSERT INTO bodies (output_id, stream, mime_type, bytes, newlines, terminated)"  # summed below
                " VALUES (?, ?, ?, 0, 0, 0) RETURNING id, bytes, newlines",
                (piece.output_id, stream, piece.mime_type),
            ).fetchone()
        body, size, newlines = found
        for start in range(0, len(piece.data), CHUNK_BYTES):
            data = piece.data[start : start + CHUNK_BYTES]
            content = put_content(self._connection, data)
            kept = data if content is None else b""
            checksum = piece_sum(body, size, newlines, data, content)
            execute("INSERT INTO pieces VALUES (?, ?, ?, ?, ?, ?)", (body, size, newlines, kept, content, checksum))
            size += len(data)
            newlines += data.count(b"\n")
        execute(
            f"UPDATE bodies SET bytes=?1, newlines=?2, terminated=?3, checksum={SUM_OF_BODY} WHERE id=?4",
            (size, newlines, int(piece.data.endswith(b"\n")), body),
        )


def _is_of_storage(error: Exception) -> bool:
    """Whether an error is caused by the file or disk, and not by the content of the commit."""
    of_values = sqlite3.InterfaceError, sqlite3.ProgrammingError, sqlite3.DataError
    return isinstance(error, sqlite3.Error | OSError) and not isinstance(error, of_values)
