"""The time of each event: of the line it belongs to, never of the line, the clock or the copy that revealed it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.normalizers.reading import emitted
from tests.normalizers.toy import Toy
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import Event, Message, PermissionResponse, ToolResult, Turn, Unparsed

DAY = 86_400_000
BEGIN = {"do": "begin"}
SAY = {"do": "say", "text": "Done."}
CALL = {"do": "call", "id": "a", "name": "X"}
RESULT = {"do": "result", "id": "a"}


class Stored(Toy):
    """Reads the file of a store, whose lines state their times."""

    STATES_TIMES = True


def read(
    *lines: dict[str, Any] | bytes, received: int | None = None, closed: int | None = None, of: type[Toy] = Toy
) -> list[Event]:
    """Return the events of lines and of the end. `received`: when all lines were received; each is dumped."""
    parser = of(Context(stream="s"))
    events: list[Event] = []
    for line in lines:
        data = line if isinstance(line, bytes) else orjson.dumps(line)
        events += emitted(parser.feed(data, received)[1])
        parser = of.load(parser.dump(), parser.context)
    return events + emitted(parser.close("end", closed))


def live(*lines: dict[str, Any]) -> list[Event]:
    """Return the events of lines without stated times, each received when its `t` says."""
    parser = Toy(Context(stream="s"))
    events: list[Event] = []
    for line in lines:
        events += emitted(parser.feed(orjson.dumps({**line, "t": None}), line["t"])[1])
        parser = Toy.load(parser.dump(), parser.context)
    return events + emitted(parser.close("end", lines[-1]["t"] + DAY))


def times(kind: type[Event], events: list[Event]) -> list[int | None]:
    return [one.ts for one in events if isinstance(one, kind)]


def end_of_turn(events: list[Event]) -> Turn:
    return next(one for one in events if isinstance(one, Turn) and one.state != "started")


# -- what is inferred ---------------------------------------------------------------------------------------------


def test_turn_that_only_the_end_of_the_stream_ends_has_the_time_of_its_last_line() -> None:
    events = live({**BEGIN, "t": 1_000}, {**SAY, "t": 6_000})

    assert (end_of_turn(events).ended_by, end_of_turn(events).ts) == ("eof", 6_000)


def test_end_that_the_provider_states_has_the_time_of_the_line_that_states_it() -> None:
    events = live({**BEGIN, "t": 1_000}, {**SAY, "t": 6_000}, {"do": "finish", "t": 90_000})

    assert (end_of_turn(events).ended_by, end_of_turn(events).ts) == ("provider", 90_000)


def test_report_after_the_answer_does_not_make_the_turn_longer() -> None:
    events = live({**BEGIN, "t": 1_000}, {**SAY, "t": 6_000}, {"do": "session", "id": "own", "t": 50_000})

    assert end_of_turn(events).ts == 6_000


def test_background_agent_makes_a_turn_that_is_answered_no_longer() -> None:
    subagent = {"agent": "b", "parent": "a"}
    events = live({**BEGIN, "t": 1_000}, {**SAY, "t": 6_000}, {**SAY, **subagent, "t": 50_000})

    assert end_of_turn(events).ts == 6_000


def test_subagent_whose_turn_has_no_answer_yet_makes_it_longer() -> None:
    subagent = {"agent": "b", "parent": "a"}
    events = live({**BEGIN, "t": 1_000}, {**CALL, "t": 6_000}, {**SAY, **subagent, "t": 50_000})

    assert end_of_turn(events).ts == 50_000


def test_call_without_a_result_ends_with_its_own_last_event() -> None:
    changed = {"do": "change", "id": "a", "input": {"x": 1}}
    events = live({**BEGIN, "t": 1_000}, {**CALL, "t": 2_000}, {**changed, "t": 3_000}, {**SAY, "t": 60_000})

    assert (times(ToolResult, events), end_of_turn(events).ts) == ([3_000], 60_000)


def test_call_of_a_subagent_without_a_result_ends_with_the_last_event_of_the_subagent() -> None:
    of_subagent = {"agent": "b", "parent": "a"}
    events = live({**BEGIN, "t": 1_000}, {**CALL, "t": 2_000}, {**SAY, **of_subagent, "t": 7_000}, {**SAY, "t": 60_000})

    assert times(ToolResult, events) == [7_000]


def test_call_of_a_turn_that_the_provider_cancels_ends_with_the_turn() -> None:
    cancelled = {"do": "finish", "outcome": "cancelled"}
    events = live({**BEGIN, "t": 1_000}, {**CALL, "t": 2_000}, {**cancelled, "t": 30_000})

    assert times(ToolResult, events) == [30_000]


def test_call_that_a_completed_turn_leaves_open_ends_with_its_own_last_event() -> None:
    events = live({**BEGIN, "t": 1_000}, {**CALL, "t": 2_000}, {"do": "finish", "t": 30_000})

    assert times(ToolResult, events) == [2_000]


@pytest.mark.parametrize(("end", "expired"), [({"do": "finish"}, 30_000), (SAY, 2_000)])
def test_permission_expires_with_the_stated_end_of_its_turn_else_when_it_was_asked(
    end: dict[str, Any], expired: int
) -> None:
    events = live({**BEGIN, "t": 1_000}, {"do": "ask", "id": "p", "t": 2_000}, {**end, "t": 30_000})

    assert times(PermissionResponse, events) == [expired]


ASK = {"do": "ask", "id": "p", "call": "a"}
ALLOW = {"do": "answer", "id": "p", "outcome": "allowed"}


def test_result_states_how_long_its_call_waited_for_the_user() -> None:
    again = {**ASK, "id": "q"}, {**ALLOW, "id": "q"}
    lines = [{**CALL, "t": 1_000}, {**ASK, "t": 2_000}, {**ALLOW, "t": 62_000}, {**again[0], "t": 63_000}]
    lines += [{**again[1], "t": 70_000}, {**RESULT, "t": 90_000}]

    events = live(*lines)

    assert [one.wait_ms for one in events if isinstance(one, ToolResult)] == [67_000]


def test_result_of_a_call_that_did_not_wait_states_nothing() -> None:
    events = live({**CALL, "t": 1_000}, {**ALLOW, "t": 62_000}, {**RESULT, "t": 90_000})

    assert [one.wait_ms for one in events if isinstance(one, ToolResult)] == [None]


def test_text_in_chunks_has_the_time_of_its_first_and_its_turn_that_of_its_last() -> None:
    chunk = {"do": "chunk", "text": "a"}
    events = live({**BEGIN, "t": 1_000}, {**chunk, "t": 2_000}, {**chunk, "t": 9_000})

    assert (times(Message, events), end_of_turn(events).ts) == ([2_000], 9_000)


# -- lines without a time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", [Toy, Stored])
def test_line_without_a_time_has_the_last_stated_one_if_the_stream_is_read_later(of: type[Toy]) -> None:
    lines = ({**BEGIN, "at": 1_000}, {**SAY, "at": 5_000}, b'{"do": torn', {"do": "chunk", "text": "a"})

    events = read(*lines, received=90 * DAY, closed=91 * DAY, of=of)

    assert (times(Unparsed, events), times(Message, events)) == ([5_000], [5_000, 5_000])
    assert end_of_turn(events).ts == 5_000


@pytest.mark.parametrize("of", [Toy, Stored])
def test_line_without_a_time_has_the_latest_stated_one_although_a_later_line_states_an_earlier_time(
    of: type[Toy],
) -> None:
    lines = ({**BEGIN, "at": 1_000}, {**SAY, "at": 5_000}, {**SAY, "at": 2_000}, SAY)

    assert times(Message, read(*lines, received=90 * DAY, of=of)) == [5_000, 2_000, 5_000]


def test_line_without_a_time_of_a_live_stream_has_that_of_its_receipt() -> None:
    parser = Toy(Context(stream="s"))
    parser.feed(orjson.dumps({**BEGIN, "at": 1_000_000}), 1_000_020)

    assert times(Message, emitted(parser.feed(orjson.dumps(SAY), 1_400_000)[1])) == [1_400_000]


def test_history_in_a_live_stream_does_not_date_what_follows() -> None:
    parser = Toy(Context(stream="s"))
    parser.feed(orjson.dumps({**BEGIN, "at": 90 * DAY}), 90 * DAY)
    parser.feed(orjson.dumps({**SAY, "at": 1_000}), 90 * DAY + 1_000)

    assert times(Message, emitted(parser.feed(orjson.dumps(SAY), 90 * DAY + 2_000)[1])) == [90 * DAY + 2_000]


def test_stream_that_is_read_up_to_the_present_is_live_from_then_on() -> None:
    parser = Toy(Context(stream="s"))
    parser.feed(orjson.dumps({**BEGIN, "at": 1_000}), 90 * DAY)
    parser.feed(orjson.dumps({**SAY, "at": 90 * DAY + 5_000}), 90 * DAY + 5_000)

    assert times(Message, emitted(parser.feed(orjson.dumps(SAY), 90 * DAY + 9_000)[1])) == [90 * DAY + 9_000]


def test_line_of_a_stored_file_without_a_time_has_the_last_stated_one_also_while_the_file_grows() -> None:
    parser = Stored(Context(stream="s"))
    parser.feed(orjson.dumps({**BEGIN, "at": 1_000_000}), 1_000_020)

    assert times(Message, emitted(parser.feed(orjson.dumps(SAY), 1_400_000)[1])) == [1_000_000]


def test_stored_file_has_no_time_before_a_line_states_one() -> None:
    assert times(Message, read(SAY, {**SAY, "at": 1_000}, received=90 * DAY, of=Stored)) == [None, 1_000]


def test_stream_without_any_stated_time_has_those_of_receipt() -> None:
    assert times(Message, read(SAY, received=5_000)) == [5_000]


@pytest.mark.parametrize("stated", ["2026", -1, 2**60, True])
def test_time_that_is_none_dates_nothing(stated: Any) -> None:
    lines = ({**BEGIN, "at": 1_000}, {**SAY, "at": stated}, SAY)

    assert times(Message, read(*lines, received=90 * DAY)) == [None, 1_000]
