"""Splits bytes into lines, and reads the lines of recordings: as the agent printed them, or tapped, with time and
direction. Of a line that is too long, only head and length are kept.
"""

from __future__ import annotations

from typing import NamedTuple

from tooltap.protocol.inputs import Answer, Close, Direction, Lost, NotTappedError, looks_tapped, read_tapped

MAX_LINE_BYTES = 64 * 1024 * 1024
"""The default limit for the length of a line."""

HEAD_BYTES = 4_096
"""Bytes that are kept of a line that is too long."""


class LongLine(NamedTuple):
    head: bytes
    size: int
    """Bytes of the whole line without its newline."""


class Splitter:
    """Splits at newlines. `feed` returns the complete lines, `finish` the unterminated last one."""

    def __init__(self, max_line: int) -> None:
        self.max_line = max_line
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False

    @property
    def pending(self) -> int:
        """Bytes of the incomplete line."""
        return self._size

    def feed(self, data: bytes) -> list[bytes | LongLine]:
        lines: list[bytes | LongLine] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._add(data[start:end])
            lines.append(self._take())
            start = end + 1
        if start < len(data):
            self._add(data[start:] if start else data)
        return lines

    def finish(self) -> bytes | LongLine | None:
        """The last line, if the input did not end in a newline."""
        return self._take() if self._size else None

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._skipping and len(self._parts[0]) >= HEAD_BYTES:
            return
        self._parts.append(part)
        if self._size > self.max_line:
            self._parts = [b"".join(self._parts)[:HEAD_BYTES]]
            self._skipping = True

    def _take(self) -> bytes | LongLine:
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        line = LongLine(body, self._size) if self._skipping else body
        self._parts = []
        self._size = 0
        self._skipping = False
        return line


class Line(NamedTuple):
    data: bytes | LongLine
    t: int | None = None
    direction: Direction | None = None


class Recording:
    """The first line decides whether the recording holds tapped lines."""

    def __init__(self) -> None:
        self._tapped: bool | None = None

    def read(self, line: bytes | LongLine) -> Line | Lost | None:
        """Read one line of the file; None for the mark of the end, because the stream ends with the file."""
        if self._tapped is None:
            self._tapped = isinstance(line, bytes) and looks_tapped(line)
        if not self._tapped or isinstance(line, LongLine):
            return Line(line)
        try:
            tapped = read_tapped(line)
        except NotTappedError:  # torn: passed on as it is
            return Line(line)
        if isinstance(tapped, Close | Answer):
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
