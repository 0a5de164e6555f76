"""The statistics of a stream: in the `done` frame, in `stats`, and in `--stats-json`."""

from __future__ import annotations

import msgspec

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

    def count_skip(self, reason: str, lines: int = 1) -> None:
        """Count lines without events. `reason`: why they were skipped, or `unparsed`."""
        if reason == "unparsed":
            self.unparsed += lines
        else:
            _count(self.skipped, reason, lines)

    def count_call(self, tool: str | None, raw_tool: str | None) -> None:
        """Count a call under its tool's names, the canonical one and the one on the wire."""
        _count(self.tools, str(tool))
        _count(self.raw_tools, str(raw_tool))


def _count(table: dict[str, int], name: str, number: int = 1) -> None:
    """Add to the number under a name in a bounded table."""
    if name not in table and len(table) >= MAX_NAMES:
        name = "…"
    table[name] = table.get(name, 0) + number
