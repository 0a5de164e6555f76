"""Traced streams -> the examples worth keeping of the keys that are wanted.

What could be an example is a line, for the events it gives under one key. All of them are looked at first; only for
those that may be chosen is the little stream made that gives the same events.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from tooltap.normalizers.framing import LongLine
from tooltap.normalizers.recording import Line
from tooltap.normalizers.unknown import Unknown
from tooltap.traces.choosing import Rank, Variant, rank, variant
from tooltap.traces.examples import Example, Given, events_of_lines, meaning, store_line
from tooltap.traces.fixture_keys import Allowlist, RawNames
from tooltap.traces.redact import Redactor
from tooltap.traces.reduce import reduced
from tooltap.traces.streams import TracedStream

__all__ = ["count_keys", "find_examples"]


class Found(NamedTuple):
    """An event with what it takes from events before it."""

    event: Given
    key: str
    call: Given | None
    """The call it is about; of a call, itself."""

    def says(self) -> tuple[str, bytes, bytes | None]:
        """What must not be lost with the lines that are left out."""
        return self.key, meaning(self.event), None if self.call is None else meaning(self.call)


class Place(NamedTuple):
    """A line, for the events it gives under one key of the allowlist."""

    found: list[Found]
    agent_version: str | None
    lines: list[Line]
    """All lines of the stream."""

    @property
    def line(self) -> int:
        """Counted from 1."""
        return int(self.found[0].event["line"])

    @property
    def dialect(self) -> str:
        return str(self.found[0].event["dialect"])

    @property
    def last_line(self) -> tuple[int, bytes]:
        """The line itself, the shorter the smaller."""
        line = _bytes(self.lines[self.line - 1])
        return len(line), line


def count_keys(streams: Iterable[TracedStream]) -> Counter[str]:
    """Key -> its events. Raises `UnknownDialectError`."""
    return Counter(found.key for stream in streams for found in _events(stream.lines, stream.dialect, stream.provider))


def find_examples(streams: list[TracedStream], allowlist: Allowlist, maximum: int) -> dict[str, list[Example]]:
    """Key of the allowlist -> redacted examples, more than are kept in the end. Raises `UnknownDialectError`."""
    redactor = Redactor()
    for stream in streams:
        for line in stream.lines:
            redactor.learn(_bytes(line))
    best: defaultdict[str, defaultdict[Variant, dict[Rank, list[Place]]]]
    best = defaultdict(lambda: defaultdict(dict))
    for stream in streams:
        for key, place in _places(stream, [_redacted(line, redactor) for line in stream.lines], allowlist):
            events = [found.event for found in place.found]
            group = best[key][variant(place.agent_version, place.dialect, events)]
            equal = group.setdefault(rank(events), [])
            if not equal or place.last_line < equal[0].last_line:
                equal[:] = [place]
            elif place.last_line == equal[0].last_line:
                equal.append(place)
            if len(group) > maximum:
                del group[max(group)]
    return {
        key: [_example(key, place) for group in groups.values() for equal in group.values() for place in equal]
        for key, groups in best.items()
    }


def _places(stream: TracedStream, lines: list[Line], allowlist: Allowlist) -> Iterator[tuple[str, Place]]:
    """(key of the allowlist, place)"""
    version = stream.agent_version
    for _, events in groupby(_events(lines, stream.dialect, stream.provider), lambda found: found.event["line"]):
        places: dict[str, Place] = {}
        for found in events:
            version = found.event.get("agentVersion", version)
            if (key := allowlist.chosen(found.key)) is not None:
                places.setdefault(key, Place([], version, lines)).found.append(found)
        yield from places.items()


def _events(lines: list[Line], dialect: str, provider: str | None) -> Iterator[Found]:
    """What can be an example: not the lines before any dialect was recognised."""
    names = RawNames()
    calls: dict[str, Given] = {}
    for events in events_of_lines(lines, dialect, provider):
        for event in events:
            if event["dialect"] == Unknown.dialect:
                continue
            if event["kind"] == "tool-call":
                calls[event["callId"]] = event
            yield Found(event, names.key(event), calls.get(event.get("callId", "")))


def _example(key: str, place: Place) -> Example:
    """The fewest lines of which the last still gives these events, about the same calls."""
    provider, keys = place.found[0].event["provider"], {found.key for found in place.found}
    said = [found.says() for found in place.found]

    def says_it(lines: list[Line]) -> bool:
        given = (found for found in _events(lines, place.dialect, provider) if found.event["line"] == len(lines))
        return [found.says() for found in given if found.key in keys] == said

    lines = reduced(place.lines[: place.line], says_it)
    example = Example(
        key=key,
        dialect=place.dialect,
        provider=provider,
        agent_version=place.agent_version,
        lines=[store_line(line) for line in lines],
        events=[],
    )
    example.events = example.run()
    return example


def _redacted(line: Line, redactor: Redactor) -> Line:
    data = redactor.redact(_bytes(line))
    return line._replace(data=LongLine(data, line.data.size) if isinstance(line.data, LongLine) else data)


def _bytes(line: Line) -> bytes:
    return line.data.head if isinstance(line.data, LongLine) else line.data
