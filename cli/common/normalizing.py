"""The work of `tooltap normalize`: a file's lines through a normalizer, event lines to standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from tooltap.cli.common.inputs import read_chunks
from tooltap.normalizers.core.items import OutputPiece
from tooltap.normalizers.stream.normalizer import Output, StreamNormalizer
from tooltap.normalizers.wire.framing import LongLine, Splitter
from tooltap.normalizers.wire.recording import Recording
from tooltap.protocol.tapped import Lost

__all__ = ["normalize"]


def normalize(path: str, normalizer: StreamNormalizer, outputs: Path | None, advance: Callable[[int], None]) -> None:
    """`outputs`: a folder for bodies. `advance` is called with the bytes just read. Raises `UnreadableError`."""
    recording = Recording()
    splitter = Splitter(normalizer.context.limits.line_bytes)

    def take(line: bytes | LongLine) -> list[Output]:
        read = recording.read(line)
        if isinstance(read, Lost):
            return normalizer.lost(read.lines, read.bytes, read.reason)
        return [] if read is None else normalizer.feed(*read)

    for chunk in read_chunks(path):
        _write([output for line in splitter.feed(chunk) for output in take(line)], outputs)
        advance(len(chunk))
    last = splitter.finish()
    if last is not None:
        _write(take(last), outputs)
    _write(normalizer.close("end"), outputs)


def _write(produced: list[Output], outputs: Path | None) -> None:
    lines: list[bytes] = []
    for output in produced:
        if not isinstance(output, OutputPiece):
            lines.append(output.body)
        elif outputs is not None:
            _append(outputs / output.output_id, output)
    if lines:
        lines.append(b"")
        sys.stdout.buffer.write(b"\n".join(lines))
        sys.stdout.buffer.flush()


def _append(path: Path, piece: OutputPiece) -> None:
    start = os.O_TRUNC if piece.offset == 0 else os.O_APPEND
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | start, 0o600), "wb") as file:
        file.write(piece.data)
