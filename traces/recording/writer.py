"""Traces: the record of a raw line, the files, which are rotated, and the thread that writes them.

A trace is JSONL, with one record for each raw line, in full length, with secrets masked.
`TOOLTAP_TRACE` (1, true, yes, on) switches it on. The file is `TOOLTAP_TRACE_FILE`, else a new one in
`TOOLTAP_TRACE_DIR`, else in `$HAPPIER_HOME_DIR/tool-traces` (home `~/.happier`). Without them, Happier's apply:
`HAPPIER_STACK_TOOL_TRACE`, `…_FILE` and `…_DIR`.

The thread masks, encodes and writes the records in batches. A trace never raises an exception or delays ingest: records
that cannot be written, because the disk is full or too slow, are dropped and counted, and a warning is logged once.
"""

from __future__ import annotations

import fcntl
import math
import os
import re
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from glob import escape
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from tooltap.protocol.inputs import Direction
from tooltap.traces.recording.own_file import open_own, open_special, without_planted_links
from tooltap.traces.recording.secrets import mask_lines

WIRE_NAMES = {
    "agent_version": "agentVersion",
    "declared": "told",
    "size": "bytes",
    "mcp_servers": "mcpServers",
    "stopped_by": "stoppedBy",
}


class Declared(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True, rename=WIRE_NAMES):
    """Facts that the publisher declared when the stream began. Without it, the same lines give different events."""

    provider: str | None = None
    session: str | None = None
    agent: str | None = None
    parent: str | None = None
    mcp_servers: tuple[str, ...] = ()
    prompt: str | None = None
    """The prompt with which the agent was started; only in the record of the first line."""


class TraceRecord(msgspec.Struct, kw_only=True, omit_defaults=True, rename=WIRE_NAMES):
    """One raw line and its origin, or a mark for lost lines or a stream's end."""

    v: int
    """Always 1. Records of the ancestor's tracer have a `kind` as well; these never do."""
    t: int | None = None
    """Milliseconds since the epoch at which the line was received."""
    stream: str
    dialect: str | None = None
    """None while the dialect is not recognised and none was requested."""
    provider: str | None = None
    agent_version: str | None = None
    declared: Declared | None = None
    n: int
    """1-based number of the line in its stream; for a mark, the number of the last line before its end."""
    dir: Direction | None = None
    line: str | None = None
    b64: bytes | None = None
    """Replaces `line` for bytes that are not UTF-8; base64 in the file."""
    size: int | None = None
    """Bytes of the whole line, if it was too long and only its head is stored; bytes of lost lines."""
    masked: bool = False
    """Secrets in the line were masked."""
    op: Literal["lost", "close", "settle"] | None = None
    """A mark instead of a line: `lost` when the publisher lost lines, `close` when the stream ended, `settle` when
    it had been silent for a while."""
    lines: int | None = None
    """How many lines were lost."""
    reason: str | None = None
    """Why lines were lost, or why the stream ended."""
    exit: int | None = None
    signal: str | None = None
    stopped_by: Literal["client"] | None = None
    """How the agent's process ended, with the stream: the fields of `ProcessEnd`."""

    @property
    def raw(self) -> bytes:
        return (self.b64 or b"") if self.line is None else self.line.encode()


# -- files --------------------------------------------------------------------------------------------------------

GENERATED = "tooltap-*-pid-*.jsonl"
"""Names that `writer.trace_path` generates. Other files in the folder are never counted or removed."""
NUMBERED = re.compile(r"(?P<stem>.+)\.(?P<number>\d{4,})(?P<suffix>\.[^.]*)?")


def parts(path: Path) -> list[Path]:
    """The existing files of a trace, oldest first. A rotated file is a part by itself."""
    return _rotated(path) + [path] * path.exists()


def next_rotated(path: Path) -> Path:
    """The name that the full file gets when the trace is rotated."""
    rotated = _rotated(path)
    last = _split(rotated[-1])[1] if rotated else 0
    return path.with_name(f"{path.stem}.{last + 1:04}{path.suffix}")


def _rotated(path: Path) -> list[Path]:
    """The rotated files of a trace, oldest first."""
    found = [(_split(other), other) for other in path.parent.glob(f"{escape(path.stem)}.*")]
    return [other for (trace, number), other in sorted(found) if trace == path and number]


def _split(path: Path) -> tuple[Path, int]:
    """The trace that a file is a part of, and the part's number; 0 for the newest part, which has no number."""
    found = NUMBERED.fullmatch(path.name)
    if found is None:
        return path, 0
    return path.with_name(found["stem"] + (found["suffix"] or "")), int(found["number"])


def budgeted(path: Path) -> list[Path]:
    """The files that share the size budget of this trace: its own parts and, if tooltap generated its name, all traces
    with generated names in the folder."""
    others = path.parent.glob(GENERATED) if path.match(GENERATED) else ()
    return sorted({*parts(path), *others})


def expand(paths: Iterable[Path]) -> list[Path]:
    """The files of the named traces and folders of traces, each once, the parts of one trace together and oldest first.

    Raises `FileNotFoundError` for a path that does not exist, and for a folder without a trace.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            in_folder = {_split(file)[0] for file in path.glob("*.jsonl")}
            found = [part for trace in sorted(in_folder) for part in parts(trace)]
        else:
            found = parts(path)
        if not found:
            raise FileNotFoundError(
                2, "no trace in this folder" if path.is_dir() else "No such file or directory", str(path)
            )
        files += found
    traces = [_split(file)[0] for file in files]
    return sorted({*files}, key=lambda file: (traces.index(_split(file)[0]), _split(file)[1] or math.inf))


SHARE = 4
"""A file takes at most 1/SHARE of the budget, so that removing the oldest file leaves most of the trace."""


class RotatingFile:
    """One trace on disk, bounded in size: full files are rotated, and the oldest files are removed.

    The newest records are in the file that the trace is named after. When it is full, it is renamed with the next
    number: `t.0001.jsonl` is older than `t.0002.jsonl`, which is older than `t.jsonl`. A shell lists them in the same
    order.

    No file of the trace grows beyond `file_bytes`, and all files that share its budget (`budgeted`) together stay
    within `total_bytes`. The bound holds at all times because room for a whole file is made before a new file is
    started, rather than when the budget is exceeded.

    Several daemons may write to the same folder. Each writer holds a shared `flock` on its file, and a file is removed
    only under an exclusive one, so no process removes a file that another process is writing to. The kernel releases
    the lock when a process dies, so there are no stale locks.

    If another program removes or renames the file, as users do who rotate logs, what comes next goes into a new file at
    the path. No record goes only into a file without a name.

    Touches the disk only in `write`. After `write` has raised `OSError`, the next `write` reopens the file.
    """

    def __init__(self, path: Path, file_bytes: int, total_bytes: int) -> None:
        self.path = path
        self.file_bytes = min(file_bytes, total_bytes // SHARE)
        """The size limit of a file, and of the data passed to one `write`."""
        self.rotated = 0
        self.removed = 0
        self.restarted = 0
        """How often another program removed or renamed the file in use, so that a new one was begun."""
        self.others = 0
        """Bytes of the other files that share the budget."""
        self.size = 0
        self._total_bytes = total_bytes
        self._file: int | None = None
        self._rotates = True

    def write(self, data: bytes) -> None:
        """Append whole records of at most `file_bytes` in total."""
        file = self._open()
        if self._rotates and self.size and self.size + len(data) > self.file_bytes:
            self._rotate()
            file = self._open()
        self._append(file, data)
        if self._rotates and not os.fstat(file).st_nlink:  # it was removed meanwhile, and nobody can see what it has
            self._append(self._open(), data)

    def _append(self, file: int, data: bytes) -> None:
        written = 0
        try:
            while written < len(data):
                written += os.write(file, data[written:])
        finally:
            self.size += written
            if written < len(data):
                self.close()

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> int:
        if self._file is not None and self._is_at_path(self._file):
            return self._file
        if self._file is not None and not self._is_rotated(self._file):
            self.restarted += 1
        self.close()
        os.makedirs(os.path.dirname(without_planted_links(self.path)), mode=0o700, exist_ok=True)
        file = open_special(self.path, os.O_RDWR | os.O_APPEND)
        if file is None:
            file = open_own(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            about = os.fstat(file)
            self._rotates = stat.S_ISREG(about.st_mode)  # a pipe or a device cannot be rotated
            self.size = 0
            if self._rotates:
                _lock(file)
                self.size = about.st_size + _end_torn_record(file, about.st_size)
                self._make_room()
        except BaseException:
            os.close(file)
            raise
        self._file = file
        return file

    def _is_at_path(self, file: int) -> bool:
        """Return False if the file was removed or renamed."""
        try:
            return not self._rotates or os.path.samestat(os.fstat(file), os.stat(self.path))
        except FileNotFoundError:
            return False

    def _is_rotated(self, file: int) -> bool:
        """Return whether another daemon, which writes to the same file, has rotated it."""
        for part in parts(self.path):
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file), os.stat(part)):
                    return True
        return False

    def _rotate(self) -> None:
        os.rename(self.path, next_rotated(self.path))
        self.rotated += 1
        self.close()

    def _make_room(self) -> None:
        """Remove the oldest other files until this file can grow to its full size within the budget."""
        sizes = {}
        for path in budgeted(self.path):
            try:
                about = os.lstat(path)
            except FileNotFoundError:  # another process made room at the same time
                continue
            if stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid():  # others could take all room with theirs
                sizes[path] = about
        sizes.pop(self.path, None)
        self.others = sum(one.st_size for one in sizes.values())
        for path, about in sorted(sizes.items(), key=lambda one: (one[1].st_mtime_ns, one[0])):
            if self.others + max(self.file_bytes, self.size) <= self._total_bytes:
                return
            if _remove(path):
                self.others -= about.st_size
                self.removed += 1


def _end_torn_record(file: int, size: int) -> int:
    """Write a newline after a torn record of a killed process, so that the first new record starts its own line.

    Returns the number of bytes written.
    """
    return os.write(file, b"\n") if size and os.pread(file, 1, size - 1) != b"\n" else 0


def _lock(file: int) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:  # a file system without locks
        pass


def _remove(path: Path) -> bool:
    try:
        file = open_own(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    except OSError:  # locked by its writer, or not removable
        return False
    finally:
        os.close(file)
    return True


# -- writing ------------------------------------------------------------------------------------------------------

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


PREFIXES = ("TOOLTAP_TRACE", "HAPPIER_STACK_TOOL_TRACE")
"""The environment variables of which each is a switch, with `_FILE` and `_DIR` for the place; ours come first."""


def trace_path(environ: Mapping[str, str], now: datetime, pid: int) -> Path | None:
    """The path of the trace that the environment requests; None if it requests none."""
    if next(filter(None, map(environ.get, PREFIXES)), "").lower() not in ON:
        return None
    folder = f"{environ.get('HAPPIER_HOME_DIR') or '~/.happier'}/tool-traces"
    for prefix in PREFIXES:
        if file := environ.get(f"{prefix}_FILE"):
            return Path(file).expanduser()
        if stated := environ.get(f"{prefix}_DIR"):
            folder = stated
            break
    time = now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Path(folder).expanduser() / f"tooltap-{time.replace(':', '-').replace('.', '-')}-pid-{pid}.jsonl"


class _Batch(NamedTuple):
    records: Iterable[TraceRecord]
    size: int


TRACE_BUFFER_BYTES = 16 * 1024 * 1024
"""Bytes of lines that wait to be traced; when the disk is too slow, the newest are left out."""


class TraceWriter:
    """Writes a trace, in a thread of its own. `warn` is called with a sentence when it starts to drop records.

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
        """Figures for `stats`: the path; records and bytes written, records dropped; files rotated and removed by this
        process; `restarted`: how often another program removed or renamed the file in use; bytes of all files that
        share the budget; and `problem` while records cannot be written."""
        disk = self._disk
        return {
            "path": str(self.path),
            "records": self._records,
            "bytes": self._bytes,
            "dropped": self._dropped,
            "rotated": disk.rotated,
            "removed": disk.removed,
            "restarted": disk.restarted,
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
            if self._disk.restarted:
                self._warn_once("was removed or renamed in use; lines go on into a new file there")
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
