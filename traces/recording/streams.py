"""Files of traces and recordings -> the streams of raw lines they hold.

A file is a trace of ours, whose records name their streams, or else it is one stream: plain lines, tapped lines, or
the records of the ancestor's tracer, which are lines of a dialect of their own (`happier-trace`). The parts of a stream
that went into several traces are put together again, in whatever order the files come. All lines are held in memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from operator import attrgetter
from pathlib import Path

import msgspec
import orjson

from tooltap.normalizers.stream.contract import read_recording
from tooltap.normalizers.stream.normalizer import AUTO
from tooltap.normalizers.wire.framing import LongLine
from tooltap.normalizers.wire.recording import Line
from tooltap.traces.recording.reader import TraceReader
from tooltap.traces.recording.record import TraceRecord

__all__ = ["TracedStream", "read_streams"]

LOOKED_AT = 8
"""Lines at the beginning of a file of which one must be a trace record for it to be a trace: some may be damaged."""


class TracedStream(msgspec.Struct):
    name: str
    """As the trace names it; else the file's base name without extension."""
    dialect: str
    """`auto` where nobody says."""
    provider: str | None = None
    agent_version: str | None = None
    first: int = 1
    """Number of its first line: more than 1 where the beginning was not traced."""
    last: int = 0
    lines: list[Line] = []


def read_streams(paths: Iterable[Path], dialect: str = AUTO) -> list[TracedStream]:
    """The streams of all files. `dialect`: of recordings. Torn last lines are left out. Raises `OSError`."""
    streams: list[TracedStream] = []
    parts: list[TracedStream] = []
    for path in paths:
        if _is_trace(path):
            parts += _parts(TraceReader(path))
        else:
            streams.append(TracedStream(path.stem, dialect, lines=read_recording(_without_torn_end(path.read_bytes()))))
    return streams + _joined(parts)


def _is_trace(path: Path) -> bool:
    with open(path, "rb") as file:
        return any(_is_record(line) for line in islice(file, LOOKED_AT))


def _is_record(line: bytes) -> bool:
    try:
        return msgspec.json.decode(line, type=TraceRecord).v == 1
    except msgspec.DecodeError:
        return False


def _without_torn_end(data: bytes) -> bytes:
    """Without an unterminated last line that begins as JSON and is none: its writer was killed."""
    start = data.rfind(b"\n") + 1
    if not data[start:].startswith(b"{"):
        return data
    try:
        orjson.loads(data[start:])
    except orjson.JSONDecodeError:
        return data[:start]
    return data


def _parts(records: Iterable[TraceRecord]) -> list[TracedStream]:
    """What one trace holds of each stream; one that is traced again, from its first line on, is another."""
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
    """Each part goes on where one of the same name ends, if just one does."""
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
