"""`tooltap gateway openai`: requests and answers pass as they are, and each conversation is a stream of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.command import Child, environment, here, sentence, start, tooltap
from tests.cli.spooling import Place, until
from tests.cli.test_attach import events_of, log, pieces, stop
from tests.cli.test_proxy import without_names
from tests.daemon.running import Running
from tests.http_server import Answer, HttpServer, Request

FIXTURES = Path(__file__).parent.parent / "fixtures"
CHAT = FIXTURES / "openai-chat" / "openai-written"
RESPONSES = FIXTURES / "openai-responses" / "responses-written"
TIMEOUT = 60


@contextmanager
def gateway(upstream: str, socket: Path, *options: object, **changes: str) -> Iterator[tuple[Child, httpx.Client]]:
    """A gateway, and a client of it."""
    arguments = ["--upstream", upstream, "--listen", "127.0.0.1:0", "--socket", socket, *options]
    with start("gateway", "openai", *arguments, env=environment(**changes)) as child:
        url = log(child, "listening")["url"]
        with httpx.Client(base_url=url, timeout=TIMEOUT, trust_env=False) as client:
            yield child, client


def exchanges(recording: Path) -> list[tuple[bytes, list[bytes]]]:
    """The requests of a recording, each with the lines of its answer."""
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
    """But for names and numbers of lines."""

    def told(event: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in without_names(event).items() if key != "line"}

    assert list(map(told, events)) == list(map(told, expected))
    return True


def streams(daemon: Running) -> list[dict[str, Any]]:
    return list(daemon.stats()["perStream"])[::-1]


def answers(*bodies: bytes) -> Callable[[Request, Answer], None]:
    """One after the other."""
    left = list(bodies)
    return lambda _, answer: answer.whole(200, left.pop(0), "Content-Type: application/json")


def completion(text: str, answer_id: str = "c-1") -> bytes:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps({"id": answer_id, "object": "chat.completion", "choices": [choice]}).encode()


def chunk(text: str, answer_id: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return b"data: %s\n\n" % json.dumps({"id": answer_id, "choices": [choice]}).encode()


def ask(*contents: str, stream: bool = False) -> dict[str, Any]:
    """A request that repeats a conversation: user, assistant, user, …"""
    roles = ("user", "assistant")
    messages = [{"role": roles[index % 2], "content": text} for index, text in enumerate(contents)]
    return {"model": "m", "messages": messages, **({"stream": True} if stream else {})}


def said(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["role"], event["text"]) for event in events if event["kind"] == "message"]


# -- what passes -------------------------------------------------------------------------------------------------


def test_requests_and_answers_pass_as_they_are(daemon: Running) -> None:
    body = bytes(range(256)) * 500

    def answer(request: Request, answer: Answer) -> None:
        headers = [
            "Set-Cookie: a=1",
            "Set-Cookie: b=2",
            "Server: theirs",
            "X-Odd:  kept",
            "Connection: x-mine",
            "X-Mine: 1",
        ]
        answer.whole(418, body[::-1], *headers)

    with HttpServer(answer) as server, gateway(f"{server.url}/api/", daemon.path) as (_, client):
        target = "/v1/mod%2Fels/%7Ex?a=b%20c&d=[1]|e&&=%E2%82%AC"
        sent = [
            ("Authorization", "Bearer key"),
            ("X-Twice", "1"),
            ("X-Twice", "2"),
            ("TE", "trailers"),
            ("Cookie", "c"),
        ]
        url = httpx.URL(str(client.base_url)).copy_with(raw_path=target.encode())
        request = httpx.Request("DELETE", url, headers=sent, content=body)
        response = client.send(request, auth=None)
    [seen] = server.requests

    assert (seen.method, seen.target, seen.body) == ("DELETE", f"/api{target}", body)
    assert sorted((key.lower(), value) for key, value in seen.headers) == [
        ("authorization", "Bearer key"),
        ("content-length", str(len(body))),
        ("cookie", "c"),
        ("host", server.url.removeprefix("http://")),
        ("x-twice", "1"),
        ("x-twice", "2"),
    ]
    assert (response.status_code, response.content) == (418, body[::-1])
    assert [(key.decode().lower(), value.decode()) for key, value in response.headers.raw] == [
        ("content-length", str(len(body))),
        ("set-cookie", "a=1"),
        ("set-cookie", "b=2"),
        ("server", "theirs"),
        ("x-odd", "kept"),
    ]
    assert streams(daemon) == []


def test_other_paths_and_a_body_without_length_pass(daemon: Running) -> None:
    with (
        HttpServer(lambda request, answer: answer.whole(200, request.body)) as server,
        gateway(server.url, daemon.path) as (_, client),
    ):
        assert client.get("/v1/models").content == b""
        assert client.post("/v1/embeddings", content=iter([b"one", b"two"])).content == b"onetwo"
        assert client.head("/").status_code == 200

    assert [request.method for request in server.requests] == ["GET", "POST", "HEAD"]
    assert streams(daemon) == []


def test_a_stream_passes_undelayed(daemon: Running) -> None:
    """The server goes on only when the client has what came before."""
    seen = threading.Semaphore(0)

    def answer(request: Request, answer: Answer) -> None:
        answer.head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
        for piece in (b"d", b"ata: ", b"x\n", b"\n"):
            answer.chunk(piece)
            assert seen.acquire(timeout=TIMEOUT)
        answer.chunk(b"")

    with HttpServer(answer) as server, gateway(server.url, daemon.path) as (_, client):
        got = []
        with client.stream("POST", "/v1/chat/completions", json=ask("hi", stream=True)) as response:
            for piece in response.iter_raw():
                got.append(piece)
                seen.release()

    assert got == [b"d", b"ata: ", b"x\n", b"\n"]


@pytest.mark.parametrize("begun", [False, True], ids=["before-the-answer", "in-the-answer"])
def test_a_client_that_leaves_cancels_its_request(begun: bool, daemon: Running) -> None:
    asked, left = threading.Event(), threading.Event()

    def answer(request: Request, answer: Answer) -> None:
        if begun:
            answer.head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
            answer.chunk(chunk("partly", "c-1"))
        asked.set()
        answer.wait_until_left()
        left.set()

    with HttpServer(answer) as server, gateway(server.url, daemon.path) as (_, client):
        address = (client.base_url.host, client.base_url.port)
        body = json.dumps(ask("hi", stream=True)).encode()
        with socket.create_connection(address) as connection:
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            assert asked.wait(TIMEOUT)
            if begun:
                while b"partly" not in connection.recv(65_536):
                    pass
        assert left.wait(TIMEOUT)
        until(lambda: said(events_of(daemon)) == [("user", "hi")])


def test_a_client_that_leaves_before_it_has_asked_is_not_told_of(daemon: Running) -> None:
    left = threading.Event()

    def answer(request: Request, answer: Answer) -> None:
        if request.body == b'{"messages":':  # and no more came
            left.set()
        else:
            answer.whole(200, completion("Hello."))

    with HttpServer(answer) as server, gateway(server.url, daemon.path) as (child, client):
        with socket.create_connection((client.base_url.host, client.base_url.port)) as connection:
            head = "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n"
            connection.sendall(head.encode() + b'{"messages":')
            assert server.connected.wait(TIMEOUT)
        assert left.wait(TIMEOUT)
        client.post("/v1/chat/completions", json=ask("Hi."))
        code, _, errors = stop(child)

    assert (code, errors) == (0, b"")
    assert [one["lines"] for one in streams(daemon)] == [2]


def test_an_answer_that_breaks_off_breaks_off(daemon: Running) -> None:
    def answer(request: Request, answer: Answer) -> None:
        answer.head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
        answer.chunk(chunk("partly", "c-1"))
        answer.break_off()

    with HttpServer(answer) as server, gateway(server.url, daemon.path) as (child, client):
        with client.stream("POST", "/v1/chat/completions", json=ask("hi", stream=True)) as response:
            got = response.iter_raw()
            assert b"partly" in next(got)
            with pytest.raises(httpx.RemoteProtocolError):
                list(got)
        assert "peer closed connection" in log(child, "the server broke an answer off")["reason"]
        code, _, errors = stop(child)

    assert (code, b"Traceback" in errors) == (0, False)
    assert said(events_of(daemon)) == [("user", "hi"), ("assistant", "partly")]


def test_errors_of_the_server_pass_and_are_told(daemon: Running) -> None:
    body = b'{\n  "error": {"message": "Too many.", "type": "requests", "code": "rate_limit"}\n}\n'
    with (
        HttpServer(lambda _, answer: answer.whole(429, body, "Retry-After: 7")) as server,
        gateway(server.url, daemon.path) as (child, client),
    ):
        response = client.post("/v1/chat/completions", json=ask("hi"))
        stop(child)

    assert (response.status_code, response.content, response.headers["retry-after"]) == (429, body, "7")
    [notice] = [event for event in events_of(daemon) if event["kind"] == "notice"]
    assert (notice["code"], notice["text"]) == ("provider-error", "Too many.")


def test_a_server_that_is_away_is_a_502(daemon: Running) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with gateway(f"http://127.0.0.1:{port}", daemon.path) as (child, client):
        response = client.post("/v1/chat/completions", json=ask("hi"))
        assert log(child, "the server cannot be reached")["upstream"] == f"http://127.0.0.1:{port}"
        stop(child)

    assert (response.status_code, response.headers["content-type"]) == (502, "application/json")
    error = response.json()["error"]
    assert error["message"].startswith(f"tooltap gateway: http://127.0.0.1:{port} cannot be reached: ")
    assert (error["type"], error["code"]) == ("gateway_error", 502)
    assert [event["text"] for event in events_of(daemon) if event["kind"] == "notice"] == [error["message"]]


# -- what is tapped ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["whole", "agent"])
def test_whole_exchanges_give_the_events_of_their_recording(name: str, daemon: Running, tmp_path: Path) -> None:
    """Answers come printed over several lines, as OpenAI sends them."""
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
    """Compresses what it is given so that it can be read at once."""
    one = zlib.compressobj(wbits=31)
    return lambda data: one.compress(data) + one.flush(zlib.Z_SYNC_FLUSH), one.flush


@pytest.mark.parametrize("coding", ["", "gzip"])
def test_streamed_answers_give_the_events_of_their_recording(coding: str, daemon: Running, tmp_path: Path) -> None:
    """In chunks that end anywhere; a compressed answer passes as it is."""
    recording = RESPONSES / "streamed.jsonl"
    told = exchanges(recording)
    left = [b"".join(line + b"\n" for line in lines) for _, lines in told]
    passed: list[bytes] = []

    def answer(request: Request, answer: Answer) -> None:
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

    assert same(events_of(daemon), normalized(recording, tmp_path, "openai-responses"))
    assert len(streams(daemon)) == 1


def test_a_coding_nobody_knows_is_a_loss(daemon: Running) -> None:
    def answer(request: Request, answer: Answer) -> None:
        answer.whole(200, b"?" * 5_000, "Content-Encoding: rot13")

    with HttpServer(answer) as server, gateway(server.url, daemon.path) as (child, client):
        with client.stream("POST", "/v1/chat/completions", json=ask("Hi.")) as response:
            assert b"".join(response.iter_raw()) == b"?" * 5_000
        stop(child)
    [lost] = [event for event in events_of(daemon) if event["kind"] == "notice"]

    assert lost["data"] == {"lines": 1, "bytes": 5_000, "reason": "its coding 'rot13' is not known"}


def test_a_stream_that_cannot_be_decoded_to_its_end_says_so(daemon: Running) -> None:
    encode, _ = flushed_gzip()
    first, broken = encode(chunk("Hello.", "c-1")), b"\xff" * 100

    def answer(request: Request, answer: Answer) -> None:
        answer.stream(first, broken, headers=("Content-Encoding: gzip",))

    with HttpServer(answer) as server, gateway(server.url, daemon.path) as (child, client):
        with client.stream("POST", "/v1/chat/completions", json=ask("Hi.", stream=True)) as response:
            assert b"".join(response.iter_raw()) == first + broken
        stop(child)
    events = events_of(daemon)
    [lost] = [event for event in events if event["kind"] == "notice"]

    assert said(events) == [("user", "Hi."), ("assistant", "Hello.")]
    assert (lost["data"]["lines"], lost["data"]["bytes"]) == (1, 100)
    assert lost["data"]["reason"].startswith("its coding 'gzip' cannot be read: ")


def test_exchanges_at_the_same_time_are_told_apart(daemon: Running) -> None:
    """Two answers come piece by piece in turn; each conversation goes on afterwards."""
    turn = {name: threading.Semaphore(0) for name in "AB"}

    def answer(request: Request, answer: Answer) -> None:
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
        by_stream.setdefault(event["stream"], []).extend(said([event]))

    assert sorted(by_stream.values()) == [
        [("user", name), ("assistant", f"{name}1 {name}2"), ("user", "more"), ("assistant", f"{name} again")]
        for name in "AB"
    ]


def test_a_growing_history_is_told_once(daemon: Running) -> None:
    texts = [f"text {number}" for number in range(20)]

    def answer(request: Request, answer: Answer) -> None:
        answer.whole(
            200, completion(texts[len(json.loads(request.body)["messages"])]), "Content-Type: application/json"
        )

    with HttpServer(answer) as server, gateway(server.url, daemon.path) as (child, client):
        for count in range(1, 20, 2):
            client.post("/v1/chat/completions", json=ask(*texts[:count]))
        stop(child)
    events = events_of(daemon)

    assert said(events) == [(("user", "assistant")[number % 2], text) for number, text in enumerate(texts)]
    assert [event["state"] for event in events if event["kind"] == "turn"] == ["started", "completed"] * 10
    assert not any(event.get("replay") for event in events)


def test_the_key_is_nowhere(tmp_path: Path) -> None:
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


def test_conversations_wait_in_the_spool_and_come_once_though_it_is_killed(tmp_path: Path) -> None:
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
        daemon.wait_until_ended(3)
        events = daemon.events()

    assert sorted(said(events)) == [("assistant", "Yes.")] * 3 + [("user", name) for name in "ABC"]


def test_a_daemon_that_is_killed_gets_what_it_missed_and_nothing_twice(tmp_path: Path) -> None:
    place = Place(tmp_path)
    texts = [str(number) for number in range(6)]

    def answer(request: Request, answer: Answer) -> None:
        answer.whole(200, completion(texts[len(json.loads(request.body)["messages"])]))

    with (
        HttpServer(answer) as server,
        gateway(server.url, place.socket, **place.variables) as (child, client),
    ):
        with place.serving() as daemon:
            client.post("/v1/chat/completions", json=ask(*texts[:1]))
            until(lambda: daemon.lines() == 2)
            daemon.process.kill()
        client.post("/v1/chat/completions", json=ask(*texts[:3]))
        with place.serving() as daemon:
            client.post("/v1/chat/completions", json=ask(*texts[:5]))
            until(lambda: daemon.lines() == 6)
            assert stop(child)[0] == 0
            daemon.wait_until_ended(1)
            assert [text for _, text in said(daemon.events())] == texts


# -- bounds ------------------------------------------------------------------------------------------------------


def test_what_is_too_long_is_told(daemon: Running) -> None:
    with (
        HttpServer(answers(completion("x" * 9_000))) as server,
        gateway(server.url, daemon.path, "--line-bytes", 5_000) as (child, client),
    ):
        assert len(client.post("/v1/chat/completions", json=ask("Hi.")).content) > 9_000
        stop(child)
    [told] = [event for event in events_of(daemon) if event["kind"] == "unparsed"]

    assert (told["reason"], told["bytes"]) == ("too-long", len(completion("x" * 9_000)))


def test_what_there_is_no_memory_for_is_told_to_be_lost(daemon: Running) -> None:
    body = completion("x" * 9_000)
    with (
        HttpServer(answers(body)) as server,
        gateway(server.url, daemon.path, "--memory-bytes", 5_000) as (child, client),
    ):
        assert client.post("/v1/chat/completions", json=ask("Hi.")).content == body
        stop(child)
    events = events_of(daemon)

    assert said(events) == [("user", "Hi.")]
    [lost] = [event for event in events if event.get("code") == "lost"]
    assert lost["data"] == {"lines": 1, "bytes": len(body), "reason": "the gateway's tap did not keep up"}


@pytest.mark.parametrize("option", [("--conversations", 2), ("--idle", 0.01)])
def test_conversations_beyond_the_limit_and_idle_ones_are_ended(option: tuple[str, object], daemon: Running) -> None:
    with (
        HttpServer(lambda _, answer: answer.whole(200, completion("Yes."))) as server,
        gateway(server.url, daemon.path, *option) as (_, client),
    ):
        for name in "ABC":
            client.post("/v1/chat/completions", json=ask(name))
        left = 2 if option[0] == "--conversations" else 0
        until(lambda: daemon.stats()["streams"] == {"open": left, "suspended": 0, "ended": 3 - left})


# -- what it refuses ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--listen", "0.0.0.0:0"], 1, "0.0.0.0 can be reached from other machines: that needs --allow-remote"),
        (["--listen", "here"], 2, "--listen is HOST:PORT"),
        (["--upstream", "localhost:11434"], 1, "'localhost:11434' is not the URL of a server"),
        (["--upstream", "http://user:word@host"], 1, "is not the URL of a server"),
    ],
)
def test_wrong_options_are_one_sentence(options: list[str], code: int, words: str) -> None:
    finished = here("gateway", "openai", "--upstream", "http://127.0.0.1:1", *options)

    assert finished.returncode == code
    assert words in sentence(finished)


def test_a_port_that_is_taken_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        finished = here("gateway", "openai", "--upstream", "http://127.0.0.1:1", "--listen", address)

    assert finished.returncode == 1
    assert sentence(finished) == f"cannot listen on {address}: Address already in use"


def test_a_name_that_a_web_page_made_is_refused(daemon: Running) -> None:
    with HttpServer(answers(b"{}", b"{}")) as server, gateway(server.url, daemon.path) as (_, client):
        refused = client.get("/v1/models", headers={"Host": f"evil.example:{client.base_url.port}"})
        assert client.get("/v1/models", headers={"Host": "localhost"}).status_code == 200
        assert client.get("/v1/models", headers={"Host": "[::1]:80"}).status_code == 200

    assert (refused.status_code, refused.json()["error"]["code"]) == (403, 403)
    assert len(server.requests) == 2


def test_with_allow_remote_any_name_is_taken(daemon: Running) -> None:
    with HttpServer(answers(b"{}")) as server, gateway(server.url, daemon.path, "--allow-remote") as (_, client):
        assert client.get("/v1/models", headers={"Host": "gateway.lan"}).status_code == 200


@pytest.mark.parametrize("package", ["uvicorn", "brotli"])
def test_without_the_extra_it_says_what_to_install(package: str, tmp_path: Path) -> None:
    (tmp_path / f"{package}.py").write_text(f"raise ModuleNotFoundError(name={package!r})")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    finished = tooltap("gateway", "openai", "--upstream", "http://127.0.0.1:1", PYTHONPATH=path)

    assert finished.returncode == 1
    assert sentence(finished) == f"{package} is not installed: pip install 'tooltap[gateway]'"


def test_it_ends_at_a_signal_while_an_answer_passes(daemon: Running) -> None:
    """What is under way is given a moment; a second does not matter to anybody who stops it."""
    over = threading.Event()

    def answer(request: Request, answer: Answer) -> None:
        answer.head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
        answer.chunk(chunk("first", "c-1"))
        over.wait(TIMEOUT)
        answer.chunk(chunk(" last", "c-1", "stop"))
        answer.chunk(b"")

    with HttpServer(answer) as server, gateway(server.url, daemon.path) as (child, client):
        with client.stream("POST", "/v1/chat/completions", json=ask("Hi.", stream=True)) as response:
            got = response.iter_raw()
            assert b"first" in next(got)
            child.send_signal(signal.SIGINT)
            until(lambda: refuses(client.base_url))
            over.set()
            assert b"last" in b"".join(got)
        assert child.end()[0] == 0

    assert said(events_of(daemon)) == [("user", "Hi."), ("assistant", "first last")]


def refuses(url: httpx.URL) -> bool:
    try:
        socket.create_connection((url.host, url.port)).close()
    except ConnectionRefusedError:
        return True
    return False
