"""Compares two versions of the same streams' events: those in a journal, and those of a replay.

Events are paired line by line: within a line, the events of the same kind about the same call are paired in order. What
does not result from the lines is not compared: `seq`, the position within the line at the end of `id`, and times if the
trace does not hold them. Secrets are masked on both sides: a trace has none, a journal may have any, and what came in
pieces is whole only in an event.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec
import orjson

from tooltap.protocol.heads import EventHead, head_of
from tooltap.traces.recording.secrets import mask_secrets
from tooltap.traces.replay.replay import Covered

What: TypeAlias = Literal["added", "removed", "changed"]
Event: TypeAlias = dict[str, Any]

NEVER_COMPARED = frozenset({"seq", "id", "root"})
"""`root` may have been found on the daemon's machine."""
TIMES = frozenset({"ts", "durationMs"})


class FieldChange(msgspec.Struct, frozen=True, omit_defaults=True):
    path: str
    """JSON pointer into the event."""
    change: What
    before: Any = None
    after: Any = None


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
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


class Tally(msgspec.Struct):
    """Numbers of events of one kind and tool."""

    same: int = 0
    added: int = 0
    removed: int = 0
    changed: int = 0


class _Stream:
    def __init__(self) -> None:
        self.lines: dict[int, tuple[list[bytes], list[bytes]]] = {}
        """Line -> its events on both sides, until both sides are past that line."""
        self.at = [0, 0]


class EventDiff:
    """Reads both sides in step. They are in about the same order, so little is held in memory: the events of a line are
    compared and released as soon as both sides are past the line.

    `covered`: the part of each stream that the trace holds; the journal's events of other lines are ignored.
    `replayed`: the event lines of the covered parts.
    """

    def __init__(self, covered: Mapping[str, Covered], replayed: Iterator[bytes]) -> None:
        self.covered = covered
        self._replayed = replayed
        self._streams: dict[str, _Stream] = defaultdict(_Stream)
        self.seen: set[str] = set()
        """Streams of which the journal holds events."""
        self.changes: list[Change] = []
        self.tallies: dict[str, Tally] = defaultdict(Tally)

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
        """The journal has no more. Raises what `replayed` does."""
        for body in self._replayed:
            self._add(1, head_of(body), body)
        for name, stream in self._streams.items():
            for line in sorted(stream.lines) if name in self.seen else ():
                self._settle(name, *stream.lines[line])
        self._streams.clear()
        self.changes.sort(key=lambda one: (one.stream, one.line))

    @property
    def total(self) -> Tally:
        tallies = self.tallies.values()
        return Tally(*(sum(getattr(one, name) for one in tallies) for name in Tally.__struct_fields__))

    def _add(self, side: int, head: EventHead, body: bytes) -> None:
        if _mark(head) == "d":  # made by a daemon when it resumed the stream, not by a line
            return
        stream = self._streams[head.stream]
        stream.lines.setdefault(head.line, ([], []))[side].append(mask_secrets(body))
        if head.line > stream.at[side]:
            stream.at[side] = head.line
            for done in [number for number in stream.lines if number < min(stream.at)]:
                self._settle(head.stream, *stream.lines.pop(done))

    def _settle(self, name: str, before: list[bytes], after: list[bytes]) -> None:
        """Compare the events of one line."""
        pairs: dict[Any, tuple[list[Event], list[Event]]] = defaultdict(lambda: ([], []))
        for side, bodies in enumerate((before, after)):
            for body in bodies:
                event: Event = orjson.loads(body)
                pairs[_identity(event, _mark(head_of(body)))][side].append(event)
        for olds, news in pairs.values():
            for old, new in zip(olds, news, strict=False):
                self._compare(name, old, new)
            for old in olds[len(news) :]:
                self._report("removed", old, whole=old)
            for new in news[len(olds) :]:
                self._report("added", new, whole=new)

    def _compare(self, name: str, old: Event, new: Event) -> None:
        ignored = NEVER_COMPARED if self.covered[name].timed else NEVER_COMPARED | TIMES
        if fields := list(_differences(_without(old, ignored), _without(new, ignored))):
            self._report("changed", new, fields=fields)
        else:
            self.tallies[_sort(new)].same += 1

    def _report(self, change: What, event: Event, **details: Any) -> None:
        tally = self.tallies[_sort(event)]
        setattr(tally, change, getattr(tally, change) + 1)
        place = {"stream": event["stream"], "line": event["line"], "kind": event["kind"], "about": _about(event)}
        self.changes.append(Change(change=change, **place, **details))


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
            yield from _member(before, after, key, f"{path}/{key.replace('~', '~0').replace('/', '~1')}")
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
