"""Exports recordings and made events in a format."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from tooltap.daemon.export.formats import exporter_class
from tooltap.daemon.export.source import Bodies, FileSource
from tooltap.daemon.export.sqlite import Database
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.normalizers.wire.framing import Splitter
from tooltap.protocol.events import AnyEvent, decode
from tooltap.traces.recording.reader import RecordingFeed

MAX_BODY, MAX_BODIES = 1 << 20, 1 << 26


def exported(form: str, path: Path) -> tuple[list[AnyEvent], str]:
    """Return the events of a recording, and the file that they become; an empty text without events."""
    bodies = Bodies(MAX_BODY, MAX_BODIES)
    exporter = exporter_class(form)("A session", bodies=bodies)
    events, parts = [], []
    with FileSource("recording", [path.read_bytes()], bodies, lambda data, _: data) as source:
        for event, found in source:
            events.append(event)
            parts.append(exporter.add(event, found))
    return events, "".join([*parts, *exporter.end("A remark.")]) if events else ""


def written(form: str, *made: Produced) -> str:
    """Return the file that events become."""
    exporter = exporter_class(form)("A session", bodies=Bodies(0, 0))
    parts = []
    for seq, one in enumerate(made, 1):
        event = decode(one.body)
        event.seq = seq
        parts.append(exporter.add(event, {}))
    return "".join([*parts, *exporter.end()])


class Tables:
    """A database of exported tables."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path)
        self._db.row_factory = sqlite3.Row

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._db.execute(query, values)]

    def rows(self, table: str) -> list[dict[str, Any]]:
        return [dict(row) for row in self._db.execute(f"SELECT * FROM {table} ORDER BY rowid")]

    @property
    def faults(self) -> list[tuple[Any, ...]]:
        """What SQLite finds wrong."""
        found = [*self.ask("PRAGMA integrity_check"), *self.ask("PRAGMA foreign_key_check")]
        return [one for one in found if one != ("ok",)]


def tabled(path: Path, *sources: Sequence[AnyEvent], max_text: int = 65_536) -> list[str]:
    """Write a database of the events of some sources, and return what it says was left out."""
    database = Database(path, max_text=max_text, masked=True)
    said: list[str] = []
    for number, events in enumerate(sources, 1):
        source = database.source(f"source-{number}", None)
        for event in events:
            source.add(event, {})
        said += source.end()
    database.finish("A remark.")
    return said


def events_of(path: Path) -> list[AnyEvent]:
    """Return the events of a recording."""
    with FileSource("recording", [path.read_bytes()], Bodies(0, 0), lambda data, _: data) as source:
        return [event for event, _ in source]


def published(recording: bytes) -> list[Produced]:
    """Return the events and partials of a recording, as its publisher's stream has them, without repeated history."""
    normalizer = StreamNormalizer(Context(stream="recording", partials=True))
    feed, splitter = RecordingFeed(normalizer), Splitter(normalizer.context.limits.line_bytes)
    lines = [*splitter.feed(recording), splitter.finish()]
    outputs = [out for line in lines if line is not None for out in feed.feed([line])]
    return [one for one in [*outputs, *feed.close()] if isinstance(one, Produced) and not one.replay]


def numbered(*made: Produced) -> list[AnyEvent]:
    """Return events with their `seq` as in a recording, each with an id of its own."""
    events = []
    for seq, one in enumerate(made, 1):
        event = decode(one.body)
        event.seq, event.id = seq, f"{event.stream}:{seq}:0"
        events.append(event)
    return events
