"""Writes the JSONL trace of raw lines, if the environment requests one.

`HAPPIER_STACK_TOOL_TRACE` (1, true, yes, on) switches it on. The file is `HAPPIER_STACK_TOOL_TRACE_FILE`, else a new
one in `HAPPIER_STACK_TOOL_TRACE_DIR`, else in `$HAPPIER_HOME_DIR/tool-traces` (home `~/.happier`).

One record (`record.py`) per raw line, in full length, with secrets masked. A thread masks, encodes and writes the
records in batches. A trace never raises an exception or delays ingest: records that cannot be written, because the disk
is full or too slow, are dropped and counted, and a warning is logged once.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tooltap.traces.recording.record import TraceRecord
from tooltap.traces.recording.rotation import RotatingFile
from tooltap.traces.recording.secrets import mask_lines

ON = frozenset({"1", "true", "yes", "on"})
PERIOD = 0.1
"""Seconds for which records are collected before they are written …"""
BATCH = 256 * 1024
"""… unless this many bytes are waiting."""
BATCH_RECORDS = 256
"""Records masked and written at once."""
RETRY = 10.0
"""Seconds until writing is retried after an error."""
CLOSE_TIMEOUT = 2.0
"""Seconds to wait for the disk when the daemon exits."""


def trace_path(environ: Mapping[str, str], now: datetime, pid: int) -> Path | None:
    """The path of the trace that the environment requests; None if it requests none."""
    if environ.get("HAPPIER_STACK_TOOL_TRACE", "").lower() not in ON:
        return None
    if file := environ.get("HAPPIER_STACK_TOOL_TRACE_FILE"):
        return Path(file).expanduser()
    if not (folder := environ.get("HAPPIER_STACK_TOOL_TRACE_DIR")):
        folder = f"{environ.get('HAPPIER_HOME_DIR') or '~/.happier'}/tool-traces"
    time = now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Path(folder).expanduser() / f"tooltap-{time.replace(':', '-').replace('.', '-')}-pid-{pid}.jsonl"


class _Batch(NamedTuple):
    records: Iterable[TraceRecord]
    size: int


TRACE_BUFFER_BYTES = 16 * 1024 * 1024
"""Bytes of lines that wait to be traced; when the disk is too slow, the newest are left out."""


class TraceWriter:
    """`warn` is called with a sentence when the writer starts to drop records.

    `file_bytes`, `total_bytes`: the limits of one file, and of all files that share the trace's budget. `buffer_bytes`:
    the limit of records that wait for the disk; beyond it, new records are dropped.
    """

    def __init__(
        self,
        path: Path,
        warn: Callable[[str], None],
        *,
        file_bytes: int,
        total_bytes: int,
        buffer_bytes: int,
    ) -> None:
        self.path = path
        self._warn = warn
        self._disk = RotatingFile(path, file_bytes, total_bytes)
        self._buffer_bytes = buffer_bytes
        self._lock = threading.Lock()
        self._waiting: deque[_Batch] = deque()
        self._waiting_bytes = 0
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._records = self._bytes = self._dropped = 0
        self._problem: str | None = None
        """Why records cannot be written at present."""
        self._warned: set[str] = set()
        self._retry_at = 0.0
        self._thread = threading.Thread(target=self._run, name="trace-writer", daemon=True)
        self._thread.start()

    @classmethod
    def from_environment(
        cls, environ: Mapping[str, str], warn: Callable[[str], None], **bounds: int
    ) -> TraceWriter | None:
        path = trace_path(environ, datetime.now(UTC), os.getpid())
        return None if path is None else cls(path, warn, **bounds)

    def write(self, records: Iterable[TraceRecord], count: int, size: int) -> None:
        """Queue `count` records of about `size` bytes in total, each with its raw line in `b64`. Another thread
        iterates over them, so the objects they are made from must not change any more."""
        with self._lock:
            fits = self._waiting_bytes + size <= self._buffer_bytes or not self._waiting_bytes
            if fits:
                self._waiting.append(_Batch(records, size))
                self._waiting_bytes += size
            else:
                self._dropped += count
        if not fits:
            self._warn_once("is written too slowly, so lines are dropped from it")
        if not self._wake.is_set():
            self._wake.set()

    def close(self) -> None:
        """Wait until everything is written, at most `CLOSE_TIMEOUT` seconds."""
        self._closing.set()
        self._wake.set()
        self._thread.join(CLOSE_TIMEOUT)

    def statistics(self) -> dict[str, Any]:
        """For `stats`: the path; records and bytes written, records dropped; files rotated and removed by this process;
        bytes of all files that share the budget; and `problem` while records cannot be written."""
        disk = self._disk
        return {
            "path": str(self.path),
            "records": self._records,
            "bytes": self._bytes,
            "dropped": self._dropped,
            "rotated": disk.rotated,
            "removed": disk.removed,
            "totalBytes": disk.others + disk.size,
            "problem": self._problem,
        }

    # -- the thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closing.is_set():
            self._wake.wait()
            if self._waiting_bytes < BATCH:
                self._closing.wait(PERIOD)
            self._wake.clear()
            self._write_waiting()
        self._write_waiting()
        self._disk.close()

    def _write_waiting(self) -> None:
        while self._waiting:
            with self._lock:
                batches = list(self._waiting)
                self._waiting.clear()
            records = (record for batch in batches for record in batch.records)
            try:
                while together := list(islice(records, BATCH_RECORDS)):
                    self._write_together(together)
            except Exception as error:  # the thread writes what comes after
                self._warn_once(f"lacks lines, because of an error: {type(error).__name__}")
            with self._lock:  # only now is their memory free
                self._waiting_bytes -= sum(batch.size for batch in batches)

    def _write_together(self, records: list[TraceRecord]) -> None:
        if self._problem is not None and time.monotonic() < self._retry_at:
            self._drop(len(records))
            return
        pending = deque(_encode(records))
        while pending:
            data, count = self._take(pending)
            if len(data) > self._disk.file_bytes:
                self._drop(count)
                limit = self._disk.file_bytes
                self._warn_once(f"cannot hold lines of more than {limit} bytes and drops them; raise its limits")
                continue
            try:
                self._disk.write(data)
            except OSError as error:
                self._drop(count + len(pending))
                self._retry_at = time.monotonic() + RETRY
                if self._problem is None:
                    self._warn(
                        f"the trace {self.path} cannot be written, so lines are dropped from it: {error.strerror}"
                    )
                self._problem = error.strerror
                return
            self._records += count
            self._bytes += len(data)
            self._problem = None

    def _take(self, pending: deque[bytes]) -> tuple[bytes, int]:
        """Take as many records as fit into one write, at least one. Returns their bytes and their number."""
        taken = [pending.popleft()]
        size = len(taken[0])
        while pending and size + len(pending[0]) <= min(BATCH, self._disk.file_bytes):
            size += len(pending[0])
            taken.append(pending.popleft())
        return b"".join(taken), len(taken)

    def _drop(self, count: int) -> None:
        with self._lock:
            self._dropped += count

    def _warn_once(self, problem: str) -> None:
        if problem not in self._warned:
            self._warned.add(problem)
            self._warn(f"the trace {self.path} {problem}")


_encoder = msgspec.json.Encoder()


def _encode(records: list[TraceRecord]) -> Iterator[bytes]:
    """Encode the records for the file: secrets masked, and lines that are UTF-8 as text."""
    lines = [record.b64 or b"" for record in records]
    for record, line, masked in zip(records, lines, mask_lines(lines), strict=True):
        if record.op is None:
            record.masked = masked is not line
            try:
                record.line, record.b64 = masked.decode(), None
            except UnicodeDecodeError:
                record.b64 = masked
        yield _encoder.encode(record) + b"\n"
