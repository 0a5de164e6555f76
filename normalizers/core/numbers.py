"""Ids of what a stream's lines give: `<stream>:<line>:<index>` for events, and apart from them previews and bodies."""

from __future__ import annotations

__all__ = ["Numbers"]


class Numbers:
    """Counts what the line being read gives."""

    def __init__(self, stream: str, line: int) -> None:
        self.stream = stream
        self.restart(line)

    def restart(self, line: int, mark: str = "", events: int = 0) -> None:
        """`mark`: `c` for what closing makes, `d` for what no line makes."""
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
