"""Reads the lines of recordings: as the agent printed them, or tapped, with time and direction."""

from __future__ import annotations

from typing import NamedTuple

from tooltap.normalizers.wire.framing import HEAD_BYTES, MAX_LINE_BYTES, LongLine, Splitter
from tooltap.protocol.inputs import Answer, Close, Direction, Lost, NotTappedError, looks_tapped, read_tapped


class Line(NamedTuple):
    data: bytes | LongLine
    t: int | None = None
    direction: Direction | None = None


class Recording:
    """The first line decides whether the recording holds tapped lines."""

    def __init__(self) -> None:
        self.end = Close()
        """How the stream ended, by the mark of the end; nothing else follows that mark."""
        self._tapped: bool | None = None

    def read(self, line: bytes | LongLine) -> Line | Lost | None:
        """Read one line of the file; None for the mark of the end, because the stream ends with the file."""
        if self._tapped is None:
            self._tapped = isinstance(line, bytes) and looks_tapped(line)
        if not self._tapped or isinstance(line, LongLine):
            return Line(line)
        self.end = Close()
        try:
            tapped = read_tapped(line)
        except NotTappedError:  # torn: passed on as it is
            return Line(line)
        if isinstance(tapped, Close):
            self.end = tapped
            return None
        if isinstance(tapped, Answer):
            return None
        if isinstance(tapped, Lost):
            return tapped
        data = tapped.line if tapped.size is None else LongLine(tapped.line[:HEAD_BYTES], tapped.size)
        return Line(data, tapped.t, tapped.direction)


def read_recording(data: bytes) -> list[Line]:
    """The lines of a recorded stream, plain or tapped. What a tap lost, and the mark of the end, are left out."""
    splitter = Splitter(MAX_LINE_BYTES)
    raw = splitter.feed(data)
    if (last := splitter.finish()) is not None:
        raw.append(last)
    recording = Recording()
    return [line for one in raw if isinstance(line := recording.read(one), Line)]
