"""Writes the JSONL trace of raw lines, where the environment asks for one.

`HAPPIER_STACK_TOOL_TRACE` (1, true, yes, on) switches it on. The file is `HAPPIER_STACK_TOOL_TRACE_FILE`, else a new
one in `HAPPIER_STACK_TOOL_TRACE_DIR`, else in `$HAPPIER_HOME_DIR/tool-traces` (home `~/.happier`).

One record (`record.py`) per raw line, full size, with secrets masked.
Records are buffered; the caller flushes from time to time. A trace is a convenience: one that cannot be written is one
warning, and never an exception.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tooltap.normalizers.framing import LongLine
from tooltap.protocol.tapped import Direction
from tooltap.traces.record import TraceRecord
from tooltap.traces.secrets import mask_secrets

__all__ = ["TraceWriter", "trace_path"]

ON = frozenset({"1", "true", "yes", "on"})
BUFFER = 256 * 1024


def trace_path(environ: Mapping[str, str], now: datetime, pid: int) -> Path | None:
    """Where the environment wants the trace; None where it wants none."""
    if environ.get("HAPPIER_STACK_TOOL_TRACE", "").lower() not in ON:
        return None
    if file := environ.get("HAPPIER_STACK_TOOL_TRACE_FILE"):
        return Path(file).expanduser()
    if not (folder := environ.get("HAPPIER_STACK_TOOL_TRACE_DIR")):
        folder = f"{environ.get('HAPPIER_HOME_DIR') or '~/.happier'}/tool-traces"
    time = now.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Path(folder).expanduser() / f"tooltap-{time.replace(':', '-').replace('.', '-')}-pid-{pid}.jsonl"


class TraceWriter:
    """Appends records to one private file. `warn` is called once, with a sentence, if that fails."""

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        self.path = path
        self._warn = warn
        self._buffer: list[bytes] = []
        self._size = 0
        self._file: int | None = None
        self._broken = False

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], warn: Callable[[str], None]) -> TraceWriter | None:
        path = trace_path(environ, datetime.now(UTC), os.getpid())
        return None if path is None else cls(path, warn)

    def write(
        self,
        *,
        stream: str,
        dialect: str | None,
        provider: str | None,
        agent_version: str | None,
        n: int,
        t: int | None,
        direction: Direction | None,
        line: bytes | LongLine,
    ) -> None:
        """Record line `n` of a stream; `t`: ms since the epoch. What is not known is left out."""
        if self._broken:
            return
        raw = line.head if isinstance(line, LongLine) else line
        masked = mask_secrets(raw)
        text, b64 = _text_or_bytes(masked)
        record = TraceRecord(
            v=1,
            t=t,
            stream=stream,
            dialect=dialect,
            provider=provider,
            agent_version=agent_version,
            n=n,
            dir=direction,
            line=text,
            b64=b64,
            size=line.size if isinstance(line, LongLine) else None,
            masked=masked != raw,
        )
        self._buffer.append(msgspec.json.encode(record) + b"\n")
        self._size += len(self._buffer[-1])
        if self._size >= BUFFER:
            self.flush()

    def flush(self) -> None:
        """Write what is buffered."""
        if not self._buffer or self._broken:
            return
        data = b"".join(self._buffer)
        self._buffer = []
        self._size = 0
        try:
            if self._file is None:
                self._file = _open_private(self.path)
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            self._broken = True
            self._warn(f"the trace {self.path} cannot be written, tracing stops: {error.strerror}")

    def close(self) -> None:
        self.flush()
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _text_or_bytes(line: bytes) -> tuple[str | None, bytes | None]:
    try:
        return line.decode(), None
    except UnicodeDecodeError:
        return None, line


def _open_private(path: Path) -> int:
    """Open for appending. A torn record another process left at the end must not swallow our first one."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        os.write(file, b"\n")
    return file
