"""`tooltap gateway openai`: requests and responses pass unchanged, and foreign clients are rejected."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path

import httpx
import pytest

from tests.cli.command import here, sentence, start, tooltap
from tests.cli.tap.gateways import TIMEOUT, answers, ask, chunk, completion, gateway, messages, streams
from tests.cli.tap.spooling import until
from tests.cli.tap.test_attach import events_of, log, stop
from tests.daemon.constants import VARIABLE
from tests.daemon.running import Running
from tests.http_server import HttpServer, Request, Response


def test_requests_and_responses_pass_unchanged(daemon: Running) -> None:
    body = bytes(range(256)) * 500

    def answer(request: Request, answer: Response) -> None:
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


@pytest.mark.parametrize(
    ("upstream", "path", "target"),
    [
        ("", "/v1/models", "/v1/models"),
        ("/v1", "/models", "/v1/models"),
        ("/v1", "/v1/models", "/v1/models"),
        ("/api/v1/", "/v1/models", "/api/v1/models"),
        ("/v1beta/openai", "/v1/models", "/v1beta/openai/v1/models"),
        ("/v1", "/v10/models", "/v1/v10/models"),
    ],
)
def test_version_of_both_addresses_is_sent_once(daemon: Running, upstream: str, path: str, target: str) -> None:
    with HttpServer(answers(b"{}")) as server, gateway(server.url + upstream, daemon.path) as (_, client):
        client.get(path)

    assert [request.target for request in server.requests] == [target]


def test_other_paths_and_chunked_bodies_pass(daemon: Running) -> None:
    with (
        HttpServer(lambda request, answer: answer.whole(200, request.body)) as server,
        gateway(server.url, daemon.path) as (_, client),
    ):
        assert client.get("/v1/models").content == b""
        assert client.post("/v1/embeddings", content=iter([b"one", b"two"])).content == b"onetwo"
        assert client.head("/").status_code == 200

    assert [request.method for request in server.requests] == ["GET", "POST", "HEAD"]
    assert streams(daemon) == []


def test_request_for_a_websocket_is_refused_and_not_forwarded(daemon: Running) -> None:
    """Codex 0.171 dials a WebSocket first, and falls back to plain requests only after 426."""
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "x", "Sec-WebSocket-Version": "13"}
    with (
        HttpServer(lambda _, answer: answer.whole(404, b"")) as server,
        gateway(server.url, daemon.path) as (child, client),
    ):
        response = client.get("/v1/responses", headers=headers)
        code, _, errors = stop(child)

    assert (response.status_code, response.headers["upgrade"]) == (426, "HTTP/1.1")
    assert "WebSocket" in response.json()["error"]["message"]
    assert (server.requests, code, errors) == ([], 0, b"")


def test_offer_to_upgrade_is_left_out(daemon: Running) -> None:
    """Java's client offers HTTP/2 with each plain request."""
    headers = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQAAP__"}
    with HttpServer(answers(completion("Hi."))) as server, gateway(server.url, daemon.path) as (_, client):
        assert client.post("/v1/chat/completions", json=ask("hi"), headers=headers).status_code == 200

    assert [one for one in ("upgrade", "http2-settings") if server.requests[0].header(one) is not None] == []


def test_stream_passes_without_delay(daemon: Running) -> None:
    """The server continues only after the client has received each chunk."""
    seen = threading.Semaphore(0)

    def answer(request: Request, answer: Response) -> None:
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


def ends(daemon: Running) -> list[tuple[str, str | None]]:
    """Outcomes and reasons of the turns that have ended."""
    turns = [event for event in events_of(daemon) if event["kind"] == "turn" and event["state"] != "started"]
    return [(event["state"], event.get("reason")) for event in turns]


@pytest.mark.parametrize("begun", [False, True], ids=["before-the-answer", "in-the-answer"])
def test_disconnected_client_cancels_its_request(begun: bool, daemon: Running) -> None:
    asked, left = threading.Event(), threading.Event()

    def answer(request: Request, answer: Response) -> None:
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
        until(lambda: ends(daemon) == [("cancelled", "client-left")])
        partly = [("assistant", "partly")] if begun else []
        assert messages(events_of(daemon)) == [("user", "hi"), *partly]


def test_disconnect_before_request_is_not_recorded(daemon: Running) -> None:
    left = threading.Event()

    def answer(request: Request, answer: Response) -> None:
        if request.body == b'{"messages":':  # the rest never arrives
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
    assert [one["lines"] for one in streams(daemon)] == [3]


def test_truncated_response_stays_truncated(settling: Running) -> None:
    def answer(request: Request, answer: Response) -> None:
        answer.head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
        answer.chunk(chunk("partly", "c-1"))
        answer.break_off()

    with HttpServer(answer) as server, gateway(server.url, settling.path) as (child, client):
        with client.stream("POST", "/v1/chat/completions", json=ask("hi", stream=True)) as response:
            got = response.iter_raw()
            assert b"partly" in next(got)
            with pytest.raises(httpx.RemoteProtocolError):
                list(got)
        assert "peer closed connection" in log(child, "the server broke off an answer")["reason"]
        until(lambda: ends(settling) == [("failed", "connection-lost")])
        code, _, errors = stop(child)

    assert (code, b"Traceback" in errors) == (0, False)
    assert messages(events_of(settling)) == [("user", "hi"), ("assistant", "partly")]


def test_server_errors_pass_and_are_recorded(daemon: Running) -> None:
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


def test_page_in_place_of_an_answer_is_a_notice(settling: Running) -> None:
    page = b"<html>\n<body>Bad gateway</body>\n</html>\n"
    with (
        HttpServer(lambda _, answer: answer.whole(502, page, "Content-Type: text/html")) as server,
        gateway(server.url, settling.path) as (_, client),
    ):
        assert client.post("/v1/responses", json={"model": "m", "input": "hi", "stream": True}).content == page
        until(lambda: ends(settling) == [("failed", "502")])
    events = events_of(settling)

    [notice] = [event for event in events if event["kind"] == "notice"]
    assert (notice["text"], notice["data"]["status"]) == ("HTTP 502 Bad Gateway", 502)
    assert [event for event in events if event["kind"] == "unparsed"] == []


def test_unreachable_server_is_a_502(daemon: Running) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # it refuses connections, and nobody else gets its port
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


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--listen", "0.0.0.0:0"], 1, "0.0.0.0 can be reached from other machines: that needs --allow-remote"),
        (["--listen", "here"], 2, "--listen is unix:PATH, or HOST:PORT"),
        (["--upstream", "localhost:11434"], 1, "'localhost:11434' is not the URL of a server"),
        (["--upstream", "http://user:word@host"], 1, "is not the URL of a server"),
    ],
)
def test_invalid_options_are_one_sentence(options: list[str], code: int, words: str) -> None:
    finished = here("gateway", "openai", "--upstream", "http://127.0.0.1:1", *options)

    assert finished.returncode == code
    assert words in sentence(finished)


def test_port_in_use_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        finished = here("gateway", "openai", "--upstream", "http://127.0.0.1:1", "--listen", address)

    assert finished.returncode == 1
    assert sentence(finished) == f"cannot listen on {address}: Address already in use"


def test_foreign_host_header_is_rejected(daemon: Running) -> None:
    with HttpServer(answers(b"{}", b"{}")) as server, gateway(server.url, daemon.path) as (_, client):
        refused = client.get("/v1/models", headers={"Host": f"evil.example:{client.base_url.port}"})
        assert client.get("/v1/models", headers={"Host": "localhost"}).status_code == 200
        assert client.get("/v1/models", headers={"Host": "[::1]:80"}).status_code == 200

    assert (refused.status_code, refused.json()["error"]["code"]) == (403, 403)
    assert len(server.requests) == 2


def test_further_names_and_addresses_need_the_key(daemon: Running, tmp_path: Path) -> None:
    options = ("--host", "gateway.lan", "--allow-remote", "--key-file", tmp_path / "key")
    with HttpServer(answers(b"{}", b"{}")) as server, gateway(server.url, daemon.path, *options) as (_, client):
        key = here("gateway", "key", "--key-file", tmp_path / "key").stdout.decode().strip()
        for host in ("gateway.lan", "192.0.2.7:80"):
            refused = client.get("/v1/models", headers={"Host": host})
            assert refused.status_code == 401
            assert "tooltap gateway key" in refused.json()["error"]["message"]
            assert client.get(f"/key-{key}/v1/models", headers={"Host": host}).status_code == 200
        assert client.get(f"/key-{key}/v1/models", headers={"Host": "other.lan"}).status_code == 403

    assert [request.target for request in server.requests] == ["/v1/models"] * 2
    assert os.stat(tmp_path / "key").st_mode & 0o777 == 0o600


def test_key_in_place_of_an_api_key_does_not_reach_the_server(daemon: Running, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k" * 43)
    (tmp_path / "key").chmod(0o600)
    options = ("--key-file", tmp_path / "key")
    with HttpServer(answers(b"{}")) as server, gateway(server.url, daemon.path, *options) as (_, client):
        assert client.get("/v1/models", headers={"Authorization": f"Bearer {'k' * 43}"}).status_code == 200
    [seen] = server.requests

    assert seen.header("authorization") is None


def test_key_that_others_can_read_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k" * 43)
    (tmp_path / "key").chmod(0o644)
    finished = here("gateway", "key", "--key-file", tmp_path / "key")

    assert finished.returncode == 1
    assert "other users can read" in sentence(finished)


def test_gateway_at_a_unix_socket(daemon: Running, tmp_path: Path) -> None:
    """`Host` may be anything: no page in a browser reaches a Unix socket."""
    place = tmp_path / "run" / "models.sock"
    options = ("--listen", f"unix:{place}", "--socket", daemon.path)
    with (
        HttpServer(answers(completion("Hello."))) as server,
        start("gateway", "openai", "--upstream", server.url, *options) as child,
        httpx.Client(transport=httpx.HTTPTransport(uds=str(place)), base_url="http://models") as client,
    ):
        assert log(child, "listening")["socket"] == str(place)
        assert client.post("/v1/chat/completions", json=ask("Hi.")).status_code == 200
        stop(child)

    assert messages(events_of(daemon)) == [("user", "Hi."), ("assistant", "Hello.")]
    assert not place.exists()


def test_connections_of_one_client_are_limited(daemon: Running) -> None:
    options = ("--connections", 3, "--client-connections", 2)
    with HttpServer(answers(b"{}")) as server, gateway(server.url, daemon.path, *options) as (_, client):
        address = (client.base_url.host, client.base_url.port)
        held = [socket.create_connection(address, TIMEOUT) for _ in range(3)]
        assert ended(held[-1])
        for connection in held:
            connection.close()
        until(lambda: answers_now(client))


def ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def answers_now(client: httpx.Client) -> bool:
    try:
        return client.get("/v1/models").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("package", ["httpx", "brotli"])
def test_missing_extra_is_named(package: str, tmp_path: Path) -> None:
    (tmp_path / f"{package}.py").write_text(f"raise ModuleNotFoundError(name={package!r})")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    finished = tooltap("gateway", "openai", "--upstream", "http://127.0.0.1:1", PYTHONPATH=path)

    assert finished.returncode == 1
    advice = "pip install 'brotli>=1.2' 'httpx>=0.27'"
    assert sentence(finished) == f"{package} is not installed: {advice}"


def test_signal_stops_gateway_during_a_response(daemon: Running) -> None:
    """A response in progress gets a grace period: usually of a few seconds, in which a busy machine may do nothing."""
    patience = {VARIABLE: json.dumps({"finishing": 60, "stall": 30.0})}
    over = threading.Event()

    def answer(request: Request, answer: Response) -> None:
        answer.head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")
        answer.chunk(chunk("first", "c-1"))
        over.wait(TIMEOUT)
        answer.chunk(chunk(" last", "c-1", "stop"))
        answer.chunk(b"")

    with HttpServer(answer) as server, gateway(server.url, daemon.path, **patience) as (child, client):
        with client.stream("POST", "/v1/chat/completions", json=ask("Hi.", stream=True)) as response:
            got = response.iter_raw()
            assert b"first" in next(got)
            child.send_signal(signal.SIGINT)
            until(lambda: refuses(client.base_url))
            over.set()
            assert b"last" in b"".join(got)
        assert child.end()[0] == 130

    assert messages(events_of(daemon)) == [("user", "Hi."), ("assistant", "first last")]


def refuses(url: httpx.URL) -> bool:
    """Whether nothing listens. A connection that is made while the socket is closed is reset."""
    try:
        socket.create_connection((url.host, url.port)).close()
    except ConnectionError:
        return True
    return False
