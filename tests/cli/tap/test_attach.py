"""`tooltap attach opencode`: OpenCode's events are in the journal, and losses are reported."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Child, environment, here, sentence, start, tooltap
from tests.cli.tap.spooling import Place, until
from tests.cli.tap.test_proxy import without_names
from tests.cli.tap.test_run import tapped
from tests.daemon.running import Running
from tests.http_server import HttpServer, Request, Response

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "opencode-bus" / "opencode-1.18.33"
CONNECTED = b'{"type":"server.connected","properties":{}}'
HEARTBEAT = b'data: {"type":"server.heartbeat","properties":{}}\n\n'


def recorded(name: str) -> list[bytes]:
    """The lines of the server's event stream."""
    records = [json.loads(line) for line in (RECORDINGS / f"{name}.jsonl").read_bytes().splitlines()]
    return [json.dumps(one["line"], ensure_ascii=False).encode() for one in records if one["dir"] == "out"]


def sse(lines: list[bytes]) -> bytes:
    return b"".join(b"data: %s\n\n" % line for line in lines)


def pieces(data: bytes, *sizes: int) -> list[bytes]:
    """Chunks that end in the middle of lines and characters."""
    cut: list[bytes] = []
    while data:
        size = sizes[len(cut) % len(sizes)]
        cut.append(data[:size])
        data = data[size:]
    return cut


def events_of(daemon: Running) -> list[dict[str, Any]]:
    with daemon.subscribe(after="start", follow=False) as wire:
        return [event for event in wire.rest() if "kind" in event]


def lines(daemon: Running) -> int:
    return sum(stream["lines"] for stream in daemon.stats()["perStream"])


def log(child: Child, event: str) -> dict[str, Any]:
    """Wait for the next log entry with this message."""
    while (entry := json.loads(child.log_line()))["event"] != event:
        pass
    return entry  # type: ignore[no-any-return]


def stop(child: Child, number: int = signal.SIGTERM) -> tuple[int, bytes, bytes]:
    child.send_signal(number)
    return child.end()


@pytest.mark.parametrize(("number", "wanted"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_stream_gives_the_events_of_its_recording(number: int, wanted: int, daemon: Running, tmp_path: Path) -> None:
    """The stream has odd chunks, other fields, comments, data in two lines and all line endings, as the format
    allows."""
    sent = recorded("shell")
    body = b": hello\r\nid: 7\r\nevent: message\r\nretry: 5\r\n" + sse(sent).replace(b"\n\n", b"\r\n\r\n", 3)
    body = body.replace(b"\n\ndata: {", b"\r\rdata: {\rdata: ", 3)
    over = threading.Event()

    def answer(request: Request, answer: Response) -> None:
        answer.head(200, "Content-Type: text/event-stream; charset=utf-8", "Transfer-Encoding: chunked")
        for piece in pieces(body, 1, 7, 4096, 3):
            answer.chunk(piece)
        over.wait(30)

    with HttpServer(answer) as server, start("attach", "opencode", server.url, "--socket", daemon.path) as attached:
        until(lambda: lines(daemon) == len(sent))
        code, output, errors = stop(attached, number)
        over.set()
    recording = tmp_path / "the-recording.jsonl"
    recording.write_bytes(b"".join(line + b"\n" for line in sent))
    expected = [
        json.loads(line) for line in here("normalize", "--dialect", "opencode-bus", recording).stdout.splitlines()
    ]

    assert (code, output, b"tooltap: " in errors) == (wanted, b"", False)
    assert [without_names(event) for event in events_of(daemon)] == [without_names(event) for event in expected]
    [stream] = tapped(daemon)
    assert (stream["dialect"], stream["state"]) == ("opencode-bus", "suspended")
    assert stream["stream"].startswith("attach-")
    [request] = server.requests
    assert (request.method, request.target, request.header("authorization")) == ("GET", "/event", None)


def test_reconnect_reports_possible_loss(daemon: Running) -> None:
    sent = recorded("shell")
    half = len(sent) // 2
    over = threading.Event()

    def answer(request: Request, answer: Response) -> None:
        if len(server.requests) == 1:
            answer.head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
            answer.chunk(sse(sent[:half]) + b'data: {"cut')
            answer.break_off()
        elif len(server.requests) == 2:
            answer.stream(sse(sent[half:]))
        else:
            over.wait(30)

    with HttpServer(answer) as server, start("attach", "opencode", server.url, "--socket", daemon.path) as attached:
        assert log(attached, "attached")["url"] == f"{server.url}/event"
        away = log(attached, "not attached")
        assert (away["url"], away["retry_seconds"]) == (f"{server.url}/event", 0.2)
        assert "peer closed connection" in away["reason"]
        log(attached, "attached")
        assert log(attached, "not attached")["reason"] == "the server has ended the stream"
        until(lambda: lines(daemon) == len(sent) + 1)
        assert stop(attached)[0] == 0
        over.set()
    events = events_of(daemon)
    [lost] = [event for event in events if event.get("code") == "lost"]

    assert lost["line"] == half + 1
    assert lost["data"]["reason"].startswith("not connected to OpenCode for ")
    assert lost["data"]["reason"].endswith(" s, what it said meanwhile is unknown")
    assert [event for event in events if event["kind"] == "unparsed"] == []


def test_attach_waits_for_the_server(daemon: Running) -> None:
    over = threading.Event()

    def say_and_wait(request: Request, answer: Response) -> None:
        answer.head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
        answer.chunk(sse([CONNECTED]))
        over.wait(30)

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # it refuses connections, and nobody else gets its port
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with start("attach", "opencode", url, "--socket", daemon.path) as attached:
            assert "onnect" in log(attached, "not attached")["reason"]
            with HttpServer(say_and_wait, bound=taken):
                log(attached, "attached")
                until(lambda: lines(daemon) == 1)
                stop(attached)
                over.set()

    assert events_of(daemon) == []  # no loss before the first connection


def test_silent_server_is_reconnected(daemon: Running) -> None:
    over = threading.Event()

    def answer(request: Request, answer: Response) -> None:
        answer.head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
        answer.chunk(HEARTBEAT)
        over.wait(30)

    with (
        HttpServer(answer) as server,
        start("attach", "opencode", server.url, "--silence", 0.2, "--socket", daemon.path) as attached,
    ):
        assert log(attached, "not attached")["reason"] == "ReadTimeout"
        log(attached, "attached")
        until(lambda: lines(daemon) >= 3)
        stop(attached)
        over.set()

    assert [event["code"] for event in events_of(daemon)][:1] == ["lost"]


def test_password_is_sent_but_not_recorded(daemon: Running) -> None:
    variables = environment(OPENCODE_SERVER_PASSWORD="secret-word")
    with (
        HttpServer(lambda _, answer: answer.stream(sse([CONNECTED]))) as server,
        start("attach", "opencode", server.url, "--socket", daemon.path, env=variables) as attached,
    ):
        log(attached, "not attached")
        errors = stop(attached)[2]
        other = server.url.replace("http://", "http://me:other-word@")
        with start("attach", "opencode", f"{other}/global/event?x=1", "--socket", daemon.path) as attached:
            entry = log(attached, "not attached")
            stop(attached)

    assert server.requests[0].header("authorization") == f"Basic {base64.b64encode(b'opencode:secret-word').decode()}"
    assert server.requests[-1].header("authorization") == f"Basic {base64.b64encode(b'me:other-word').decode()}"
    assert server.requests[-1].target == "/global/event?x=1"
    assert b"secret-word" not in errors
    assert entry["url"] == f"{server.url}/global/event?x=1"


def test_spooled_lines_arrive_once_after_kill(tmp_path: Path) -> None:
    place = Place(tmp_path)
    sent = [b'{"n":%d}' % number for number in range(100)]
    over = threading.Event()

    def answer(request: Request, answer: Response) -> None:
        answer.head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
        answer.chunk(sse(sent))
        over.wait(30)

    variables = environment(**place.variables)
    with (
        HttpServer(answer) as server,
        start("attach", "opencode", server.url, "--socket", place.socket, env=variables) as attached,
    ):
        assert "no daemon" in log(attached, "lines wait in the spool")["reason"]
        until(lambda: place.spooled(99))
        attached.kill()
        over.set()
    with place.serving() as daemon:
        daemon.wait_until_ended(1, "suspended")

        assert list(daemon.journal().values()) == [list(range(100))]


def test_other_server_is_one_sentence(tmp_path: Path) -> None:
    place = tmp_path / "none.sock"

    def answer(request: Request, answer: Response) -> None:
        if request.target == "/event":
            answer.whole(200, b"<html>", "Content-Type: text/html")
        else:
            answer.whole(401, b"")

    with HttpServer(answer) as server:
        page = tooltap("attach", "opencode", server.url, "--socket", place)
        closed = tooltap("attach", "opencode", f"{server.url}/private/", "--socket", place)

    assert (page.returncode, closed.returncode) == (1, 1)
    assert sentence(page) == f"{server.url}/event is not the event stream of OpenCode: it answers 200 text/html"
    assert sentence(closed).startswith(f"{server.url}/private/event requires a password")


@pytest.mark.parametrize("url", ["localhost:4096", "ftp://host", "http://", "http://a:b:c"])
def test_invalid_url_is_one_sentence(url: str) -> None:
    finished = here("attach", "opencode", url)

    assert finished.returncode == 1
    assert repr(url) in sentence(finished)


def test_missing_extra_is_named(tmp_path: Path) -> None:
    (tmp_path / "httpx.py").write_text("raise ModuleNotFoundError(name='httpx')")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    finished = tooltap("attach", "opencode", "http://127.0.0.1:1", PYTHONPATH=path)

    assert finished.returncode == 1
    assert sentence(finished) == "httpx is not installed: pip install 'httpx>=0.27' 'websockets>=14.0'"
