"""Records that end before their end: what is behind them is read, and what a raw newline broke is joined."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.reading import emitted
from tests.normalizers.toy import Toy
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.parser import JOINED, WITH_EVENTS, class_of
from tooltap.normalizers.core.state import BROKEN_BYTES, BROKEN_TRIES
from tooltap.protocol.events import Message, Notice, Unparsed

SAY = b'{"do":"say","text":"Done.","at":5000}'


def read(*lines: bytes, end: bool = True) -> tuple[list[str], list[Any]]:
    """Return the classes of lines and their events. The parser is dumped after each line."""
    parser = Toy(Context(stream="s"))
    classes: list[str] = []
    events: list[Any] = []

    def count_earlier(last: str) -> None:
        for number, outcome in enumerate(reversed(parser.earlier), 1):
            assert classes[-number] == WITH_EVENTS
            classes[-number] = last if outcome == JOINED else class_of(outcome)

    for line in lines:
        line_class, items = parser.feed(line)
        count_earlier(line_class)
        classes.append(line_class)
        events += emitted(items)
        parser = Toy.load(parser.dump(), parser.context)
    if end:
        events += emitted(parser.close("end"))
        count_earlier("")
    return classes, events


def texts(events: list[Any]) -> list[str]:
    return [one.text for one in events if isinstance(one, Message)]


def reasons(events: list[Any]) -> list[tuple[str, str]]:
    return [(one.reason, one.text) for one in events if isinstance(one, Unparsed)]


def test_record_behind_a_torn_one_is_read() -> None:
    classes, events = read(b'{"do":"say","text":"Do' + SAY)

    assert (classes, texts(events)) == (["withEvents"], ["Done."])
    assert reasons(events) == [("torn", '{"do":"say","text":"Do')]
    assert isinstance(events[0], Unparsed)  # in the order of the line


def test_whole_records_before_a_truncated_one_are_read() -> None:
    classes, events = read(SAY + b'{"do":"say","text":"Do')

    assert (classes, texts(events)) == (["withEvents"], ["Done."])
    assert reasons(events) == [("torn", '{"do":"say","text":"Do')]
    assert events[1].ts == 5000  # the last stated time


def test_line_of_torn_and_skipped_records_is_unparsed() -> None:
    assert read(b'{"do":"say","text":"Do{"do":"quiet"}')[0] == ["unparsed"]


@pytest.mark.parametrize("between", [b"two", b"", b"  ", b"2", b"{", b"}", b"[", b"[1]", b"event: 1", b'{\\"a\\":1}'])
def test_record_with_raw_newlines_is_read(between: bytes) -> None:
    classes, events = read(b'{"do":"say","text":"one', between, b'three"}')

    assert texts(events) == ["one\n" + between.decode().replace("\\", "") + "\nthree"]
    assert (classes, [one.line for one in events]) == (["withEvents"] * 3, [3])


def test_lines_of_a_record_have_its_class() -> None:
    assert read(b'{"do":"quiet","text":"one', b'two"}') == (["skipped.quiet"] * 2, [])
    classes, events = read(b'{"do":"nothing known","text":"one', b"two", b'three"}', SAY)
    assert classes == [*["unparsed"] * 3, "withEvents"]
    assert [one.reason for one in events if isinstance(one, Unparsed)] == ["unknown-type"]


def test_records_behind_one_with_raw_newlines_are_read() -> None:
    classes, events = read(b'{"do":"say","text":"one', b'two"}' + SAY, SAY)

    assert (classes, texts(events)) == (["withEvents"] * 3, ["one\ntwo", "Done.", "Done."])


def test_whole_line_behind_a_truncated_one_is_no_part_of_it() -> None:
    classes, events = read(b'{"do":"say","text":"one', SAY, b'three"}')

    assert (classes, texts(events)) == (["unparsed", "withEvents", "unparsed"], ["Done."])
    assert [one.line for one in events] == [1, 2, 3]


@pytest.mark.parametrize("behind", [b'{"do":"say","text":"Do', b'{"do":"say","text":"Do' + SAY, b'[{"do":"quiet"}]'])
def test_other_record_behind_a_truncated_one_is_no_part_of_it(behind: bytes) -> None:
    _, events = read(b'{"do":"say","text":"one', b"two", behind)

    found = [(one.line, one.reason) for one in events if isinstance(one, Unparsed)]
    assert found[:2] == [(1, "truncated"), (2, "not-json")]


def test_lines_that_nothing_closes_are_reported() -> None:
    classes, events = read(b'{"do":"say","text":"one', b"two", b"", b"3")

    assert classes == ["unparsed", "unparsed", "skipped.blank", "unparsed"]
    assert reasons(events) == [("truncated", '{"do":"say","text":"one'), ("not-json", "two"), ("not-an-object", "3")]
    assert [one.id for one in events] == ["s:1:0", "s:2:0", "s:4:0"]


def test_lines_are_held_back_until_the_next() -> None:
    assert read(b'{"do":"say","text":"one', b"two", end=False) == (["withEvents"] * 2, [])


def test_truncated_line_has_the_time_of_its_stream() -> None:
    later = SAY.replace(b"5000", b"9000")
    _, events = read(SAY, b'{"do":"say","text":"one', later)

    assert [one.ts for one in events] == [5000, 5000, 9000]


def test_a_lost_line_ends_what_is_held_back() -> None:
    parser = Toy(Context(stream="s"))
    parser.feed(b'{"do":"say","text":"one')
    _, items = parser.lost(2, 100, "spool-full")
    _, after = parser.feed(b'three"}')

    found = emitted(items) + emitted(after)
    assert [(type(one), one.line) for one in found] == [(Unparsed, 1), (Notice, 3), (Unparsed, 4)]


def test_joined_lines_are_bounded() -> None:
    long = b"x" * BROKEN_BYTES

    assert texts(read(b'{"do":"say","text":"', long, b'three"}')[1]) == []
    assert reasons(read(b'{"do":"say","text":"' + long)[1]) == [("truncated", '{"do":"say","text":"' + "x" * 1_980)]
    assert read(b'{"do":"say","text":"', *[b"}"] * (BROKEN_TRIES + 1), b'"}')[0] == ["unparsed"] * (BROKEN_TRIES + 3)
