"""A record that raw newlines break into lines: each of them is counted once, whatever becomes of the record."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tooltap.normalizers.core.items import Context, Item, Limits, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import Message, Unparsed
from tooltap.testing import check_run

SAY = b'{"do":"say","text":"Done."}'
BROKEN = b'{"do":"say","text":"one'


def read(dialect: str, *lines: bytes, limits: Limits | None = None) -> tuple[StreamNormalizer, list[Any]]:
    """Read lines to the end, and check that each of them has one class."""
    normalizer = StreamNormalizer(Context(stream="s", limits=limits or Limits()), dialect)
    outputs = [output for line in lines for output in normalizer.feed(line)] + normalizer.close("end")
    return normalizer, [one.event for one in outputs if isinstance(one, Produced)]


def told(found: list[Any]) -> list[tuple[int, str]]:
    return [(one.line, one.text if isinstance(one, Message) else one.reason) for one in found]


def test_lines_of_a_record_are_counted_with_it(toy: str) -> None:
    normalizer, found = read(toy, BROKEN, b"two", b'three"}', SAY)

    assert told(found) == [(3, "one\ntwo\nthree"), (4, "Done.")]
    statistics = normalizer.statistics
    assert (statistics.lines, statistics.with_events, statistics.repaired) == (4, 4, 3)
    assert statistics.bytes == len(BROKEN) + 3 + 7 + len(SAY)
    check_run(normalizer, found, 4)


def test_lines_that_are_not_joined_are_counted_by_themselves(toy: str) -> None:
    normalizer, found = read(toy, BROKEN, b"", SAY, BROKEN)

    assert told(found) == [(1, "truncated"), (3, "Done."), (4, "truncated")]
    statistics = normalizer.statistics
    assert (statistics.with_events, statistics.unparsed, statistics.skipped) == (1, 2, {"blank": 1})
    check_run(normalizer, found, 4)


def test_lines_of_a_record_that_another_stream_reports_are_left_out_with_it(toy: str) -> None:
    normalizer = StreamNormalizer(Context(stream="s"), toy)

    def keep(items: list[Item]) -> list[Item]:
        return []

    assert [normalizer.feed(line, keep=keep) for line in (BROKEN, b'two"}')] == [[], []]
    assert normalizer.statistics.skipped == {"told-elsewhere": 2}


def test_an_error_behind_a_truncated_line_costs_one_line(toy: str) -> None:
    normalizer, found = read(toy, b'{"do":"call","id":"a","name":"X"}', BROKEN, b'{"do":"fail"}')

    unparsed = [(one.line, one.reason.partition(":")[0]) for one in found if isinstance(one, Unparsed)]
    assert unparsed == [(2, "truncated"), (3, "parser-error")]
    assert not [one for one in found if getattr(one, "code", None) == "parser-reset"]
    assert (normalizer.statistics.with_events, normalizer.statistics.unparsed) == (1, 2)


def test_an_error_in_a_joined_record_costs_its_lines(toy: str) -> None:
    normalizer, found = read(toy, b'{"do":"fail","text":"one', b'two"}', SAY)

    assert [(line, reason.partition(":")[0]) for line, reason in told(found)] == [(2, "parser-error"), (3, "Done.")]
    assert (normalizer.statistics.with_events, normalizer.statistics.unparsed) == (1, 2)


def test_truncated_line_before_recognition_is_reported(toy: str) -> None:
    normalizer, found = read("auto", BROKEN, SAY, limits=Limits(held_lines=1))

    assert told(found) == [(1, "truncated"), (2, "Done.")]
    assert [one.dialect for one in found] == ["toy", "toy"]
    check_run(normalizer, found, 2)


@pytest.mark.parametrize("dialect", ["auto", "toy"])
def test_record_is_joined_in_a_stream_that_is_recognised_later(toy: str, dialect: str) -> None:
    _, found = read(dialect, BROKEN, b'two"}', SAY)

    assert told(found) == [(2, "one\ntwo"), (3, "Done.")]


@pytest.mark.parametrize(("last", "lines_of_events", "unparsed"), [(b'two"}', [2], 0), (b"two", [1, 2], 2)])
def test_lines_of_a_trace_are_counted_with_those_of_its_stream(
    last: bytes, lines_of_events: list[int], unparsed: int
) -> None:
    message = b'{"type":"message","timestamp":"2026-11-21T20:45:12.000Z","role":"user","content":"one'
    traced = enumerate((message, last), 1)
    records = [{"v": 1, "stream": "a", "dialect": "gemini-stream", "n": n, "line": line.decode()} for n, line in traced]

    normalizer, found = read("tooltap-trace", *map(orjson.dumps, records))

    assert [one.line for one in found if isinstance(one, Message | Unparsed)] == lines_of_events
    assert (normalizer.statistics.with_events, normalizer.statistics.unparsed) == (2 - unparsed, unparsed)
