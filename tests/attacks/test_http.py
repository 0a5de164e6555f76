"""HTTP of the daemon: without the token nothing is served, and nobody takes the places of others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.intruder import ask, hold
from tests.attacks.stranger import Stranger
from tests.daemon.events import commit, message
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser, browsed

SECRET = "nobody else's"
ADDRESSES = (
    "/",
    "/api/events",
    "/api/events?after=start",
    "/api/sessions",
    "/api/stats",
    "/api/outputs/s:1:o0",
    "/metrics",
    "/sessions/s",
    "/api/../metrics",
    "/%61pi/stats",
    "//api/stats",
    "/nothing-there",
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Browser]]:
    with browsed(tmp_path_factory.mktemp("served"), {"connections": 20, "client_connections": 20}) as (daemon, browser):
        daemon.commit(commit(message(SECRET)))
        yield daemon, browser


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer guess"},
        {"Authorization": "Basic Z3Vlc3M6Z3Vlc3M="},
        {"X-Forwarded-For": "127.0.0.1", "Sec-Fetch-Site": "none"},
    ],
    ids=["nothing", "token", "login", "forged"],
)
def test_other_user_sees_nothing(
    served: tuple[Running, Browser], stranger: Stranger, address: str, headers: dict[str, str]
) -> None:
    _, browser = served
    status, body = stranger.run(ask, browser.url, address, headers)

    assert status in (403, 404)
    assert SECRET not in body
    assert browser.token not in body


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", ""])
def test_token_does_not_help_by_another_name(served: tuple[Running, Browser], host: str) -> None:
    """DNS rebinding: the page's name is another one, though the address is ours."""
    _, browser = served

    assert browser.get("/api/stats", {"Host": host}).status == 403


def test_other_user_takes_no_place_of_ours(served: tuple[Running, Browser], lasting_stranger: Stranger) -> None:
    """From two hundred addresses of this machine, which all are the same user's."""
    daemon, browser = served
    with browser.connect() as ours:
        assert lasting_stranger.run(hold, [browser.host, browser.port], 200) >= 20
        assert browser.get("/healthz").status == 200
        ours.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert ours.recv(15) == b"HTTP/1.1 200 OK"
        assert daemon.stats()["web"]["connections"] <= 21


@pytest.mark.parametrize(
    "fields",
    [
        "Content-Length: 0\r\nTransfer-Encoding: chunked",
        "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: 5, 5",
        "Content-Length: +5",
        "Content-Length:\r\n 5",
        "X: y\nContent-Length: 5",
    ],
)
def test_ambiguous_length_is_refused(served: tuple[Running, Browser], fields: str) -> None:
    _, browser = served
    known = f"Host: localhost\r\nAuthorization: Bearer {browser.token}"
    smuggled = f"GET /api/stats HTTP/1.1\r\n{known}\r\n\r\n"
    answer = browser.say(f"POST /preferences HTTP/1.1\r\n{known}\r\n{fields}\r\n\r\n0\r\n\r\n{smuggled}".encode())

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_token_is_closed_to_others(served: tuple[Running, Browser]) -> None:
    daemon, _ = served
    path = Path(daemon.daemon.config.web.token_path)

    assert path.stat().st_mode & 0o077 == 0
