"""Exports recordings and made events in a format."""

from __future__ import annotations

from pathlib import Path

from tooltap.daemon.export.formats import exporter_class
from tooltap.daemon.export.source import Bodies, FileSource
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import AnyEvent, decode

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
