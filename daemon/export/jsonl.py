"""Exports events as lines of JSON, as a subscription has them: what is missing is a line with `"op": "gap"`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import msgspec

from tooltap.daemon.export.source import Bodies, ExportedBody, MissingRange
from tooltap.protocol.events import AnyEvent, encode
from tooltap.protocol.frames import Gap


class EventLines:
    ENDING: ClassVar = "jsonl"
    HAS_BODIES: ClassVar = False

    def __init__(self, title: str, *, bodies: Bodies) -> None:
        self._gaps = ""
        self._has_begun = False

    def add(self, event: AnyEvent, bodies: Mapping[str, ExportedBody]) -> str:
        """Return the line of an event, after what was missing before the first one."""
        before, self._gaps, self._has_begun = self._gaps, "", True
        return f"{before}{encode(event).decode()}\n"

    def add_gap(self, gap: MissingRange) -> str:
        frame = Gap(from_=gap.first, to=gap.last, reason="retention" if gap.is_deleted else "corrupt")
        line = f"{msgspec.json.encode(frame).decode()}\n"
        if self._has_begun:
            return line
        self._gaps += line
        return ""

    def end(self, *remarks: str) -> Iterator[str]:
        """Return nothing: a remark would be a line that is no event."""
        yield from ()
