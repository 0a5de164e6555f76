"""Joins JSON that is printed over several lines: one object, or an array of objects.

Every printer that indents starts an object with a line that is just `{` and ends it with a line that is just `}` at the
same indentation, at which no line in between starts with a brace. Only this is checked. Therefore a document costs no
more than its own bytes, and a line of JSON after a broken document ends that document.

An array is a stream stored as one value. Its objects, on several lines or on one, are read as they are complete; a line
with just its bracket counts as blank.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import orjson

_BOM = b"\xef\xbb\xbf"
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")
_CLOSERS = {b"{": b"}", b"[": b"]"}
OPENING_BYTES = 16
"""The maximum length of a line that opens a document: a bracket, a byte order mark, a line end."""


class Documents(msgspec.Struct):
    """The state of a stream between lines."""

    in_array: bool = False
    margin: bytes = b""
    """The indentation of the current object's braces."""
    lines: list[bytes] = []
    """The lines of the current object so far."""
    size: int = 0

    def is_broken_by(self, line: bytes) -> bool:
        """Whether this line starts something else although the current object has not ended."""
        if not self.lines:
            return False
        return line.startswith((b"{", self.margin + b"{")) or (self.in_array and line.startswith(b"]"))

    def take(self, line: bytes, *, objects: bool) -> bytes | None:
        """Return what can be decoded: a complete object or, outside an object, the line; None inside an object.

        `objects`: whether objects over several lines may occur outside an array too.
        """
        if not self.lines:
            outside = self._take_outside(line, objects=objects)
            if outside is not None:
                return outside
            self.margin = line[: line.index(b"{")]
        self.lines.append(line)
        self.size += len(line) + 1
        end = line.rstrip()
        if (end.removesuffix(b",") if self.in_array else end) != self.margin.removeprefix(_BOM) + b"}":
            return None
        text = self.text.rstrip().removesuffix(b",")
        self.drop()
        return text

    def _take_outside(self, line: bytes, *, objects: bool) -> bytes | None:
        """Return what can be decoded of a line outside an object; None if the line opens one."""
        if not self.in_array and len(line) >= OPENING_BYTES:
            return line
        bare = line.removeprefix(_BOM).strip()
        if bare == (b"]" if self.in_array else b"["):
            self.in_array = not self.in_array
            return b""
        if bare == b"{" and (self.in_array or objects):
            return None
        if not self.in_array or not bare:
            return line
        self.in_array = bare.startswith(b"{")
        return bare.removesuffix(b",") if self.in_array else line

    def drop(self) -> None:
        """Discard the current object."""
        self.lines, self.size = [], 0

    @property
    def text(self) -> bytes:
        return b"\n".join(self.lines)


def beginning(lines: Sequence[bytes]) -> dict[str, Any] | None:
    """The object to which the last line belongs, as far as it is complete; None if the line belongs to none."""
    documents = Documents()
    text: bytes | None = None
    for line in lines:
        if documents.is_broken_by(line):
            documents.drop()
        text = documents.take(line, objects=True)
    if documents.lines:
        text = _closed(documents.text)
    elif text is None or text is lines[-1]:
        return None
    try:
        value = orjson.loads(text.removeprefix(_BOM))
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _closed(text: bytes) -> bytes:
    """Complete the beginning of a document by closing all open brackets."""
    open_brackets: list[bytes] = []
    for bracket in _BRACKET.findall(_STRING.sub(b"", text)):
        if bracket in _CLOSERS:
            open_brackets.append(bracket)
        elif open_brackets:
            open_brackets.pop()
    return text.rstrip().removesuffix(b",") + b"".join(_CLOSERS[bracket] for bracket in reversed(open_brackets))
