"""The daemon's socket is for its own user: another one neither reads nor writes anything, nor shuts anybody out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.intruder import connect_unix, flood, hold
from tests.attacks.stranger import Stranger
from tests.daemon.events import commit, message
from tests.daemon.running import Running, running

ATTEMPTS = (
    {"op": "subscribe", "after": "start"},
    {"op": "stats", "id": 1},
    {"op": "sessions", "id": 2},
    {"op": "ingest", "stream": "theirs", "dialect": "claude-stream", "framing": "raw"},
)


@pytest.fixture
def daemon(open_folder: Path) -> Iterator[Running]:
    with running(open_folder, max_connections=8) as daemon:
        daemon.commit(commit(message("nobody else's")))
        yield daemon


def open_up(daemon: Running) -> None:
    """What no user should do: everybody may connect."""
    daemon.path.parent.chmod(0o755)
    daemon.path.chmod(0o666)


def test_socket_is_closed_to_others(daemon: Running, stranger: Stranger) -> None:
    with pytest.raises(PermissionError):
        stranger.run(connect_unix, daemon.path, "")
    daemon.path.parent.chmod(0o755)
    with pytest.raises(PermissionError):
        stranger.run(connect_unix, daemon.path, "")


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=[str(attempt["op"]) for attempt in ATTEMPTS])
def test_daemon_refuses_others_even_if_its_socket_does_not(
    daemon: Running, stranger: Stranger, attempt: dict[str, object]
) -> None:
    open_up(daemon)
    answer = stranger.run(connect_unix, daemon.path, json.dumps(attempt) + "\n")

    assert [json.loads(line)["code"] for line in answer.splitlines()] == ["forbidden"]
    assert "theirs" not in str(daemon.stats())


def test_others_take_no_connection(daemon: Running, lasting_stranger: Stranger) -> None:
    open_up(daemon)
    assert lasting_stranger.run(hold, daemon.path, 300) == 300

    assert daemon.stats()["connections"]["open"] == 1


def test_flood_of_others_leaves_the_daemon_to_its_user(daemon: Running, lasting_stranger: Stranger) -> None:
    open_up(daemon)
    lasting_stranger.begin(flood, daemon.path, 1.0, 21)
    for _ in range(20):
        assert daemon.stats()["connections"]["open"] == 1
    assert lasting_stranger.result() > 20


def test_files_of_the_daemon_are_closed_to_others(daemon: Running, stranger: Stranger, open_folder: Path) -> None:
    def read(path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    tried = 0
    for path in [one for one in open_folder.rglob("*") if one.is_file()]:
        try:
            assert os.stat(path).st_mode & 0o077 == 0, path
            with pytest.raises(PermissionError):
                stranger.run(read, path)
        except FileNotFoundError:  # SQLite removes its rollback journals
            assert not path.exists()
            continue
        tried += 1
    assert tried > 2
