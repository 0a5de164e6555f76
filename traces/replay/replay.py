"""Replays a trace through the current normalizers: the events its lines give today, with the ids they had.

Each traced stream has its own normalizer, configured with what its publisher declared to the daemon. (`normalize` with
the dialect `tooltap-trace` reads a whole trace as one stream instead.)
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tooltap.normalizers.core.items import Context, Limits, Produced
from tooltap.normalizers.stream.normalizer import AUTO, Output, StreamNormalizer
from tooltap.normalizers.stream.reset import LeftOpen
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.stats import Statistics
from tooltap.traces.recording.record import Declared, TraceRecord


@dataclass
class Covered:
    """Which part of a stream a trace holds."""

    first: int
    """Number of the first line in the trace."""
    last: int
    start: int
    """Position of the stream's first record in the trace. Earlier records under the same name belong to another stream,
    from an earlier journal."""
    timed: bool = True
    """Every line has its time of receipt."""
    closed: bool = False
    """The stream's last record marks its end."""


def survey(records: Iterable[TraceRecord]) -> dict[str, Covered]:
    """Which part of each stream the trace holds, by stream id."""
    streams: dict[str, Covered] = {}
    for position, record in enumerate(records):
        known = streams.get(record.stream)
        if known is None or (_is_first_line(record) and known.last > 1):
            known = streams[record.stream] = Covered(first=record.n, last=record.n, start=position)
        known.last = max(known.last, record.n)
        known.closed = record.op == "close"
        known.timed &= record.t is not None
    return streams


class Share(NamedTuple):
    """Some of a trace's streams, all shares about as many: each process that replays it has one."""

    number: int
    of: int

    def has(self, stream: str) -> bool:
        return self.of == 1 or zlib.crc32(stream.encode()) % self.of == self.number


class Place(NamedTuple):
    """Orders what several shares give."""

    position: int
    """Of the record in the trace; `sys.maxsize` at its end."""
    began: int = 0
    """At the end of the trace, the position of the first record of the stream that ends with it."""


END = Place(sys.maxsize, sys.maxsize)
"""After everything else."""


@dataclass
class _Stream:
    normalizer: StreamNormalizer
    began: int
    last: int = 0


class Replay:
    """`limits`: the limits of the daemon that wrote the trace, which decide where long texts are truncated.

    `covered`: only the streams that `survey` found, without earlier streams of the same names, and without what the end
    of the trace gives.
    """

    def __init__(self, limits: Limits, share: Share, covered: Mapping[str, Covered] | None = None) -> None:
        self.done: list[tuple[Place, Statistics]] = []
        """Statistics of the streams that have ended, and where."""
        self._limits = limits
        self._share = share
        self._covered = covered
        self._streams: dict[str, _Stream] = {}
        self.place = Place(0)
        """Of the record that is being replayed."""

    def lines(self, records: Iterable[TraceRecord]) -> Iterator[tuple[Place, list[bytes]]]:
        """The event lines of each record. Raises `UnknownDialectError`."""
        for position, record in enumerate(records):
            if self._share.has(record.stream) and (
                self._covered is None or position >= self._covered[record.stream].start
            ):
                self.place = Place(position)
                if lines := _bodies(self._feed_record(record)):
                    yield self.place, lines
        for name in list(self._streams) if self._covered is None else ():
            self.place = Place(sys.maxsize, self._streams[name].began)
            if lines := _bodies(self._end(name)):
                yield self.place, lines

    def _feed_record(self, record: TraceRecord) -> list[Output]:
        """What the record's line gives."""
        stream = self._streams.get(record.stream)
        if stream is not None and _is_first_line(record) and stream.last > 1:
            outputs = self._end(record.stream)
            return outputs + self._feed(self._begin(record), record)
        return self._feed(stream or self._begin(record), record)

    def _begin(self, record: TraceRecord) -> _Stream:
        declared = record.declared or Declared()
        context = Context(
            stream=record.stream,
            provider=declared.provider,
            session=declared.session,
            agent=declared.agent,
            parent=declared.parent,
            mcp_servers=declared.mcp_servers,
            prompt=declared.prompt,
            limits=self._limits,
        )
        stream = _Stream(StreamNormalizer(context, record.dialect or AUTO), self.place.position)
        before = record.n - (record.lines or 0 if record.op == "lost" else record.op is None)
        if before > 0:  # earlier lines were rotated away, or came before tracing was switched on
            stream.normalizer.restart(before, stream.normalizer.statistics, LeftOpen(), record.t)
            stream.last = before
        self._streams[record.stream] = stream
        return stream

    def _feed(self, stream: _Stream, record: TraceRecord) -> list[Output]:
        normalizer, t = stream.normalizer, record.t
        if record.op == "close":
            return normalizer.close(record.reason or "end", t)
        if record.n <= stream.last:  # the same file was named twice
            return []
        first = record.n - (record.lines or 1) + 1 if record.op == "lost" else record.n
        outputs: list[Output] = []
        if first > stream.last + 1:
            outputs = normalizer.lost(first - stream.last - 1, 0, "not in the trace", t)
        stream.last = record.n
        if record.op == "lost":
            return outputs + normalizer.lost(record.lines or 1, record.size or 0, record.reason or "", t)
        line = record.raw if record.size is None else LongLine(record.raw, record.size)
        return outputs + normalizer.feed(line, t, record.dir)

    def _end(self, name: str) -> list[Output]:
        normalizer = self._streams.pop(name).normalizer
        outputs = normalizer.close("end")
        self.done.append((self.place, normalizer.statistics))
        return outputs


def _bodies(outputs: list[Output]) -> list[bytes]:
    return [output.body for output in outputs if isinstance(output, Produced)]


def _is_first_line(record: TraceRecord) -> bool:
    return record.n == 1 and record.op is None
