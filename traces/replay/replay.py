"""Replays a trace through the current normalizers: the events its lines give today, with the ids they had.

Each traced stream has its own normalizer, configured with what its publisher declared to the daemon. (`normalize` with
the dialect `tooltap-trace` reads a whole trace as one stream instead.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tooltap.normalizers.core.items import Context, Limits, Produced
from tooltap.normalizers.stream.normalizer import AUTO, Output, StreamNormalizer
from tooltap.normalizers.stream.reset import LeftOpen
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.stats import Statistics
from tooltap.traces.recording.record import Declared, TraceRecord

__all__ = ["Covered", "Replay", "replay_covered", "survey"]


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
    masked: bool = False
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
        known.masked |= record.masked
    return streams


def replay_covered(records: Iterable[TraceRecord], covered: dict[str, Covered], limits: Limits) -> Iterator[bytes]:
    """The event lines of the streams that `survey` found, without those of earlier streams of the same names.

    Raises `UnknownDialectError`.
    """
    replay = Replay(limits)
    for position, record in enumerate(records):
        if position >= covered[record.stream].start:
            yield from (output.body for output in replay.feed(record) if isinstance(output, Produced))


@dataclass
class _Stream:
    normalizer: StreamNormalizer
    last: int = 0


class Replay:
    """`limits`: the limits of the daemon that wrote the trace, which decide where long texts are truncated."""

    def __init__(self, limits: Limits) -> None:
        self.done: list[Statistics] = []
        """Statistics of the streams that have ended; after `finish`, of all streams."""
        self._limits = limits
        self._streams: dict[str, _Stream] = {}

    def feed(self, record: TraceRecord) -> list[Output]:
        """Return what the record's line gives. Raises `UnknownDialectError`."""
        stream = self._streams.get(record.stream)
        if stream is not None and _is_first_line(record) and stream.last > 1:
            outputs = self._end(record.stream)
            return outputs + self._feed(self._begin(record), record)
        return self._feed(stream or self._begin(record), record)

    def finish(self) -> list[Output]:
        """End every stream that has not ended, because the trace ends."""
        return [output for name in list(self._streams) for output in self._end(name)]

    def _begin(self, record: TraceRecord) -> _Stream:
        declared = record.declared or Declared()
        context = Context(
            stream=record.stream,
            provider=declared.provider,
            session=declared.session,
            agent=declared.agent,
            parent=declared.parent,
            mcp_servers=declared.mcp_servers,
            limits=self._limits,
        )
        stream = _Stream(StreamNormalizer(context, record.dialect or AUTO))
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
        self.done.append(normalizer.statistics)
        return outputs


def _is_first_line(record: TraceRecord) -> bool:
    return record.n == 1 and record.op is None
