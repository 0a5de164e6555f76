"""How a turn ended, and how that is known, where its end is not on the wire."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.normalizers.reading import emitted
from tests.normalizers.toy import Toy
from tooltap.normalizers.core.items import Context, Limits
from tooltap.protocol.events import Turn

BEGIN = {"do": "begin"}
SAY = {"do": "say", "text": "Done."}
CALL = {"do": "call", "id": "a", "name": "X"}
RESULT = {"do": "result", "id": "a"}
ASYNC = {"do": "result", "id": "a", "is_async": True}
ASK = {"do": "ask", "id": "p"}
ANSWERED = ("completed", "eof", None, True)
INTERRUPTED = ("cancelled", "eof", "interrupted", True)


def last_turn(*lines: dict[str, Any]) -> tuple[str, str | None, str | None, bool]:
    parser = Toy(Context(stream="s"))
    events: list[Any] = []
    for line in lines:
        events += emitted(parser.feed(orjson.dumps(line))[1])
        parser = Toy.load(parser.dump(), parser.context)  # what is known of an answer is in the dump
    turns = [one for one in events + emitted(parser.close("end")) if isinstance(one, Turn)]
    return turns[-1].state, turns[-1].ended_by, turns[-1].reason, turns[-1].synthetic


@pytest.mark.parametrize(
    ("lines", "end"),
    [
        ([BEGIN, SAY], ANSWERED),
        ([BEGIN, CALL, RESULT, SAY], ANSWERED),
        ([BEGIN, CALL, ASYNC, SAY], ANSWERED),
        ([BEGIN], INTERRUPTED),
        ([BEGIN, SAY, CALL], INTERRUPTED),
        ([BEGIN, SAY, CALL, RESULT], INTERRUPTED),
        ([BEGIN, CALL, SAY], INTERRUPTED),
        ([BEGIN, ASK, SAY], INTERRUPTED),
        ([BEGIN, {"do": "chunk", "text": "half an ans"}], INTERRUPTED),
        ([BEGIN, SAY, {"do": "chunk", "role": "user", "text": "Go on."}], INTERRUPTED),
        ([BEGIN, {**SAY, "agent": "sub", "parent": "a"}], INTERRUPTED),
        ([BEGIN, SAY, {**CALL, "agent": "sub", "parent": "b"}], ANSWERED),
    ],
)
def test_end_of_the_stream(lines: list[dict[str, Any]], end: tuple[Any, ...]) -> None:
    assert last_turn(*lines) == end


def test_answer_is_no_end_where_the_stream_always_states_it() -> None:
    class Stating(Toy):
        STATES_END = True

    parser = Stating(Context(stream="s"))
    for line in (BEGIN, SAY):
        parser.feed(orjson.dumps(line))
    end = emitted(parser.close("end"))[-1]

    assert isinstance(end, Turn)
    assert (end.state, end.ended_by, end.reason, end.synthetic) == INTERRUPTED


def test_end_on_the_wire() -> None:
    assert last_turn(BEGIN, SAY, {"do": "finish", "outcome": "completed"})[:2] == ("completed", "provider")


def test_turn_that_must_go_ends_like_one_at_the_end_of_the_stream() -> None:
    parser = Toy(Context(stream="s", limits=Limits(open_turns=1)))
    events: list[Any] = []
    for line in (BEGIN, SAY, {"do": "begin", "turn": "u"}):
        events += emitted(parser.feed(orjson.dumps(line))[1])
    assert [(one.state, one.ended_by) for one in events if isinstance(one, Turn)] == [
        ("started", None),
        ("completed", "eof"),
        ("started", None),
    ]
