"""The gateway spends its user's money, and reaches what trusts this machine: nobody else uses it or leaves its base."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import zstandard
from playwright.sync_api import Browser

from tests.attacks.hostile import Hostile
from tests.attacks.intruder import ask, connect_unix, hold, send_and_leave
from tests.attacks.stranger import Stranger
from tests.cli.command import environment, start
from tests.cli.tap.test_attach import log
from tests.http_server import HttpServer, Request

TIMEOUT = 30
KEY = "k" * 43
BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Spend."}]})


class Gateway:
    """A gateway and its upstream model server at `/base`, which keeps its requests."""

    def __init__(self, server: HttpServer, url: str) -> None:
        self.url = url
        self.host, self.port = httpx.URL(url).host, httpx.URL(url).port or 0
        self._server = server

    @property
    def requests(self) -> list[Request]:
        return self._server.requests

    @property
    def passed(self) -> list[str]:
        return [request.target for request in self.requests]

    @property
    def cookies(self) -> list[str]:
        return [value for request in self.requests if (value := request.header("cookie"))]

    def say(self, data: bytes) -> bytes:
        """Send bytes as our own user; return all bytes of the answer, until the connection ends."""
        with socket.create_connection((self.host, self.port), timeout=TIMEOUT) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65_536), b""))

    def still_works(self) -> bool:
        """Whether it serves its own user, after all that was sent before."""
        return httpx.get(f"{self.url}/models", trust_env=False, timeout=TIMEOUT).status_code == 200


@contextmanager
def gateway(folder: Path, *options: object) -> Iterator[Gateway]:
    (folder / "key").write_text(KEY)
    (folder / "key").chmod(0o600)
    given = ("--listen", "127.0.0.1:0", "--socket", folder / "none.sock", "--key-file", folder / "key", *options)
    with (
        HttpServer(lambda _, answer: answer.whole(200, b"{}", "Access-Control-Allow-Origin: *")) as server,
        start("gateway", "openai", "--upstream", f"{server.url}/base", *given, env=environment()) as child,
    ):
        yield Gateway(server, log(child, "listening").get("url", "http://none"))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway(tmp_path_factory.mktemp("gateway")) as shared:
        yield shared


@pytest.fixture
def victim_of(shared: Gateway) -> Iterator[Gateway]:
    """A gateway through which nothing may pass."""
    before = len(shared.passed)
    yield shared
    assert shared.passed[before:] == []
    assert shared.still_works()


@pytest.mark.parametrize("source", ["127.0.0.1", "127.77.0.1"])
@pytest.mark.parametrize("half_close", [False, True])
def test_other_user_needs_the_key(victim_of: Gateway, stranger: Stranger, source: str, half_close: bool) -> None:
    forged = {"X-Forwarded-For": "127.0.0.1", "X-Real-Ip": "127.0.0.1", "Authorization": "Bearer guess"}
    status, body = stranger.run(ask, victim_of.url, "/models", forged, source, half_close)

    assert status == 401
    assert KEY not in body


def test_other_user_who_is_gone_needs_the_key(victim_of: Gateway, stranger: Stranger) -> None:
    request = "GET /models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    stranger.run(send_and_leave, victim_of.host, victim_of.port, request)
    request = f"POST /chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(BODY)}\r\n\r\n{BODY}"
    stranger.run(send_and_leave, victim_of.host, victim_of.port, request)


def test_other_user_with_the_key_is_served(shared: Gateway, stranger: Stranger) -> None:
    assert stranger.run(ask, shared.url, f"/key-{KEY}/models", {})[0] == 200
    assert stranger.run(ask, shared.url, "/models", {"Authorization": f"Bearer {KEY}"})[0] == 200
    assert stranger.run(ask, shared.url, "/models", {"Authorization": f"Bearer {KEY[1:]}"})[0] == 401


def test_other_user_cannot_use_a_unix_socket(open_folder: Path, stranger: Stranger) -> None:
    place = open_folder / "run" / "models.sock"
    request = "GET /models HTTP/1.1\r\nHost: x\r\n\r\n"
    with gateway(open_folder, "--listen", f"unix:{place}") as served:
        with pytest.raises(PermissionError):
            stranger.run(connect_unix, place, request)
        place.parent.chmod(0o755)
        place.chmod(0o666)
        assert stranger.run(connect_unix, place, request).startswith("HTTP/1.1 403 ")
        assert served.passed == []


def test_other_user_takes_no_place_of_ours(tmp_path: Path, lasting_stranger: Stranger) -> None:
    with gateway(tmp_path, "--connections", 10, "--client-connections", 10) as served:
        lasting_stranger.run(hold, [served.host, served.port], 100)

        assert served.still_works()


@pytest.mark.parametrize(
    "target",
    [
        "/../../x",
        "/..",
        "/%2e%2e/%2e%2e/x",
        "/%252e%252e/x",
        "/..%2f..%2fx",
        "/..\\..\\x",
        "/%5c..%5c",
        "/..;/x",
        "//evil.example/x",
        "/%2fevil.example/x",
        "http://evil.example/x",
        "http://127.0.0.1/x",
        "evil.example:443",
        "*",
        "/x#/../..",
        "/%00",
    ],
)
@pytest.mark.parametrize("prefix", ["", f"/key-{KEY}"])
def test_no_path_leaves_the_base(victim_of: Gateway, target: str, prefix: str) -> None:
    answer = victim_of.say(f"GET {prefix}{target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())

    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 401 ") if prefix else b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "fields",
    [
        "Content-Length: 0\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 4",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding: chunked, identity",
        "Content-Length: 4\r\nContent-Length: 4",
        "Content-Length: 4\r\nContent-Length: 40",
        "Content-Length: 4, 4",
        "Content-Length: +4",
        "Content-Length: -4",
        "Content-Length: 4 4",
        "Content-Length : 4",
        "Content-Length:\r\n 4",
        "Content-Length: 0x4",
        "X: y\nContent-Length: 4",
        "X: y\rContent-Length: 4",
    ],
)
def test_ambiguous_length_is_refused(victim_of: Gateway, fields: str) -> None:
    smuggled = "GET /smuggled HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    head = f"POST /chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n{fields}\r\n\r\n"
    answer = victim_of.say(f"{head}0\r\n\r\n{smuggled}".encode())

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    "fields",
    [
        "Host: evil.example",
        "Host: 127.0.0.1\r\nHost: evil.example",
        "X: y",
        "Host: 127.0.0.1\r\nOrigin: http://evil.example",
        "Host: 127.0.0.1\r\nSec-Fetch-Site: cross-site",
        f"Host: evil.example\r\nAuthorization: Bearer {KEY}",
    ],
)
def test_foreign_names_and_pages_are_refused(victim_of: Gateway, fields: str) -> None:
    answer = victim_of.say(f"GET /models HTTP/1.1\r\n{fields}\r\n\r\n".encode())

    assert answer.startswith((b"HTTP/1.1 403 ", b"HTTP/1.1 400 "))


ATTEMPTS = """
const url = {url}, body = {body};
const read = one => one.then(response => response.text(), () => "failed");
const framed = (method, path) => new Promise(resolve => {{
    const frame = document.createElement("iframe");
    frame.name = "frame" + Math.random();
    document.body.append(frame);
    const form = document.createElement("form");
    Object.assign(form, {{method, action: url + path, target: frame.name, enctype: "text/plain"}});
    form.innerHTML = `<input name='{{"model": "m", "messages": [], "x": "' value='"}}'>`;
    document.body.append(form);
    frame.onload = () => resolve("loaded");
    form.submit();
}});
const image = new Promise(resolve => {{
    const image = new Image();
    image.onload = image.onerror = () => resolve("image");
    image.src = url + "/models";
}});
const socket = new Promise(resolve => {{
    const socket = new WebSocket(url.replace("http", "ws") + "/models");
    socket.onopen = socket.onerror = () => resolve("socket");
}});
window.outcome = Promise.all([
    read(fetch(url + "/models")),
    read(fetch(url + "/chat/completions", {{method: "POST", body}})),
    read(fetch(url + "/chat/completions", {{method: "POST", mode: "no-cors", body}})),
    read(fetch(url + "/chat/completions", {{method: "POST", body, headers: {{"Content-Type": "application/json"}}}})),
    framed("post", "/chat/completions"), framed("get", "/models"), image, socket,
]);
"""


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_hostile_page_reaches_nothing(victim_of: Gateway, browser: Browser, hostile: Hostile, host: str) -> None:
    script = ATTEMPTS.format(url=json.dumps(victim_of.url), body=json.dumps(BODY))
    page = browser.new_page()
    try:
        page.goto(hostile.page(script, host=host))
        outcome: list[Any] = page.evaluate("window.outcome")
        page.goto(hostile.page(f"location = {json.dumps(victim_of.url + '/models')}", host=host))
        page.wait_for_url(f"{victim_of.url}/models")
    finally:
        page.close()

    assert outcome == ["failed", "failed", "", "failed", "loaded", "loaded", "image", "socket"]


BOMB = zstandard.ZstdCompressor().compress(bytes(256 * 1024 * 1024))
HOSTILE = {
    "a bomb": (BOMB, "zstd"),
    "a coding that is none": (b"{}", "zstd, br, gzip, x"),
    "nothing but brackets": (b"[" * 100_000, "identity"),
    "values of other types": (
        b'{"messages":[{"role":[],"content":{"a":1}},3],"contents":[{"parts":[{"text":7,"functionCall":[]}]}],'
        b'"metadata":{"user_id":{}},"model":[]}',
        "identity",
    ),
    "a session that is a path": (
        b'{"messages":[{"role":"user","content":"x"}],"metadata":{"user_id":"{\\"session_id\\":\\"../../x\\\\n\\"}"}}',
        "identity",
    ),
}


@pytest.mark.parametrize(
    "path", ["/v1/messages", "/v1beta/models/..%2f:generateContent", "/v1beta/models/m:generateContent"]
)
@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_request_passes_unchanged_and_stops_nothing(shared: Gateway, hostile: str, path: str) -> None:
    body, coding = HOSTILE[hostile]
    agent = f"claude-cli/\t{'x' * 4_000}"
    fields = {"Content-Encoding": coding, "User-Agent": agent}
    answer = httpx.post(f"{shared.url}{path}", content=body, headers=fields, trust_env=False, timeout=TIMEOUT)

    assert shared.still_works()
    if "%2f" in path:
        assert answer.status_code == 400
    else:
        (request,) = [one for one in shared.requests if one.body == body and one.target.endswith(path)][-1:]
        assert (request.header("content-encoding"), request.header("user-agent")) == (coding, agent)
