"""Fan-out: pieces, the newest events in memory, and subscribers that do not keep up."""

from __future__ import annotations

from pathlib import Path

from tests.daemon.events import commit, event, message
from tests.daemon.running import Running, Wire, running
from tooltap.daemon.hub import PIECE_BYTES, Audience, Line, Piece, Recent, cut
from tooltap.protocol.events import Message
from tooltap.protocol.filters import EventMeta, Filter

ALL = Audience(Filter(), partials=False)
BIG = "x" * 10_000


def line(seq: int | None, kind: str = "message", size: int = 10) -> Line:
    return Line(seq, EventMeta(kind, "s", "session", "gemini", None, None, None), b"x" * size)


# -- pieces -------------------------------------------------------------------------------------------------------


def test_what_goes_to_everybody_is_joined_once() -> None:
    assert list(cut([line(1), line(2)], ALL, 0)) == [Piece(b"x" * 20, 2)]


def test_a_long_batch_is_cut_so_that_whoever_stops_reading_is_noticed_in_between() -> None:
    lines = [line(seq, size=PIECE_BYTES // 2) for seq in range(1, 6)]

    assert [(len(piece.data), piece.upto) for piece in cut(lines, ALL, 0)] == [
        (PIECE_BYTES, 2),
        (PIECE_BYTES, 4),
        (PIECE_BYTES // 2, 5),
    ]


def test_a_piece_reaches_over_what_the_filter_hides() -> None:
    wanted = Audience(Filter(kind=("turn",)), partials=False)

    assert list(cut([line(7), line(8, "turn"), line(9)], wanted, 6)) == [Piece(b"x" * 10, 9)]
    assert list(cut([line(7)], wanted, 6)) == []


def test_a_piece_of_partials_alone_reaches_no_further() -> None:
    assert list(cut([line(None)], Audience(Filter(), partials=True), 6)) == [Piece(b"x" * 10, 6)]
    assert list(cut([line(None)], ALL, 6)) == []


# -- newest events ------------------------------------------------------------------------------------------------


def test_the_newest_events_are_kept_up_to_a_limit() -> None:
    recent = Recent(limit=25, start=4)
    recent.add([line(5), line(None), line(7)])

    assert recent.after(4) == [line(5), line(7)]
    assert recent.after(7) == []

    recent.add([line(8)])

    assert recent.after(4) is None
    assert recent.after(5) == [line(7), line(8)]
    assert recent.after(6) == [line(7), line(8)]


def test_nothing_is_kept_where_the_limit_is_0() -> None:
    recent = Recent(limit=0, start=0)
    recent.add([line(1)])

    assert recent.after(0) is None
    assert recent.after(1) == []


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
    with running(tmp_path, recent_bytes=50_000, subscriber_bytes=20_000) as daemon:
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


def test_a_subscriber_a_little_behind_is_served_from_memory(tmp_path: Path) -> None:
    with running(tmp_path, recent_bytes=10_000_000, subscriber_bytes=20_000) as daemon:
        slow = daemon.subscribe(after="now")
        slow.until("live")
        for number in range(100):
            daemon.commit(commit(message(BIG), base=number))
        assert daemon.stats()["subscribers"][0]["behind"] is True

        assert read_seqs(slow, 100) == list(range(1, 101))
        assert daemon.stats()["journal"]["reads"] == 0


def test_a_slow_subscriber_with_a_filter_loses_nothing_either(tmp_path: Path) -> None:
    with running(tmp_path, recent_bytes=0, subscriber_bytes=20_000) as daemon:
        slow = daemon.subscribe(after="now", filter={"stream": ["odd"]})
        slow.until("live")
        for number in range(150):
            for stream in ("odd", "even"):
                daemon.commit(commit(message(BIG, stream), stream=stream, base=number))

        assert read_seqs(slow, 299) == list(range(1, 300, 2))


def test_partials_are_dropped_for_who_does_not_keep_up_and_events_are_not(tmp_path: Path) -> None:
    partial = event(Message, role="assistant", text=BIG, offset=0, partial=True)
    with running(tmp_path, subscriber_bytes=20_000) as daemon:
        slow = daemon.subscribe(after="now", partials=True)
        quick = daemon.subscribe(after="now", partials=True)
        for wire in (slow, quick):
            wire.until("live")
        for number in range(100):
            daemon.commit(commit(partial, message("final"), base=number))
            assert ["seq" in quick.read(), "seq" in quick.read()] == [False, True]

        lines = [slow.read()]
        while lines[-1].get("seq") != 100:
            lines.append(slow.read())

    assert [one["seq"] for one in lines if "seq" in one] == list(range(1, 101))
    assert 0 < sum(one.get("partial", False) for one in lines) < 100


def test_a_subscriber_that_only_misses_partials_is_not_behind(tmp_path: Path) -> None:
    partial = event(Message, role="assistant", text=BIG, offset=0, partial=True)
    with running(tmp_path, subscriber_bytes=20_000) as daemon:
        daemon.subscribe(after="now", partials=True).until("live")
        for _ in range(100):
            daemon.commit(commit(partial, lines=0))

        (stuck,) = daemon.stats()["subscribers"]
        assert stuck["bytesWritten"] < 800_000
        assert stuck["behind"] is False


def test_a_subscriber_that_leaves_while_it_is_behind_leaves_nothing(tmp_path: Path) -> None:
    with running(tmp_path, recent_bytes=0, subscriber_bytes=20_000) as daemon:
        wire = daemon.subscribe(after="now")
        for number in range(100):
            daemon.commit(commit(message(BIG), base=number))
        assert daemon.stats()["subscribers"][0]["behind"] is True
        wire.close()

        while daemon.stats()["subscribers"]:
            pass
