"""The page of a search: hits by session that lead to their places, filters in the address, and why there is none."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.daemon.events import call, commit, event, message, result
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser, browsed, until
from tests.daemon.web.page.reading import Element, shown
from tooltap.protocol.events import SessionEvent

NOW = time.time_ns() // 1_000_000
DAY = 86_400_000


@pytest.fixture(scope="module")
def three(common: tuple[Running, Browser]) -> Browser:
    """Sessions with the word `needle`: four hits in the newest, one of them in what a command printed."""
    daemon, browser = common
    daemon.commit(
        commit(
            event(SessionEvent, state="started", title="Repair it", cwd="/src/greeter", ts=NOW - 60 * DAY),
            message("a needle in the old session", ts=NOW - 60 * DAY),
            state="ended",
        ),
        commit(
            message("needle", "t", session="session-2", provider="claude", ts=NOW - 2 * DAY), stream="t", state="ended"
        ),
        commit(
            message("needle one", "u", session="a/b?c", provider="claude", ts=NOW - 3),
            message("needle two", "u", session="a/b?c", provider="claude", ts=NOW - 2),
            call("1", "u", session="a/b?c", provider="claude", input={"command": "grep needle"}, ts=NOW - 1),
            result("1", "u", session="a/b?c", provider="claude", output={"stdout": "the <b>needle</b>"}, ts=NOW),
            stream="u",
            state="ended",
        ),
    )
    until(lambda: browser.get("/api/search?query=needle").json.get("total") == 6, "the index")
    return browser


def found(page: Element) -> dict[str, list[str]]:
    """The sessions of a page, and what is shown of their hits."""
    return {
        one.one("h2").one("a").text: [hit.one("span", class_="main").text for hit in one.all("li")]
        for one in page.all("section", class_="found")
    }


def test_hits_are_grouped_by_session_and_lead_to_their_places(three: Browser) -> None:
    page = shown(three, "/search?text=needle")

    assert page.one("p", class_="sum").text == "6 hits in 3 sessions"
    assert found(page) == {
        "a/b?c": ["the <b>needle</b>", "grep needle", "needle two"],
        "session-2": ["needle"],
        "Repair it": ["a needle in the old session"],
    }
    newest, _, oldest = page.all("section", class_="found")
    assert newest.one("ol").all("a")[0].attributes["href"] == "/sessions/a%2Fb%3Fc?at=7#e7"
    assert [one.text for one in newest.one("ol").all("mark")] == ["needle"] * 3
    assert newest.one("p", class_="who").one("a").attributes["href"] == "/search?text=needle&session=a%2Fb%3Fc"
    assert oldest.one("h2").one("a").attributes["href"] == "/sessions/session-1"
    assert "greeter" in oldest.one("p", class_="who").text


def test_all_hits_of_a_session(three: Browser) -> None:
    page = shown(three, "/search?text=needle&session=a%2Fb%3Fc")

    assert [len(hits) for hits in found(page).values()] == [4]


@pytest.mark.parametrize(
    ("query", "sessions"),
    [
        ("agent=claude", ["a/b?c", "session-2"]),
        ("agent=claude&agent=gemini", ["a/b?c", "session-2", "Repair it"]),
        ("project=greeter", ["Repair it"]),
        ("tool=Bash", ["a/b?c"]),
        ("state=completed", ["a/b?c", "session-2", "Repair it"]),
        ("period=day", ["a/b?c"]),
        ("period=week", ["a/b?c", "session-2"]),
        ("period=week&agent=claude&tool=", ["a/b?c", "session-2"]),
    ],
)
def test_filters(three: Browser, query: str, sessions: list[str]) -> None:
    assert list(found(shown(three, f"/search?text=needle&{query}"))) == sessions


def test_filters_that_are_set_are_shown(three: Browser) -> None:
    page = shown(three, "/search?text=needle&agent=claude&agent=gemini&project=elsewhere&period=month")

    chosen = [one.attributes["value"] for one in page.one("main").all("option") if "selected" in one.attributes]
    assert chosen == ["claude", "elsewhere", "month"]
    assert [one.attributes["value"] for one in page.one("main").all("input", type="hidden")] == ["gemini"]


@pytest.mark.usefixtures("three")  # whose events are the first, whichever test is
def test_older_hits_are_a_link(common: tuple[Running, Browser]) -> None:
    daemon, browser = common
    many = [message("frequent", "many", session="many", ts=NOW + one) for one in range(100)]
    daemon.commit(commit(*many, stream="many", state="ended"))
    until(lambda: browser.get("/api/search?query=frequent").json.get("total") == 100, "the index")

    first = shown(browser, "/search?text=frequent&session=many")
    older = shown(browser, first.one("a", rel="next").attributes["href"])

    assert [len(hits) for hits in (*found(first).values(), *found(older).values())] == [60, 40]
    places = [one.attributes["href"] for page in (first, older) for one in page.one("ol").all("a")]
    assert len(set(places)) == 100
    assert older.all("a", rel="next") == []


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("text=nowhere", "Nothing found for “nowhere”: of long texts only the beginning and the end are searched."),
        ("text=needle+nowhere", "Nothing found for all of “needle nowhere”: of long texts only the beginning"),
        ("text=needle&agent=codex", "No hit matches these filters. Without them there are 6 hits."),
        ("text=%3F%21", "The search needs at least one letter or digit."),
    ],
)
def test_an_empty_result_says_why(three: Browser, query: str, sentence: str) -> None:
    assert sentence in " ".join(shown(three, f"/search?{query}").one(_tag(query), id="empty").text.split())


def _tag(query: str) -> str:
    return "p" if "%3F" in query else "div"


def test_without_an_index_the_page_says_so(tmp_path: Path) -> None:
    with browsed(tmp_path, index_bytes=0) as (_, browser):
        page = shown(browser, "/search?text=needle")

    assert "index_bytes" in page.one("p", id="empty").text


def test_a_wrong_filter_is_an_error_page(three: Browser) -> None:
    assert three.get("/search?text=needle&period=odd").status == 400


def test_the_palette_finds_sessions_files_commands_and_text(three: Browser) -> None:
    page = shown(three, "/find?text=needle")

    groups = {one.one("p", class_="group-name").text: one.all("a") for one in page.all("div", role="group")}
    assert {name: len(options) for name, options in groups.items()} == {"Commands": 1, "Text": 5}
    assert groups["Commands"][0].attributes["href"] == "/sessions/a%2Fb%3Fc?at=6#e6"
    assert [one.one("mark").text for one in groups["Text"]] == ["needle"] * 5

    named = shown(three, "/find?text=REPAIR")
    assert [one.attributes["href"] for one in named.all("a")] == ["/sessions/session-1"]
    assert len(shown(three, "/find?text=").all("a")) >= 3
    ids = [one.attributes["id"] for one in page.all("a")]
    assert len(set(ids)) == len(ids)
