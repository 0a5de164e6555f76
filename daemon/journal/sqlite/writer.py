"""The journal's one writer: a thread that takes everything queued and commits it in one transaction.

There is no batch window. While one transaction is written, the next batch accumulates in the queue. The event loop is
called once per transaction.

What must hold, and how it does:

- A commit is stored entirely or not at all, with its derived rows. Everything is written between BEGIN and COMMIT on
  the one writing connection.
- A commit continues its stream. `base_lines` is compared inside the transaction. A conflict fails that commit alone: it
  has written nothing yet, and the others of the batch are stored.
- `seq` has no duplicates and is never reused, though the newest events may be deleted: the next one is stored in `meta`
  by the transaction that uses it, not derived from the events.
- One bad commit must not fail the others. When a transaction fails, it is rolled back with everything that memory
  mirrors (`next_seq`, the numbers of names, the projection's rows), and each of its commits is tried again in a
  transaction of its own.
- Nobody hears of a commit before it is durable. `report` is scheduled after COMMIT, in the order of the transactions,
  hence in `seq` order. It publishes the events first and then wakes the publisher's commit.
- Operations (retention, removal, suspension) run in the queue's order, each in a transaction of its own, so that one
  that fails rolls back nothing else.

What "durable" means is `Durability`: with `process` SQLite does not sync the write-ahead log on commit (NORMAL), with
`power` it does (FULL).
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeAlias

import msgspec

from tooltap.daemon.journal.interface import Commit, Committed, JournalError, NotEndedError, StreamConflictError
from tooltap.daemon.journal.sqlite.rows import SqliteProjection
from tooltap.daemon.journal.sqlite.tables import get_meta, label_id, set_meta, source_id
from tooltap.daemon.system.failpoints import failpoint
from tooltap.normalizers.core.items import OutputChunk, Produced

__all__ = ["Operation", "Outcome", "Writer"]

CHUNK_BYTES = 262_144
"""Longest chunk of an output body: a slice of a body reads few of them."""

NAMES_IN_MEMORY = 10_000
"""Sources, and labels, whose numbers are in memory."""

# Not `INSERT OR REPLACE`, which creates a new row and writes more pages.
UPDATE_STREAM = """
INSERT INTO streams VALUES (?, ?, ?, ?, 0, ?) ON CONFLICT (stream) DO UPDATE
SET state=excluded.state, lines=excluded.lines, updated=excluded.updated, expired=0, info=excluded.info
"""

Operation: TypeAlias = Callable[[sqlite3.Connection], Any]
"""Other work, done in a transaction of its own."""


class Job(NamedTuple):
    work: Commit | Operation
    future: asyncio.Future[Any]


class Outcome(NamedTuple):
    """The result of a job: a `Committed`, what the operation returned, or the exception."""

    future: asyncio.Future[Any]
    value: Any = None
    error: Exception | None = None


class Writer:
    """Owns the writing connection. `report` gets each transaction's outcomes, in the event loop."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        loop: asyncio.AbstractEventLoop,
        report: Callable[[list[Outcome]], None],
    ) -> None:
        self._connection = connection
        self._loop = loop
        self._report = report
        self._projection = SqliteProjection(connection)
        self._sources: dict[tuple[str, str], int] = {}
        self._labels: dict[tuple[str, str, str | None, str | None], int] = {}
        self._rows: list[tuple[int, int, int, str | None, bytes]] = []
        """The transaction's events, which are written together."""
        self._next_seq = int(get_meta(connection, "next_seq") or 1)
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="journal-writer", daemon=True)
        self._thread.start()

    def put(self, work: Commit | Operation) -> asyncio.Future[Any]:
        future = self._loop.create_future()
        self._queue.put(Job(work, future))
        return future

    def stop(self) -> None:
        """Blocks until everything queued is written."""
        self._queue.put(None)
        self._thread.join()

    # -- the thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        running = True
        while running:
            jobs = self._take()
            running = jobs[-1] is not None
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
        self._connection.close()

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
        next_seq = self._next_seq
        try:
            outcomes = self._transact(jobs)
        except Exception as error:
            self._roll_back(next_seq)
            if len(jobs) > 1:  # try each alone, so that one bad commit does not fail the others
                for job in jobs:
                    self._write([job])
                return
            outcomes = [Outcome(jobs[0].future, error=JournalError(f"the journal cannot be written: {error}"))]
        if isinstance(jobs[0].work, Commit):
            failpoint("after-commit")
        try:
            self._loop.call_soon_threadsafe(self._report, outcomes)
        except RuntimeError:  # the event loop is closed, and nobody waits any more
            pass

    def _transact(self, jobs: Sequence[Job]) -> list[Outcome]:
        self._connection.execute("BEGIN IMMEDIATE")
        before = self._next_seq
        outcomes = [self._do(job) for job in jobs]
        if self._rows:
            self._connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", self._rows)
            self._rows = []
        self._projection.flush()
        if self._next_seq != before:
            set_meta(self._connection, "next_seq", self._next_seq)
        if isinstance(jobs[0].work, Commit):
            failpoint("before-commit")
        self._connection.execute("COMMIT")
        return outcomes

    def _roll_back(self, next_seq: int) -> None:
        self._next_seq = next_seq
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
        stream = job.work.info.stream
        row = self._connection.execute("SELECT lines FROM streams WHERE stream=?", (stream,)).fetchone()
        stored = row[0] if row else 0
        if stored != job.work.base_lines:
            message = f"stream {stream} has {stored} lines, not {job.work.base_lines}"
            return Outcome(job.future, error=StreamConflictError(message))
        return Outcome(job.future, Committed(job.work.outputs, self._commit(job.work)))

    # -- one commit ---------------------------------------------------------------------------------------------

    def _commit(self, commit: Commit) -> list[int | None]:
        execute = self._connection.execute
        info = commit.info
        seqs = self._insert_outputs(info.stream, commit.outputs)
        if info.state == "ended":
            self._projection.end_stream(info.stream)
            failpoint("during-close")
        execute(UPDATE_STREAM, (info.stream, info.state, info.lines, info.updated, msgspec.json.encode(info)))
        if commit.snapshot is not None:
            execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?)", (info.stream, info.lines, commit.snapshot))
            failpoint("during-snapshot")
            execute("DELETE FROM tail WHERE stream=?", (info.stream,))
        elif commit.tail:
            records = msgspec.msgpack.encode(commit.tail)
            execute("INSERT INTO tail (stream, records) VALUES (?, ?)", (info.stream, records))
        return seqs

    def _insert_outputs(self, stream: str, outputs: Sequence[Produced | OutputChunk]) -> list[int | None]:
        seqs: list[int | None] = []
        entries: list[tuple[int, Produced]] = []
        rows, labels = self._rows, self._labels
        seq = self._next_seq
        session: str | None = None
        source = 0
        for output in outputs:
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
            rows.append((seq, source, label, output.agent, output.body))
            entries.append((seq, output))
            seqs.append(seq)
            seq += 1
        self._next_seq = seq
        self._projection.apply(stream, entries)
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
                "INSERT INTO bodies (output_id, stream, mime_type, bytes, newlines, terminated)"
                " VALUES (?, ?, ?, 0, 0, 0) RETURNING id, bytes, newlines",
                (piece.output_id, stream, piece.mime_type),
            ).fetchone()
        body, size, newlines = found
        for start in range(0, len(piece.data), CHUNK_BYTES):
            data = piece.data[start : start + CHUNK_BYTES]
            execute("INSERT INTO pieces VALUES (?, ?, ?, ?)", (body, size, newlines, data))
            size += len(data)
            newlines += data.count(b"\n")
        execute(
            "UPDATE bodies SET bytes=?, newlines=?, terminated=? WHERE id=?",
            (size, newlines, piece.data.endswith(b"\n"), body),
        )
