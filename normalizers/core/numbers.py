"""Ids of what is emitted for a line: `<stream>:<line>:<index>` for events, with other counters for partials and output
bodies.
"""

from __future__ import annotations

__all__ = ["Numbers"]


class Numbers:
    """Counts what is emitted for the line being read."""

    def __init__(self, stream: str, line: int) -> None:
        self.stream = stream
        self.restart(line)

    def restart(self, line: int, mark: str = "", events: int = 0) -> None:
        """Begin a line. `mark`: `c` for events of closing the stream, `d` for events between lines."""
        self.line = line
        self.mark = mark
        self.events = events
        self.partials = self.outputs = 0

    def event(self) -> str:
        number = self.events
        self.events = number + 1
        return f"{self.stream}:{self.line}{self.mark}:{number}"

    def partial(self) -> str:
        self.partials += 1
        return f"{self.stream}:{self.line}p:{self.partials - 1}"

    def output(self) -> str:
        self.outputs += 1
        return f"{self.stream}:{self.line}{self.mark}:o{self.outputs - 1}"
