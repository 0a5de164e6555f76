"""Connections: greeting, publishing, refusals, and isolation from each other."""

from __future__ import annotations

import json
import os
import select
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.daemon.events import commit, message
from tests.daemon.running import TIMEOUT, Running, Wire, running
from tooltap import __version__
from tooltap.daemon.journal.interface import Commit


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as daemon:
        yield daemon


def publish(daemon: Running, receive_buffer: int | None = None, **arguments: Any) -> tuple[Wire, dict[str, Any]]:
    """A publisher of lines that are not JSON: each becomes one `unparsed` event."""
    wire = daemon.connect(receive_buffer=receive_buffer)
    wire.send("ingest", **{"dialect": "claude-stream", **arguments})
    return wire, wire.read()


def tapped(line: str) -> bytes:
    return json.dumps({"t": 1_700_000_000_000, "dir": "out", "line": line}).encode() + b"\n"


def send_until_stuck(wire: Wire, data: bytes, is_stuck: Callable[[], bool]) -> int:
    """Bytes that a socket takes before the other end stops reading, and then."""
    sent = 0
    deadline = time.monotonic() + TIMEOUT
    while True:
        was_stuck = is_stuck()
        while select.select([], [wire.socket], [], 0)[1]:
            sent += wire.socket.send(data[sent : sent + 65_536], socket.MSG_DONTWAIT)
        if was_stuck:
            return sent
        assert time.monotonic() < deadline, sent
        time.sleep(0.001)


def refusal(wire: Wire) -> str:
    error = wire.read()
    assert error["op"] == "error"
    return str(error["code"])


# -- greeting -----------------------------------------------------------------------------------------------------


def test_connection_is_greeted(daemon: Running) -> None:
    daemon.commit(commit(message("one")))
    wire = Wire(daemon.path)

    assert wire.read() == {
        "op": "welcome",
        "protocol": 1,
        "schema": 2,
        "daemon": f"tooltap/{__version__}",
        "journal": daemon.daemon.journal.id,
        "oldest": 1,
        "latest": 1,
    }
    wire.close()


def test_socket_is_private(daemon: Running) -> None:
    assert daemon.path.stat().st_mode & 0o777 == 0o600
    assert daemon.path.parent.stat().st_mode & 0o777 == 0o700


# -- publishing ---------------------------------------------------------------------------------------------------


def test_raw_stream_ends_with_its_input(daemon: Running) -> None:
    events = daemon.subscribe(after="now")
    wire, ingesting = publish(daemon, stream="s", provider="me")
    wire.write(b"one\ntwo\nlast, without newline")
    wire.finish()

    frames = wire.rest()
    read = events.until("live") + [events.read() for _ in range(3)]

    assert ingesting == {"op": "ingesting", "stream": "s", "state": "new", "lines": 0, "dialect": "claude-stream"}
    assert {frame["op"] for frame in frames[:-1]} == {"ack"}
    done = frames[-1]
    assert (done["op"], done["stream"], done["lines"], done["unparsed"], done["bytes"]) == ("done", "s", 3, 3, 27)
    assert [one["text"] for one in read[1:]] == ["one", "two", "last, without newline"]
    assert {one["provider"] for one in read[1:]} == {"me"}


def test_lines_after_the_frame_belong_to_the_stream(daemon: Running) -> None:
    """As `(echo '{"op":"ingest"}'; cat stream) | socat` sends them."""
    wire = daemon.connect()
    wire.write(b'{"op":"ingest","stream":"s","dialect":"claude-stream"}\none\ntwo\n')
    wire.finish()

    assert wire.until("done")[-1]["lines"] == 2


def test_tapped_lines_are_acknowledged(daemon: Running) -> None:
    wire, _ = publish(daemon, stream="s", framing="tapped")
    wire.write(tapped("one") + tapped("two"))
    acks = wire.until("ack")
    while acks[-1]["lines"] < 2:
        acks = wire.until("ack")
    wire.write(b'{"op":"end"}\n')
    done = wire.until("done")[-1]
    wire.write(b'{"op":"end"}\n')

    assert done["lines"] == 2
    assert wire.until("done")[-1] == done


def test_vanished_publisher_resumes(daemon: Running) -> None:
    wire, _ = publish(daemon, stream="s", framing="tapped")
    wire.write(tapped("one") + tapped("two") + b'{"t":1,"dir":"out","li')
    wire.finish()
    suspended = wire.rest()[-1]
    wire, ingesting = publish(daemon, stream="s", framing="tapped")
    wire.write(tapped("three") + b'{"op":"end"}\n')
    done = wire.until("done")[-1]

    assert suspended == {"op": "suspended", "lines": 2}
    assert ingesting == {
        "op": "ingesting",
        "stream": "s",
        "state": "suspended",
        "lines": 2,
        "dialect": "claude-stream",
        "crc": f"{zlib.crc32(b'two'):08x}",
        "crcLine": 2,
    }
    assert done["lines"] == 3
    replay = daemon.subscribe(after="start", follow=False).rest()
    assert [one["text"] for one in replay if "op" not in one] == ["one", "two", "three"]


def test_second_publisher_takes_over(daemon: Running) -> None:
    first, _ = publish(daemon, stream="s", framing="tapped")
    first.write(tapped("one"))
    first.until("ack")
    second, ingesting = publish(daemon, stream="s", framing="tapped")

    assert ingesting["lines"] == 1
    assert first.rest()[-1]["code"] == "superseded"
    second.write(tapped("two") + b'{"op":"end"}\n')
    assert second.until("done")[-1]["lines"] == 2


def test_raw_lines_to_existing_stream_need_from(daemon: Running) -> None:
    wire, _ = publish(daemon, stream="s")
    wire.write(b"one\n")
    wire.finish()
    wire.until("done")

    refused, error = publish(daemon, stream="s")
    assert error["code"] == "stream-exists"
    assert refused.line() == b""  # the connection ends: lines would follow, not frames
    wire, ingesting = publish(daemon, stream="s", **{"from": 1})
    wire.write(b"two\n")
    wire.finish()
    assert (ingesting["state"], ingesting["lines"]) == ("ended", 1)
    assert wire.until("done")[-1]["lines"] == 2


def test_unknown_dialect_is_refused(daemon: Running) -> None:
    wire, error = publish(daemon, dialect="cobol")

    assert error["code"] == "unknown-dialect"
    assert "there is no dialect 'cobol'; known are auto," in error["message"]
    assert wire.line() == b""


def test_untapped_line_ends_the_connection(daemon: Running) -> None:
    wire, _ = publish(daemon, stream="s", framing="tapped")
    wire.write(tapped("one") + b"two\n")

    error = wire.until("error")[-1]

    assert error["code"] == "not-tapped"
    assert wire.line() == b""
    assert daemon.stats()["streams"] == {"open": 0, "suspended": 1, "ended": 0}


def test_publisher_need_not_read_acks(tmp_path: Path) -> None:
    """Acks are cumulative: only the last of those it does not read is retained."""
    with running(tmp_path, subscriber_bytes=4_096) as daemon:
        wire, _ = publish(daemon, stream="s", framing="tapped", receive_buffer=2_048)
        watcher = daemon.subscribe(after="now")
        watcher.until("live")
        for number in range(700):
            wire.write(tapped(str(number)))
            assert watcher.read()["text"] == str(number)

        acks = [wire.read()["lines"]]
        while acks[-1] < 700:
            acks.append(wire.read()["lines"])
        assert acks == sorted(set(acks))
        assert len(acks) < 700


def test_backpressure_reaches_the_socket(tmp_path: Path) -> None:
    """While nothing becomes durable, the daemon reads a bounded part of a stream, and the rest afterwards."""
    lines = 5_000
    data = b"".join(b"%01000d\n" % number for number in range(lines))
    with running(tmp_path) as daemon:
        wire, _ = publish(daemon, stream="s")
        journal = daemon.daemon.journal
        commit_really = journal.commit
        opened = anyio.Event()

        async def commit_when_opened(commit: Commit) -> None:
            await opened.wait()
            await commit_really(commit)

        journal.commit = commit_when_opened  # type: ignore[method-assign]
        [connection] = daemon.daemon.server._connections

        def is_stuck() -> bool:
            ingest = daemon.daemon._streams.connections.get("s")
            is_full = ingest is not None and ingest._waiting > ingest._setting.in_flight_bytes
            return is_full and not connection._transport.is_reading()

        sent = send_until_stuck(wire, data, is_stuck)
        assert 65_536 < sent < 2_000_000
        daemon.call(opened.set)
        wire.write(data[sent:])
        wire.finish()

        assert wire.until("done")[-1]["lines"] == lines


# -- what one connection may not do to others ------------------------------------------------------------------------


def test_wrong_frame_affects_its_connection_only(daemon: Running) -> None:
    neighbour = daemon.subscribe(after="now")
    neighbour.until("live")
    for garbage in (b"\x00\xff\xfe" * 50_000 + b"\n", b'{"type":"assistant"}\n', b"[" * 60_000 + b"\n"):
        wire = daemon.connect()
        wire.write(garbage)
        assert wire.read()["op"] == "error"
    daemon.commit(commit(message("still here")))

    assert neighbour.read()["text"] == "still here"


def test_connection_continues_after_a_mistake(daemon: Running) -> None:
    wire = daemon.connect()
    wire.send("subscribe", filter={"colour": ["red"]})
    assert refusal(wire) == "bad-frame"
    wire.send("nonsense")
    assert refusal(wire) == "unknown-op"
    wire.write(b"\n  \n")

    assert wire.ask("ping") == {}


def test_undecodable_frame_ends_the_connection(daemon: Running) -> None:
    wire = daemon.connect()
    wire.write(b"GET / HTTP/1.1\r\n\r\n")

    assert [line["code"] for line in wire.rest()] == ["bad-frame"]


def test_frame_is_bounded(tmp_path: Path) -> None:
    with running(tmp_path, frame_bytes=2_000) as daemon:
        for end in (b"", b"\n"):
            wire = daemon.connect()
            wire.write(b'{"op":"ping","id":"' + b"x" * 3_000 + b'"}' + end)
            assert [line["code"] for line in wire.rest()] == ["frame-too-long"]
        wire = daemon.connect()
        assert wire.ask("ping") == {}


def test_connections_are_bounded(tmp_path: Path) -> None:
    with running(tmp_path, max_connections=2) as daemon:
        first, second = daemon.connect(), daemon.connect()
        third = Wire(daemon.path)
        assert refusal(third) == "too-many-connections"
        third.close()
        second.close()
        while first.ask("stats")["connections"]["open"] == 2:
            pass

        assert daemon.connect().ask("ping") == {}


def test_unended_streams_are_bounded(tmp_path: Path) -> None:
    with running(tmp_path, max_streams=2) as daemon:
        first, second = (publish(daemon, stream=stream, framing="tapped")[0] for stream in "ab")
        for wire in (first, second):  # committed streams count
            wire.socket.sendall(tapped("x"))
            wire.until("ack")
        _, refused = publish(daemon, stream="c", framing="tapped")
        assert (refused["op"], refused["code"]) == ("error", "too-many-streams")
        assert refused["message"] == "stream c is refused: 2 streams have not ended; end some"

        first.send("end")
        first.until("done")
        assert publish(daemon, stream="c", framing="tapped")[1]["state"] == "new"


def test_parts_of_the_statistics(daemon: Running) -> None:
    """A summary does not read the streams, of which there may be many."""
    wire, _ = publish(daemon, stream="s", framing="tapped")
    wire.socket.sendall(tapped("x"))
    wire.until("ack")
    with daemon.connect() as other:
        whole, summary = other.ask("stats"), other.ask("stats", part="summary")

        assert [one["stream"] for one in whole["perStream"]] == ["s"]
        assert summary.keys() == whole.keys() - {"perStream"}
        assert summary["streams"] == {"open": 1, "suspended": 0, "ended": 0}
        assert other.ask("stats", part="following") == {}
    wire.close()


def test_other_user_is_refused(daemon: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon is made to believe that it runs as another user."""
    monkeypatch.setattr(daemon.daemon.server, "_owner", os.geteuid() + 1)
    wire = Wire(daemon.path)

    assert refusal(wire) == "forbidden"
    assert wire.line() == b""
    wire.close()


def test_reset_connection_is_removed(daemon: Running) -> None:
    wire, _ = publish(daemon, stream="s", framing="tapped")
    wire.write(tapped("one"))
    wire.close()  # its ack is unread, so the daemon's end is reset
    watcher = daemon.connect()
    while watcher.ask("stats")["connections"] != {"open": 1, "publishing": 0}:
        pass

    assert daemon.stats()["streams"]["suspended"] == 1


def test_unterminated_last_frame_counts(daemon: Running) -> None:
    """`printf '{"op":"ping"}' | socat …` sends no newline."""
    wire = daemon.connect()
    wire.write(b'{"op":"ping","id":7}')
    wire.finish()

    assert wire.rest() == [{"op": "reply", "id": 7, "ok": True, "result": {}}]


def test_shutdown_does_not_wait_for_slow_readers(tmp_path: Path) -> None:
    with running(tmp_path, subscriber_bytes=4_096, shutdown_timeout=0.1) as daemon:
        daemon.subscribe(after="now")
        for number in range(50):
            daemon.commit(commit(message("x" * 10_000), base=number))
        path = daemon.path

    assert not path.exists()
    with pytest.raises(FileNotFoundError), socket.socket(socket.AF_UNIX) as late:
        late.connect(str(path))
