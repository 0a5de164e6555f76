"""Decodes one line of bytes into JSON values, leniently if it is not quite JSON, and joins JSON that is printed over
several lines.

The common case is one `orjson.loads`. A line that it rejects is decoded leniently: invalid UTF-8 and lone surrogates
become U+FFFD, NaN and Infinity become null, stray NULs, a BOM and escape sequences of terminals around the JSON are
dropped, and several objects on one line are all read. A line that cannot be decoded gets a reason, so that no line is
dropped silently.

For lines of server-sent events, as in a recorded HTTP stream, the value after `data:` is decoded.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec
import orjson

FRAMING = "framing"
"""The reason for the lines of server-sent events without data, and for the final `[DONE]`."""

_BOM = b"\xef\xbb\xbf"
_PADDING = b"\x00 \t\r\n"  # a file preallocated by a crashed writer ends in NULs
_INT64 = 2**63
_DIGITS = 20
"""Digits of the longest integer that fits."""
DEPTH_OF_TEXT = 200
"""Nested containers of JSON inside a string: it becomes part of a value whose depth is limited, too."""
_FIELD = re.compile(rb"event:|id:|retry:|:(?: |\Z)")
"""Fields of a server-sent event other than `data`, and comments that keep the connection open."""


_ESCAPES = re.compile(
    rb"(?:\x1b\[[0-?]*+[ -/]*+[@-~]"  # CSI: colours, the cursor
    rb"|\x1b\][^\x07\x1b]*+(?:\x07|\x1b\\)"  # OSC: the window's title
    rb"|\x1b[ -/]*+[0-OQ-WYZ\\`-~]"
    rb"|[\x00-\x1a\x1c-\x20\x7f])++"
)
"""Escape sequences of terminals and control characters. Launchers and shells print them to the same output (Windows
launchers of ACP agents, kagan issue 148)."""


IsRecord: TypeAlias = Callable[[dict[str, Any], str], bool]
"""Whether an object is a record, and no part of one: (object, first key of the torn record in which it seems to be)."""


class Decoded(msgspec.Struct, frozen=True):
    """The values on a line; without any, `reason` is one of blank, framing, not-json, truncated, too-deep."""

    values: list[Any]
    repaired: bool = False
    reason: str | None = None
    torn: list[tuple[int, str]] = []
    """Records that end before their end: (number of values before it, text)."""


def is_clean(line: bytes, value: Any, max_depth: int) -> bool:
    """Return whether `value`, as parsed from the line, has at most `max_depth` nested containers, and no object in the
    line had duplicate keys."""
    if len(line) > 2 * max_depth and _openings(line) > max_depth and _depth(value) > max_depth:
        return False
    # If the compact form is as long as the line, no key is there twice. Else each colon must be in it: one that is
    # missing came after a key that another one replaced, or is escaped.
    compact = orjson.dumps(value)
    return len(line) == len(compact) or line.count(b":") == compact.count(b":") or not _has_duplicate_keys(line)


def decode_text(text: str) -> Any:
    """Decode JSON inside a string. Raises `ValueError`, also for what is nested more deeply than `DEPTH_OF_TEXT`."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    may_be_deep = len(text) > 2 * DEPTH_OF_TEXT and text.count("{") + text.count("[") > DEPTH_OF_TEXT
    if may_be_deep and _depth(value) > DEPTH_OF_TEXT:
        raise ValueError("nested too deeply")
    return value


def decode_line(line: bytes, max_depth: int, is_record: IsRecord | None = None) -> Decoded:
    """Decode a line with at most `max_depth` nested containers. `is_record` is asked about the object at the end of a
    torn record; by default, it is a part of that one. Raises only what `is_record` raises."""
    line = line.removeprefix(b"data:")
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return _decode_leniently(line, max_depth, is_record)
    if is_clean(line, value, max_depth):
        return Decoded([value])
    if _depth(value) > max_depth:
        return Decoded([], reason="too-deep")
    return Decoded([value], repaired=True)


def _decode_leniently(line: bytes, max_depth: int, is_record: IsRecord | None) -> Decoded:
    stripped = line.removeprefix(_BOM).strip(_PADDING)
    if not stripped:
        return Decoded([], repaired=bool(line.strip(b" \t\r\n")), reason="blank")
    if stripped == b"[DONE]" or _FIELD.match(stripped):
        return Decoded([], reason=FRAMING)
    if stripped[0] not in b"{[":
        bare = _without_escapes(stripped)
        return Decoded([], reason="not-json") if bare is None else _decode_leniently(bare, max_depth, is_record)
    if b"\x1b" in stripped and (bare := _without_escapes(stripped)) is not None:
        return _decode_leniently(bare, max_depth, is_record)
    values: list[Any] = []
    torn: list[tuple[int, str]] = []
    text = stripped.decode("utf-8", "replace")
    position = 0
    reason = "not-json"
    try:
        while position < len(text):
            try:
                value, position = _decoder.raw_decode(text, position)
            except json.JSONDecodeError as error:
                if _is_truncated(error, text):
                    reason = "truncated"
                    following = None
                else:
                    following = _next_record(text, position, error.pos) if len(torn) < TEARS else None
                inner = None if is_record is None else _record_inside(text[position:following], error.pos - position)
                if inner is not None and is_record is not None and is_record(_clean(inner.value), inner.beside):
                    torn.append((len(values), text[position : position + inner.start]))
                    values.append(inner.value)
                else:
                    torn.append((len(values), text[position:following]))
                if following is None:
                    break
                position = following
                continue
            values.append(value)
            while position < len(text) and text[position] in " \t\r\n\x00":
                position += 1
    except RecursionError:
        return Decoded([], reason="too-deep")
    if not values and len(torn) == 1 and _openings(stripped) > max_depth and _depth_of_text(stripped) > max_depth:
        return Decoded([], reason="too-deep")  # which Python finds first, or does not find, depending on its version
    if not values:
        return Decoded([], reason=reason if len(torn) == 1 else "not-json")
    if _depth(values) > max_depth + 1:
        return Decoded([], reason="too-deep")
    return Decoded([_clean(value) for value in values], repaired=True, torn=torn)


def _without_escapes(line: bytes) -> bytes | None:
    """Return the JSON between escape sequences of terminals; None if there are none, or anything else is around it."""
    before = _ESCAPES.match(line)
    start = 0 if before is None else before.end()
    end = max(line.rfind(b"}"), line.rfind(b"]")) + 1
    if line[start : start + 1] not in (b"{", b"[") or end <= start:
        return None
    if end < len(line) and _ESCAPES.fullmatch(line, end) is None:
        return None
    bare = line[start:end]
    return bare if len(bare) < len(line) else None


TEARS = 16
"""Maximum records on a line that end before their end: making an error costs as much as what precedes it."""
_RECORD = re.compile(r'\{\s*+"')
NEAR = 8
"""Maximum characters from where a torn literal or escape begins to the opening of the next record."""


def _next_record(text: str, start: int, error: int) -> int | None:
    """Return where a record begins that follows a torn one on its line; None if there is none. `start`: the beginning
    of the torn record; `error`: where it cannot be decoded any further. If a string is torn, that is behind the first
    quote of the record; else it is at the record, or a few characters before it, at a torn literal or escape."""
    brace = text.rfind("{", start + 1, error)
    if brace >= 0 and (found := _RECORD.match(text, brace)) is not None and found.end() == error:
        return brace
    found = _RECORD.search(text, max(start + 1, error), error + NEAR)
    return None if found is None else found.start()


_FIRST_KEY = re.compile(r'\{\s*+"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_TO_BRACE = re.compile(r'(?:[^"{}]++|"(?:[^"\\]++|\\.)*+")*+([{}])', re.DOTALL)


class _Inner(NamedTuple):
    """The object with which a torn record ends."""

    start: int
    value: dict[str, Any]
    beside: str
    """The first key of the torn record."""


def _record_inside(text: str, valid: int) -> _Inner | None:
    """Return the object with which a torn record ends; None if it ends otherwise. Where a record is torn just before a
    value, the next record is decoded as that value. `valid`: how much of the text is the beginning of valid JSON."""
    end = len(text.rstrip(" \t\r\n\x00"))
    first = _FIRST_KEY.match(text)
    if first is None or end > valid or text[end - 1] != "}":
        return None
    opened: list[int] = []
    start = position = 0
    while position < end:
        brace = _TO_BRACE.match(text, position, end)
        if brace is None:  # the end is inside a string
            return None
        position = brace.end()
        if brace[1] == "{":
            opened.append(position - 1)
        else:
            start = opened.pop()
    return _Inner(start, _decoder.raw_decode(text, start)[0], first[1])


def _is_truncated(error: json.JSONDecodeError, text: str) -> bool:
    """Whether the text is valid up to its end: a truncated line rather than noise."""
    return error.pos >= len(text) or error.msg.startswith("Unterminated string")


def _whole(digits: str) -> int | float:
    """Convert the digits of an integer. Very long ones become a float, because parsing them as an integer takes
    quadratic time."""
    return int(digits) if len(digits) <= _DIGITS else float(digits)


_decoder = json.JSONDecoder(strict=False, parse_constant=lambda _: None, parse_int=_whole)


def _openings(line: bytes) -> int:
    """An upper bound of the number of containers."""
    # `replace` finds the bytes with memchr; `count` of CPython 3.11 and 3.12 looks at each byte, ten times slower.
    return 2 * len(line) - len(line.replace(b"{", b"")) - len(line.replace(b"[", b""))


def _depth(value: Any) -> int:
    """The nesting depth, computed without recursion. Depth first, because nested values are close to each other in
    memory."""
    deepest = 0
    pending = [(value, 1)] if isinstance(value, (dict, list)) else []
    while pending:
        holder, depth = pending.pop()
        deepest = max(deepest, depth)
        for item in holder.values() if type(holder) is dict else holder:
            kind = type(item)
            if kind is dict or kind is list:
                pending.append((item, depth + 1))
    return deepest


def _depth_of_text(text: bytes) -> int:
    """The nesting depth of the beginning of a JSON text."""
    depth = deepest = 0
    for bracket in _BRACKET.findall(_STRING_OR_ITS_BEGINNING.sub(b"", text)):
        depth += 1 if bracket in _CLOSERS else -1
        deepest = max(deepest, depth)
    return deepest


def _has_duplicate_keys(line: bytes) -> bool:
    def check(pairs: list[tuple[str, Any]]) -> None:
        if len({key for key, _ in pairs}) != len(pairs):
            raise _DuplicateKeyError

    try:
        json.loads(line, object_pairs_hook=check, parse_int=_whole)
    except _DuplicateKeyError:
        return True
    return False


class _DuplicateKeyError(Exception):
    pass


def _clean(value: Any) -> Any:
    """Make a value encodable by msgspec and orjson: no lone surrogates, no numbers outside their range."""
    if isinstance(value, str):
        if value.isascii():
            return value
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, int) and not -_INT64 <= value < 2 * _INT64:
        return _to_float(value)
    return value


def _to_float(value: int) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


# -- JSON printed over several lines ------------------------------------------------------------------------------

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_STRING_OR_ITS_BEGINNING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")
_CLOSERS = {b"{": b"}", b"[": b"]"}
OPENING_BYTES = 16
"""The maximum length of a line that opens a document: a bracket, a byte order mark, a line end."""


class Documents(msgspec.Struct):
    """The unfinished object or array at the current position of a stream.

    Every printer that indents starts an object with a line that is just `{` and ends it with a line that is just `}` at
    the same indentation, at which no line in between starts with a brace. Only this is checked. Therefore a document
    costs no more than its own bytes, and a line of JSON after a broken document ends that document.

    An array is a stream stored as one value. Its objects, on several lines or on one, are read as they are complete; a
    line with just its bracket counts as blank.
    """

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
    """Close all open brackets of a truncated document."""
    open_brackets: list[bytes] = []
    for bracket in _BRACKET.findall(_STRING.sub(b"", text)):
        if bracket in _CLOSERS:
            open_brackets.append(bracket)
        elif open_brackets:
            open_brackets.pop()
    return text.rstrip().removesuffix(b",") + b"".join(_CLOSERS[bracket] for bracket in reversed(open_brackets))
