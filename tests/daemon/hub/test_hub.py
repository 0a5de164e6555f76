"""Fan-out: chunks, the retained batches, and subscribers that do not keep up."""

from __future__ import annotations

import json
import random
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.events import call, commit, event, message
from tests.daemon.running import Running, Wire, running
from tooltap.daemon.hub import Batch, Chunk, Selection, Subscription
from tooltap.daemon.journal.interface import Committed
from tooltap.daemon.server.connection import Connection
from tooltap.daemon.show.skins.display import CallTimes
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import Message
from tooltap.protocol.filters import Filter

ALL = Selection(Filter(), partials=False)
BIG = "x" * 10_000


def batch(*outputs: Produced, before: int) -> Batch:
    """Events numbered from `before` + 1; partials have no number."""
    seqs: list[int | None] = []
    last = before
    for output in outputs:
        partial = getattr(output.event, "partial", False)
        last += not partial
        seqs.append(None if partial else last)
    return Batch([Committed(outputs, seqs)], before, CallTimes())


def partial(text: str) -> Produced:
    return event(Message, role="assistant", text=text, offset=0, partial=True)


def seqs_of(chunk: Chunk) -> list[int | None]:
    return [json.loads(line).get("seq") for line in chunk.data.splitlines()]


# -- chunks -------------------------------------------------------------------------------------------------------


def test_events_are_joined_into_one_chunk() -> None:
    (chunk,) = batch(message("a"), message("b"), before=4).chunks(ALL)

    assert (seqs_of(chunk), chunk.upto) == ([5, 6], 6)


def test_batch_without_events_has_no_chunk() -> None:
    """An empty one would be the end of what an HTTP client is sent."""
    assert batch(before=4).chunks(ALL) == []


def test_long_batch_is_cut_into_chunks() -> None:
    chunks = batch(*[message("x" * 40_000) for _ in range(5)], before=0).chunks(ALL)

    assert [(seqs_of(chunk), chunk.upto) for chunk in chunks] == [([1, 2], 2), ([3, 4], 4), ([5], 5)]


def test_selection_gets_what_its_filter_matches() -> None:
    made = batch(message("a"), call("c"), message("b"), before=0)

    (chunk,) = made.chunks(Selection(Filter(kind=("tool-call",)), partials=False))

    assert seqs_of(chunk) == [2]
    assert made.chunks(Selection(Filter(kind=("usage",)), partials=False)) == []
    assert made.upto == 3


def test_partials_do_not_advance_the_cursor() -> None:
    made = batch(partial("He"), before=6)

    assert made.chunks(ALL) == []
    (chunk,) = made.chunks(Selection(Filter(), partials=True))
    assert (seqs_of(chunk), chunk.upto, made.upto) == ([None], 6, 6)


# -- slow subscribers ---------------------------------------------------------------------------------------------


def subscriber(daemon: Running, after: int) -> dict[str, object]:
    """Statistics of the one subscriber that is not at `after`."""
    (found,) = [one for one in daemon.stats()["subscribers"] if one["after"] != after]
    return dict(found)


def read_seqs(wire: Wire, last: int) -> list[int]:
    seqs = [wire.read()["seq"]]
    while seqs[-1] < last:
        seqs.append(wire.read()["seq"])
    return seqs


def test_slow_subscriber_reads_the_journal_and_delays_nobody(tmp_path: Path) -> None:
    last = 300
    with running(tmp_path, subscriber_bytes=20_000, recent_bytes=100_000) as daemon:
        slow = daemon.subscribe(after="now")
        quick = daemon.subscribe(after="now")
        for wire in (slow, quick):
            wire.until("live")
        for number in range(1, last + 1):
            daemon.commit(commit(message(BIG), base=number - 1))
            # The quick subscriber has each event before the next is committed.
            assert quick.read()["seq"] == number

        stuck = subscriber(daemon, after=last)
        assert stuck["behind"] is True
        assert isinstance(stuck["after"], int)
        assert 0 < stuck["after"] < 100
        written = stuck["bytesWritten"]

        assert read_seqs(slow, last) == list(range(1, last + 1))

        daemon.commit(commit(message("again live"), base=last))
        assert [slow.read()["text"], quick.read()["text"]] == ["again live", "again live"]
        (caught_up,) = [one for one in daemon.stats()["subscribers"] if one["journalReads"]]
        assert caught_up["behind"] is False
        assert caught_up["journalEvents"] > 200
        assert daemon.stats()["journal"]["reads"] >= caught_up["journalReads"] > 0
        # While it was stuck, it cost its limit and the socket buffer, not the events it missed.
        assert isinstance(written, int)
        assert written < 800_000


def test_subscriber_a_little_behind_is_served_from_memory(tmp_path: Path) -> None:
    last = 100
    with running(tmp_path, subscriber_bytes=20_000) as daemon:
        slow = daemon.subscribe(after="now")
        slow.until("live")
        for number in range(1, last + 1):
            daemon.commit(commit(message(BIG), base=number - 1))

        assert read_seqs(slow, last) == list(range(1, last + 1))
        (one,) = daemon.stats()["subscribers"]
        assert (one["behind"], one["journalReads"]) == (False, 0)


def test_deleted_events_are_not_served_from_memory(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        daemon.commit(commit(message("removed", session="removed"), state="ended"))
        daemon.commit(commit(message("kept", "t", session="kept"), stream="t"))
        daemon.connect().ask("remove", session="removed")

        late = daemon.subscribe(after=0, follow=False)
        assert [line["text"] for line in late.rest() if "op" not in line] == ["kept"]
        late = daemon.subscribe(after=0)
        assert [line["text"] for line in late.until("live") if "op" not in line] == ["kept"]


@pytest.mark.parametrize("recent_bytes", [0, 60_000, 4_000_000])
def test_falling_behind_repeatedly_delivers_each_event_once(tmp_path: Path, recent_bytes: int) -> None:
    """Small socket buffers, commits of all sizes, and readers that read sometimes a part and sometimes everything."""
    chance = random.Random(recent_bytes)
    wanted: list[dict[str, Any]] = [{}, {"filter": {"stream": ["odd"]}}, {"partials": True}]
    with running(tmp_path, subscriber_bytes=4_096, recent_bytes=recent_bytes) as daemon:
        wires = [daemon.subscribe(after="start", **arguments) for arguments in wanted for _ in range(2)]
        for wire in wires:
            wire.until("live")
        for subscription in daemon.daemon.hub.subscriptions:
            assert isinstance(subscription, Subscription)
            assert isinstance(subscription._connection, Connection)
            subscription._connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        seen: list[list[int]] = [[] for _ in wires]
        odd: list[int] = []
        latest, lines = 0, {"odd": 0, "even": 0}
        for _ in range(150):
            stream = chance.choice(["odd", "even"])
            made = [message("x" * chance.randint(1, 6_000), stream) for _ in range(chance.randint(1, 6))]
            daemon.commit(commit(*made, partial("preview"), stream=stream, base=lines[stream]))
            lines[stream] += 1
            numbers = range(latest + 1, latest + len(made) + 1)
            latest = numbers[-1]
            odd += numbers if stream == "odd" else ()
            for number, (wire, had) in enumerate(zip(wires, seen, strict=True)):
                there = (len(odd) if number in (2, 3) else latest) - len(had)
                read_events(wire, had, chance.choice([0, 0, min(1, there), there]))
        for number, (wire, had) in enumerate(zip(wires, seen, strict=True)):
            read_events(wire, had, (len(odd) if number in (2, 3) else latest) - len(had))

    everything = list(range(1, latest + 1))
    assert seen == [everything, everything, odd, odd, everything, everything]


def read_events(wire: Wire, into: list[int], count: int) -> None:
    end = len(into) + count
    while len(into) < end:
        line = wire.read()
        if "op" not in line and not line.get("partial"):
            into.append(line["seq"])


def test_slow_filtered_subscriber_loses_nothing(tmp_path: Path) -> None:
    with running(tmp_path, subscriber_bytes=20_000) as daemon:
        slow = daemon.subscribe(after="now", filter={"stream": ["odd"]})
        slow.until("live")
        for number in range(150):
            for stream in ("odd", "even"):
                daemon.commit(commit(message(BIG, stream), stream=stream, base=number))

        assert read_seqs(slow, 299) == list(range(1, 300, 2))


def test_slow_subscriber_loses_partials_but_no_events(tmp_path: Path) -> None:
    with running(tmp_path, subscriber_bytes=20_000) as daemon:
        slow = daemon.subscribe(after="now", partials=True)
        quick = daemon.subscribe(after="now", partials=True)
        for wire in (slow, quick):
            wire.until("live")
        for number in range(100):
            daemon.commit(commit(partial(BIG), message("final"), base=number))
            assert ["seq" in quick.read(), "seq" in quick.read()] == [False, True]

        lines = [slow.read()]
        while lines[-1].get("seq") != 100:
            lines.append(slow.read())

    assert [one["seq"] for one in lines if "seq" in one] == list(range(1, 101))
    assert 0 < sum(one.get("partial", False) for one in lines) < 100


def test_missing_only_partials_is_not_behind(tmp_path: Path) -> None:
    with running(tmp_path, subscriber_bytes=20_000) as daemon:
        daemon.subscribe(after="now", partials=True).until("live")
        for _ in range(100):
            daemon.commit(commit(partial(BIG), lines=0))

        (stuck,) = daemon.stats()["subscribers"]
        assert stuck["bytesWritten"] < 800_000
        assert stuck["behind"] is False


def test_subscriber_that_leaves_while_behind_is_removed(tmp_path: Path) -> None:
    with running(tmp_path, subscriber_bytes=20_000) as daemon:
        wire = daemon.subscribe(after="now")
        for number in range(100):
            daemon.commit(commit(message(BIG), base=number))
        assert daemon.stats()["subscribers"][0]["behind"] is True
        wire.close()

        while daemon.stats()["subscribers"]:
            pass
