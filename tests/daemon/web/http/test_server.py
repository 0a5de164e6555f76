"""The gateway's server: it stops with the daemon, and no client harms it."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from tests.daemon.events import commit, message
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import running
from tests.daemon.web.browsing import Browser, browsed, until, web_settings
from tooltap.daemon.system.listener import ListenError
from tooltap.daemon.web.http.token import load_token
from tooltap.normalizers.core.items import OutputChunk


def ended(connection: socket.socket) -> bool:
    """Say whether the daemon has closed the connection."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.timing
def test_stop_is_prompt_with_stuck_browsers(tmp_path: Path) -> None:
    with browsed(tmp_path) as (daemon, browser):
        daemon.commit(commit(*(message("x" * 10_000) for _ in range(500))))
        streams = [browser.stream("/api/events?after=start") for _ in range(5)]
        reading = browser.stream("/api/events")
        idle = browser.connect()
        reading.until("live")
        begun = time.monotonic()
    took = time.monotonic() - begun

    assert took < 20.0  # `shutdown_timeout` is 1, and a busy machine adds to it; the browsers have a minute
    assert list(reading) == []
    assert ended(idle)
    for stream in (*streams, reading):
        stream.close()
    idle.close()


def test_sigterm_ends_daemon_with_feeds(tmp_path: Path) -> None:
    token = load_token(tmp_path / "token")
    config = tmp_path / "c.toml"
    config.write_text(f'[web]\ntoken_file = "{tmp_path / "token"}"\n')
    with DaemonProcess(tmp_path, "--web", "127.0.0.1:0", "--config", config) as daemon:
        url = daemon.wait_ready().log[-1]["web"]
        with Browser(url, token).stream("/api/events") as stream:
            stream.until("live")
            os.kill(daemon.process.pid, signal.SIGTERM)

            assert daemon.wait() == 0
            assert list(stream) == []


def test_excess_connections_are_closed(tmp_path: Path) -> None:
    with browsed(tmp_path, {"connections": 3}) as (daemon, browser):
        idle = [browser.connect() for _ in range(3)]
        for connection in idle:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(15) == b"HTTP/1.1 200 OK"
        refused = browser.connect()

        assert ended(refused)
        assert daemon.stats()["web"]["connections"] == 3
        for connection in (*idle, refused):
            connection.close()
        until(lambda: not daemon.stats()["web"]["connections"], "the connections to be noticed")
        assert browser.get("/healthz").status == 200


def test_excess_connections_of_one_client_are_closed(tmp_path: Path) -> None:
    with browsed(tmp_path, {"connections": 9, "client_connections": 2}) as (_, browser):
        idle = [browser.connect() for _ in range(3)]

        assert ended(idle[-1])
        for connection in idle[:-1]:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(15) == b"HTTP/1.1 200 OK"
        for connection in idle:
            connection.close()


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET /healthz HTT",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ",
    ],
    ids=["nothing", "line", "header"],
)
def test_stalled_request_is_closed(tmp_path: Path, begun: bytes) -> None:
    with browsed(tmp_path, {"patience": 0.2}) as (_, browser), browser.connect() as connection:
        connection.sendall(begun)

        assert ended(connection)


def test_stalled_second_request_is_closed(tmp_path: Path) -> None:
    with browsed(tmp_path, {"patience": 2.0}) as (_, browser), browser.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        while not answer.endswith(b"}"):
            answer += connection.recv(65_536)
        connection.sendall(b"GET /heal")

        assert ended(connection)


def test_endless_body_is_closed(tmp_path: Path) -> None:
    head = b"POST /api/events HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with browsed(tmp_path, {"patience": 0.2}) as (_, browser), browser.connect() as connection:
        connection.sendall(head)
        try:
            while True:
                connection.sendall(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
        except ConnectionError:
            pass


def test_stuck_download_is_closed(tmp_path: Path) -> None:
    with browsed(tmp_path, {"patience": 0.5}) as (daemon, browser):
        pieces = [
            OutputChunk("s:1:o0", start, b"x" * 1_000_000, "text/plain") for start in range(0, 8_000_000, 1_000_000)
        ]
        daemon.commit(commit(*pieces, message("m")))
        with browser.connect() as connection:
            head = (
                f"GET /api/outputs/s:1:o0 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {browser.token}\r\n\r\n"
            )
            connection.sendall(head.encode())
            until(lambda: not daemon.stats()["web"]["connections"], "the connection to be cut off")
            received = 0
            try:
                while data := connection.recv(65_536):
                    received += len(data)
            except ConnectionError:
                pass

        assert received < 8_000_000


def test_invalid_http_is_refused(tmp_path: Path) -> None:
    with browsed(tmp_path) as (daemon, browser):
        wire = daemon.subscribe(after="now")
        wire.until("live")
        for nonsense in (b"\x16\x03\x01\x02\x00\x01\x00", b"hello\r\n\r\n", b"GET\r\n\r\n", b"\x00" * 100_000):
            try:
                assert browser.say(nonsense + b"\r\n\r\n").startswith(b"HTTP/1.1 400 ")
            except ConnectionError:
                pass
        daemon.commit(commit(message("fine")))

        assert wire.read()["text"] == "fine"
        assert browser.get("/healthz").status == 200


@pytest.mark.parametrize(
    "head",
    [
        b"GET /api/stats HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /api/stats HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_garbage_after_request_ends_connection(tmp_path: Path, head: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with browsed(tmp_path) as (_, browser):
        with browser.connect() as connection:
            connection.sendall(head)
            assert connection.recv(9) == b"HTTP/1.1 "
            connection.sendall(b"\x00nonsense\r\n\r\n")
            try:
                while connection.recv(65_536):
                    pass
            except ConnectionError:
                pass
        assert browser.get("/healthz").status == 200

    assert not caplog.records  # asyncio tells of what failed in a connection


def test_port_in_use_prevents_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        web = web_settings(tmp_path, listen=f"127.0.0.1:{other.getsockname()[1]}")
        with pytest.raises(ListenError, match="Address already in use"), running(tmp_path, web=web):
            pass

    assert not (tmp_path / "run" / "t.sock").exists()
    with running(tmp_path):
        pass


def test_web_packages_are_optional(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path, PYTHONPROFILEIMPORTTIME="1") as daemon:
        daemon.wait_ready()
        os.kill(daemon.process.pid, signal.SIGTERM)
        daemon.wait()

    imported = {line.rpartition("|")[2].strip() for line in daemon.sentence.splitlines()}
    assert "tooltap.daemon.app" in imported
    assert not imported & {"starlette", "uvicorn", "h11", "tooltap.daemon.web.server"}


def test_many_browsers_come_and_go(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A hundred at a time; they leave in the middle of responses."""
    with browsed(tmp_path) as (daemon, browser):
        daemon.commit(commit(*(message("x" * 5_000) for _ in range(200))))
        for target in ("/api/events?after=start", "/api/events", "/healthz", "/api/outputs/x"):
            connections = [browser.connect() for _ in range(100)]
            for number, connection in enumerate(connections):
                accept = "text/event-stream" if number % 2 else "*/*"
                head = f"GET {target} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n"
                connection.sendall(f"{head}Authorization: Bearer {browser.token}\r\n\r\n".encode())
            for connection in connections:
                connection.close()
        until(lambda: not daemon.daemon.hub.subscriptions, "the streams to end")
        until(lambda: not daemon.stats()["web"]["connections"], "the connections to be noticed")

        assert len(browser.get("/api/events").json["events"]) == 200

    assert not caplog.records
