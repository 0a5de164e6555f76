"""Who may enter, and that nobody else learns anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser, Response, browsed
from tooltap.daemon.system.tcp import without_port

ADDRESSES = [
    "/",
    "/api/events",
    "/api/stats",
    "/api/sessions",
    "/api/outputs/x",
    "/metrics",
    "/nothing",
    "/../etc/passwd",
]
SENTENCE = (
    "programs must send the daemon's token as `Authorization: Bearer TOKEN`, and browsers must use the link that"
    " `tooltap serve link` prints"
)


@pytest.fixture
def browser(common: tuple[Running, Browser]) -> Browser:
    return common[1]


def assert_refused(answer: Response, *, host: str = "") -> None:
    """`host`: the name that is not ours."""
    code, error, sentence = answer.error
    assert (code, error) == (403, "forbidden")
    if host:
        assert sentence.startswith(f"the daemon does not know the host {host}: name it in `hosts` of the table `[web]`")
    else:
        assert sentence == SENTENCE
    assert "set-cookie" not in answer.headers
    assert "location" not in answer.headers
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize("address", ADDRESSES)
def test_refusal_is_the_same_everywhere(browser: Browser, address: str) -> None:
    for headers in (
        {"Authorization": ""},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {browser.token}"},
        {"Authorization": f"Bearer {browser.token}x"},
        {"Authorization": f"Bearer {browser.token[:-1]}"},
        {"Authorization": "Bearer \xff\xfe"},
        {"Authorization": "", "Cookie": f"tooltap-{browser.port}=wrong"},
        {"Authorization": "", "Cookie": f"other={browser.token}"},
    ):
        assert_refused(browser.get(address, headers))


@pytest.mark.parametrize("address", [*ADDRESSES, "/healthz"])
@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example:8422", "192.168.1.7", "[::2]",
     "127.0.0.1@evil.example", "127.0.0.1:1@evil.example", "[::1]evil.example", "[::1].evil.example:1", "a b", ""],
)  # fmt: skip
def test_other_host_is_refused(browser: Browser, host: str, address: str) -> None:
    """DNS rebinding: the page's own host name points at this machine."""
    assert_refused(browser.get(address, {"Host": host}), host=without_port(host))


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:99", "[::1]:5"])
def test_loopback_names_are_accepted_with_any_port(browser: Browser, host: str) -> None:
    """A tunnel may have another port."""
    assert browser.get("/api/stats", {"Host": host}).status == 200


@pytest.mark.parametrize("address", ["/api/events", "/healthz"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://localhost:{port}"},
        {"Origin": "ftp://127.0.0.1:{port}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "whatever"},
        {"Origin": "http://127.0.0.1:{port}", "Sec-Fetch-Site": "cross-site"},
    ],
)
def test_other_origin_is_refused(browser: Browser, headers: dict[str, str], address: str) -> None:
    assert_refused(browser.get(address, {key: value.format(port=browser.port) for key, value in headers.items()}))


def test_preflight_of_other_origin_is_refused(browser: Browser) -> None:
    asks = {"Origin": "https://evil.example", "Access-Control-Request-Method": "GET"}

    assert_refused(browser.get("/api/events", asks, method="OPTIONS"))


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_own_pages_and_user_may_enter(browser: Browser, site: str) -> None:
    own = {"Origin": browser.url, "Sec-Fetch-Site": site}

    assert browser.get("/api/stats", own).status == 200


def test_token_in_address_admits_nobody(browser: Browser) -> None:
    for target in (f"/?pass={browser.token}", f"/?pass=0.{browser.token}"):
        assert_refused(browser.get(target, {"Authorization": ""}))


@pytest.mark.parametrize("address", [*ADDRESSES, "/live"])
def test_token_in_address_says_what_to_do(browser: Browser, address: str) -> None:
    for query in (f"token={browser.token}", f"limit=1&token={browser.token}", "token=wrong"):
        answer = browser.get(f"{address}?{query}", {"Authorization": "", "Accept": "text/event-stream"})
        assert answer.error == (
            403,
            "forbidden",
            "a token in an address is not accepted: programs send it as `Authorization: Bearer TOKEN`, and browsers use"
            " the link that `tooltap serve link` prints",
        )
        assert "set-cookie" not in answer.headers


def test_token_is_compared_in_constant_time(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `hmac.compare_digest`."""
    compared: list[bytes] = []

    def compare(given: bytes, token: bytes) -> bool:
        compared.append(given)
        return given == token

    monkeypatch.setattr("hmac.compare_digest", compare)
    assert_refused(browser.get("/api/stats", {"Authorization": "Bearer a"}))

    assert compared == [b"a"]


def test_health_needs_no_token(browser: Browser) -> None:
    answer = browser.get("/healthz", {"Authorization": ""})

    assert (answer.status, answer.json) == (200, {"status": "ok"})


@pytest.mark.parametrize("address", ["/api/stats", "/healthz", "/nothing", "/api/events?limit=x"])
def test_every_response_has_security_headers(browser: Browser, address: str) -> None:
    for headers in ({}, {"Host": "evil.example"}):
        answer = browser.get(address, headers)
        policy = answer.headers["content-security-policy"].split("; ")

        assert "default-src 'none'" in policy
        assert {"base-uri 'none'", "frame-ancestors 'none'", "script-src 'self'", "connect-src 'self'"} < set(policy)
        assert not [one for one in policy if "unsafe" in one or "http" in one or "*" in one]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in answer.headers


def test_headers_cannot_be_injected(browser: Browser) -> None:
    led = browser.get("/events?session=%0d%0aSet-Cookie:%20a=b")

    assert (led.status, led.headers["location"]) == (303, "/sessions/%0D%0ASet-Cookie%3A%20a%3Db")
    assert "set-cookie" not in led.headers
    for target, status in (
        (led.headers["location"], 404),
        ("/%0d%0aSet-Cookie:%20a=b?pass=0.x", 404),
        ("/?pass=%0d%0aSet-Cookie:%20a=b", 200),
        ("/api/events?session=%0d%0aSet-Cookie:%20a=b", 200),
        ("/api/outputs/%0d%0aSet-Cookie:%20a=b", 404),
    ):
        answer = browser.get(target)
        assert (answer.status, "set-cookie" in answer.headers) == (status, False), target


def test_body_of_get_is_refused(browser: Browser) -> None:
    refused = (400, "no-body", "only a form may have a body")

    for method in ("GET", "PUT", "DELETE", "OPTIONS"):
        assert browser.get("/api/stats", method=method, body=b"x" * 100_000).error == refused
    chunked = browser.get("/api/stats", {"Transfer-Encoding": "chunked"}, body=b"1\r\nx\r\n0\r\n\r\n")
    assert chunked.error == refused
    assert browser.get("/api/stats", {"Authorization": ""}, body=b"x").status == 403


def test_form_is_bounded(browser: Browser) -> None:
    assert browser.get("/api/stats", method="POST", body=b"x" * 65_536).status == 405
    assert browser.get("/api/stats", method="POST", body=b"x" * 65_537).error == (
        413,
        "too-large",
        "a form has at most 65536 bytes",
    )


def test_slow_form_is_refused(tmp_path: Path) -> None:
    head = "POST /api/stats HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"
    with browsed(tmp_path, {"patience": 2.0}) as (_, browser):
        answer = browser.say(f"{head}Authorization: Bearer {browser.token}\r\n\r\nhalf".encode())

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert answer.endswith(b'{"error":{"code":"timeout","message":"the form did not arrive in time"}}')


def test_configured_hosts_are_accepted(tmp_path: Path) -> None:
    with browsed(tmp_path, {"hosts": ["Tooltap.Example"]}) as (_, browser):
        assert browser.get("/api/stats", {"Host": "tooltap.example:80"}).status == 200
        assert_refused(browser.get("/api/stats", {"Host": "other.example"}), host="other.example")


def test_remote_listener_accepts_addresses_not_names(tmp_path: Path) -> None:
    with browsed(tmp_path, {"listen": "0.0.0.0:0", "allow_remote": True}) as (_, browser):
        assert browser.get("/api/stats", {"Host": f"192.168.1.7:{browser.port}"}).status == 200
        assert_refused(browser.get("/api/stats", {"Host": "evil.example"}), host="evil.example")
