"""A daemon with its web gateway, and a plain HTTP client like a browser or `curl`."""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPMessage, HTTPResponse
from http.cookies import SimpleCookie
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from tests.daemon.running import TIMEOUT, Running, Wire, running
from tooltap.daemon.web.http.token import read_token


class Response(NamedTuple):
    status: int
    headers: HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str, str]:
        """Return status, code and sentence of an error response, which has nothing else."""
        assert list(self.json) == ["error"]
        assert list(self.json["error"]) == ["code", "message"]
        return self.status, self.json["error"]["code"], self.json["error"]["message"]


class Message(NamedTuple):
    """A server-sent event."""

    event: str
    id: str | None
    data: str

    @property
    def json(self) -> Any:
        return json.loads(self.data)


class Browser:
    """An HTTP client of `url`. It sends the token, unless other headers are given."""

    def __init__(self, url: str, token: str) -> None:
        self.host, self.port = urlsplit(url).hostname or "", urlsplit(url).port or 0
        self.token = token
        self.url = url

    def get(
        self, target: str, headers: dict[str, str] | None = None, *, method: str = "GET", body: bytes | None = None
    ) -> Response:
        connection = HTTPConnection(self.host, self.port, timeout=TIMEOUT)
        try:
            response = self._ask(connection, target, headers, method, body)
            return Response(response.status, response.headers, response.read())
        finally:
            connection.close()

    def link(self) -> str:
        """A new link, which logs a browser in."""
        link: str = self.get("/api/logins", method="POST").json["link"]
        return link

    def log_in(self, link: str = "", known: dict[str, str] | None = None) -> dict[str, str]:
        """Use a link, or a new one, as our page does. Return what a page sends then, instead of the token. `known`:
        what it has sent before."""
        code = (link or self.link()).partition("#login=")[2]
        answer = self.get("/login", {"Authorization": "", **(known or {})}, method="POST", body=code.encode())
        assert answer.status == 200, answer.body
        return {"Authorization": "", "Cookie": cookie_of(answer), "Tooltap-Page": answer.json["secret"]}

    def admitted(self, target: str, headers: dict[str, str]) -> str:
        """Return an address with a pass for a browser that is logged in."""
        given = self.get("/pass", headers, method="POST", body=target.encode()).body.decode()
        return f"{target}{'&' if '?' in target else '?'}pass={given}"

    def stream(
        self, target: str, headers: dict[str, str] | None = None, *, method: str = "GET", body: bytes | None = None
    ) -> Stream:
        """Open a stream of server-sent events."""
        connection = HTTPConnection(self.host, self.port, timeout=TIMEOUT)
        response = self._ask(connection, target, {"Accept": "text/event-stream", **(headers or {})}, method, body)
        return Stream(connection, response)

    def connect(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=TIMEOUT)

    def say(self, data: bytes) -> bytes:
        """Send raw bytes, and return all bytes of the response, until the connection ends."""
        with self.connect() as connection:
            connection.sendall(data)
            return b"".join(iter(lambda: connection.recv(65_536), b""))

    def _ask(
        self, connection: HTTPConnection, target: str, headers: dict[str, str] | None, method: str, body: bytes | None
    ) -> HTTPResponse:
        known = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        connection.request(method, target, body, {**known, **(headers or {})})
        return connection.getresponse()


def cookie_of(answer: Response) -> str:
    [(name, morsel)] = SimpleCookie(answer.headers["set-cookie"]).items()
    return f"{name}={morsel.value}"


class Stream:
    def __init__(self, connection: HTTPConnection, response: HTTPResponse) -> None:
        self._connection = connection
        self.response = response

    def __iter__(self) -> Iterator[Message]:
        """Yield messages until the connection ends; an incomplete last one is left out."""
        fields: dict[str, str] = {}
        try:
            for line in self.response:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if line == b"\n":
                    if "data" in fields:
                        yield Message(fields.get("event", "message"), fields.get("id"), fields["data"])
                    fields = {}
                else:
                    fields[name] = f"{fields[name]}\n{value}" if name in fields else value
        except (ConnectionError, ValueError):  # a chunk was cut off
            return

    def until(self, event: str) -> list[Message]:
        """Return messages up to the next one of this name."""
        found: list[Message] = []
        for message in self:
            found.append(message)
            if message.event == event:
                return found
        raise AssertionError(f"the connection ended before {event}: {found[-3:]}")

    def take(self, count: int) -> list[Message]:
        """Return this many events of the journal."""
        found: list[Message] = []
        while len(found) < count:
            found += [message for message in self.until("message") if message.event == "message"]
        return found

    def close(self) -> None:
        self.response.close()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.005)


def socket_lines(daemon: Running, **arguments: Any) -> list[bytes]:
    """Return the lines of a subscription over the socket, from the start to now."""
    wire = daemon.subscribe(after="start", follow=False, **arguments)
    return [line.rstrip(b"\n") for line in wire.lines() if not line.startswith(b'{"op"')]


def store(wire: Wire, body: bytes, **about: str) -> str:
    """Store a display output and return its id."""
    wire.send("store", id=1, bytes=len(body), **{"mimeType": "text/plain", "type": "file", **about})
    wire.write(body)
    output_id: str = wire.until("reply")[-1]["result"]["outputId"]
    return output_id


def web_settings(directory: Path, **settings: Any) -> dict[str, Any]:
    """Return settings of a gateway at a free port, with its token in the directory."""
    return {"enabled": True, "listen": "127.0.0.1:0", "token_file": str(directory / "token"), **settings}


@contextmanager
def browsed(directory: Path, web: dict[str, Any] | None = None, **settings: Any) -> Iterator[tuple[Running, Browser]]:
    """Run a daemon in this process, and a browser with the token."""
    with running(directory, web=web_settings(directory, **(web or {})), **settings) as daemon:
        assert daemon.daemon.web is not None
        yield daemon, Browser(daemon.daemon.web.url, read_token(directory / "token"))


def free_port() -> int:
    """A free port that no connection gets by chance while nobody listens there: the system gives out higher ones."""
    for port in random.SystemRandom().sample(range(10_000, 32_000), 100):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
    raise AssertionError("no port is free")
