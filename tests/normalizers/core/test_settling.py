"""What a parser emits when its stream is silent: provisional ends of turns."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.normalizers.reading import emitted
from tests.normalizers.toy import Toy
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.stream.normalizer import SETTLED_INDEX
from tooltap.protocol.events import Turn

BEGIN = {"do": "begin"}
SAY = {"do": "say", "text": "Done."}
CALL = {"do": "call", "id": "a", "name": "X"}
T = 1_790_000_000_000


def fed(*lines: dict[str, Any], parser: Toy | None = None) -> Toy:
    parser = parser or Toy(Context(stream="s"))
    for number, line in enumerate(lines):
        parser.feed(orjson.dumps(line), T + number)
    return parser


def settled(parser: Toy) -> list[Any]:
    return emitted(parser.settle_all(SETTLED_INDEX))


def test_answer_that_nothing_follows_ends_the_turn_for_now() -> None:
    parser = fed(BEGIN, SAY)
    assert parser.is_unsettled

    end = settled(parser)[0]

    assert isinstance(end, Turn)
    assert (end.turn, end.state, end.ended_by, end.provisional, end.synthetic) == (
        "t1",
        "completed",
        "answer",
        True,
        True,
    )
    assert (end.id, end.line, end.ts) == ("s:2d:2000000", 2, T + 1)
    assert not parser.is_unsettled
    assert settled(parser) == []


@pytest.mark.parametrize(
    "lines",
    [
        [SAY],
        [BEGIN],
        [BEGIN, SAY, CALL],
        [BEGIN, CALL, SAY],
        [BEGIN, {"do": "ask", "id": "p"}, SAY],
        [BEGIN, {"do": "chunk", "text": "half an ans"}],
        [BEGIN, {**SAY, "agent": "sub", "parent": "a"}],
        [BEGIN, SAY, {"do": "finish"}],
    ],
)
def test_work_that_is_open_or_over_has_no_provisional_end(lines: list[dict[str, Any]]) -> None:
    parser = fed(*lines)

    assert not parser.is_unsettled
    assert settled(parser) == []


def test_stream_that_states_ends_has_no_provisional_ones() -> None:
    class Stating(Toy):
        STATES_END = True

    assert not fed(BEGIN, SAY, parser=Stating(Context(stream="s"))).is_unsettled


def test_turn_goes_on_after_a_provisional_end() -> None:
    parser = fed(BEGIN, SAY)
    settled(parser)
    parser = Toy.load(parser.dump(), parser.context)
    assert not parser.is_unsettled

    more = emitted(parser.feed(orjson.dumps(SAY), T + 10)[1])
    again = settled(parser)
    end = emitted(parser.close("end"))

    assert [(one.turn, one.text) for one in more] == [("t1", "Done.")]
    assert [(one.id, one.turn, one.ts) for one in again] == [("s:3d:2000000", "t1", T + 10)]
    assert [(one.id, one.turn, one.state, one.ended_by, one.provisional) for one in end] == [
        ("s:3c:0", "t1", "completed", "eof", False)
    ]
