"""`tooltap attach opencode`: what the daemon has for the agent is posted to its server, once."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.command import environment, start
from tests.cli.tap.spooling import until
from tests.cli.tap.test_attach import CONNECTED, lines, sse
from tests.cli.tap.test_run import tapped
from tests.daemon.running import Running
from tests.http_server import HttpServer, Request, Response
from tooltap.daemon.taps.attach import Poster, Server
from tooltap.normalizers.catalog.registry import agents
from tooltap.protocol.answers import ForAgent

REPLY = {"line": '{"reply":"once"}', "path": "/permission/per_1/reply", "id": "a"}


@pytest.fixture(autouse=True)
def own_spools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLTAP_SPOOL", str(tmp_path / "spool"))


@contextmanager
def attached(
    daemon: Running, reply: Callable[[Response], None], path: str = "", password: str = ""
) -> Iterator[list[Request]]:
    """An attached server that answers posts so. Yields the posts that it has got."""
    over = threading.Event()

    def respond(request: Request, response: Response) -> None:
        if request.method == "POST":
            reply(response)
            return
        response.head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
        response.chunk(sse([CONNECTED]))
        over.wait(60)

    variables = environment(OPENCODE_SERVER_PASSWORD=password)
    with HttpServer(respond) as server:
        with start("attach", "opencode", f"{server.url}{path}", "--socket", daemon.path, env=variables) as child:
            until(lambda: lines(daemon) == 1)
            posts: list[Request] = []
            yield posts
            child.kill()
        over.set()
        posts += [request for request in server.requests if request.method == "POST"]


def give(daemon: Running, **frame: str) -> str | None:
    """Send something for the agent, and return the refusal; None if there is none."""
    [stream] = tapped(daemon)
    with daemon.connect() as wire:
        wire.send("to-agent", id=1, stream=stream["stream"], payload=frame)
        reply = wire.until("reply")[-1]
    return None if reply["ok"] else reply["error"]["message"].partition(" refused: ")[2]


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("", "/permission/per_1/reply"),
        ("/event?directory=%2Fa", "/permission/per_1/reply?directory=%2Fa"),
        ("/behind/global/event", "/behind/permission/per_1/reply"),
    ],
)
def test_answer_is_posted_once(path: str, target: str, daemon: Running) -> None:
    with attached(daemon, lambda response: response.whole(200, b"true"), path, "secret-word") as posts:
        for _ in range(2):
            assert give(daemon, **REPLY) is None
        assert give(daemon, **{**REPLY, "id": "c", "path": "/api/session/ses_1/permission/per_2/reply"}) is None
        assert give(daemon, **{**REPLY, "id": "b", "path": "/session/ses_1/abort?directory=%2Fb"}) is None

    first, other, second = posts
    assert "/api/session/ses_1/permission/per_2/reply" in other.target
    assert (first.target, first.body, first.header("content-type")) == (target, b'{"reply":"once"}', "application/json")
    assert first.header("authorization") == f"Basic {base64.b64encode(b'opencode:secret-word').decode()}"
    assert second.target.endswith("/session/ses_1/abort?directory=%2Fb")


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (404, "it was answered elsewhere, or OpenCode does not know it any more"),
        (401, "OpenCode requires a password: set OPENCODE_SERVER_PASSWORD as for the server"),
        (500, "OpenCode has answered 500"),
        (307, "OpenCode has answered 307"),
    ],
)
def test_server_refuses(status: int, reason: str, daemon: Running) -> None:
    with attached(daemon, lambda response: response.whole(status, b"", "Location: /session")) as posts:
        for _ in range(2):
            assert give(daemon, **REPLY) == reason

    assert len(posts) == 1


def test_lost_connection_leaves_it_unknown(daemon: Running) -> None:
    def lose(response: Response) -> None:
        response.break_off()

    with attached(daemon, lose) as posts:
        reason = give(daemon, **REPLY)

    assert reason is not None
    assert reason.startswith("it is unknown whether OpenCode has got it: ")
    assert len(posts) == 1


def test_server_that_cannot_be_reached_has_not_got_it(tmp_path: Path) -> None:
    kind = agents()["opencode"].server
    assert kind is not None
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # it refuses connections, and nobody else gets its port
        server = Server("OpenCode", kind, f"http://127.0.0.1:{taken.getsockname()[1]}")
        reason = asyncio.run(Poster(server, tmp_path / "noted").post(ForAgent(**REPLY)))

    assert reason is not None
    assert reason.startswith("OpenCode cannot be reached: ")


@pytest.mark.parametrize(
    "path", ["", "/session/ses_1/shell", "/session/../permission/per_1/reply", "//elsewhere/permission/per_1/reply"]
)
def test_nothing_is_posted_to_other_paths(path: str, daemon: Running) -> None:
    with attached(daemon, lambda response: response.whole(200, b"")) as posts:
        assert give(daemon, **{**REPLY, "path": path}) == f"nothing is posted to {path or 'no path'}"

    assert posts == []


def test_next_attach_does_not_post_again(daemon: Running) -> None:
    """The first was killed before it could answer, so nobody knows whether the server has got it."""
    over = threading.Event()
    posted = threading.Event()
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))

        def respond(request: Request, response: Response) -> None:
            if request.method == "POST":
                posted.set()
            else:
                response.head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
                response.chunk(sse([CONNECTED]))
            over.wait(60)

        with HttpServer(respond, bound=bound) as server:
            arguments = ("attach", "opencode", server.url, "--socket", daemon.path)
            with start(*arguments) as first, daemon.connect() as wire:
                until(lambda: lines(daemon) == 1)
                [stream] = tapped(daemon)
                wire.send("to-agent", id=1, stream=stream["stream"], payload=REPLY)
                assert posted.wait(60)
                first.kill()
            with start(*arguments):
                until(lambda: lines(daemon) == 3)  # a loss, and the first line again
                reason = give(daemon, **REPLY)
            over.set()

    assert reason == "it is unknown whether OpenCode has got it: the command was ended meanwhile"
    assert len([request for request in server.requests if request.method == "POST"]) == 1


def test_answer_is_noted_before_the_first_line_is_spooled(tmp_path: Path) -> None:
    kind = agents()["opencode"].server
    assert kind is not None
    noted = tmp_path / "spool" / "s.posted"
    with HttpServer(lambda _, response: response.whole(200, b"")) as server:
        poster = Poster(Server("OpenCode", kind, server.url), noted)

        assert asyncio.run(poster.post(ForAgent(**REPLY))) is None

    assert json.loads(noted.read_bytes()) == [REPLY["id"]]


def test_what_cannot_be_noted_is_not_posted(daemon: Running, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    folder.mkdir(mode=0o700)
    with attached(daemon, lambda response: response.whole(200, b"")) as posts:
        [stream] = tapped(daemon)
        noted = folder / f"{stream['stream']}.posted"
        noted.write_text("damaged")
        reason = give(daemon, **REPLY)

    assert reason is not None
    assert reason.startswith(f"it cannot be noted in {noted}: JSON is malformed")
    assert posts == []
