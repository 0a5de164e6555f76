"""What a file of a recorded stream holds: lines as the agent printed them, or tapped lines with time and direction."""

from __future__ import annotations

from typing import NamedTuple

from tooltap.normalizers.wire.framing import HEAD_BYTES, LongLine
from tooltap.protocol.tapped import Direction, End, Lost, NotTappedError, looks_tapped, read_tapped

__all__ = ["Line", "Recording"]


class Line(NamedTuple):
    data: bytes | LongLine
    t: int | None = None
    direction: Direction | None = None


class Recording:
    """The first line says how all are read."""

    def __init__(self) -> None:
        self._tapped: bool | None = None

    def read(self, line: bytes | LongLine) -> Line | Lost | None:
        """One line of the file; None for a mark that is no line of the stream: it ends where its file does."""
        if self._tapped is None:
            self._tapped = isinstance(line, bytes) and looks_tapped(line)
        if not self._tapped or isinstance(line, LongLine):
            return Line(line)
        try:
            tapped = read_tapped(line)
        except NotTappedError:  # torn: shown as what it is
            return Line(line)
        if isinstance(tapped, End):
            return None
        if isinstance(tapped, Lost):
            return tapped
        data = tapped.line if tapped.size is None else LongLine(tapped.line[:HEAD_BYTES], tapped.size)
        return Line(data, tapped.t, tapped.dir)
