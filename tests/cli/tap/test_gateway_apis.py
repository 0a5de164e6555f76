"""What `tooltap gateway openai` taps of Anthropic's Messages and of the Gemini API."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.cli.tap.gateways import TIMEOUT, answers, ask, completion, gateway, messages, streams
from tests.cli.tap.spooling import Place, until
from tests.cli.tap.test_attach import events_of, pieces, stop
from tests.cli.tap.test_gateway_tap import normalized, same
from tests.daemon.running import Running
from tests.daemon.taps.test_gateway_once import REQUEST, RESPONSE
from tests.http_server import HttpServer, Request, Response

FIXTURES = Path(__file__).parents[2] / "fixtures"
MESSAGES = FIXTURES / "anthropic-messages" / "claude-code-2.1.332" / "shell-fails.jsonl"
GEMINI = FIXTURES / "gemini-api" / "gemini-cli-0.61.0" / "shell-fails.jsonl"
STREAM = "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
SESSION = "b55f79f8-5740-4c52-a1e8-fe55fa854628"


def exchanges(recording: Path) -> list[tuple[bytes, bytes]]:
    """The requests of a recording, each with the body of its streamed answer."""
    found: list[tuple[bytes, bytes]] = []
    for line in recording.read_bytes().splitlines():
        if line.startswith(b"data:"):
            found[-1] = found[-1][0], found[-1][1] + line + b"\n\n"
        else:
            found.append((line, b""))
    return found


@pytest.mark.parametrize(
    ("recording", "path", "dialect"),
    [(MESSAGES, "/v1/messages?beta=true", "anthropic-messages"), (GEMINI, STREAM, "gemini-api")],
    ids=["messages", "gemini"],
)
def test_streamed_exchanges_give_the_events_of_their_recording(
    recording: Path, path: str, dialect: str, daemon: Running, tmp_path: Path
) -> None:
    told = exchanges(recording)
    left = [body for _, body in told]

    def answer(request: Request, answer: Response) -> None:
        answer.stream(*pieces(left.pop(0), 1, 90, 7))

    with (
        HttpServer(answer) as server,
        gateway(server.url, daemon.path, "--provider", dialect.removesuffix("-messages")) as (child, client),
    ):
        for request, body in told:
            with client.stream("POST", path, content=request) as response:
                assert b"".join(response.iter_raw()) == body
        assert [request.body for request in server.requests] == [request for request, _ in told]
        stop(child)

    assert same(events_of(daemon), normalized(recording, tmp_path, dialect))
    assert [(stream["dialect"], stream["state"]) for stream in streams(daemon)] == [(dialect, "ended")]


def test_whole_answer_is_tapped_and_names_client_and_session(daemon: Running) -> None:
    user = json.dumps({"device_id": "0", "account_uuid": "", "session_id": SESSION})
    request = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi."}]}
    whole = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hello."}]}
    body = json.dumps({"id": "msg_1", "model": "m", "stop_reason": "end_turn", "usage": {}, **whole}).encode()
    with (
        HttpServer(lambda _, answer: answer.whole(200, body, "Content-Type: application/json")) as server,
        gateway(server.url, daemon.path) as (child, client),
    ):
        agent = {"User-Agent": "claude-cli/2.1.332 (external, sdk-cli)"}
        client.post("/v1/messages", json={**request, "metadata": {"user_id": user}}, headers=agent)
        client.post("/v1/messages/count_tokens", json=request, headers=agent)
        stop(child)

    events = events_of(daemon)
    assert messages(events) == [("user", "Hi."), ("assistant", "Hello.")]
    assert {(event["provider"], event["session"]) for event in events} == {("claude", SESSION)}


OPENCODE = {**ask("Hi."), "prompt_cache_key": "ses_5f0a6b7d8ffe2GhJ"}
CODEX = {**REQUEST, "client_metadata": {"session_id": SESSION}, "prompt_cache_key": "another"}


@pytest.mark.parametrize(
    ("path", "request_body", "answer", "session"),
    [
        ("/v1/chat/completions", OPENCODE, completion("Hello."), "ses_5f0a6b7d8ffe2GhJ"),
        ("/v1/responses", CODEX, json.dumps(RESPONSE).encode(), SESSION),
    ],
    ids=["opencode", "codex"],
)
def test_session_is_that_of_the_request(
    path: str, request_body: dict[str, Any], answer: bytes, session: str, daemon: Running
) -> None:
    with HttpServer(answers(answer)) as server, gateway(server.url, daemon.path) as (child, client):
        client.post(path, json=request_body)
        stop(child)

    assert {event["session"] for event in events_of(daemon)} == {session}


@pytest.mark.parametrize("header", ["X-OpenCode-Session", "X-Session-Affinity"])
def test_session_is_that_of_a_header(header: str, daemon: Running) -> None:
    session = "ses_5f0a6b7d8ffe2GhJ"
    with (
        HttpServer(answers(completion("Hello."))) as server,
        gateway(server.url, daemon.path) as (child, client),
    ):
        client.post(
            "/v1/chat/completions", json=ask("Hi."), headers={"User-Agent": "opencode/1.18.33", header: session}
        )
        stop(child)

    assert {(event["provider"], event["session"]) for event in events_of(daemon)} == {
        ("opencode", "ses_5f0a6b7d8ffe2GhJ")
    }


def test_compressed_request_is_read_and_passes_unchanged(daemon: Running) -> None:
    request, body = exchanges(MESSAGES)[0]
    sent = zstandard.ZstdCompressor().compress(request)
    with (
        HttpServer(lambda _, answer: answer.stream(body)) as server,
        gateway(server.url, daemon.path) as (child, client),
    ):
        client.post("/v1/messages", content=sent, headers={"Content-Encoding": "zstd"})
        assert [request.body for request in server.requests] == [sent]
        stop(child)

    assert messages(events_of(daemon))[0] == ("user", "Run the failing command.")


@pytest.mark.parametrize("by", ["body", "page"])
def test_error_ends_the_turn(by: str, daemon: Running) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    body = json.dumps(error).encode() if by == "body" else b"<html>Overloaded</html>"
    with (
        HttpServer(lambda _, answer: answer.whole(529, body)) as server,
        gateway(server.url, daemon.path) as (child, client),
    ):
        assert client.post("/v1/messages", content=exchanges(MESSAGES)[0][0]).content == body
        stop(child)

    (turn,) = [event for event in events_of(daemon) if event["kind"] == "turn" and event["state"] != "started"]
    assert (turn["state"], turn["reason"]) == ("failed", "overloaded_error" if by == "body" else "529")


def test_daemon_that_is_killed_in_mid_answer_misses_nothing(tmp_path: Path) -> None:
    """The client gets the second half of the answer while there is no daemon."""
    place, killed = Place(tmp_path), threading.Event()
    request, body = exchanges(MESSAGES)[1]

    def answer(_: Request, answer: Response) -> None:
        answer.head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
        answer.chunk(body[: len(body) // 2])
        assert killed.wait(TIMEOUT)
        answer.chunk(body[len(body) // 2 :])
        answer.chunk(b"")

    with (
        HttpServer(answer) as server,
        gateway(server.url, place.socket, **place.variables) as (child, client),
    ):
        with place.serving() as daemon, client.stream("POST", "/v1/messages", content=request) as response:
            got = response.iter_raw()
            first = next(got)
            until(lambda: daemon.lines() >= 1)
            daemon.process.kill()
            killed.set()
            assert first + b"".join(got) == body
        with place.serving() as daemon:
            assert stop(child)[0] == 0
            daemon.wait_until_ended(1)
            events = daemon.events()

    assert [text for role, text in messages(events) if role == "assistant"] == ["It failed with 3."]
    assert [event["state"] for event in events if event["kind"] == "turn"][-1] == "completed"
