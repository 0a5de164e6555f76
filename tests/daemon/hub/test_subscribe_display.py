"""Subscribing `as` display: replay, live, cursors, filters and gaps are those of events."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.events import call, commit, event, message, result
from tests.daemon.running import Running, Wire, running
from tooltap.daemon import hub as batch
from tooltap.daemon.client.asynchronous import subscribe
from tooltap.daemon.show.skins.display import CallTimes, display_body, display_events
from tooltap.protocol.display import DisplayText, DisplayToolResult, DisplayToolUse, decode_display
from tooltap.protocol.events import Message


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as daemon:
        yield daemon


def watch(daemon: Running, **arguments: Any) -> Wire:
    return daemon.subscribe(**{"as": "display"}, **arguments)


def history(stream: str = "s") -> Any:
    """An event without a display line."""
    return message("said before", stream, replay=True)


def partial(text: str, offset: int) -> Any:
    return event(Message, role="assistant", text=text, offset=offset, partial=True)


def seqs(lines: list[dict[str, Any]]) -> list[int]:
    return [line["seq"] for line in lines if "op" not in line]


def test_line_is_the_display_event_with_seq(daemon: Running) -> None:
    stored = [message("Running it."), call("c", preview="ls"), history(), result("c"), message("Done.")]
    live = watch(daemon, after="now")
    live.until("live")
    daemon.commit(commit(*stored))
    replay = watch(daemon, after="start")
    shown = [(seq, display_body(one.body, CallTimes())) for seq, one in enumerate(stored, 1)]
    expected = [b'{"seq":%d,' % seq + body[1:] + b"\n" for seq, body in shown if body is not None]

    assert len(expected) == 4
    assert [live.line() for _ in expected] == expected
    assert [replay.line() for _ in expected] == expected
    assert replay.read() == {"op": "live", "seq": 5}


def test_cursor_is_that_of_events(daemon: Running) -> None:
    daemon.commit(commit(message("one"), history(), message("two"), history()))

    assert seqs(watch(daemon, after=1).until("live")) == [3]
    assert watch(daemon, after=3).until("live") == [{"op": "live", "seq": 4}]
    assert seqs(daemon.subscribe(after=3).until("live")) == [4]


def test_replay_joins_live_without_loss_or_duplicate(tmp_path: Path) -> None:
    with running(tmp_path, subscriber_bytes=4_096) as daemon:
        writing = threading.Thread(
            target=lambda: daemon.commit(*[commit(message(str(n)), history(), base=n) for n in range(300)])
        )
        writing.start()
        received = []
        for _ in range(3):
            wire = watch(daemon, after="start")
            lines = wire.until("live")
            while lines[-1]["seq"] < 599:
                lines.append(wire.read())
            received.append([line["text"] for line in lines if "op" not in line])
        writing.join()

        assert received == [[str(n) for n in range(300)]] * 3


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"kind": ["message"]}, ["text", "text"]),
        ({"kind": ["tool-call", "usage"]}, ["tool_use"]),
        ({"tool": ["sh"]}, ["tool_use"]),
        ({"stream": ["t"]}, ["text"]),
        ({"provider": ["nobody"]}, []),
    ],
)
def test_filter_is_the_same_in_replay_and_live(
    daemon: Running, wanted: dict[str, list[str]], expected: list[str]
) -> None:
    live = watch(daemon, after="now", filter=wanted)
    live.until("live")
    daemon.commit(
        commit(message("a"), call("c"), history(), result("c")), commit(message("b", "t"), history("t"), stream="t")
    )
    *replayed, joined = watch(daemon, after="start", filter=wanted).until("live")

    assert joined == {"op": "live", "seq": 6}
    assert [line["kind"] for line in replayed] == expected
    assert [live.read()["kind"] for _ in expected] == expected


def test_position_is_sent_while_nothing_is_displayed(tmp_path: Path) -> None:
    with running(tmp_path, at_interval=0.05) as daemon:
        wire = watch(daemon, after="now")
        wire.until("live")
        daemon.commit(commit(history(), history()))
        read = wire.until("at")
        while read[-1]["seq"] == 0:  # one may have been sent before the commit
            read = wire.until("at")

        assert read[-1] == {"op": "at", "seq": 2}


def test_gap_is_reported(daemon: Running) -> None:
    daemon.commit(commit(message("one"), message("two")))
    daemon.commit(commit(base=1, lines=0, state="ended", updated=1))
    daemon.expire(2)
    daemon.commit(commit(message("three", "t"), stream="t"))
    gap, *rest = watch(daemon, after=1).until("live")

    assert gap == {"op": "gap", "from": 2, "to": 2, "reason": "retention"}
    assert [line.get("text") for line in rest] == ["three", None]


def test_partials_are_marked(daemon: Running) -> None:
    asking = watch(daemon, after="now", partials=True)
    others = watch(daemon, after="now")
    for wire in (asking, others):
        wire.until("live")
    daemon.commit(commit(partial("He", 0), partial("llo", 2), message("Hello")))

    lines = [asking.read() for _ in range(3)]
    assert [(one["text"], one.get("offset"), one.get("partial", False), "seq" in one) for one in lines] == [
        ("He", 0, True, False),
        ("llo", 2, True, False),
        ("Hello", None, False, True),
    ]
    assert others.read()["text"] == "Hello"


def test_slow_subscriber_loses_nothing(tmp_path: Path) -> None:
    with running(tmp_path, subscriber_bytes=20_000) as daemon:
        slow = watch(daemon, after="now")
        slow.until("live")
        for number in range(100):
            daemon.commit(commit(message("x" * 10_000), history(), base=number))
        (stuck,) = daemon.stats()["subscribers"]

        assert (stuck["as"], stuck["behind"]) == ("display", True)
        assert [slow.read()["seq"] for _ in range(100)] == list(range(1, 200, 2))


@pytest.mark.parametrize(
    ("called", "ended", "shown"),
    [
        ({"ts": 1_000}, {"ts": 3_500, "wait_ms": 500}, 2_000),
        ({"ts": 1_000}, {"ts": 3_500, "duration_ms": 7}, 7),
        ({"ts": 1_000}, {"ts": 1_049}, None),
        ({"ts": 1_000}, {}, None),
        ({}, {"ts": 3_500}, None),
        ({"ts": 1_000}, {"ts": 3_500, "synthetic": True}, None),
        ({"ts": 1_000}, {"ts": 3_500, "async_": True}, None),
    ],
)
def test_result_says_how_long_the_call_took(
    daemon: Running, called: dict[str, Any], ended: dict[str, Any], shown: int | None
) -> None:
    live = watch(daemon, after="now")
    live.until("live")
    daemon.commit(commit(call("c", **called)))
    daemon.commit(commit(result("c", **ended), base=1))
    readers = [live, watch(daemon, after="start"), watch(daemon, after=1)]
    without_daemon = list(display_events(one.event for one in (call("c", **called), result("c", **ended))))

    read = [without_daemon[-1], *(decode_display([reader.line(), reader.line()][-1]) for reader in readers[:2])]
    read.append(decode_display(readers[2].line()))
    assert [one.duration_ms for one in read if isinstance(one, DisplayToolResult)] == [shown] * 4


def test_duration_of_a_call_that_began_before_the_daemon(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        daemon.commit(commit(call("c", ts=1_000)))
    with running(tmp_path) as daemon:
        live = watch(daemon, after="now")
        live.until("live")
        daemon.commit(commit(result("c", ts=3_500), base=1))

        assert live.read()["durationMs"] == 2_500


def test_both_forms_side_by_side(daemon: Running) -> None:
    wires = [daemon.subscribe(after="now"), watch(daemon, after="now")]
    for wire in wires:
        wire.until("live")
    daemon.commit(commit(message("a"), call("c")))

    kinds = [[wire.read()["kind"] for _ in range(2)] for wire in wires]
    assert kinds == [["message", "tool-call"], ["text", "tool_use"]]


def test_display_event_is_made_once_for_all(daemon: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    projected: list[bytes] = []

    def count(body: bytes, times: CallTimes) -> bytes | None:
        projected.append(body)
        return display_body(body, times)

    wires = [watch(daemon, after="now", filter=wanted) for wanted in ({}, {}, {"kind": ["message"]})]
    for wire in wires:
        wire.until("live")
    monkeypatch.setattr(batch, "display_body", count)
    said = message("a")
    daemon.commit(commit(said))

    assert [wire.read()["text"] for wire in wires] == ["a", "a", "a"]
    assert projected == [said.body]


def test_unknown_form_is_refused(daemon: Running) -> None:
    wire = daemon.connect()
    wire.send("subscribe", **{"as": "poetry"})

    error = wire.read()
    assert (error["code"], error["message"]) == ("bad-frame", "subscribe: `as`: invalid enum value 'poetry'")


@pytest.mark.anyio
async def test_client_resumes_by_cursor(daemon: Running) -> None:
    daemon.commit(commit(message("Running it."), call("c", preview="ls"), history(), result("c"), message("Done.")))
    async with subscribe(as_="display", after="start", follow=False, path=daemon.path) as subscription:
        found = [shown async for shown in subscription.display_events()]
        end = subscription.cursor
    async with subscribe(as_="display", after=2, follow=False, path=daemon.path) as subscription:
        rest = [shown async for shown in subscription.display_events()]

    assert [type(one) for one in found] == [DisplayText, DisplayToolUse, DisplayToolResult, DisplayText]
    assert [one.seq for one in found] == [1, 2, 4, 5]
    assert end == f"{daemon.daemon.journal.id}:5"
    assert rest == found[2:]
