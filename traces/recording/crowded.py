"""Masks what is left of a line that has too many places where a secret could stand: no look says which are none.

Only text that somebody wrote to be slow has so many. Whatever begins at such a place is masked, to the end of the
string of JSON that it is in; so is the value of a key that has one. What is no JSON is masked to its end.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

import orjson

from tooltap.traces.recording.secret_names import Span

__all__ = ["begins_in_escape", "crowded"]

KIND = "crowded"
_STRING = re.compile(
    rb"\"(?P<text>(?:[^\"\\]|\\.)*+)\""
    rb"(?:[ \t]*:[ \t]*(?:\"(?P<value>(?:[^\"\\]|\\.)*+)\"|(?P<number>-?\d[\d.eE+-]*+))?)?"
)
"""A string with what it is the key of: another string, or a number."""
_ESCAPED = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?\Z")


def crowded(text: bytes, begin: int, end: int, places: Sequence[int]) -> Iterator[Span]:
    """`places`: in the line from `begin` to `end`, in order."""
    try:
        orjson.loads(memoryview(text)[begin:end])
    except orjson.JSONDecodeError:
        yield places[0], end, KIND
        return
    for match in _STRING.finditer(text, begin, end):
        key, value = match.span("text"), match.span("value")
        if value[0] < 0:
            value = match.span("number")
        at = _from(places, match.start(), key[1])
        if at is not None:
            yield from _harmless(text, max(at, key[0]), key[1])
            if value[0] >= 0:
                yield *value, KIND
        elif (at := _from(places, *value)) is not None:
            yield from _harmless(text, at, value[1])


def _from(places: Sequence[int], start: int, end: int) -> int | None:
    """The first place that is in between."""
    first = bisect_left(places, start)
    return places[first] if first < len(places) and places[first] < end else None


def _harmless(text: bytes, start: int, end: int) -> Iterator[Span]:
    """What follows the escape in which it begins."""
    while start < end and begins_in_escape(text, start):
        start += 1
    if start < end:
        yield start, end, KIND


def begins_in_escape(text: bytes, start: int) -> bool:
    """Only if it begins with a letter that ends an escape, or within one."""
    return text[start - 1 : start] == b"\\" or _ESCAPED.search(text, max(0, start - 5), start) is not None
