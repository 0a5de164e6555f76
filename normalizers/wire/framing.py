"""Splits bytes into lines. Of a line that is too long, only head and length are kept. `run` and `proxy` import this
before they start an agent, so it imports nothing itself."""

from __future__ import annotations

from typing import NamedTuple

MAX_LINE_BYTES = 64 * 1024 * 1024
"""The default limit for the length of a line."""

HEAD_BYTES = 4_096
"""Length of the head that is kept of a line that is too long, in bytes."""


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
