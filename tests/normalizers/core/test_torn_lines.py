"""Records that end before their end: what is behind them is read, and what a raw newline broke is joined."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.reading import emitted
from tests.normalizers.toy import Toy
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.state import BROKEN_BYTES
from tooltap.protocol.events import Message, Unparsed

SAY = b'{"do":"say","text":"Done.","at":5000}'


def read(*lines: bytes) -> tuple[list[str], list[Any]]:
    """Return the classes of lines and their events. The parser is dumped after each line."""
    parser = Toy(Context(stream="s"))
    classes: list[str] = []
    events: list[Any] = []
    for line in lines:
        line_class, items = parser.feed(line)
        classes.append(line_class)
        events += emitted(items)
        parser = Toy.load(parser.dump(), parser.context)
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


@pytest.mark.parametrize("between", [b"two", b"", b"  ", b"2", b"{", b"}", b"event: 1", b'{\\"a\\":1}'])
def test_record_with_raw_newlines_is_read(between: bytes) -> None:
    _, events = read(b'{"do":"say","text":"one', between, b'three"}')

    assert texts(events) == ["one\n" + between.decode().replace("\\", "") + "\nthree"]


def test_whole_line_behind_a_truncated_one_is_no_part_of_it() -> None:
    classes, events = read(b'{"do":"say","text":"one', SAY, b'three"}')

    assert (classes, texts(events)) == (["unparsed", "withEvents", "unparsed"], ["Done."])


def test_lines_that_nothing_closes_are_reported() -> None:
    classes, events = read(b'{"do":"say","text":"one', b"two", b"three")

    assert classes == ["unparsed"] * 3
    assert reasons(events) == [("truncated", '{"do":"say","text":"one'), ("not-json", "two"), ("not-json", "three")]


def test_joined_lines_are_bounded() -> None:
    long = b"x" * BROKEN_BYTES

    assert texts(read(b'{"do":"say","text":"', long, b'three"}')[1]) == []
