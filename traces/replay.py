"""Replays a trace through the current normalizers: yields the events that its lines give today, with their original
ids. `EventDiff` compares them with a journal's.

Each traced stream has its own normalizer, configured with what its publisher declared to the daemon. (`normalize` with
the dialect `tooltap-trace` reads a whole trace as one stream instead.)
"""

from __future__ import annotations

import sys
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
import orjson

from tooltap.normalizers.core.items import Context, Limits, Produced
from tooltap.normalizers.core.model_view import escaped
from tooltap.normalizers.stream.normalizer import AUTO, Output, StreamNormalizer
from tooltap.normalizers.stream.reset import LeftOpen
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.events import EventHead, head_of
from tooltap.protocol.inputs import ProcessEnd
from tooltap.protocol.stats import Statistics
from tooltap.traces.recording.secrets import mask_secrets
from tooltap.traces.recording.writer import Declared, TraceRecord

OF_HISTORY = frozenset({"replay", "turn"})
"""Keys that a journal changes in an event that another stream has reported (`daemon/sessions/repetitions.py`)."""

BESIDE = frozenset({"beside", "turn"})
"""Keys that a daemon changes in the usage of an agent's file that a tap covers (`daemon/taps/follow/overlap.py`)."""


@dataclass
class Covered:
    """The part of a stream that a trace holds."""

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
    """The part of each stream that the trace holds, by stream id."""
    streams: dict[str, Covered] = {}
    for position, record in enumerate(records):
        known = streams.get(record.stream)
        if known is None or (_is_first_line(record) and known.last > 1):
            known = streams[record.stream] = Covered(first=record.n, last=record.n, start=position)
        known.last = max(known.last, record.n)
        known.closed = record.op == "close"
        known.timed &= record.t is not None
    return streams


class StreamShare(NamedTuple):
    """A share of a trace's streams, for one of several processes that replay it; streams are distributed by hash."""

    number: int
    of: int

    def has(self, stream: str) -> bool:
        return self.of == 1 or zlib.crc32(stream.encode()) % self.of == self.number


class ReplayPosition(NamedTuple):
    """Sort key that merges the results of several shares into the order of the trace."""

    position: int
    """Index of the record in the trace; `sys.maxsize` at its end."""
    began: int = 0
    """At the end of the trace, the position of the first record of the stream that ends with it."""


END = ReplayPosition(sys.maxsize, sys.maxsize)
"""Position after everything else."""


@dataclass
class _Stream:
    normalizer: StreamNormalizer
    began: int
    last: int = 0


class Replay:
    """Replays the streams of one share. `limits`: the limits of the daemon that wrote the trace, which decide where
    long texts are truncated.

    `covered`: replay only the streams that `survey` found, without earlier streams of the same names, and do not end
    those that the trace does not end.
    """

    def __init__(self, limits: Limits, share: StreamShare, covered: Mapping[str, Covered] | None = None) -> None:
        self.done: list[tuple[ReplayPosition, Statistics]] = []
        """Statistics of the streams that have ended, with the position of their end."""
        self._limits = limits
        self._share = share
        self._covered = covered
        self._streams: dict[str, _Stream] = {}
        self.place = ReplayPosition(0)
        """Position of the record that is being replayed."""

    def lines(self, records: Iterable[TraceRecord]) -> Iterator[tuple[ReplayPosition, list[bytes]]]:
        """The event lines of each record. Raises `UnknownDialectError`."""
        for position, record in enumerate(records):
            if self._share.has(record.stream) and (
                self._covered is None or position >= self._covered[record.stream].start
            ):
                self.place = ReplayPosition(position)
                if lines := _bodies(self._feed_record(record)):
                    yield self.place, lines
        for name in list(self._streams) if self._covered is None else ():
            self.place = ReplayPosition(sys.maxsize, self._streams[name].began)
            if lines := _bodies(self._end(name)):
                yield self.place, lines

    def _feed_record(self, record: TraceRecord) -> list[Output]:
        """The outputs of the record's line."""
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
            process = ProcessEnd(record.exit, record.signal, record.stopped_by)
            return normalizer.close(record.reason or "end", t, None if process == ProcessEnd() else process)
        if record.op == "settle":
            return normalizer.settle(t)
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


# -- comparing ----------------------------------------------------------------------------------------------------

What: TypeAlias = Literal["added", "removed", "changed"]
Event: TypeAlias = dict[str, Any]

NEVER_COMPARED = frozenset({"seq", "id", "root"})
"""Fields that are not compared. `root` may have been found on the daemon's machine."""
TIMES = frozenset({"ts", "durationMs"})
CUT = frozenset({"preview"})
"""Fields made of the beginning of others. The journal's may end within a secret, where no rule recognises it."""


class FieldChange(msgspec.Struct, frozen=True, omit_defaults=True):
    path: str
    """JSON pointer into the event."""
    change: What
    before: Any = None
    after: Any = None


class EventChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event that differs."""

    change: What
    stream: str
    line: int
    kind: str
    about: str
    """The tool, state, role or code, which distinguishes events of one kind."""
    fields: list[FieldChange] = []
    whole: Event | None = None
    """The event, if it was added or removed."""


class KindTally(msgspec.Struct):
    """Numbers of events of one kind and tool."""

    same: int = 0
    added: int = 0
    removed: int = 0
    changed: int = 0


class _Masked(NamedTuple):
    """An event without its secrets."""

    body: bytes
    had_secrets: bool


class _BothSides:
    def __init__(self) -> None:
        self.lines: dict[int, tuple[list[_Masked], list[_Masked]]] = {}
        """Line -> its events on both sides, until both sides are past that line."""
        self.at = [0, 0]


class EventDiff:
    """Compares two versions of the same streams' events: those in a journal, and those of a replay.

    Events are paired line by line: within a line, the events of the same kind about the same call are paired in order.
    What does not result from the lines is not compared: `seq`, the position within the line at the end of `id`, and
    times if the trace does not hold them. Secrets are masked on both sides: a trace is masked already, a journal may
    hold secrets, and one that was streamed in pieces is whole only in an event. The preview of a call with secrets is
    not compared: it may hold a part of one.

    Reads both sides in step. They are in about the same order, so little is held in memory: the events of a line are
    compared and released as soon as both sides are past the line.

    `covered`: the part of each stream that the trace holds; the journal's events of other lines are ignored.
    `replayed`: the event lines of the covered parts.
    """

    def __init__(self, covered: Mapping[str, Covered], replayed: Iterator[bytes]) -> None:
        self.covered = covered
        self._replayed = replayed
        self._streams: dict[str, _BothSides] = defaultdict(_BothSides)
        self.seen: set[str] = set()
        """Streams of which the journal holds events."""
        self.changes: list[EventChange] = []
        self.tallies: dict[str, KindTally] = defaultdict(KindTally)

    def take(self, body: bytes) -> None:
        """Take the journal's next event. Raises what `replayed` raises."""
        head = head_of(body)
        covered = self.covered.get(head.stream)
        if covered is None:
            return
        self.seen.add(head.stream)
        at_end = head.line == covered.last and _mark(head) == "c"
        if not covered.first <= head.line <= covered.last or (at_end and not covered.closed):
            return
        self._add(0, head, body)
        if (other := next(self._replayed, None)) is not None:
            self._add(1, head_of(other), other)

    def finish(self) -> None:
        """Finish the comparison after the journal's last event. Raises what `replayed` raises."""
        for body in self._replayed:
            self._add(1, head_of(body), body)
        for name, stream in self._streams.items():
            for line in sorted(stream.lines) if name in self.seen else ():
                self._settle(name, *stream.lines[line])
        self._streams.clear()
        self.changes.sort(key=lambda one: (one.stream, one.line))

    @property
    def total(self) -> KindTally:
        tallies = self.tallies.values()
        return KindTally(*(sum(getattr(one, name) for one in tallies) for name in KindTally.__struct_fields__))

    def _add(self, side: int, head: EventHead, body: bytes) -> None:
        if _mark(head) == "d":  # made by a daemon when it resumed the stream, not by a line
            return
        stream = self._streams[head.stream]
        masked = mask_secrets(body)
        stream.lines.setdefault(head.line, ([], []))[side].append(_Masked(masked, masked is not body))
        if head.line > stream.at[side]:
            stream.at[side] = head.line
            for done in [number for number in stream.lines if number < min(stream.at)]:
                self._settle(head.stream, *stream.lines.pop(done))

    def _settle(self, name: str, before: list[_Masked], after: list[_Masked]) -> None:
        """Compare the events of one line."""
        pairs: dict[Any, tuple[list[Event], list[Event]]] = defaultdict(lambda: ([], []))
        with_secrets = set()
        for side, bodies in enumerate((before, after)):
            for body, had_secrets in bodies:
                event: Event = orjson.loads(body)
                identity = _identity(event, _mark(head_of(body)))
                pairs[identity][side].append(event)
                if had_secrets:
                    with_secrets.add(identity)
        for identity, (olds, news) in pairs.items():
            for old, new in zip(olds, news, strict=False):
                self._compare(name, old, new, CUT if identity in with_secrets else frozenset())
            for old in olds[len(news) :]:
                self._report("removed", old, whole=old)
            for new in news[len(olds) :]:
                self._report("added", new, whole=new)

    def _compare(self, name: str, old: Event, new: Event, cut: frozenset[str]) -> None:
        ignored = cut | (NEVER_COMPARED if self.covered[name].timed else NEVER_COMPARED | TIMES)
        if old.get("replay") and not new.get("replay"):  # the journal has it from another stream already
            ignored |= OF_HISTORY
        if old.get("beside"):
            ignored |= BESIDE
        if fields := list(_differences(_without(old, ignored), _without(new, ignored))):
            self._report("changed", new, fields=fields)
        else:
            self.tallies[_sort(new)].same += 1

    def _report(self, change: What, event: Event, **details: Any) -> None:
        tally = self.tallies[_sort(event)]
        setattr(tally, change, getattr(tally, change) + 1)
        place = {"stream": event["stream"], "line": event["line"], "kind": event["kind"], "about": _about(event)}
        self.changes.append(EventChange(change=change, **place, **details))


def _mark(head: EventHead) -> str:
    """`c` (close) or `d` (daemon) for an event that does not come from a line; else empty."""
    middle = head.id.removeprefix(f"{head.stream}:").split(":")[0]
    return middle[-1] if middle[-1:].isalpha() else ""


def _identity(event: Event, mark: str) -> tuple[Any, ...]:
    return (mark, event["kind"], event.get("callId"), event.get("permissionId"))


def _about(event: Event) -> str:
    return str(next((event[key] for key in ("name", "state", "role", "code", "reason", "scope") if key in event), ""))


def _sort(event: Event) -> str:
    return f"{event['kind']} {_about(event)}".rstrip()


def _without(event: Event, keys: frozenset[str]) -> Event:
    return {key: value for key, value in event.items() if key not in keys}


def _differences(before: Any, after: Any, path: str = "") -> Iterator[FieldChange]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from _member(before, after, key, f"{path}/{escaped(key)}")
    elif isinstance(before, list) and isinstance(after, list):
        olds, news = dict(enumerate(before)), dict(enumerate(after))
        for index in range(max(len(before), len(after))):
            yield from _member(olds, news, index, f"{path}/{index}")
    elif type(before) is not type(after) or before != after:
        yield FieldChange(path, "changed", before, after)


def _member(before: dict[Any, Any], after: dict[Any, Any], key: Any, path: str) -> Iterator[FieldChange]:
    if key not in after:
        yield FieldChange(path, "removed", before=before[key])
    elif key not in before:
        yield FieldChange(path, "added", after=after[key])
    else:
        yield from _differences(before[key], after[key], path)
