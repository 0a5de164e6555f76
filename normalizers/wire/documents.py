"""JSON printed over many lines, put together again: one object, or an array of objects.

Every printer that indents opens an object with a line that is just `{` and ends it with one that is just `}`, equally
far in; nothing between them begins there with a brace. That is all that is looked at, so that a document costs no more
than its own bytes, and a line of JSON that follows a broken document ends it.

An array is a stream that was kept as one value: its objects, over many lines or on one, are read one by one as they are
complete, and a line that is just its bracket is a blank one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import orjson

__all__ = ["OPENING_BYTES", "Documents", "beginning"]

_BOM = b"\xef\xbb\xbf"
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")
_CLOSERS = {b"{": b"}", b"[": b"]"}
OPENING_BYTES = 16
"""How long a line may be that opens a document: a bracket, a byte order mark, a line end."""


class Documents(msgspec.Struct):
    """Where a stream is in them."""

    in_array: bool = False
    margin: bytes = b""
    """What stands before the braces of the object that is being received."""
    lines: list[bytes] = []
    """Of that object so far."""
    size: int = 0

    def is_broken_by(self, line: bytes) -> bool:
        """Whether this line begins something else, though the object has no end yet."""
        if not self.lines:
            return False
        return line.startswith((b"{", self.margin + b"{")) or (self.in_array and line.startswith(b"]"))

    def take(self, line: bytes, *, objects: bool) -> bytes | None:
        """What can be read now: a whole object or, outside of one, the line; None while an object goes on.

        `objects`: whether an object over many lines may stand outside of an array, too.
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
        """What can be read of a line outside of an object; None where it opens one."""
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
        """Forget the object."""
        self.lines, self.size = [], 0

    @property
    def text(self) -> bytes:
        return b"\n".join(self.lines)


def beginning(lines: Sequence[bytes]) -> dict[str, Any] | None:
    """What the object says that the last of these lines belongs to, as far as it goes; None if they are of none."""
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
    """The beginning of a document, with an end to all that is open in it."""
    open_brackets: list[bytes] = []
    for bracket in _BRACKET.findall(_STRING.sub(b"", text)):
        if bracket in _CLOSERS:
            open_brackets.append(bracket)
        elif open_brackets:
            open_brackets.pop()
    return text.rstrip().removesuffix(b",") + b"".join(_CLOSERS[bracket] for bracket in reversed(open_brackets))
