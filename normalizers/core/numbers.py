"""Ids of what is emitted for a line: `<stream>:<line>:<index>` for events, with other counters for partials and output
bodies.
"""

from __future__ import annotations

__all__ = ["Numbers"]


class Numbers:
    """Counts what is emitted for one line. A line that emits nothing is never begun."""

    def __init__(self, stream: str, line: int) -> None:
        self.stream = stream
        self.begin(line)

    def begin(self, line: int, mark: str = "", events: int = 0) -> None:
        """Begin a line. `mark`: `c` for events of closing the stream, `d` for events between lines."""
        self.line = line
        self.place = f"{self.stream}:{line}{mark}:"
        """The beginning of the line's ids."""
        self.events = events
        self.partials = self.outputs = 0

    def partial(self) -> str:
        self.partials += 1
        return f"{self.stream}:{self.line}p:{self.partials - 1}"

    def output(self) -> str:
        self.outputs += 1
        return f"{self.place}o{self.outputs - 1}"
