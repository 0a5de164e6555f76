"""Random requests: each gets an answer, and none harms the daemon."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.daemon.events import call, commit, message
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser

KEYS = ["after", "before", "limit", "session", "kind", "tool", "as", "partials", "view", "format", "offset", "length"]
KEYS += ["unit", "id", "seq", "op", "outputId", "token", ""]
PLACES = ["/api/events", "/api/events/", "/api/sessions", "/api/outputs/", "/api/stats", "/healthz", "/metrics", "/x/"]

values = (
    st.text(max_size=40) | st.integers().map(str) | st.sampled_from(["now", "start", "display", "json", "lines", "1"])
)
queries = st.lists(st.tuples(st.sampled_from(KEYS), values), max_size=5)
header_values = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60)
headers = st.dictionaries(
    st.sampled_from(["Range", "If-Range", "Last-Event-ID", "Cookie", "Origin", "Sec-Fetch-Site", "Accept", "X-Any"]),
    header_values | st.sampled_from(["bytes=0-", "text/event-stream, x", "a=b; c", "none"]),
    max_size=3,
)


@pytest.fixture(scope="module")
def browser(common: tuple[Running, Browser]) -> Browser:
    daemon, browser = common
    daemon.commit(commit(message("a"), call("1")))
    return browser


@given(
    st.sampled_from(["GET", "HEAD", "POST", "DELETE"]), st.sampled_from(PLACES), st.text(max_size=20), queries, headers
)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_request_is_answered(
    browser: Browser, method: str, place: str, rest: str, query: list[tuple[str, str]], extra: dict[str, str]
) -> None:
    target = place + (quote(rest, safe="/") if place.endswith("/") else "")
    target += "?" + "&".join(f"{quote(key)}={quote(value, safe='')}" for key, value in query)
    if "text/event-stream" in extra.get("Accept", ""):
        method = "HEAD"  # what has no end

    answer = browser.get(target, extra, method=method)

    assert answer.status in (200, 206, 303, 400, 403, 404, 405, 410, 416), answer.body
    if answer.status >= 400 and method != "HEAD":
        _, code, sentence = answer.error
        assert code
        assert sentence
        assert "\n" not in sentence
    assert not any(name in answer.body.decode(errors="replace") for name in ("Traceback", browser.token))


@given(st.binary(max_size=200), st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_survived(browser: Browser, data: bytes, begun: bool) -> None:
    with browser.connect() as connection:
        connection.sendall((b"GET / HTTP/1.1\r\nHost: " if begun else b"") + data)

    assert browser.get("/healthz").json == {"status": "ok"}
