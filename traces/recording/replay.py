"""A trace through the current normalizers: the events its lines give today, under the ids they had.

Each traced stream has a normalizer of its own, told what its publisher told the daemon. With `normalize` and the
dialect `tooltap-trace` a trace is one stream; here its streams are what they were.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tooltap.normalizers.core.items import Context, Limits
from tooltap.normalizers.stream.normalizer import AUTO, Output, StreamNormalizer
from tooltap.normalizers.stream.reset import LeftOpen
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.stats import Statistics
from tooltap.traces.recording.record import Told, TraceRecord

__all__ = ["Covered", "Replay", "survey"]


@dataclass
class Covered:
    """What a trace holds of one stream."""

    first: int
    """Number of its first line in the trace."""
    last: int
    start: int
    """Position of its first record among all of the trace: what was traced under the same name before that was another
    stream, in another journal."""
    timed: bool = True
    """Every line has its time of receipt."""
    masked: bool = False
    closed: bool = False
    """The end of the stream is the last the trace tells of it."""


def survey(records: Iterable[TraceRecord]) -> dict[str, Covered]:
    """Stream -> what the trace holds of it."""
    streams: dict[str, Covered] = {}
    for position, record in enumerate(records):
        known = streams.get(record.stream)
        if known is None or (_begins(record) and known.last > 1):
            known = streams[record.stream] = Covered(first=record.n, last=record.n, start=position)
        known.last = max(known.last, record.n)
        known.closed = record.op == "close"
        known.timed &= record.t is not None
        known.masked |= record.masked
    return streams


@dataclass
class _Stream:
    normalizer: StreamNormalizer
    last: int = 0


class Replay:
    """`limits`: those the daemon had, in which long texts were cut."""

    def __init__(self, limits: Limits) -> None:
        self.done: list[Statistics] = []
        """Of the streams that were begun anew, and after `finish` of all."""
        self._limits = limits
        self._streams: dict[str, _Stream] = {}

    def feed(self, record: TraceRecord) -> list[Output]:
        """What the record's line gives. Raises `UnknownDialectError`."""
        stream = self._streams.get(record.stream)
        if stream is not None and _begins(record) and stream.last > 1:
            outputs = self._end(record.stream)
            return outputs + self._feed(self._begin(record), record)
        return self._feed(stream or self._begin(record), record)

    def finish(self) -> list[Output]:
        """The trace ends, and with it every stream that has not ended before."""
        return [output for name in list(self._streams) for output in self._end(name)]

    def _begin(self, record: TraceRecord) -> _Stream:
        told = record.told or Told()
        context = Context(
            stream=record.stream,
            provider=told.provider,
            session=told.session,
            agent=told.agent,
            parent=told.parent,
            mcp_servers=told.mcp_servers,
            limits=self._limits,
        )
        stream = _Stream(StreamNormalizer(context, record.dialect or AUTO))
        before = record.n - (record.lines or 0 if record.op == "lost" else record.op is None)
        if before > 0:  # the beginning has been rotated away, or tracing was switched on later
            stream.normalizer.go_on(before, stream.normalizer.statistics, LeftOpen(), record.t)
            stream.last = before
        self._streams[record.stream] = stream
        return stream

    def _feed(self, stream: _Stream, record: TraceRecord) -> list[Output]:
        normalizer, t = stream.normalizer, record.t
        if record.op == "close":
            return normalizer.close(record.reason or "end", t)
        if record.n <= stream.last:  # the same file twice
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
        self.done.append(normalizer.statistics)
        return outputs


def _begins(record: TraceRecord) -> bool:
    return record.n == 1 and record.op is None
