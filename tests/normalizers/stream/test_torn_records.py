"""A record that is torn anywhere costs only itself: the whole one behind it, on the same line, is read as if alone.

Recorded lines of each dialect are torn at every kind of place that JSON has."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import orjson
import pytest

from tooltap.normalizers.catalog.registry import builtin
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import SessionEvent, Unparsed
from tooltap.protocol.stats import Statistics
from tooltap.testing import Line, normalize, read_recording

FIXTURES = Path(__file__).parents[2] / "fixtures"
HTTP = {"openai-chat", "openai-responses"}
"""Dialects whose records are bodies of HTTP messages, and no lines of a file."""
DIALECTS = sorted(name for name in set(builtin()) - HTTP if any((FIXTURES / name).glob("*/*.jsonl")))
RECORDS = 8
OF_A_KIND = 2
"""How often a record is torn at the same kind of place."""
NESTS_RECORDS = (b'{"$set":', b'{"kind":0,', b'{"steps":')
"""The beginnings of records of Gemini CLI, of VS Code and of Antigravity that hold others: of a torn one, what it holds
may be read."""
_DIGIT = re.compile(rb"^-?\d")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def read(dialect: str, line: bytes) -> tuple[Statistics, list[Produced]]:
    """Read a line behind a line of noise, for which the session already has the publisher's name."""
    normalizer = StreamNormalizer(Context(stream="s"), dialect)
    normalizer.feed(b"noise")
    events = [one for one in normalizer.feed(line) if isinstance(one, Produced)]
    return normalizer.statistics, events


def recorded(dialect: str) -> list[bytes]:
    """Lines of a dialect's recordings that can be read, all with different keys or types."""
    found: dict[tuple[str, ...], bytes] = {}
    for path in sorted((FIXTURES / dialect).glob("*/*.jsonl")):
        for line in read_recording(path.read_bytes()):
            try:
                value = orjson.loads(line.data if isinstance(line.data, bytes) else b"")
            except orjson.JSONDecodeError:
                continue
            if isinstance(value, dict):
                found.setdefault((*value, str(value.get("type")), str(value.get("method"))), orjson.dumps(value))
    return [line for line in found.values() if read(dialect, line)[0].unparsed == 1][:RECORDS]


def is_clear(dialect: str, line: bytes, torn: bytes) -> bool:
    """Whether a line is recognised, or begins like the torn one. Else it could be the value of one of that one's
    keys."""
    value = orjson.loads(line)
    return builtin()[dialect].recognises(value) or next(iter(value)) == next(iter(orjson.loads(torn)))


def tears(line: bytes) -> Iterator[tuple[str, int]]:
    """Where to tear a line: (kind of place, number of bytes)."""
    seen: Counter[str] = Counter()
    opened = b""
    for token in _TOKEN.finditer(line):
        text, middle, end = token[0], (token.start() + token.end()) // 2, token.end()
        opened = opened + text if text in b"{[" else opened[:-1] if text in b"}]" else opened
        kind = f"{_DIGIT.sub(b'0', text)[:1].decode()} in {opened[-1:].decode()}"
        for place in ({f"inside {kind}": middle} if len(text) > 1 else {}) | {f"behind {kind}": end}:
            seen[place] += 1
            if seen[place] <= OF_A_KIND and end < len(line):
                yield place, middle if place.startswith("inside") else end


def renumbered(event: Produced) -> bytes:
    """An event of line 2, with the number that it has if another precedes it on the line."""
    return re.sub(rb'(?<="s:2:)\d+(?=")', lambda index: b"%d" % (int(index[0]) + 1), event.body)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_record_behind_a_torn_one_is_read_as_if_alone(dialect: str) -> None:
    lines = recorded(dialect)
    for torn in lines:
        behind = cycle((line, *read(dialect, line)) for line in lines if is_clear(dialect, line, torn))
        for place, end in [] if torn.startswith(NESTS_RECORDS) else tears(torn):
            prefix = torn[:end].decode("ascii", "ignore").encode()
            line, alone, events = next(behind)

            statistics, (first, *others) = read(dialect, prefix + line)

            assert (first.kind, first.fields.reason, first.fields.bytes) == ("unparsed", "torn", len(prefix)), place
            assert [one.body for one in others] == [renumbered(one) for one in events], place
            assert statistics.with_events == alone.with_events


@pytest.mark.parametrize("dialect", DIALECTS)
def test_object_inside_a_truncated_record_is_no_record(dialect: str) -> None:
    for line in recorded(dialect):
        for end in [] if line.startswith(NESTS_RECORDS) else {end for place, end in tears(line) if "behind }" in place}:
            events = normalize(dialect, [Line(line[:end])])

            assert [one.reason for one in events if isinstance(one, Unparsed)] == ["truncated"]
            assert all(isinstance(one, Unparsed | SessionEvent) for one in events)


def test_records_are_torn_at_every_kind_of_place() -> None:
    places = {place for dialect in DIALECTS for line in recorded(dialect) for place, _ in tears(line)}

    in_object = {f"behind {token} in {{" for token in '{:,"}]0tn'} | {f"inside {token} in {{" for token in '"0tn'}
    in_array = {f"behind {token} in [" for token in '[,"}'} | {'inside " in ['}
    assert places >= in_object | in_array
