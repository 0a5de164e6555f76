"""Traced streams -> the examples worth keeping of the keys that are wanted.

The events of all streams are looked at first; only for those that may be chosen is the little stream made that gives
the same event.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tooltap.normalizers.framing import LongLine
from tooltap.normalizers.recording import Line
from tooltap.traces.choosing import Rank, Variant, rank, variant
from tooltap.traces.examples import Example, Given, events_of_lines, meaning, store_line
from tooltap.traces.fixture_keys import Allowlist, RawNames
from tooltap.traces.redact import Redactor
from tooltap.traces.reduce import reduced
from tooltap.traces.streams import TracedStream

__all__ = ["count_keys", "find_examples"]


class Found(NamedTuple):
    """An event and where it was given."""

    event: Given
    key: str
    """The event's own, of which the allowlist may name only the beginning."""
    agent_version: str | None
    lines: list[Line]
    """All lines of the stream; the event's own is `event["line"]`, counted from 1."""


def count_keys(streams: Iterable[TracedStream]) -> Counter[str]:
    """Key -> its events. Raises `UnknownDialectError`."""
    keys: Counter[str] = Counter()
    for stream in streams:
        names = RawNames()
        for events in events_of_lines(stream.lines, stream.dialect, stream.provider):
            keys.update(names.key(event) for event in events)
    return keys


def find_examples(streams: list[TracedStream], allowlist: Allowlist, maximum: int) -> dict[str, list[Example]]:
    """Key of the allowlist -> redacted examples, more than are kept in the end. Raises `UnknownDialectError`."""
    redactor = Redactor()
    for stream in streams:
        for line in stream.lines:
            redactor.learn(_bytes(line))
    found: defaultdict[str, defaultdict[Variant, dict[Rank, list[Found]]]]
    found = defaultdict(lambda: defaultdict(dict))
    for stream in streams:
        lines = [_redacted(line, redactor) for line in stream.lines]
        for key, one in _wanted(stream, lines, allowlist):
            group = found[key][variant(one.agent_version, one.event["dialect"], one.event)]
            place = rank(one.event)
            equal = group.setdefault(place, [one])
            if _last(one) <= _last(equal[0]):
                group[place] = [one] if _last(one) < _last(equal[0]) else [*equal, one]
            if len(group) > maximum:
                del group[max(group)]
    return {
        key: [_example(key, one) for group in groups.values() for equal in group.values() for one in equal]
        for key, groups in found.items()
    }


def _wanted(stream: TracedStream, lines: list[Line], allowlist: Allowlist) -> Iterator[tuple[str, Found]]:
    names, version = RawNames(), stream.agent_version
    for events in events_of_lines(lines, stream.dialect, stream.provider):
        for event in events:
            version = event.get("agentVersion", version)
            key = names.key(event)
            if (chosen := allowlist.chosen(key)) is not None:
                yield chosen, Found(event, key, version, lines)


def _last(found: Found) -> tuple[int, bytes]:
    last = _bytes(found.lines[found.event["line"] - 1])
    return len(last), last


def _example(key: str, found: Found) -> Example:
    dialect, provider, wanted = found.event["dialect"], found.event["provider"], (found.key, meaning(found.event))

    def gives_it(lines: list[Line]) -> bool:
        names, given = RawNames(), []
        for events in events_of_lines(lines, dialect, provider):
            given = [(names.key(event), meaning(event)) for event in events]
        return wanted in given

    example = Example(
        key=key,
        dialect=dialect,
        provider=provider,
        agent_version=found.agent_version,
        lines=[store_line(line) for line in reduced(found.lines[: found.event["line"]], gives_it)],
        events=[],
    )
    example.events = example.run()
    return example


def _redacted(line: Line, redactor: Redactor) -> Line:
    data = redactor.redact(_bytes(line))
    return line._replace(data=LongLine(data, line.data.size) if isinstance(line.data, LongLine) else data)


def _bytes(line: Line) -> bytes:
    return line.data.head if isinstance(line.data, LongLine) else line.data
