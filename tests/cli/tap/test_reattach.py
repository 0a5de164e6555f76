"""`tooltap attach` that ends while the server works on: its sessions continue with the next attach."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest

from tests.cli.command import environment, start
from tests.cli.tap.spooling import Place, until
from tests.cli.tap.test_attach import log, recorded, sse
from tests.daemon.events import commit, message
from tests.daemon.running import running
from tests.http_server import HttpServer, Request, Response


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("between", ["nothing", "restart"])
def test_sessions_continue_with_the_next_attach(number: signal.Signals, between: str, tmp_path: Path) -> None:
    """The first attach ends in the middle of a call. The daemon may be restarted before the second."""
    place = Place(tmp_path)
    sent = recorded("shell")
    half = next(at for at, line in enumerate(sent) if b'"status":"running"' in line.replace(b" ", b"")) + 1
    over = threading.Event()

    def answer(request: Request, answer: Response) -> None:
        answer.head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
        answer.chunk(sse(sent[:half] if len(server.requests) == 1 else sent[half:]))
        over.wait(30)

    with HttpServer(answer) as server:
        attach = ["attach", "opencode", server.url, "--socket", place.socket]
        variables = environment(**place.variables)
        with place.serving() as daemon:
            with start(*attach, env=variables) as attached:
                log(attached, "attached")
                until(lambda: daemon.lines() == half)
                attached.send_signal(number)
                attached.end()
            daemon.wait_until_ended(1, "suspended")  # a spool that the daemon reads cannot be resumed
            left = daemon.events()
            if between == "nothing":
                with start(*attach, env=variables) as attached:
                    until(lambda: daemon.lines() == len(sent) + 1)
                    attached.send_signal(signal.SIGTERM)
                    attached.end()
                events = daemon.events()
        if between == "restart":
            with place.serving() as daemon, start(*attach, env=variables) as attached:
                until(lambda: daemon.lines() == len(sent) + 1)
                attached.send_signal(signal.SIGTERM)
                attached.end()
                events = daemon.events()
        over.set()

    assert {one["kind"] for one in left} >= {"tool-call"}
    assert not [one for one in left if one["kind"] == "tool-result" or one.get("state") in ("ended", "completed")]
    assert len({one["stream"] for one in events}) == 1
    [lost] = [one for one in events if one.get("code") == "lost"]
    assert (lost["line"], lost["text"].split(": ")[1]) == (
        half + 1,
        "not attached to OpenCode, what it said meanwhile is unknown",
    )
    assert [one["status"] for one in events if one["kind"] == "tool-result"] == ["completed"]
    assert len([one for one in events if one["kind"] == "tool-call"]) == 1


def test_two_at_once_have_a_stream_each(tmp_path: Path) -> None:
    place = Place(tmp_path)
    over = threading.Event()

    def answer(request: Request, answer: Response) -> None:
        answer.head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
        answer.chunk(sse(recorded("shell")))
        over.wait(30)

    variables = environment(**place.variables)
    with HttpServer(answer) as server, place.serving() as daemon:
        attach = ["attach", "opencode", server.url, "--socket", place.socket]
        with start(*attach, env=variables) as first:
            until(lambda: daemon.ask("stats")["streams"]["open"] == 1)
            with start(*attach, env=variables) as second:
                until(lambda: daemon.ask("stats")["streams"]["open"] == 2)
                for one in (first, second):
                    one.send_signal(signal.SIGTERM)
                    one.end()
        over.set()
        until(lambda: daemon.ask("stats")["streams"]["suspended"] == 2)


def test_open_stream_is_found_however_many_have_newer_commits(tmp_path: Path) -> None:
    """The other `attach` has its spool elsewhere, so that only the daemon knows of it."""
    over = threading.Event()

    def answer(request: Request, answer: Response) -> None:
        answer.head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
        answer.chunk(sse(recorded("shell")))
        over.wait(30)

    with HttpServer(answer) as server, running(tmp_path, streams_listed=1) as daemon:
        attach = ["attach", "opencode", server.url, "--socket", daemon.path]
        with start(*attach, env=environment(TOOLTAP_SPOOL=str(tmp_path / "one"))) as first:
            until(lambda: daemon.stats()["streams"]["open"] == 1)
            daemon.commit(commit(message("m", "newer"), stream="newer", state="ended", updated=2**42))
            with start(*attach, env=environment(TOOLTAP_SPOOL=str(tmp_path / "two"))) as second:
                until(lambda: daemon.stats()["streams"]["open"] == 2)
                for one in (first, second):
                    one.send_signal(signal.SIGTERM)
                    one.end()
        over.set()
