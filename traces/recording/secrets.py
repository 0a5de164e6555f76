"""Masks secrets in raw lines, in events and in output bodies.

What is masked: the forms of tokens that scanners know, private keys, passwords in URLs, and values whose name says that
they are secret, if they look like it (`secret_rules.py`). Text that merely looks random is not masked, because a trace
without ids and hashes would be useless.

Three constraints shape the rules:

- Lines are JSON, and most secrets are inside a JSON string. No rule takes a quote or half of an escape away, so a
  masked line is still JSON.
- No rule with a long literal requires a word boundary (`\b`) on its left, because there an escaped newline (`\n`)
  ends in a letter.
- Masking is linear in the line: each place where a literal stands costs a lookup of bounded length, and a line has a
  budget of failed lookups by its length. Ordinary lines need a fortieth of it; of thousands of source files, taken as
  one line each, hardly any needs more. Only text that somebody wrote to be slow exhausts it. The rest of such a dense
  line is masked unchecked: from each secret-like place to the end of its JSON string, and the value of a key that has
  one. A dense line that is not JSON is masked to its end.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate

import orjson

from tooltap.traces.recording.secret_rules import Find, SecretRule, Span, finder, rules

KIND = "crowded"
_STRING = re.compile(
    rb"\"(?P<text>(?:[^\"\\]|\\.)*+)\""
    rb"(?:[ \t]*:[ \t]*(?:\"(?P<value>(?:[^\"\\]|\\.)*+)\"|(?P<number>-?\d[\d.eE+-]*+))?)?"
)
"""A JSON string and, if it is a key, its value: another string, or a number."""
_ESCAPED = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?\Z")


def dense_spans(text: bytes, begin: int, end: int, places: Sequence[int]) -> Iterator[Span]:
    """Yield the spans to mask unchecked in a dense line, which reaches from `begin` to `end`. `places`: the secret-like
    places in it, in order."""
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
            yield from _after_escape(text, max(at, key[0]), key[1])
            if value[0] >= 0:
                yield *value, KIND
        elif (at := _from(places, *value)) is not None:
            yield from _after_escape(text, at, value[1])


def _from(places: Sequence[int], start: int, end: int) -> int | None:
    """Return the first place in the range, or None."""
    first = bisect_left(places, start)
    return places[first] if first < len(places) and places[first] < end else None


def _after_escape(text: bytes, start: int, end: int) -> Iterator[Span]:
    """Yield the range as a span; if it begins within an escape, without the rest of that escape."""
    while start < end and begins_in_escape(text, start):
        start += 1
    if start < end:
        yield start, end, KIND


def begins_in_escape(text: bytes, start: int) -> bool:
    """Whether `start` is within a JSON escape."""
    return text[start - 1 : start] == b"\\" or _ESCAPED.search(text, max(0, start - 5), start) is not None


MASK = b"[masked "
LOOKS = 32
LOOKS_PER_BYTE = 1 / 16
"""Budget of failed lookups per line (weighted); about 0.5 µs per byte."""
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_KEY = re.compile(rb"(\\*\")[ \t]{0,4}:[ \t]{0,4}\Z")


@cache
def _found() -> tuple[Find, list[SecretRule]]:
    """Return the search for literals, and the rule of each literal by its index."""
    literals = [(literal, rule) for rule in rules() for literal in rule.literals]
    return finder([literal for literal, _ in literals]), [rule for _, rule in literals]


def find_secrets(text: bytes, ends: Sequence[int] | None = None) -> list[Span]:
    """Return the secrets in the text, in order; none overlaps another. `ends`: ends of the lines, if the text has
    several."""
    find, rule_of = _found()
    found: list[Span] = []
    unread: dict[int, list[int]] = {}
    """Start of a dense line -> its end, and the places that were not looked up because its budget is exhausted."""
    begin, end, since, until, looks = 0, -1, 0, 0, 0.0
    for start, number in find(text):
        if start > end:
            line = 0 if ends is None else bisect_right(ends, start)
            begin = ends[line - 1] + 1 if ends is not None and line else 0
            end = len(text) if ends is None else ends[line]
            looks = LOOKS + (end - begin) * LOOKS_PER_BYTE
        if since <= start < until:
            continue  # it is within what is masked
        if looks <= 0:
            unread.setdefault(begin, [end]).append(start)
            continue
        rule = rule_of[number]
        span = rule.look(text, start, end)
        if span is not None and span[0] < begin:  # a lookup backwards, beyond the line
            span = (begin, *span[1:]) if begin < start else None
        if span is not None and not text.startswith(MASK, span[0]) and not begins_in_escape(text, span[0]):
            found.append(span)
            since, until, _ = span
        else:
            looks -= rule.weight
    for begin, (end, *places) in unread.items():
        found += dense_spans(text, begin, end, places)
    if len(found) < 2:
        return found
    found.sort(key=lambda span: (span[0], -span[1]))
    apart = [found[0]]
    for span in found[1:]:
        if span[0] >= apart[-1][1]:
            apart.append(span)
        elif span[1] > apart[-1][1]:
            apart[-1] = (apart[-1][0], span[1], apart[-1][2])
    return apart


def mask_lines(lines: Sequence[bytes], counts: Counter[str] | None = None) -> list[bytes]:
    """Apply `mask_secrets` to many lines. Those without a secret are the same objects."""
    masked = list(lines)
    ends = list(accumulate((len(line) + 1 for line in lines), initial=-1))[1:]
    text = b"\n".join(lines)
    spans: dict[int, list[Span]] = {}
    for span in find_secrets(text, ends):
        spans.setdefault(bisect_right(ends, span[0]), []).append(span)
    for number, its in spans.items():
        before = ends[number - 1] + 1 if number else 0
        masked[number] = _replaced(text, its, before, ends[number])
        if counts is not None:
            counts.update(span[2] for span in its)
    return masked


def mask_secrets(line: bytes, counts: Counter[str] | None = None) -> bytes:
    """Replace every secret in the line by `[masked <kind>]`. Returns the same object if there is none."""
    spans = find_secrets(line)
    if not spans:
        return line
    if counts is not None:
        counts.update(span[2] for span in spans)
    return _replaced(line, spans, 0, len(line))


def mask_body(data: bytes, counts: Counter[str] | None = None) -> bytes:
    """Mask an output body, unless it is binary."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return data
    return mask_secrets(data, counts)


def _replaced(text: bytes, spans: Iterable[Span], place: int, end: int) -> bytes:
    pieces = []
    for start, stop, kind in spans:
        mark = b"%b%b]" % (MASK, kind.encode())
        if _NUMBER.fullmatch(text, start, stop) and (key := _KEY.search(text, max(place, start - 20), start)):
            mark = key[1] + mark + key[1]  # a number of JSON becomes a string
        pieces += [text[place:start], mark]
        place = stop
    return b"".join([*pieces, text[place:end]])
