"""Which part of a body a `Range` header requests (RFC 9110, section 14)."""

from __future__ import annotations

import re
from typing import NamedTuple

# More digits than any body is long; `int` refuses very many.
_ONE_RANGE = re.compile(r"bytes=\s*(?:(?P<first>[0-9]{1,18})-(?P<last>[0-9]{1,18})?|-(?P<suffix>[0-9]{1,18}))\s*", re.I)


class UnsatisfiableError(Exception):
    """The range begins after the end of the body."""


class Span(NamedTuple):
    start: int
    end: int
    """Exclusive."""


def requested_span(header: str | None, size: int) -> Span | None:
    """Parse the header. None means the whole body: if there is no range, several, or an invalid one. Raises
    `UnsatisfiableError`."""
    match = _ONE_RANGE.fullmatch(header) if header is not None else None
    if match is None:
        return None
    if match["suffix"] is not None:
        length = min(int(match["suffix"]), size)
        if length == 0:
            raise UnsatisfiableError
        return Span(size - length, size)
    first = int(match["first"])
    last = int(match["last"]) if match["last"] is not None else size - 1
    if match["last"] is not None and last < first:
        return None
    if first >= size:
        raise UnsatisfiableError
    return Span(first, min(last + 1, size))
