"""`tooltap gateway`: requests that a model's server refuses for the moment, and that their client makes again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.tap.gateways import ask, completion, gateway, messages, streams
from tests.cli.tap.spooling import until
from tests.cli.tap.test_attach import events_of, stop
from tests.daemon.running import Running, running
from tests.http_server import HttpServer, Request, Response

BUSY = b'{"error":{"message":"Later.","code":"busy","type":"busy","status":"busy"}}'
TURN = {"role": "user", "parts": [{"text": "hi"}]}
SAID = {"content": [{"type": "output_text", "text": "Hello."}], "type": "message", "role": "assistant", "id": "m"}
APIS = {
    "/v1/chat/completions": (ask("hi"), json.loads(completion("Hello."))),
    "/v1/responses": (
        {"model": "m", "input": "hi"},
        {"object": "response", "id": "r", "status": "completed", "output": [SAID]},
    ),
    "/v1/messages": (
        ask("hi"),
        {"type": "message", "id": "m", "stop_reason": "end_turn", "content": [{"type": "text", "text": "Hello."}]},
    ),
    "/v1beta/models/m:generateContent": (
        {"contents": [TURN]},
        {"candidates": [{"finishReason": "STOP", "content": {"role": "model", "parts": [{"text": "Hello."}]}}]},
    ),
}
CHAT = "/v1/chat/completions"


class Server(HttpServer):
    """Answers one request after the other with these statuses, and with an answer of the API if that is 200."""

    def __init__(self, *statuses: int, answer: Any = APIS[CHAT][1]) -> None:
        self._left = list(statuses)
        self._answer = json.dumps(answer).encode()
        super().__init__(self._respond)

    def _respond(self, request: Request, answer: Response) -> None:
        status = self._left.pop(0)
        answer.whole(status, self._answer if status == 200 else BUSY, "Content-Type: application/json")


def turns(daemon: Running) -> list[tuple[str, str, bool]]:
    found = [event for event in events_of(daemon) if event["kind"] == "turn"]
    return [(event["turn"], event["state"], event.get("provisional", False)) for event in found]


def status(daemon: Running) -> Any:
    with daemon.connect() as wire:
        [row] = wire.ask("sessions")["sessions"]
        return row["status"], row.get("errors", 0)


@pytest.mark.parametrize("path", APIS)
def test_answer_to_a_request_that_is_made_again_is_in_its_turn(daemon: Running, path: str) -> None:
    request, answer = APIS[path]
    with Server(429, 503, 200, answer=answer) as server, gateway(server.url, daemon.path) as (child, client):
        seen = [client.post(path, json=request).status_code for _ in range(3)]
        stop(child)

    assert seen == [429, 503, 200]
    assert turns(daemon) == [("t1", "started", False), ("t1", "completed", False)]
    assert messages(events_of(daemon)) == [("user", "hi"), ("assistant", "Hello.")]
    assert [one["text"] for one in events_of(daemon) if one["kind"] == "notice"] == ["Later.", "Later."]
    assert len(streams(daemon)) == 1


def test_turn_has_failed_when_no_request_follows_for_a_while(settling: Running) -> None:
    with Server(429) as server, gateway(server.url, settling.path) as (child, client):
        client.post(CHAT, json=ask("hi"))
        until(lambda: turns(settling) == [("t1", "started", False), ("t1", "failed", True)])
        shown = status(settling)
        stop(child)

    assert shown == ("failed", 1)
    assert turns(settling)[2:] == [("t1", "failed", False)]
    assert status(settling) == ("failed", 1)


def test_turn_that_seemed_to_have_failed_goes_on_with_a_late_retry(settling: Running) -> None:
    """The server says when to come back, which may be in a minute."""
    with Server(429, 200) as server, gateway(server.url, settling.path) as (child, client):
        client.post(CHAT, json=ask("hi"))
        until(lambda: len(turns(settling)) == 2)
        client.post(CHAT, json=ask("hi"))
        stop(child)

    assert turns(settling) == [("t1", "started", False), ("t1", "failed", True), ("t1", "completed", False)]
    assert status(settling) == ("completed", 0)


def test_turn_fails_when_another_request_follows(daemon: Running) -> None:
    with Server(429, 200) as server, gateway(server.url, daemon.path) as (child, client):
        client.post(CHAT, json=ask("hi"))
        client.post(CHAT, json={"messages": [*ask("hi")["messages"], *ask("well?")["messages"]]})
        stop(child)

    assert [one[:2] for one in turns(daemon)] == [
        ("t1", "started"),
        ("t1", "failed"),
        ("t2", "started"),
        ("t2", "completed"),
    ]


def test_turn_fails_at_once_when_the_request_is_wrong(daemon: Running) -> None:
    with Server(400) as server, gateway(server.url, daemon.path) as (_, client):
        client.post(CHAT, json=ask("hi"))
        until(lambda: turns(daemon) == [("t1", "started", False), ("t1", "failed", False)])


def test_retry_after_a_restart_of_the_daemon_is_in_its_turn(tmp_path: Path) -> None:
    path = tmp_path / "run" / "t.sock"
    with Server(429, 200) as server, gateway(server.url, path) as (child, client):
        with running(tmp_path) as daemon:
            client.post(CHAT, json=ask("hi"))
            until(lambda: any(one["kind"] == "notice" for one in events_of(daemon)))
        with running(tmp_path) as daemon:
            client.post(CHAT, json=ask("hi"))
            until(lambda: turns(daemon) == [("t1", "started", False), ("t1", "completed", False)])
            stop(child)
