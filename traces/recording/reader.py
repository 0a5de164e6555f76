"""Reads traces of raw lines, including those of a process that was killed while writing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from tooltap.traces.recording.record import TraceRecord

__all__ = ["TraceReader"]

_decoder = msgspec.json.Decoder(TraceRecord)


class TraceReader:
    """Iterates over the lines in a file. A torn record is skipped and counted in `damaged`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged = 0
        self.read = 0
        """Bytes."""

    def __iter__(self) -> Iterator[TraceRecord]:
        return (record for record in self.records() if record.op is None)

    def records(self) -> Iterator[TraceRecord]:
        """Yield the lines and the marks. Raises `OSError`."""
        with open(self.path, "rb") as file:
            for line in file:
                self.read += len(line)
                try:
                    yield _decoder.decode(line)
                except msgspec.DecodeError:
                    self.damaged += 1
