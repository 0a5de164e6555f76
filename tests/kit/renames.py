"""Renames every field and type in recorded streams, one at a time, and reports how many of the changes drift detection
finds: `make lab-renames`. It also reports what it says of the streams as they are, of which it must raise no alarm.

    python -m tests.kit.renames FOLDER...

A folder's manifest.json lists the files. A field or type is renamed wherever a stream has it at the same place, in the
first `STREAMS` streams of each agent that have it.

Exit code 1 if a stream as it is gives an alarm, or if an expected field was renamed without one; 2 if a folder cannot
be read.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import orjson

from tooltap.cli.common.guard import guard
from tooltap.cli.common.printing import on_stderr, say
from tooltap.normalizers.catalog.registry import dialects
from tooltap.normalizers.wire.framing import LongLine
from tooltap.normalizers.wire.recording import Line
from tooltap.traces.drift.baselines import PACKAGED, Origin, load, observe
from tooltap.traces.drift.drift import Drift, Finding
from tooltap.traces.drift.shapes import DATA_KEY, TAG_KEYS, Shape, objects_at
from tooltap.traces.drift.watch import watch_stream
from tooltap.traces.recording.reader import TracedStream, read_manifest, read_stream

STREAMS = 3
"""Maximum streams of an agent in which the same place is renamed."""
SUFFIX = "Next"
NULL = Shape(types={"null"})


class Place(NamedTuple):
    """A field, or a type, in the lines of an agent."""

    path: str
    is_type: bool
    expected: bool
    """Whether the key is expected in every such object of the agent, and some value of it is known."""


class Report(msgspec.Struct):
    alarms: list[str] = []
    """Alarms in unchanged streams."""
    renames: Counter[str] = msgspec.field(default_factory=Counter)
    alarmed: Counter[str] = msgspec.field(default_factory=Counter)
    found: Counter[str] = msgspec.field(default_factory=Counter)
    """Class of places -> number of them: renamed (`renames`), with an alarm (`alarmed`), with an alarm or a notice
    (`found`)."""
    missed: list[str] = []
    """Expected fields whose renaming gave no alarm, and places whose renaming gave no finding."""


def run(folders: Iterable[Path], baselines: Path = PACKAGED) -> Report:
    """Rename in the recordings of folders. Raises `OSError` and `msgspec.DecodeError`."""
    report = Report()
    known = cache(lambda dialect: load(baselines, dialect))
    tried: Counter[tuple[Origin, str]] = Counter()
    for folder in folders:
        for row in read_manifest(folder):
            if row.dialect in dialects():
                _check(report, Drift(known), read_stream(folder / row.file, row.asked), row.file, tried)
    return report


def _check(report: Report, drift: Drift, stream: TracedStream, name: str, tried: Counter[tuple[Origin, str]]) -> None:
    before = {(one.kind, one.place): one for one in _findings(drift, stream)}
    report.alarms += [f"{name}: {one.kind} {one.place}" for one in before.values() if one.severity == "alarm"]
    observed = observe(stream)
    known = drift.known(observed.agent)
    if known.version is None:
        return
    for place in places(observed.lines, known.lines):
        tried[observed.agent, place.path] += 1
        if tried[observed.agent, place.path] > STREAMS:
            continue
        changed = renamed(stream, place)
        news = [one for one in _findings(drift, changed) if (one.kind, one.place) not in before]
        kind = "types" if place.is_type else "expected fields" if place.expected else "other fields"
        report.renames[kind] += 1
        report.found[kind] += bool(news)
        report.alarmed[kind] += (is_alarm := any(one.severity == "alarm" for one in news))
        if not news or (place.expected and not is_alarm):
            report.missed.append(f"{name}: {kind}: {place.path}")


def _findings(drift: Drift, stream: TracedStream) -> list[Finding]:
    drift.take()
    watch_stream(drift, stream)
    return drift.report().findings


def places(shape: Shape, known: Shape) -> list[Place]:
    """Return all fields and types of the shape that the known shape has. Keys that are data are not fields."""
    return list(dict.fromkeys(_places(shape, known, "$")))


def _places(shape: Shape, known: Shape, path: str) -> Iterator[Place]:
    if shape.item is not None and known.item is not None:
        yield from _places(shape.item, known.item, f"{path}[]")
    for tag, fields in shape.variants.items():
        if (ours := known.variants.get(tag)) is None:
            continue
        place = f"{path}<{tag}>" if tag else path
        for key, below in fields.keys.items():
            if key not in ours.keys or key == DATA_KEY:
                continue
            is_type = key in TAG_KEYS and below.word is not None
            was_null = ours.keys[key] == NULL and below != NULL
            expected = not (is_type or ours.few or key in ours.optional or was_null)
            yield Place(f"{place}.{key}", is_type, expected)
            yield from _places(below, ours.keys[key], f"{place}.{key}")


def renamed(stream: TracedStream, place: Place) -> TracedStream:
    """Return a copy of the stream in which the field has another name, or the type another value."""
    return msgspec.structs.replace(stream, lines=[_renamed(line, place) for line in stream.lines])


def _renamed(line: Line, place: Place) -> Line:
    if isinstance(line.data, LongLine) or line.direction == "in":
        return line
    try:
        value: Any = orjson.loads(line.data)
    except orjson.JSONDecodeError:
        return line
    objects, key = objects_at(value, place.path)
    if not objects:
        return line
    for one in objects:
        if place.is_type:
            one[key] += SUFFIX
        else:
            items = [(f"{name}{SUFFIX}" if name == key else name, item) for name, item in one.items()]
            one.clear()
            one.update(items)
    return line._replace(data=orjson.dumps(value))


def render(report: Report) -> Iterator[str]:
    """Render the report as lines of text."""
    yield from (f"alarm: {one}" for one in report.alarms)
    yield from (f"missed: {one}" for one in report.missed)
    for kind, number in sorted(report.renames.items()):
        counts = (("found", report.found[kind]), ("as alarm", report.alarmed[kind]))
        shares = (f"{count} {how} ({count / number:.2%})" for how, count in counts)
        yield f"{kind}: {number} renamed, {', '.join(shares)}"
    yield f"{len(report.alarms)} alarms of streams as they are"


def main(arguments: list[str]) -> int:
    if not arguments:
        on_stderr("usage: python -m tests.kit.renames FOLDER...")
        return 2
    try:
        report = run(map(Path, arguments))
    except (OSError, msgspec.DecodeError) as error:
        on_stderr(f"renames: {error}")
        return 2
    for line in render(report):
        say(line)
    kind = "expected fields"
    return 1 if report.alarms or report.alarmed[kind] < report.renames[kind] else 0


if __name__ == "__main__":
    guard()
    sys.exit(main(sys.argv[1:]))
