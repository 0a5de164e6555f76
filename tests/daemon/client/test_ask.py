"""Requests without an event loop: `ask`."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any, assert_type, get_args

import anyio
import orjson
import pytest

from tests.cli.control.scripted import scripted
from tests.daemon.events import commit, message
from tests.daemon.running import running
from tooltap import __version__
from tooltap.daemon.client.asynchronous import connect, request
from tooltap.daemon.client.blocking import ask
from tooltap.daemon.client.discovery import DaemonError, DisconnectedError
from tooltap.protocol.frames import (
    AnswerRequest,
    ClientFrame,
    ErrorFrame,
    EventRequest,
    Reply,
    RequestFor,
    SendRequest,
    SessionsRequest,
    StatsRequest,
    Welcome,
    encode_frame,
)
from tooltap.protocol.replies import RESULTS, AnswerResult, SendResult, SessionsResult

WELCOME = encode_frame(Welcome(protocol=1, schema=2, daemon="tooltap/9", journal="j", oldest=1, latest=0))
ENDING = encode_frame(ErrorFrame(code="internal", message="the daemon ends"))


def test_ask(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        daemon.commit(commit(message("one")))

        assert ask("event", path=daemon.path, seq=1)["event"]["text"] == "one"
        assert len(ask("sessions", path=daemon.path, before=None)["sessions"]) == 1  # as if it were not there
        with pytest.raises(DaemonError, match="there is no event 9"):
            ask("event", path=daemon.path, seq=9)


def test_a_struct_is_answered_by_the_struct_of_its_result(tmp_path: Path) -> None:
    """mypy checks that the attributes are known."""
    with running(tmp_path) as daemon:
        daemon.commit(commit(message("one")))

        found = ask(SessionsRequest(limit=1), path=daemon.path)
        assert_type(found, SessionsResult)
        assert [one.events for one in found.sessions] == [1]
        assert ask(EventRequest(seq=1), path=daemon.path).event["text"] == "one"
        assert isinstance(ask(StatsRequest(), path=daemon.path), dict)
        with pytest.raises(DaemonError, match="there is no event 9"):
            ask(EventRequest(seq=9), path=daemon.path)


def test_answers_prompts_and_interrupts(tmp_path: Path) -> None:
    """Of a scripted daemon: which keys the structs and keywords become, and what comes back."""
    with scripted(tmp_path) as script:
        answered = ask(AnswerRequest(permission_id="p1", outcome="denied", message="no"), path=script.path)
        assert_type(answered, AnswerResult)
        assert (answered.by, answered.delivered) == ("alice in the terminal", True)
        assert script.only("answer") == {"permissionId": "p1", "outcome": "denied", "message": "no"}
        sent = anyio.run(_send, script.path)
        assert (sent.id, sent.delivered) == ("i", True)
        assert script.only("send") == {"session": "0a-shop", "text": "go on", "key": "k"}
        assert ask("interrupt", path=script.path, session="0a-shop")["delivered"]
        assert script.only("interrupt") == {"session": "0a-shop"}
        script.errors["answer"] = "already-answered", "bob answered 3 s ago: denied"
        with pytest.raises(DaemonError, match="bob answered 3 s ago: denied") as raised:
            ask("answer", path=script.path, permissionId="p1", outcome="allowed")
        assert raised.value.code == "already-answered"


async def _send(path: Path) -> SendResult:
    return await request(SendRequest(session="0a-shop", text="go on", key="k"), path=path)


async def _asynchronously(path: Path) -> int:
    async with connect(path) as client:
        pages = await client.request(SessionsRequest()), await request(SessionsRequest(), path=path)
    return sum(len(one.sessions) for one in pages)


def test_requests_are_answered_so_too(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        daemon.commit(commit(message("one")))
        assert anyio.run(_asynchronously, daemon.path) == 2


def test_every_request_names_its_result() -> None:
    for one in get_args(ClientFrame):
        if issubclass(one, RequestFor):
            [base] = one.__orig_bases__
            assert get_args(base)[0] in (RESULTS.get(one.__struct_config__.tag), dict[str, Any])


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
