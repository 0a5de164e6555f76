"""One fixture: a little stream of its own, and the events it gives.

An example holds the fewest lines of a recorded stream that still give the event it is kept for, and all events of these
lines, as clients get them from the current normalizer but for `_raw`, which only repeats the lines. Nothing else is
needed to run it again: dialect and provider stand beside the lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import orjson

from tooltap.normalizers.bounds import Produced
from tooltap.normalizers.framing import LongLine
from tooltap.normalizers.items import Context
from tooltap.normalizers.recording import Line
from tooltap.normalizers.stream import StreamNormalizer
from tooltap.protocol.tapped import read_record, write_tapped
from tooltap.traces.fixture_keys import RawNames, base_key

__all__ = ["Example", "Given", "events_of_lines", "meaning", "read_line", "store_line"]

STREAM = "example"
IDENTITY = {"callId", "id", "line", "messageId", "permissionId", "replaces", "session", "ts", "turn"}
"""What an event is called and belongs to, which differs from run to run, in contrast to what it says."""

Given = dict[str, Any]
"""An event as clients get it, without `_raw`."""


class Example(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    key: str
    dialect: str
    provider: str
    agent_version: str | None = None
    lines: list[dict[str, Any]]
    """Tapped lines without their times; `line` is the JSON value itself where that is the same line."""
    events: list[Given]

    def run(self) -> list[Given]:
        """What its lines give today. Raises `NotTappedError` where one of them is none."""
        lines = [read_line(line) for line in self.lines]
        return [event for events in events_of_lines(lines, self.dialect, self.provider) for event in events]

    @property
    def raw(self) -> bytes:
        """Its lines, to be compared."""
        return orjson.dumps(self.lines)

    def kept_for(self) -> list[Given]:
        """The events it is an example of: those of its last line that have its key."""
        names = RawNames()
        keys = [(event, names.key(event)) for event in self.events]
        last = len(self.lines)
        return [event for event, key in keys if event["line"] == last and self.key in (key, base_key(key))]


def events_of_lines(lines: Iterable[Line], dialect: str, provider: str | None) -> Iterator[list[Given]]:
    """Line by line, what is given for it; not what closing the stream would add. Raises `UnknownDialectError`."""
    normalizer = StreamNormalizer(Context(stream=STREAM, provider=provider), dialect)
    for line in lines:
        yield [_given(output) for output in normalizer.feed(*line) if isinstance(output, Produced)]


def _given(produced: Produced) -> Given:
    event: Given = orjson.loads(produced.body)
    for payload in ("input", "output"):
        event.get(payload, {}).pop("_raw", None)
    return event


def meaning(event: Given) -> bytes:
    """What the event says, whatever stream it is of: equal for equal facts."""
    said = {key: _without_output_ids(value) for key, value in event.items() if key not in IDENTITY}
    return orjson.dumps(said, option=orjson.OPT_SORT_KEYS)


def _without_output_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_output_ids(item) for key, item in value.items() if key != "outputId"}
    return [_without_output_ids(item) for item in value] if isinstance(value, list) else value


def store_line(line: Line) -> dict[str, Any]:
    data, size = (line.data.head, line.data.size) if isinstance(line.data, LongLine) else (line.data, None)
    record: dict[str, Any] = orjson.loads(write_tapped(data, None, line.direction, size))
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return record
    if isinstance(value, dict | list) and orjson.dumps(value) == data:
        record["line"] = value
    return record


def read_line(record: dict[str, Any]) -> Line:
    """Raises `NotTappedError`."""
    tapped = read_record(record)
    return Line(tapped.line if tapped.size is None else LongLine(tapped.line, tapped.size), None, tapped.dir)
