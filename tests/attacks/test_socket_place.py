"""Attacks on the place of the socket: what another user has put there gets nothing, and what stands there stays."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests.attacks.loops import in_a_loop
from tests.attacks.stranger import Stranger
from tests.cli.command import here, sentence
from tooltap.daemon.client import asynchronous, blocking
from tooltap.daemon.client.asynchronous import request
from tooltap.daemon.client.blocking import ask
from tooltap.daemon.client.discovery import ConnectError, check_peer
from tooltap.daemon.system.listener import Listener, ListenError


def listen(place: str) -> None:
    import os
    import socket
    import sys

    listening = sys.__dict__["held"] = socket.socket(socket.AF_UNIX)
    listening.bind(place)
    os.chmod(place, 0o666)
    listening.listen()


def receive() -> str:
    """Greet a client as a daemon does, and return what it sends."""
    import sys

    listening = sys.__dict__["held"]
    listening.settimeout(30)
    connection, _ = listening.accept()
    try:
        connection.sendall(b'{"op":"welcome","protocol":1,"schema":2,"daemon":"tooltap 0","journal":"j"}\n')
        return str(connection.recv(1000).decode())
    except OSError:
        return ""


@pytest.mark.parametrize("client", ["blocking", "asynchronous", "command"])
@in_a_loop
async def test_nothing_is_sent_to_the_daemon_of_another_user(
    client: str, shared: Path, lasting_stranger: Stranger
) -> None:
    place = shared / "t.sock"
    lasting_stranger.run(listen, place)
    lasting_stranger.begin(receive)
    if client == "command":
        finished = here("stats", "--socket", place)
        assert finished.returncode != 0
        assert sentence(finished) == f"what is listening at {place} belongs to another user"
    else:
        blocking_one = partial(anyio.to_thread.run_sync, partial(ask, "stats", path=place))
        asked = blocking_one() if client == "blocking" else request("stats", path=place)
        with pytest.raises(ConnectError, match=f"^what is listening at {place} belongs to another user$"):
            await asked
    assert lasting_stranger.result() == ""


@pytest.mark.parametrize("kind", ["file", "link", "folder", "pipe"])
def test_what_stands_in_the_sockets_place_is_refused(kind: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    place = tmp_path / "t.sock"
    make: dict[str, Callable[[], object]] = {
        "file": lambda: place.write_text("mine"),
        "link": lambda: place.symlink_to("file"),
        "folder": place.mkdir,
        "pipe": lambda: os.mkfifo(place),
    }
    make[kind]()
    before = place.lstat()

    with pytest.raises(ListenError, match="is not a socket; move it away"):
        Listener(place)
    assert os.path.samestat(place.lstat(), before)
    assert (tmp_path / "file").read_text() == "mine"


def test_serve_replaces_no_file(tmp_path: Path) -> None:
    place = tmp_path / "t.sock"
    place.write_text("mine")
    command = [
        sys.executable,
        "-m",
        "tooltap.cli",
        "serve",
        "--socket",
        str(place),
        "--journal",
        f"sqlite:{tmp_path}/j.db",
    ]
    finished = subprocess.run(command, capture_output=True, check=False, timeout=60)

    assert finished.returncode == 1
    assert b"is not a socket; move it away" in finished.stderr
    assert place.read_text() == "mine"


@pytest.mark.parametrize("client", ["blocking", "asynchronous"])
def test_peer_is_asked_before_anything_is_sent(client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the peer turns out to be of another user, what listens has not got a byte, and never gets one."""
    place = tmp_path / "t.sock"
    received: list[bytes] = []

    def refuse(where: Path, asked: socket.socket) -> None:
        accepted, _ = listening.accept()
        with accepted:
            accepted.sendall(b'{"op":"welcome","protocol":1,"schema":2,"daemon":"tooltap 0","journal":"j"}\n')
            accepted.settimeout(0.1)
            with contextlib.suppress(TimeoutError):
                received.append(accepted.recv(1))
        raise ConnectError("of another user")

    for module in (blocking, asynchronous):
        monkeypatch.setattr(module, "check_peer", refuse)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        listening.listen()
        ask_it = partial(ask, "stats", path=place)
        if client == "asynchronous":
            ask_it = partial(anyio.run, partial(request, "stats", path=place))
        # In a thread of its own: the browser of other tests keeps an event loop running in this one.
        with ThreadPoolExecutor(1) as thread, pytest.raises(ConnectError, match="of another user"):
            thread.submit(ask_it).result()
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):  # it does not try again
            listening.accept()

    assert received == []


def test_both_ends_of_a_pair_are_the_same_users() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        check_peer(Path("here"), ours)
