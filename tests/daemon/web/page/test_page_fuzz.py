"""Random requests to the page: each gets the page or a sentence, and none harms the daemon."""

from __future__ import annotations

from urllib.parse import quote, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.daemon.events import call, commit, message, result
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser
from tests.daemon.web.page.reading import read

KEYS = ["after", "before", "at", "first", "last", "also", "level", "state", "text", "sessions", "session", "kind", "x"]
PLACES = ["/", "/cards", "/cards/1", "/cards/", "/events", "/events/2", "/events/", "/sessions/"]
values = (
    st.text(max_size=40)
    | st.integers().map(str)
    | st.sampled_from(["0", "1", "2", "3", "running", "failed", "full", "expanded", str(2**63 - 1), str(2**63)])
)
queries = st.lists(st.tuples(st.sampled_from(KEYS), values), max_size=4)


@pytest.fixture(scope="module")
def browser(common: tuple[Running, Browser]) -> Browser:
    daemon, browser = common
    daemon.commit(commit(message("a"), call("1"), result("1"), stream="page-fuzz"))
    return browser


@given(st.sampled_from(PLACES), values, queries, st.text(st.characters(codec="latin-1", exclude_categories=["C"])))
@settings(max_examples=120, deadline=None)
def test_any_query_is_answered(
    browser: Browser, place: str, rest: str, query: list[tuple[str, str]], cookie: str
) -> None:
    target = place + (quote(rest, safe="") if len(place) > 1 and place.endswith("/") else "")

    answer = browser.get(f"{target}?{urlencode(query)}", {"Cookie": f"tooltap_preferences={cookie}"})

    assert answer.status in (200, 303, 400, 404), answer.body
    if answer.status == 303:  # an earlier address
        answer = browser.get(answer.headers["Location"])
        assert answer.status in (200, 404), answer.body
    if answer.headers["Content-Type"].startswith("text/html"):
        read(answer.body)
    else:
        assert answer.error[2]


@given(st.binary(max_size=300) | queries.map(lambda query: urlencode(query).encode()))
@settings(max_examples=60, deadline=None)
def test_any_form_is_answered(browser: Browser, body: bytes) -> None:
    answer = browser.get("/preferences", method="POST", body=body)

    assert answer.status in (303, 400), answer.body
