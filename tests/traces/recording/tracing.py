"""Trace records as made by the daemon, and a writer for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tooltap.traces.recording.writer import TraceRecord, TraceWriter


def record(n: int, line: bytes | None, **changed: Any) -> TraceRecord:
    about: dict[str, Any] = {
        "stream": "run-1",
        "dialect": "acp",
        "provider": "gemini",
        "agent_version": "0.61.0",
        "t": 1_795_293_851_000,
        "dir": "out",
    }
    return TraceRecord(v=1, n=n, b64=line, **{**about, **changed})


def writer_to(path: Path, warn: Callable[[str], None] = pytest.fail, **bounds: int) -> TraceWriter:
    """A writer with generous limits, except for the given ones."""
    return TraceWriter(path, warn, **{"file_bytes": 2**20, "total_bytes": 2**30, "buffer_bytes": 2**30, **bounds})


def put(writer: TraceWriter, *records: TraceRecord) -> None:
    writer.write(records, len(records), sum(len(one.b64 or b"") for one in records))


def trace(path: Path, *records: TraceRecord, **options: Any) -> TraceWriter:
    """Write all records and close, like one run of a daemon. The writer gets them together, as how it divides them into
    files depends on that."""
    writer = writer_to(path, **options)
    put(writer, *records)
    writer.close()
    return writer
