"""Fan-out: pieces, the newest events in memory, and subscribers that do not keep up."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from tests.daemon.events import call, commit, event, message
from tests.daemon.running import Running, Wire, running
from tooltap.daemon.hub import Audience, Batch, Piece
from tooltap.daemon.journal import Committed
from tooltap.normalizers.bounds import Produced
from tooltap.protocol.events import Message
from tooltap.protocol.filters import Filter

ALL = Audience(Filter(), partials=False)
BIG = "x" * 10_000


def batch(*outputs: Produced, before: int) -> Batch:
    """Events, numbered on from `before`; partials are not numbered."""
    seqs: list[int | None] = []
    last = before
    for output in outputs:
        partial = getattr(output.event, "partial", False)
        last += not partial
        seqs.append(None if partial else last)
    return Batch([Committed(outputs, seqs)], before)


def partial(text: str) -> Produced:
    return event(Message, role="assistant", text=text, offset=0, partial=True)


def seqs_of(piece: Piece) -> list[int | None]:
    return [json.loads(line).get("seq") for line in piece.data.splitlines()]


# -- pieces -------------------------------------------------------------------------------------------------------


def test_what_goes_to_everybody_is_joined_into_one_piece() -> None:
    (piece,) = batch(message("a"), message("b"), before=4).pieces(ALL)

    assert (seqs_of(piece), piece.upto) == ([5, 6], 6)


def test_a_long_batch_is_cut_so_that_whoever_stops_reading_is_noticed_in_between() -> None:
    pieces = batch(*[message("x" * 40_000) for _ in range(5)], before=0).pieces(ALL)

    assert [(seqs_of(piece), piece.upto) for piece in pieces] == [([1, 2], 2), ([3, 4], 4), ([5], 5)]


def test_an_audience_gets_what_its_filter_lets_through() -> None:
    made = batch(message("a"), call("c"), message("b"), before=0)

    (piece,) = made.pieces(Audience(Filter(kind=("tool-call",)), partials=False))

    assert seqs_of(piece) == [2]
    assert made.pieces(Audience(Filter(kind=("usage",)), partials=False)) == []
    assert made.upto == 3


def test_partials_go_to_those_who_want_them_and_reach_no_further() -> None:
    made = batch(partial("He"), before=6)

    assert made.pieces(ALL) == []
    (piece,) = made.pieces(Audience(Filter(), partials=True))
    assert (seqs_of(piece), piece.upto, made.upto) == ([None], 6, 6)


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


def test_a_slow_subscriber_is_served_from_the_journal_and_delays_nobody(tmp_path: Path) -> None:
    last = 300
    with running(tmp_path, subscriber_bytes=20_000) as daemon:
        slow = daemon.subscribe(after="now")
        quick = daemon.subscribe(after="now")
        for wire in (slow, quick):
            wire.until("live")
        for number in range(1, last + 1):
            daemon.commit(commit(message(BIG), base=number - 1))
            # The quick one has each event before the next is even written.
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
        # While it was stuck it cost its limit and what the socket itself takes, not what it missed.
        assert isinstance(written, int)
        assert written < 800_000


def test_one_that_falls_behind_at_the_very_moment_it_has_caught_up(tmp_path: Path) -> None:
    """What arrives during its last read of the journal is more than its socket takes."""
    with running(tmp_path, subscriber_bytes=20_000) as daemon:
        journal, hub = daemon.daemon.journal, daemon.daemon.hub
        read = journal.read
        others_wrote = False

        async def read_while_others_write(*arguments: Any, **options: Any) -> Any:
            nonlocal others_wrote
            found = await read(*arguments, **options)
            if not others_wrote:
                others_wrote = True
                (subscription,) = hub.subscriptions
                subscription._hold_limit = 1_000_000
                subscription._connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
                for line in range(1, 20):
                    await journal.commit(commit(message("x" * 4_000), base=line))
            return found

        journal.read = read_while_others_write  # type: ignore[method-assign]
        daemon.commit(commit(message("x" * 4_000)))
        wire = daemon.subscribe(after="start")
        while not any(one["behind"] and 2 < one["after"] < 20 for one in daemon.stats()["subscribers"]):
            pass
        lines = [wire.read() for _ in range(21)]
        daemon.commit(commit(message("last"), base=20))
        lines.append(wire.read())

    assert [line.get("op", line.get("seq")) for line in lines] == [1, "live", *range(2, 22)]


def test_a_slow_subscriber_with_a_filter_loses_nothing_either(tmp_path: Path) -> None:
    with running(tmp_path, subscriber_bytes=20_000) as daemon:
        slow = daemon.subscribe(after="now", filter={"stream": ["odd"]})
        slow.until("live")
        for number in range(150):
            for stream in ("odd", "even"):
                daemon.commit(commit(message(BIG, stream), stream=stream, base=number))

        assert read_seqs(slow, 299) == list(range(1, 300, 2))


def test_partials_are_dropped_for_who_does_not_keep_up_and_events_are_not(tmp_path: Path) -> None:
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


def test_a_subscriber_that_only_misses_partials_is_not_behind(tmp_path: Path) -> None:
    with running(tmp_path, subscriber_bytes=20_000) as daemon:
        daemon.subscribe(after="now", partials=True).until("live")
        for _ in range(100):
            daemon.commit(commit(partial(BIG), lines=0))

        (stuck,) = daemon.stats()["subscribers"]
        assert stuck["bytesWritten"] < 800_000
        assert stuck["behind"] is False


def test_a_subscriber_that_leaves_while_it_is_behind_leaves_nothing(tmp_path: Path) -> None:
    with running(tmp_path, subscriber_bytes=20_000) as daemon:
        wire = daemon.subscribe(after="now")
        for number in range(100):
            daemon.commit(commit(message(BIG), base=number))
        assert daemon.stats()["subscribers"][0]["behind"] is True
        wire.close()

        while daemon.stats()["subscribers"]:
            pass
