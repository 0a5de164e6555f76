"""Subscribing over a real socket: replay, live, and the transition."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.events import call, commit, event, message, result
from tests.daemon.running import Running, Wire, running
from tooltap.daemon.journal.interface import Commit
from tooltap.protocol.events import Message


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as daemon:
        yield daemon


def texts(first: int, last: int, stream: str = "s") -> list[Commit]:
    """Lines `first` … `last` of a stream, each a commit with one message."""
    return [commit(message(f"{stream} {n}", stream), stream=stream, base=n - 1) for n in range(first, last + 1)]


def partial(text: str, offset: int) -> Any:
    return event(Message, role="assistant", text=text, offset=offset, partial=True)


def seqs(lines: list[dict[str, Any]]) -> list[int]:
    return [line["seq"] for line in lines if "op" not in line]


# -- replay and live ----------------------------------------------------------------------------------------------


def test_replay_then_live(daemon: Running) -> None:
    daemon.commit(*texts(1, 2))
    wire = daemon.connect()
    wire.send("subscribe", after="start")

    subscribed, first, second, live = wire.until("live")
    daemon.commit(*texts(3, 3))
    third = wire.read()

    assert subscribed == {
        "op": "subscribed",
        "after": 0,
        "journal": daemon.daemon.journal.id,
        "oldest": 1,
        "latest": 2,
    }
    assert [one["text"] for one in (first, second, third)] == ["s 1", "s 2", "s 3"]
    assert live == {"op": "live", "seq": 2}
    assert third["seq"] == 3


def test_line_is_the_stored_event_with_seq(daemon: Running) -> None:
    stored = message("ü")
    daemon.commit(commit(stored))
    wire = daemon.subscribe(after="start")

    assert wire.line() == b'{"seq":1,' + stored.body[1:] + b"\n"


def test_after_now_skips_the_past(daemon: Running) -> None:
    daemon.commit(*texts(1, 3))
    wire = daemon.subscribe(after="now")
    live = wire.read()
    daemon.commit(*texts(4, 4))

    assert live == {"op": "live", "seq": 3}
    assert wire.read()["seq"] == 4


def test_after_seq_starts_at_the_next(daemon: Running) -> None:
    daemon.commit(*texts(1, 4))

    for after in (2, f"{daemon.daemon.journal.id}:2"):
        wire = daemon.subscribe(after=after)
        assert seqs(wire.until("live")) == [3, 4]


def test_without_follow_ends_after_the_replay(daemon: Running) -> None:
    daemon.commit(*texts(1, 3))
    wire = daemon.subscribe(after=1, follow=False)

    lines = wire.rest()

    assert seqs(lines) == [2, 3]
    assert lines[-1] == {"op": "live", "seq": 3}


def test_without_follow_empty_journal_ends_at_once(daemon: Running) -> None:
    assert daemon.subscribe(after="start", follow=False).rest() == [{"op": "live", "seq": 0}]


@pytest.mark.parametrize(("subscriber_bytes", "recent_bytes"), [(4_096, 0), (4_096, 50_000), (262_144, 4_000_000)])
def test_replay_joins_live_without_loss_or_duplicate(tmp_path: Path, subscriber_bytes: int, recent_bytes: int) -> None:
    """Four subscribers join at different moments of a busy journal, however much of it is in memory."""
    with running(tmp_path, subscriber_bytes=subscriber_bytes, recent_bytes=recent_bytes) as daemon:
        last = 600
        daemon.commit(*texts(1, 50))
        writing = threading.Thread(target=lambda: daemon.commit(*texts(51, last)))
        writing.start()
        received = []
        for _ in range(4):
            wire = daemon.subscribe(after="start")
            lines = wire.until("live")
            while lines[-1]["seq"] < last:
                lines.append(wire.read())
            received.append(seqs(lines))
        writing.join()

        assert received == [list(range(1, last + 1))] * 4


def test_live_frame_is_sent_once(daemon: Running) -> None:
    daemon.commit(*texts(1, 2))
    wire = daemon.subscribe(after="start")
    lines = wire.until("live")
    daemon.commit(*texts(3, 5))
    lines += [wire.read() for _ in range(3)]

    assert [line.get("op", line["seq"]) for line in lines] == [1, 2, "live", 3, 4, 5]


def test_half_closed_client_is_still_served(daemon: Running) -> None:
    """`socat` closes its half as soon as its input ends."""
    wire = daemon.subscribe(after="now")
    wire.finish()
    wire.until("live")
    daemon.commit(*texts(1, 1))

    assert wire.read()["text"] == "s 1"


# -- filters and at -----------------------------------------------------------------------------------------------


def mixed(daemon: Running) -> None:
    daemon.commit(
        commit(message("one"), call("c1"), result("c1"), stream="s"),
        commit(
            message("two", "t", provider="claude", session="session-2"),
            call("c2", "t", name="Read", agent="a1"),
            stream="t",
        ),
    )


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"kind": ["message"]}, [1, 4]),
        ({"kind": ["tool-call", "tool-result"]}, [2, 3, 5]),
        ({"stream": ["t"]}, [4, 5]),
        ({"session": ["session-1"], "kind": ["message", "tool-call"]}, [1, 2, 5]),
        ({"provider": ["claude"]}, [4]),
        ({"agent": ["a1"]}, [5]),
        ({"tool": ["Read"]}, [5]),
        ({"tool": ["sh"]}, [2, 5]),
        ({"kind": ["usage"]}, []),
    ],
)
def test_filter_is_the_same_in_replay_and_live(
    daemon: Running, wanted: dict[str, list[str]], expected: list[int]
) -> None:
    live = daemon.subscribe(after="now", filter=wanted)
    live.until("live")
    mixed(daemon)
    replay = daemon.subscribe(after="start", filter=wanted, follow=False)

    assert seqs(replay.rest()) == expected
    assert [live.read()["seq"] for _ in expected] == expected


def test_filters_are_independent(daemon: Running) -> None:
    everything = daemon.subscribe(after="now")
    messages = daemon.subscribe(after="now", filter={"kind": ["message"]})
    for wire in (everything, messages):
        wire.until("live")
    mixed(daemon)

    assert [everything.read()["seq"] for _ in range(5)] == [1, 2, 3, 4, 5]
    assert [messages.read()["seq"] for _ in range(2)] == [1, 4]


def test_idle_filtered_subscription_gets_its_position(tmp_path: Path) -> None:
    with running(tmp_path, at_interval=0.05) as daemon:
        wire = daemon.subscribe(after="now", filter={"kind": ["usage"]})
        wire.until("live")
        assert wire.read() == {"op": "at", "seq": 0}
        daemon.commit(*texts(1, 3))
        read = wire.until("at")
        while read[-1]["seq"] < 3:  # one may have been sent before all is committed
            read = wire.until("at")

        assert read[-1] == {"op": "at", "seq": 3}


def test_idle_unfiltered_subscription_gets_nothing(tmp_path: Path) -> None:
    with running(tmp_path, at_interval=0.02) as daemon:
        silent = daemon.subscribe(after="now")
        told = daemon.subscribe(after="now", filter={"kind": ["usage"]})
        for _ in range(3):
            told.until("at")
        daemon.commit(*texts(1, 1))

        assert [line.get("op", "event") for line in (silent.read(), silent.read())] == ["live", "event"]


def test_departed_subscriber_is_detected_while_idle(tmp_path: Path) -> None:
    with running(tmp_path, at_interval=0.02) as daemon:
        daemon.subscribe(after="now").close()
        watcher = daemon.connect()
        while watcher.ask("stats")["subscribers"]:
            pass


# -- gaps ---------------------------------------------------------------------------------------------------------


def expire_everything(daemon: Running, lines: int) -> None:
    """All lines of stream `s`, which ended long ago."""
    daemon.commit(commit(base=lines, lines=0, state="ended", updated=1))
    daemon.expire(2)


def test_cursor_before_retention_gets_a_gap(daemon: Running) -> None:
    daemon.commit(*texts(1, 4))
    expire_everything(daemon, 4)
    daemon.commit(*texts(1, 2, "t"))
    wire = daemon.subscribe(after=1)

    gap, *rest = wire.until("live")

    assert gap == {"op": "gap", "from": 2, "to": 4, "reason": "retention"}
    assert seqs(rest) == [5, 6]


def test_start_has_no_gap(daemon: Running) -> None:
    daemon.commit(*texts(1, 4))
    expire_everything(daemon, 4)
    daemon.commit(*texts(1, 1, "t"))
    wire = daemon.subscribe(after="start")

    assert [line.get("op", line["seq"]) for line in wire.until("live")] == [5, "live"]


def test_events_inside_a_gap_follow_it(daemon: Running) -> None:
    """A stream that has not ended retains its events, however old."""
    daemon.commit(*texts(1, 2), commit(message("t 1", "t", session="kept"), stream="t"))
    daemon.commit(commit(message("s 3"), base=2))
    expire_everything(daemon, 3)
    wire = daemon.subscribe(after=1)

    gap, *rest = wire.until("live")

    assert gap == {"op": "gap", "from": 2, "to": 4, "reason": "retention"}
    assert seqs(rest) == [3]


def test_cursor_of_another_journal_restarts(daemon: Running) -> None:
    daemon.commit(*texts(1, 2))
    expire_everything(daemon, 2)
    daemon.commit(*texts(1, 1, "t"))
    wire = daemon.subscribe(after="another:1")

    gap, *rest = wire.until("live")

    assert gap == {"op": "gap", "from": 1, "to": 2, "reason": "reset"}
    assert seqs(rest) == [3]


def test_cursor_beyond_the_end_restarts(daemon: Running) -> None:
    daemon.commit(*texts(1, 2))
    wire = daemon.subscribe(after=3)

    gap, *rest = wire.until("live")

    assert gap == {"op": "gap", "from": 1, "to": 0, "reason": "reset"}
    assert seqs(rest) == [1, 2]


def test_retention_overtaking_a_replay_is_a_gap(tmp_path: Path) -> None:
    with running(tmp_path, subscriber_bytes=4_096, recent_bytes=0) as daemon:
        big = "x" * 100_000
        for number in range(40):
            daemon.commit(commit(message(big), base=number))
        wire = daemon.subscribe(after="start")
        first = wire.read()["seq"]
        expire_everything(daemon, 40)
        daemon.commit(*texts(1, 1, "t"))

        lines = wire.until("live")
        received = [first, *seqs(lines)]
        if received[-1] < 41:  # it was live before the last commit
            received.append(wire.read()["seq"])

    (gap,) = [line for line in lines if line.get("op") == "gap"]
    missing = {*range(1, 42)} - {*received}
    assert received == sorted(set(received))  # some that the gap has were read before they were deleted
    assert missing
    assert missing <= {*range(gap["from"], 41)}
    assert (gap["to"], gap["reason"]) == (40, "retention")


# -- partials -----------------------------------------------------------------------------------------------------


def test_partials_are_live_only(daemon: Running) -> None:
    asking = daemon.subscribe(after="now", partials=True)
    others = daemon.subscribe(after="now")
    for wire in (asking, others):
        wire.until("live")
    daemon.commit(commit(message("before"), partial("He", 0), partial("llo", 2), message("Hello"), partial("x", 0)))
    daemon.commit(*texts(2, 2))

    received = [asking.read() for _ in range(6)]

    assert [(one["text"], "seq" in one) for one in received] == [
        ("before", True),
        ("He", False),
        ("llo", False),
        ("Hello", True),
        ("x", False),
        ("s 2", True),
    ]
    assert [others.read()["text"] for _ in range(3)] == ["before", "Hello", "s 2"]
    assert seqs(daemon.subscribe(after="start", partials=True).until("live")) == [1, 2, 3]


def test_filter_applies_to_partials(daemon: Running) -> None:
    wire = daemon.subscribe(after="now", partials=True, filter={"kind": ["tool-call"]})
    wire.until("live")
    daemon.commit(commit(partial("He", 0), call("c1")))

    assert wire.read()["kind"] == "tool-call"


# -- refusals -----------------------------------------------------------------------------------------------------


def refusal(wire: Wire) -> tuple[str, str]:
    error = wire.read()
    assert error["op"] == "error"
    return error["code"], error["message"]


@pytest.mark.parametrize(
    "after", ["", "yesterday", "journal:", "journal:x", "journal:-1", "5", ":5", "j:" + "9" * 5_000]
)
def test_wrong_cursor_is_refused(daemon: Running, after: str) -> None:
    wire = daemon.connect()
    wire.send("subscribe", after=after)

    assert refusal(wire) == (
        "bad-frame",
        'subscribe: `after` is "start", "now", a seq or "<journal>:<seq>"',
    )


def test_connection_carries_one_subscription(daemon: Running) -> None:
    wire = daemon.subscribe(after="now")
    wire.until("live")
    wire.send("subscribe", after="start")

    assert refusal(wire) == ("wrong-mode", "this connection already carries a subscription; open another one")
    daemon.commit(*texts(1, 1))
    assert wire.read()["text"] == "s 1"
