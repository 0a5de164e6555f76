"""What `tooltap gateway openai` taps: each conversation is its own stream, recorded once."""

from __future__ import annotations

import json
import re
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.command import here
from tests.cli.tap.gateways import TIMEOUT, answers, ask, chunk, completion, gateway, messages, streams
from tests.cli.tap.spooling import Place, until
from tests.cli.tap.test_attach import events_of, log, pieces, stop
from tests.cli.tap.test_proxy import without_names
from tests.daemon.running import Running
from tests.http_server import HttpServer, Request, Response

FIXTURES = Path(__file__).parents[2] / "fixtures"
CHAT = FIXTURES / "openai-chat" / "openai-written"
RESPONSES = FIXTURES / "openai-responses" / "responses-written"


def exchanges(recording: Path) -> list[tuple[bytes, list[bytes]]]:
    """The requests of a recording with the lines of their responses."""
    found: list[tuple[bytes, list[bytes]]] = []
    for line in recording.read_bytes().splitlines():
        record = json.loads(line)
        if "line" in record:
            record = record["line"]
            line = record.encode()
        if line.startswith(b"{") and {"messages", "input"} & set(json.loads(line)):
            found.append((line, []))
        else:
            found[-1][1].append(line)
    return found


def normalized(recording: Path, tmp_path: Path, dialect: str) -> list[dict[str, Any]]:
    named = tmp_path / "the-recording.jsonl"
    named.write_bytes(recording.read_bytes())
    return [json.loads(line) for line in here("normalize", "--dialect", dialect, named).stdout.splitlines()]


def same(events: list[dict[str, Any]], expected: list[dict[str, Any]]) -> bool:
    """Compare events without names and line numbers."""

    def told(event: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in without_names(event).items() if key != "line"}

    assert list(map(told, events)) == list(map(told, expected))
    return True


@pytest.mark.parametrize("name", ["whole", "agent"])
def test_exchanges_give_the_events_of_their_recording(name: str, daemon: Running, tmp_path: Path) -> None:
    """Responses are indented JSON, as sent by OpenAI."""
    told = exchanges(CHAT / f"{name}.jsonl")
    bodies = [json.dumps(json.loads(lines[0]), indent=2).encode() for _, lines in told if lines]
    with HttpServer(answers(*bodies)) as server, gateway(server.url, daemon.path) as (child, client):
        for request, lines in told:
            if lines:
                assert client.post("/openai/deployments/x/chat/completions", content=request).content in bodies
        stop(child)
    recording = tmp_path / "recorded"
    recording.write_bytes(b"".join(b"".join(one + b"\n" for one in (ask, *got)) for ask, got in told if got))

    assert same(events_of(daemon), normalized(recording, tmp_path, "openai-chat"))
    [stream] = streams(daemon)
    assert re.fullmatch("gateway-[0-9a-f]{16}", stream["stream"])
    assert (stream["dialect"], stream["state"]) == ("openai-chat", "ended")


def flushed_gzip() -> tuple[Callable[[bytes], bytes], Callable[[], bytes]]:
    """Compress so that each chunk can be decoded at once."""
    one = zlib.compressobj(wbits=31)
    return lambda data: one.compress(data) + one.flush(zlib.Z_SYNC_FLUSH), one.flush


@pytest.mark.parametrize("coding", ["", "gzip"])
def test_streamed_responses_give_the_events_of_their_recording(coding: str, daemon: Running, tmp_path: Path) -> None:
    """Chunks end anywhere; a compressed response passes unchanged."""
    recording = RESPONSES / "streamed.jsonl"
    told = exchanges(recording)
    left = [b"".join(line + b"\n" for line in lines) for _, lines in told]
    passed: list[bytes] = []

    def answer(request: Request, answer: Response) -> None:
        parts = pieces(left.pop(0), 1, 900, 37)
        if coding:
            encode, end = flushed_gzip()
            parts = [*map(encode, parts), end()]
        passed.append(b"".join(parts))
        answer.stream(*filter(None, parts), headers=(f"Content-Encoding: {coding}",) if coding else ())

    with HttpServer(answer) as server, gateway(server.url, daemon.path) as (child, client):
        for request, _ in told:
            with client.stream("POST", "/v1/responses", content=request) as response:
                assert b"".join(response.iter_raw()) == passed[-1]
        stop(child)

    *events, text, notice, end = events_of(daemon)
    *expected, _, _ = normalized(recording, tmp_path, "openai-responses")
    assert same(events, expected)
    assert len(streams(daemon)) == 1
    # The last answer of the recording breaks off.
    assert (text["text"], notice["code"]) == ("You are welcome", "provider-error")
    assert (end["state"], end["reason"]) == ("failed", "unfinished")


def test_unknown_encoding_is_a_loss(daemon: Running) -> None:
    def answer(request: Request, answer: Response) -> None:
        answer.whole(200, b"?" * 5_000, "Content-Encoding: rot13")

    with HttpServer(answer) as server, gateway(server.url, daemon.path) as (child, client):
        with client.stream("POST", "/v1/chat/completions", json=ask("Hi.")) as response:
            assert b"".join(response.iter_raw()) == b"?" * 5_000
        stop(child)
    [lost] = [event for event in events_of(daemon) if event["kind"] == "notice"]

    assert lost["data"] == {"lines": 1, "bytes": 5_000, "reason": "its coding 'rot13' is not known"}


def test_undecodable_stream_is_reported(daemon: Running) -> None:
    encode, _ = flushed_gzip()
    first, broken = encode(chunk("Hello.", "c-1")), b"\xff" * 100

    def answer(request: Request, answer: Response) -> None:
        answer.stream(first, broken, headers=("Content-Encoding: gzip",))

    with HttpServer(answer) as server, gateway(server.url, daemon.path) as (child, client):
        with client.stream("POST", "/v1/chat/completions", json=ask("Hi.", stream=True)) as response:
            assert b"".join(response.iter_raw()) == first + broken
        stop(child)
    events = events_of(daemon)
    [lost] = [event for event in events if event["kind"] == "notice"]

    assert messages(events) == [("user", "Hi."), ("assistant", "Hello.")]
    assert (lost["data"]["lines"], lost["data"]["bytes"]) == (1, 100)
    assert lost["data"]["reason"].startswith("its coding 'gzip' cannot be read: ")


def test_concurrent_exchanges_are_separate(daemon: Running) -> None:
    """Two responses arrive alternately in chunks; each conversation continues afterwards."""
    turn = {name: threading.Semaphore(0) for name in "AB"}

    def answer(request: Request, answer: Response) -> None:
        asked = json.loads(request.body)["messages"]
        name = asked[0]["content"]
        if len(asked) > 1:
            answer.whole(200, completion(f"{name} again", f"{name}-2"), "Content-Type: application/json")
            return
        answer.head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
        for piece in (chunk(f"{name}1 ", name), chunk(f"{name}2", name, "stop"), b"data: [DONE]\n\n", b""):
            assert turn[name].acquire(timeout=TIMEOUT)
            answer.chunk(piece)

    def converse(client: httpx.Client, name: str) -> None:
        other = turn["B" if name == "A" else "A"]
        with client.stream("POST", "/v1/chat/completions", json=ask(name, stream=True)) as response:
            for _ in response.iter_raw():
                other.release()
        other.release()
        client.post("/v1/chat/completions", json=ask(name, f"{name}1 {name}2", "more"))

    with HttpServer(answer) as server, gateway(server.url, daemon.path) as (child, client):
        threads = [threading.Thread(target=converse, args=(client, name)) for name in "AB"]
        for thread in threads:
            thread.start()
        until(lambda: len(server.requests) == 2)
        turn["A"].release()
        for thread in threads:
            thread.join(TIMEOUT)
        stop(child)
    by_stream: dict[str, list[tuple[str, str]]] = {}
    for event in events_of(daemon):
        by_stream.setdefault(event["stream"], []).extend(messages([event]))

    assert sorted(by_stream.values()) == [
        [("user", name), ("assistant", f"{name}1 {name}2"), ("user", "more"), ("assistant", f"{name} again")]
        for name in "AB"
    ]


def test_growing_history_is_recorded_once(daemon: Running) -> None:
    texts = [f"text {number}" for number in range(20)]

    def answer(request: Request, answer: Response) -> None:
        answer.whole(
            200, completion(texts[len(json.loads(request.body)["messages"])]), "Content-Type: application/json"
        )

    with HttpServer(answer) as server, gateway(server.url, daemon.path) as (child, client):
        for count in range(1, 20, 2):
            client.post("/v1/chat/completions", json=ask(*texts[:count]))
        stop(child)
    events = events_of(daemon)

    assert messages(events) == [(("user", "assistant")[number % 2], text) for number, text in enumerate(texts)]
    assert [event["state"] for event in events if event["kind"] == "turn"] == ["started", "completed"] * 10
    assert not any(event.get("replay") for event in events)


def test_subagents_conversation_belongs_to_its_call(daemon: Running) -> None:
    """It begins with the text that the call was given."""
    task = "Find where greet is defined."
    called = {"name": "task", "arguments": json.dumps({"description": "Find", "prompt": task})}
    calls = [{"id": "c1", "type": "function", "function": called}]
    spawn = {"role": "assistant", "content": None, "tool_calls": calls}
    spawning = {"id": "a", "choices": [{"index": 0, "message": spawn, "finish_reason": "tool_calls"}]}
    bodies = [json.dumps(spawning).encode(), completion("Line 4.", "b"), completion("Found it.", "c")]
    first = ask("Go.")
    last = {**first, "messages": [*first["messages"], spawn, {"role": "tool", "tool_call_id": "c1", "content": "4"}]}

    with HttpServer(answers(*bodies)) as server, gateway(server.url, daemon.path) as (child, client):
        for request in (first, ask(task), last):
            client.post("/v1/chat/completions", json=request)
        stop(child)
    events = events_of(daemon)

    assert len({event["session"] for event in events}) == 1
    inner = [event for event in events if event.get("agent") == "c1"]
    assert messages(inner) == [("user", task), ("assistant", "Line 4.")]
    assert {event["parent"] for event in inner} == {"c1"}
    assert messages([event for event in events if "agent" not in event]) == [
        ("user", "Go."),
        ("assistant", "Found it."),
    ]


def test_api_key_is_not_recorded(tmp_path: Path) -> None:
    place = Place(tmp_path)
    headers = {"Authorization": "Bearer sk-very-secret", "api-key": "sk-very-secret", "Cookie": "s=sk-very-secret"}
    with (
        HttpServer(answers(completion("Hello."), completion("Bye."))) as server,
        gateway(server.url, place.socket, **place.variables) as (child, client),
    ):
        client.post("/v1/chat/completions?key=sk-very-secret", json=ask("Hi."), headers=headers)
        until(lambda: any(b"Hello." in path.read_bytes() for path in place.spools))
        assert not any(b"secret" in path.read_bytes() for path in place.spools)
        with place.serving():
            client.post("/v1/chat/completions", json=ask("Hi.", "Hello.", "Go."), headers=headers)
            _, _, errors = stop(child)

    assert b"secret" not in errors
    assert not any(b"secret" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_spooled_conversations_arrive_once_after_kill(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with (
        HttpServer(lambda _, answer: answer.whole(200, completion("Yes."))) as server,
        gateway(server.url, place.socket, **place.variables) as (child, client),
    ):
        for name in "ABC":
            client.post("/v1/chat/completions", json=ask(name))
        until(lambda: sum(path.read_bytes().count(b"Yes.") for path in place.spools) == 3)
        assert "no daemon" in log(child, "lines wait in the spool")["reason"]
        child.kill()
    with place.serving() as daemon:
        daemon.wait_until_ended(3, "suspended")
        events = daemon.events()

    assert sorted(messages(events)) == [("assistant", "Yes.")] * 3 + [("user", name) for name in "ABC"]


def test_killed_daemon_gets_missed_lines_once(tmp_path: Path) -> None:
    place = Place(tmp_path)
    texts = [str(number) for number in range(6)]

    def answer(request: Request, answer: Response) -> None:
        answer.whole(200, completion(texts[len(json.loads(request.body)["messages"])]))

    with (
        HttpServer(answer) as server,
        gateway(server.url, place.socket, **place.variables) as (child, client),
    ):
        with place.serving() as daemon:
            client.post("/v1/chat/completions", json=ask(*texts[:1]))
            until(lambda: daemon.lines() == 3)
            daemon.process.kill()
        client.post("/v1/chat/completions", json=ask(*texts[:3]))
        with place.serving() as daemon:
            client.post("/v1/chat/completions", json=ask(*texts[:5]))
            until(lambda: daemon.lines() == 9)
            assert stop(child)[0] == 0
            daemon.wait_until_ended(1)
            assert [text for _, text in messages(daemon.events())] == texts


def test_oversized_exchange_is_reported(daemon: Running) -> None:
    with (
        HttpServer(answers(completion("x" * 9_000))) as server,
        gateway(server.url, daemon.path, "--line-bytes", 5_000) as (child, client),
    ):
        assert len(client.post("/v1/chat/completions", json=ask("Hi.")).content) > 9_000
        stop(child)
    [told] = [event for event in events_of(daemon) if event["kind"] == "unparsed"]

    assert (told["reason"], told["bytes"]) == ("too-long", len(completion("x" * 9_000)))


def test_loss_from_memory_limit_is_reported(daemon: Running) -> None:
    body = completion("x" * 9_000)
    with (
        HttpServer(answers(body)) as server,
        gateway(server.url, daemon.path, "--memory-bytes", 5_000) as (child, client),
    ):
        assert client.post("/v1/chat/completions", json=ask("Hi.")).content == body
        stop(child)
    events = events_of(daemon)

    assert messages(events) == [("user", "Hi.")]
    [lost] = [event for event in events if event.get("code") == "lost"]
    assert lost["data"] == {"lines": 1, "bytes": len(body), "reason": "the gateway's tap did not keep up"}


@pytest.mark.parametrize("option", [("--conversations", 2), ("--idle", 0.01)])
def test_excess_and_idle_conversations_are_ended(option: tuple[str, object], daemon: Running) -> None:
    with (
        HttpServer(lambda _, answer: answer.whole(200, completion("Yes."))) as server,
        gateway(server.url, daemon.path, *option) as (_, client),
    ):
        for name in "ABC":
            client.post("/v1/chat/completions", json=ask(name))
        left = 2 if option[0] == "--conversations" else 0
        until(lambda: daemon.stats()["streams"] == {"open": left, "suspended": 0, "ended": 3 - left})


@pytest.mark.parametrize(
    ("options", "model", "provider"),
    [
        ([], "qwen3-coder", "alibaba"),
        ([], "some-model", "openai"),
        (["--provider", "mine"], "qwen3-coder", "mine"),
    ],
)
def test_events_name_the_provider(options: list[str], model: str, provider: str, daemon: Running) -> None:
    with (
        HttpServer(answers(completion("Hello"))) as server,
        gateway(server.url, daemon.path, *options) as (child, client),
    ):
        client.post("/v1/chat/completions", json={**ask("Hi"), "model": model})
        stop(child)

    assert {event["provider"] for event in events_of(daemon)} == {provider}
