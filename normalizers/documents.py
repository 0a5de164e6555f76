"""A JSON object that is printed over many lines, put together again.

Every printer that indents opens an object with a line that is just `{` and ends it with one that is just `}`; nothing
between them begins at the margin with a brace. That is all that is looked at, so that a document costs no more than its
own bytes, and a line of JSON that follows a broken document ends it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import orjson

__all__ = ["Document", "beginning", "opens_document"]

_BOM = b"\xef\xbb\xbf"
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")
_CLOSERS = {b"{": b"}", b"[": b"]"}


class Document(msgspec.Struct):
    """The lines so far."""

    lines: list[bytes] = []
    size: int = 0

    def add(self, line: bytes) -> None:
        self.lines.append(line)
        self.size += len(line) + 1

    def is_broken_by(self, line: bytes) -> bool:
        """Whether this line begins something else."""
        return line.startswith(b"{")

    def is_ended_by(self, line: bytes) -> bool:
        return line.rstrip() == b"}"

    @property
    def text(self) -> bytes:
        return b"\n".join(self.lines)


def opens_document(line: bytes) -> bool:
    return line.removeprefix(_BOM).rstrip() == b"{"


def beginning(lines: Sequence[bytes]) -> dict[str, Any] | None:
    """What the document says that the last of these lines belongs to, as far as they go; None if they are of none."""
    start = next((index for index in reversed(range(len(lines))) if opens_document(lines[index])), None)
    if start is None:
        return None
    text = b"\n".join(lines[start:]).removeprefix(_BOM).rstrip()
    open_brackets: list[bytes] = []
    for bracket in _BRACKET.findall(_STRING.sub(b"", text)):
        if bracket in _CLOSERS:
            open_brackets.append(bracket)
        elif open_brackets:
            open_brackets.pop()
    closing = b"".join(_CLOSERS[bracket] for bracket in reversed(open_brackets))
    try:
        value = orjson.loads(text.removesuffix(b",") + closing)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None
