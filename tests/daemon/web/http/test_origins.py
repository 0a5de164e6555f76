"""Pages of other origins, allowed by the user or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.web.browsing import Browser, browsed, free_port
from tests.daemon.web.http.test_guard import assert_refused
from tooltap.daemon.config import ConfigError, load_config

ALLOWED = "http://localhost:5173"
CROSS = {"Origin": ALLOWED, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsed(tmp_path_factory.mktemp("origins"), {"origins": [ALLOWED]}) as (_, browser):
        yield browser


def test_allowed_origin_may_read_with_token(browser: Browser) -> None:
    answer = browser.get("/api/events", CROSS)

    assert answer.json["events"] == []
    assert answer.headers["access-control-allow-origin"] == ALLOWED
    assert "origin" in answer.headers["vary"].lower()
    assert "access-control-allow-credentials" not in answer.headers


def test_allowed_origin_gets_events(browser: Browser) -> None:
    with browser.stream("/api/events?after=start", CROSS) as stream:
        assert stream.response.headers["access-control-allow-origin"] == ALLOWED
        assert stream.until("live")


def test_preflight_allows_the_token(browser: Browser) -> None:
    asked = {**CROSS, "Access-Control-Request-Method": "GET", "Authorization": ""}
    answer = browser.get("/api/events", asked, method="OPTIONS")

    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == ALLOWED
    assert answer.headers["access-control-allow-headers"] == "Authorization, Last-Event-ID"
    assert answer.headers["access-control-allow-methods"] == "GET, HEAD"


def test_login_does_not_admit_allowed_origin(browser: Browser) -> None:
    known = browser.log_in()
    assert browser.get("/api/events", known).status == 200

    assert browser.get("/api/events", {**CROSS, **known}).error[:2] == (403, "forbidden")
    assert browser.get(browser.admitted("/api/events", known), {**CROSS, **known}).error[:2] == (403, "forbidden")


@pytest.mark.parametrize(
    "origin",
    ["http://localhost:5174", "https://localhost:5173", "http://localhost:51730", "http://localhost", "null", ""],
)
def test_other_origins_are_refused(browser: Browser, origin: str) -> None:
    assert_refused(browser.get("/api/events", {**CROSS, "Origin": origin}))
    asked = {"Origin": origin, "Access-Control-Request-Method": "GET", "Authorization": ""}
    assert_refused(browser.get("/api/events", asked, method="OPTIONS"))


def test_two_origin_headers_are_refused(browser: Browser) -> None:
    request = (
        f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {browser.token}\r\n"
        f"Origin: {ALLOWED}\r\nOrigin: http://evil.example\r\nConnection: close\r\n\r\n"
    )

    assert browser.say(request.encode()).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("origin", ["localhost:5173", "http://localhost:5173/", "*", "ftp://x"])
def test_invalid_origin_is_a_configuration_error(origin: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="web: an origin looks like http://localhost:5173"):
        load_config(None, web={"origins": [origin], "listen": f"127.0.0.1:{free_port()}"})
