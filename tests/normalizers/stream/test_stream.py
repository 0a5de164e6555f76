"""From lines to events: recognition, envelope, sessions, and the class of every line."""

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.normalizers.toy import TOY, Toy
from tooltap.normalizers.catalog.registry import UnknownDialectError, builtin
from tooltap.normalizers.core.items import Context, Item, Limits, Produced
from tooltap.normalizers.stream.normalizer import Output, StreamNormalizer
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.events import Message, Notice, SessionEvent, Unparsed
from tooltap.testing import Line, check_recording, check_survives

NOISE = b'{"hello":"world"}'
SAY = orjson.dumps({"do": "say", "text": "hi"})


def events(outputs: list[Output]) -> list[Any]:
    return [output.event for output in outputs if isinstance(output, Produced)]


def test_envelope_names_the_source(toy: str) -> None:
    normalizer = StreamNormalizer(Context(stream="run/1", session="mine"), toy)

    (event,) = events(normalizer.feed(SAY, 1_795_293_851_000))

    assert orjson.loads(normalizer.feed(SAY)[0].body) == {  # type: ignore[union-attr]
        "kind": "message",
        "v": 2,
        "id": "run/1:2:0",
        "stream": "run/1",
        "line": 2,
        "session": "mine",
        "protocol": "toy",
        "provider": "toymaker",
        "dialect": "toy",
        "role": "assistant",
        "text": "hi",
    }
    assert event.ts == 1_795_293_851_000


def test_unknown_dialect_error_lists_dialects() -> None:
    with pytest.raises(UnknownDialectError, match="no dialect 'nope'; known are auto, acp"):
        StreamNormalizer(Context(stream="s"), "nope")


def test_held_lines_are_parsed_after_recognition(toy: str) -> None:
    known = StreamNormalizer(Context(stream="s"), toy)
    auto = StreamNormalizer(Context(stream="s"))
    lines = [NOISE, b"", b"not json", SAY, SAY]

    wanted = [output for line in lines for output in known.feed(line)]
    assert [auto.feed(line) for line in lines[:3]] == [[], [], []]
    assert (auto.lines, auto.statistics.lines, auto.dialect) == (3, 0, None)
    got = auto.feed(lines[3]) + auto.feed(lines[4])

    assert [one.body for one in got] == [one.body for one in wanted]  # type: ignore[union-attr]
    assert auto.statistics == known.statistics
    assert auto.dialect == "toy"


@pytest.mark.parametrize("limits", [Limits(held_lines=3), Limits(held_bytes=40)])
def test_unknown_stream_is_unparsed_until_recognised(toy: str, limits: Limits) -> None:
    normalizer = StreamNormalizer(Context(stream="s", limits=limits))

    given_up = events([output for _ in range(4) for output in normalizer.feed(NOISE)])
    after = events(normalizer.feed(SAY)) + events(normalizer.feed(NOISE))

    assert [(one.reason, one.dialect, one.line) for one in given_up] == [
        ("unknown-dialect", "unknown", line) for line in (1, 2, 3, 4)
    ]
    assert [(type(one), one.id, one.dialect) for one in after] == [
        (Message, "s:5:0", "toy"),
        (Unparsed, "s:6:0", "toy"),
    ]
    assert normalizer.statistics.unparsed == 5


def test_late_line_decides_for_all_before_it(toy: str) -> None:
    """As a stream of an agent whose first lines other agents print, too."""
    normalizer = StreamNormalizer(Context(stream="s"))

    assert [output for _ in range(40) for output in normalizer.feed(NOISE)] == []
    found = events(normalizer.feed(SAY))

    assert [(one.line, one.dialect) for one in found] == [(line, "toy") for line in range(1, 42)]


def test_unrecognised_stream_is_unparsed_at_close() -> None:
    normalizer = StreamNormalizer(Context(stream="s"))

    assert normalizer.feed(NOISE) == []
    event, _ = events(normalizer.close("end"))

    assert (event.reason, event.text, event.bytes) == ("unknown-dialect", NOISE.decode(), len(NOISE))
    assert normalizer.statistics.lines == 1


def test_notice_says_once_that_no_line_is_known() -> None:
    normalizer = StreamNormalizer(Context(stream="s"))
    normalizer.feed(NOISE)
    *_, notice = events(normalizer.close("end"))

    known = "none of 1 line is in a format that tooltap knows"
    assert (notice.code, notice.text) == ("unknown-format", known)
    assert [type(event) for event in events(normalizer.feed(NOISE) + normalizer.close("end"))] == [Unparsed]


def test_empty_stream_has_no_events() -> None:
    assert StreamNormalizer(Context(stream="s")).close("end") == []


def test_late_session_id_has_alias(toy: str) -> None:
    normalizer = StreamNormalizer(Context(stream="s", session="mine"), toy)
    outputs = normalizer.feed(SAY) + normalizer.feed(orjson.dumps({"do": "session", "id": "theirs"}))

    message, updated, _ = events(outputs)
    assert message.session == "mine"
    assert isinstance(updated, SessionEvent)
    assert (updated.session, updated.state, updated.alias) == ("theirs", "updated", "mine")


def test_first_session_id_has_no_alias(toy: str) -> None:
    normalizer = StreamNormalizer(Context(stream="s"), toy)

    (notice,) = events(normalizer.feed(orjson.dumps({"do": "session", "id": "theirs"})))

    assert (type(notice), notice.session) == (Notice, "theirs")


def test_lost_lines_are_counted_and_reported(toy: str) -> None:
    normalizer = StreamNormalizer(Context(stream="s"), toy)
    normalizer.feed(SAY)

    (notice,) = events(normalizer.lost(5, 900, "spool full"))
    (after,) = events(normalizer.feed(SAY))

    assert (notice.id, notice.code, notice.data) == (
        "s:6:0",
        "lost",
        {"lines": 5, "bytes": 900, "reason": "spool full"},
    )
    assert after.line == 7
    assert normalizer.statistics.skipped == {"lost": 5}
    assert normalizer.statistics.lines == 7


def test_too_long_line_is_unparsed(toy: str) -> None:
    normalizer = StreamNormalizer(Context(stream="s"), toy)

    (event,) = events(normalizer.feed(LongLine(b"x" * 4_096, 10**8)))

    assert (event.reason, event.bytes, len(event.text)) == ("too-long", 10**8, 2_000)
    assert len(events(normalizer.feed(SAY))) == 1


def test_parser_error_costs_one_line(toy: str) -> None:
    normalizer = StreamNormalizer(Context(stream="s"), toy)

    (event,) = events(normalizer.feed(b'{"do":"fail"}'))

    assert event.reason == "parser-error: RuntimeError at normalizers.core.lines:read"
    assert len(events(normalizer.feed(SAY))) == 1


def test_two_objects_on_one_line_are_read(toy: str) -> None:
    normalizer = StreamNormalizer(Context(stream="s"), toy)

    first, second = events(normalizer.feed(SAY + b'{"do":"call","id":"a","name":"X"}'))

    assert (first.id, second.id) == ("s:1:0", "s:1:1")
    assert (normalizer.statistics.with_events, normalizer.statistics.repaired) == (1, 1)


COMMANDS = st.fixed_dictionaries(
    {"do": st.sampled_from(["say", "chunk", "call", "result", "ask", "answer", "begin", "finish", "session", "quiet"])},
    optional={
        "id": st.sampled_from("abc"),
        "call": st.sampled_from("abc"),
        "agent": st.sampled_from(["sub", "other"]),
        "parent": st.sampled_from("abc"),
        "in_session": st.sampled_from(["one", "two"]),
        "is_async": st.booleans(),
        "status": st.sampled_from(["completed", "failed", "cancelled"]),
        "turn": st.sampled_from(["t1", "t2"]),
        "outcome": st.sampled_from(["completed", "failed", "cancelled"]),
    },
)
DEFAULTS = {"text": "x", "name": "X", "id": "a", "outcome": "allowed"}


def prepared(command: dict[str, Any]) -> bytes:
    command = {**DEFAULTS, **command}
    if command["do"] == "finish" and command["outcome"] == "allowed":
        command["outcome"] = "completed"
    if command["do"] == "answer":
        command["outcome"] = "denied" if command["outcome"] == "failed" else "allowed"
    return orjson.dumps(command)


@settings(max_examples=150, deadline=None)
@given(st.lists(COMMANDS, max_size=25))
def test_any_order_of_commands_keeps_contract(commands: list[dict[str, Any]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(builtin(), "toy", TOY)
        patch.setattr("tooltap.normalizers.stream.normalizer.parser_class", lambda name: Toy)
        patch.setattr("tooltap.testing.parser_class", lambda name: Toy)
        check_recording("toy", [Line(prepared(command)) for command in commands])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=30))
def test_garbage_is_tolerated(lines: list[bytes]) -> None:
    check_survives("auto", [Line(line.replace(b"\n", b"")) for line in lines])


def test_left_out_line_emits_nothing(toy: str) -> None:
    """`keep` is called only for lines with events, and ids continue as if nothing had been left out."""
    normalizer = StreamNormalizer(Context(stream="s"), toy)
    asked: list[int] = []

    def keep(items: list[Item]) -> list[Item]:
        asked.append(len(items))
        return []

    outputs = [normalizer.feed(line, keep=keep) for line in (b"", SAY)]
    (event,) = events(normalizer.feed(SAY))

    assert outputs == [[], []]
    assert asked == [1]
    assert event.id == "s:3:0"
    assert normalizer.statistics.skipped == {"blank": 1, "told-elsewhere": 1}
    assert (normalizer.statistics.lines, normalizer.statistics.events) == (3, 1)


def test_line_holds_few_small_objects_or_many_large_ones(toy: str) -> None:
    quiet, large = b'{"do":"quiet"}', b'{"do":"quiet","more":"more"}'
    read = StreamNormalizer(Context(stream="s"), toy)
    assert [read.feed(line) for line in (quiet * 2, quiet * 1_000, large * 1_001)] == [[]] * 3
    assert read.statistics.skipped == {"quiet": 3}

    (event,) = events(read.feed(quiet * 1_001))
    assert (type(event), event.reason) == (Unparsed, "too-many")
