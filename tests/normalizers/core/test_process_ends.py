"""How open turns and sessions end with the agent's process, as its tap states it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.normalizers.reading import emitted
from tests.normalizers.toy import Toy
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.dialects.acp.parser import Acp
from tooltap.protocol.events import SessionEvent, Turn
from tooltap.protocol.inputs import ProcessEnd

BEGIN = {"do": "begin"}
SAY = {"do": "say", "text": "Done."}
CALL = {"do": "call", "id": "a", "name": "X"}
WORKING, ANSWERED = [BEGIN, CALL], [BEGIN, SAY]
START, LAST, END = 1_795_293_851_000, 1_795_293_852_000, 1_795_293_859_000


@pytest.mark.parametrize(
    ("lines", "process", "end"),
    [
        (WORKING, ProcessEnd(0), ("cancelled", "eof", "interrupted", LAST)),
        (WORKING, ProcessEnd(3), ("failed", "provider", "exit 3", END)),
        (WORKING, ProcessEnd(130), ("cancelled", "provider", "exit 130", END)),
        (WORKING, ProcessEnd(139), ("failed", "provider", "exit 139", END)),
        (WORKING, ProcessEnd(1, stopped_by="client"), ("cancelled", "provider", "exit 1", END)),
        (WORKING, ProcessEnd(signal="SIGKILL"), ("cancelled", "provider", "killed by SIGKILL", END)),
        (WORKING, ProcessEnd(signal="SIGSEGV"), ("failed", "provider", "killed by SIGSEGV", END)),
        (ANSWERED, ProcessEnd(0), ("completed", "eof", None, LAST)),
        (ANSWERED, ProcessEnd(3), ("failed", "provider", "exit 3", END)),
        (ANSWERED, ProcessEnd(signal="SIGTERM"), ("completed", "eof", None, LAST)),
    ],
)
def test_open_turn(lines: list[dict[str, Any]], process: ProcessEnd, end: tuple[Any, ...]) -> None:
    parser = Toy(Context(stream="s"))
    for line, t in zip(lines, (START, LAST), strict=True):
        parser.feed(orjson.dumps(line), t)
    *_, turn, session = emitted(parser.close("end", END, process))

    assert isinstance(turn, Turn)
    assert (turn.state, turn.ended_by, turn.reason, turn.ts) == end
    assert isinstance(session, SessionEvent)
    stated = session.state, session.exit_code, session.signal, session.ts
    assert stated == ("ended", process.exit, process.signal, END)


def test_turn_that_has_ended_is_left_alone() -> None:
    parser = Toy(Context(stream="s"))
    for line in (BEGIN, SAY, {"do": "finish"}):
        parser.feed(orjson.dumps(line), START)

    assert [type(event) for event in emitted(parser.close("end", END, ProcessEnd(3)))] == [SessionEvent]


def test_stream_of_which_nothing_was_understood_gets_no_session() -> None:
    parser = Toy(Context(stream="s"))
    parser.feed(b"no such file")

    assert emitted(parser.close("end", END, ProcessEnd(1))) == []


def test_each_session_with_an_open_turn_ends() -> None:
    """Two sessions of one connection, whose turns are both open."""
    parser = Acp(Context(stream="s"))
    for number, session in enumerate(("one", "two")):
        params = {"sessionId": session, "prompt": [{"type": "text", "text": "Go."}]}
        request = {"jsonrpc": "2.0", "id": number, "method": "session/prompt", "params": params}
        parser.feed(orjson.dumps(request), START, "in")
    events = emitted(parser.close("end", END, ProcessEnd(signal="SIGKILL")))

    assert [(event.session, type(event), event.state) for event in events] == [
        ("one", Turn, "cancelled"),
        ("two", Turn, "cancelled"),
        ("one", SessionEvent, "ended"),
        ("two", SessionEvent, "ended"),
    ]
