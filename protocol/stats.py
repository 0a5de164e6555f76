"""The statistics of a stream: in the `done` frame, in `stats`, and in `--stats-json`."""

from __future__ import annotations

import msgspec

from tooltap.protocol.events import KINDS, Event, ToolCall

__all__ = ["Statistics"]

MAX_NAMES = 1_000
"""Distinct names per table; further ones are counted under `…`."""


class Statistics(msgspec.Struct, kw_only=True, rename="camel"):
    """The counts of a whole stream: always, `lines = with_events + unparsed + sum(skipped)`."""

    stream: str
    dialect: str
    provider: str
    lines: int = 0
    """Lines that have a class; without those that are held until the dialect is recognised."""
    with_events: int = 0
    """Lines that produced events, or content of a later event."""
    unparsed: int = 0
    skipped: dict[str, int] = {}
    """Reason -> lines; each dialect has a fixed set of reasons."""
    events: int = 0
    """Events, without partials."""
    kinds: dict[str, int] = {}
    tools: dict[str, int] = {}
    """Canonical name -> calls."""
    raw_tools: dict[str, int] = {}
    """Name on the wire -> calls."""
    bytes: int = 0
    """Bytes of the lines, without newlines."""
    repaired: int = 0
    """Lines that were read although they are not valid JSON in UTF-8 with unique keys."""

    def count_line(self, line_class: str, size: int) -> None:
        """Count a line in its class: `withEvents`, `unparsed` or `skipped.<reason>`. `size`: in bytes."""
        self.lines += 1
        self.bytes += size
        if line_class == "withEvents":
            self.with_events += 1
        elif line_class == "unparsed":
            self.unparsed += 1
        else:
            _count(self.skipped, line_class.removeprefix("skipped."))

    def count_event(self, event: Event) -> None:
        """Count an event that is not a partial."""
        self.events += 1
        kind = KINDS[type(event)]
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if isinstance(event, ToolCall):
            _count(self.tools, event.name)
            _count(self.raw_tools, str(event.input["_happy"]["rawToolName"]))


def _count(table: dict[str, int], name: str) -> None:
    """Add one to a name in a bounded table."""
    if name not in table and len(table) >= MAX_NAMES:
        name = "…"
    table[name] = table.get(name, 0) + 1
