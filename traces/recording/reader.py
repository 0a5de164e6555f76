"""Reads traces and recordings: records of a trace, also of a process that was killed while writing, and whole streams.

A file is either a trace of tooltap, whose records name their streams, or a single stream: plain lines, tapped lines, or
the records of the ancestor's tracer, which are lines of the dialect `happier-trace`. It may be compressed. The parts of
a stream that are in several traces are joined, whatever the order of the files. The lines of a stream are held in
memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import TypeAlias

import msgspec
import orjson

from tooltap.normalizers.stream.normalizer import AUTO, Output, StreamNormalizer
from tooltap.normalizers.stream.reset import reason_of
from tooltap.normalizers.wire.framing import LongLine
from tooltap.normalizers.wire.recording import Line, Recording, read_recording
from tooltap.protocol.inputs import Direction, Lost
from tooltap.traces.recording.compressed import open_plain, plain_path
from tooltap.traces.recording.writer import TraceRecord

_decoder = msgspec.json.Decoder(TraceRecord)


class TraceReader:
    """Iterates over the lines in a trace file. A torn record is skipped and counted in `damaged`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damaged = 0
        self.read = 0
        """Bytes read so far."""

    def __iter__(self) -> Iterator[TraceRecord]:
        return (record for record in self.records() if record.op is None)

    def records(self) -> Iterator[TraceRecord]:
        """Yield all records: lines and marks. Raises `OSError`."""
        with open_plain(self.path) as file:
            for line in file:
                self.read += len(line)
                try:
                    yield _decoder.decode(line)
                except msgspec.DecodeError:
                    self.damaged += 1


SNIFFED_LINES = 8
"""A file is a trace if one of its first lines is a trace record. One line is not enough: some may be damaged."""


class TracedStream(msgspec.Struct):
    name: str
    """The name in the trace; for a recording the file's base name without extension."""
    dialect: str
    """`auto` if unknown."""
    provider: str | None = None
    agent_version: str | None = None
    first: int = 1
    """Number of the first line; more than 1 if the beginning was not traced."""
    last: int = 0
    lines: list[Line] = []


Source: TypeAlias = Path | TracedStream
"""A stream: the file of a recording, which is read later, or one from traces, which had to be read to find it."""


def read_streams(paths: Iterable[Path], dialect: str = AUTO) -> list[TracedStream]:
    """Read the streams of all files. `dialect`: of recordings. Torn last lines are dropped. Raises `OSError`."""
    return [read_stream(source, dialect) for source in sources(paths)]


def sources(paths: Iterable[Path]) -> list[Source]:
    """The streams of all files: those of recordings, then those of traces. Raises `OSError`."""
    recordings: list[Path] = []
    parts: list[TracedStream] = []
    for path in paths:
        if _is_trace(path):
            parts += _parts(TraceReader(path))
        else:
            recordings.append(path)
    return [*recordings, *_joined(parts)]


def read_stream(source: Source, dialect: str = AUTO) -> TracedStream:
    """Read one stream. `dialect`: of recordings. Raises `OSError`."""
    if isinstance(source, TracedStream):
        return source
    name = os.fsencode(Path(plain_path(source.name)).stem).decode(errors="replace")  # a file's name need not be UTF-8
    with open_plain(source) as file:
        return TracedStream(name, dialect, lines=read_recording(_without_torn_end(file.read())))


def size_of(source: Source) -> int:
    """The bytes of the stream; of a compressed file, those on disk. Raises `OSError`."""
    if isinstance(source, Path):
        return source.stat().st_size
    return sum(line.data.size if isinstance(line.data, LongLine) else len(line.data) for line in source.lines)


def _is_trace(path: Path) -> bool:
    with open_plain(path) as file:
        return any(_is_record(line) for line in islice(file, SNIFFED_LINES))


def _is_record(line: bytes) -> bool:
    try:
        return msgspec.json.decode(line, type=TraceRecord).v == 1
    except msgspec.DecodeError:
        return False


def _without_torn_end(data: bytes) -> bytes:
    """Drop an unterminated last line that starts like JSON but is not: its writer was killed."""
    start = data.rfind(b"\n") + 1
    if not data[start:].startswith(b"{"):
        return data
    try:
        orjson.loads(data[start:])
    except orjson.JSONDecodeError:
        return data[:start]
    return data


def _parts(records: Iterable[TraceRecord]) -> list[TracedStream]:
    """The part of each stream that one trace holds. A stream that starts again with line 1 is another stream."""
    parts: list[TracedStream] = []
    current: dict[str, TracedStream] = {}
    for record in records:
        part = current.get(record.stream)
        if part is None or record.n == 1:
            part = current[record.stream] = TracedStream(record.stream, AUTO, first=record.n)
            parts.append(part)
        elif record.n <= part.last:
            continue
        part.last = record.n
        raw = record.raw
        part.lines.append(Line(raw if record.size is None else LongLine(raw, record.size), record.t, record.dir))
        part.dialect = record.dialect or part.dialect
        part.provider = record.provider or part.provider
        part.agent_version = record.agent_version or part.agent_version
    return parts


def _joined(parts: list[TracedStream]) -> list[TracedStream]:
    """Append each part to the stream of the same name that ends right before it, if there is exactly one."""
    streams: list[TracedStream] = []
    for part in sorted(parts, key=attrgetter("first")):
        before = [one for one in streams if one.name == part.name and one.last + 1 == part.first]
        if len(before) != 1:
            streams.append(part)
            continue
        [stream] = before
        stream.lines += part.lines
        stream.last = part.last
        stream.dialect = part.dialect if stream.dialect == AUTO else stream.dialect
        stream.provider = part.provider or stream.provider
        stream.agent_version = part.agent_version or stream.agent_version
    return streams


# -- feeding a recording to a normalizer --------------------------------------------------------------------------


class RecordingFeed:
    """Unwraps the lines of a recording, tapped or plain, and passes them to the normalizer."""

    def __init__(self, normalizer: StreamNormalizer) -> None:
        self._normalizer = normalizer
        self._recording = Recording()

    def feed(self, lines: Iterable[bytes | LongLine], outputs: list[Output] | None = None) -> list[Output]:
        """Feed lines that follow each other. Those with one time and direction are a block for the normalizer.
        `outputs`: as in `feed_block`."""
        normalizer = self._normalizer
        outputs = [] if outputs is None else outputs
        block: list[bytes | LongLine] = []
        stamp: tuple[int | None, Direction | None] = None, None
        for line in lines:
            try:
                read = self._recording.read(line)
            except Exception as error:  # costs the line, like an error of its reader
                normalizer.feed_block(block, *stamp, outputs)
                outputs += normalizer.feed_failed(line, reason_of(error), *stamp)
                block = []
                continue
            if read is None:
                continue
            if isinstance(read, Lost):
                normalizer.feed_block(block, *stamp, outputs)
                outputs += normalizer.lost(read.lines, read.bytes, read.reason)
                block = []
                continue
            if (read.t, read.direction) != stamp:
                normalizer.feed_block(block, *stamp, outputs)
                block, stamp = [], (read.t, read.direction)
            block.append(read.data)
        return normalizer.feed_block(block, *stamp, outputs)

    def close(self) -> list[Output]:
        """End the stream as the recording states it."""
        end = self._recording.end
        return self._normalizer.close(end.reason, end.t, end.process)


# -- manifests of folders of recordings ---------------------------------------------------------------------------

MANIFEST = "manifest.json"
RECORDED = "recorded"


class ManifestRow(msgspec.Struct):
    """A row of the manifest, about one file. Only `file` must be there. Other keys are ignored."""

    file: str
    dialect: str = AUTO
    provider: str | None = None
    ask: str | None = None
    """The dialect to read it as, if that is not `dialect`: `auto` to recognise it."""
    genuine: str = RECORDED
    """How the file came to be. One that was put together or edited may hold lines that no agent printed."""

    @property
    def asked(self) -> str:
        """The dialect to read the file as."""
        return self.ask or self.dialect

    @property
    def is_as_recorded(self) -> bool:
        return self.genuine == RECORDED


def read_manifest(folder: Path) -> list[ManifestRow]:
    """The rows of the manifest of a folder of recordings. Raises `OSError` and `msgspec.DecodeError`."""
    return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=list[ManifestRow])
