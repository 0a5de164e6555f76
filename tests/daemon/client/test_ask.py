"""Requests without an event loop: `ask`."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import orjson
import pytest

from tests.daemon.events import commit, message
from tests.daemon.running import running
from tooltap import __version__
from tooltap.daemon.client.blocking import ask
from tooltap.daemon.client.discovery import DaemonError, DisconnectedError
from tooltap.protocol.frames import ErrorFrame, Reply, Welcome, encode_frame

WELCOME = encode_frame(Welcome(protocol=1, schema=2, daemon="tooltap/9", journal="j", oldest=1, latest=0))
ENDING = encode_frame(ErrorFrame(code="internal", message="the daemon ends"))


def test_ask(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        daemon.commit(commit(message("one")))

        assert ask("event", path=daemon.path, seq=1)["event"]["text"] == "one"
        assert len(ask("sessions", path=daemon.path, before=None)["sessions"]) == 1  # as if it were not there
        with pytest.raises(DaemonError, match="there is no event 9"):
            ask("event", path=daemon.path, seq=9)


def test_full_daemon_is_explained(tmp_path: Path) -> None:
    with running(tmp_path, max_connections=1) as daemon, daemon.connect(), pytest.raises(DaemonError) as raised:
        ask("ping", path=daemon.path)

    assert raised.value.code == "too-many-connections"


@pytest.mark.parametrize("asked", [True, False], ids=["after the request", "before the request"])
def test_why_the_daemon_left_is_raised(asked: bool, tmp_path: Path) -> None:
    with pytest.raises(DaemonError, match="the daemon ends"):
        ask_a_daemon_that_leaves(tmp_path / "t.sock", ENDING, asked)


def test_daemon_that_leaves_without_a_word(tmp_path: Path) -> None:
    with pytest.raises(DisconnectedError):
        ask_a_daemon_that_leaves(tmp_path / "t.sock", b"", True)


def test_daemon_of_another_release_is_told_ours(tmp_path: Path) -> None:
    pong = encode_frame(Reply(id=1, ok=True, result={}))

    assert orjson.loads(ask_a_daemon_that_leaves(tmp_path / "t.sock", pong, True)) == {
        "op": "ping",
        "id": 1,
        "speaks": __version__,
    }


def ask_a_daemon_that_leaves(path: Path, last: bytes, asked: bool) -> bytes:
    """Return the request. `asked`: the daemon reads the request before it leaves."""
    read: list[bytes] = []

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as requests:
            connection.sendall(WELCOME + (b"" if asked else last))
            if asked:
                read.append(requests.readline())
                connection.sendall(last)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        server = threading.Thread(target=serve)
        server.start()
        try:
            ask("ping", path=path)
        finally:
            server.join()
    return b"".join(read)
