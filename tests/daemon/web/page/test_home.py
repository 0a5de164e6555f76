"""The home page: one table of sessions, and filters that live in the address."""

from __future__ import annotations

import pytest

from tests.daemon.events import call, commit, event, message, result
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser
from tests.daemon.web.page.reading import Element, shown
from tooltap.protocol.events import SessionEvent, Usage

DAY = 86_400_000


@pytest.fixture
def three(daemon: Running) -> None:
    daemon.commit(
        commit(
            event(
                SessionEvent, state="started", title="Repair it", model="fast-1", cwd="/src/greeter", ts=20_000 * DAY
            ),
            call("1", ts=20_000 * DAY),
            result("1", status="failed", is_error=True, ts=20_000 * DAY + 1),
            event(Usage, scope="session", cost_usd=1.5, input_tokens=1_800_000),
        ),
        commit(message("x", "t", session="session-2", provider="claude", ts=20_001 * DAY), stream="t"),
        commit(message("x", "u", session="session-3", provider="claude", ts=20_001 * DAY + 2), stream="u"),
    )


def listed(page: Element) -> list[str]:
    return [one.attributes["data-session"] for one in page.all("tr") if "data-session" in one.attributes]


def test_home_lists_sessions_by_day(three: None, browser: Browser) -> None:
    page = shown(browser, "/")

    assert listed(page) == ["session-3", "session-2", "session-1"]
    assert [one.text for one in page.all("th", scope="rowgroup")] == ["2024-10-05", "2024-10-04"]
    row = page.all("tr")[-1]
    for fact in ("Repair it", "greeter", "fast-1", "$1.50", "1.8 M"):
        assert fact in row.text
    assert row.one("td", class_="errors").text == "1"
    assert row.one("svg").all("rect")[0].attributes["data-family"] == "shell"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("agent=claude", ["session-3", "session-2"]),
        ("agent=claude&agent=gemini", ["session-3", "session-2", "session-1"]),
        ("project=greeter", ["session-1"]),
        ("period=day", ["session-3", "session-2"]),
        ("status=waiting", []),
    ],
)
def test_filters(three: None, browser: Browser, query: str, found: list[str]) -> None:
    assert listed(shown(browser, f"/?{query}")) == found


def test_filters_keep_each_other_and_all_their_values(three: None, browser: Browser) -> None:
    page = shown(browser, "/?agent=claude&agent=gemini&period=month")
    failed = next(one for one in page.all("a", class_="pill") if one.text.startswith("Failed"))

    assert failed.attributes["href"] == "/?status=failed&agent=claude&agent=gemini&period=month"


def test_wrong_filter_is_an_error_page(browser: Browser) -> None:
    assert browser.get("/?status=odd").status == 400


def test_empty_journal_shows_how_to_begin(browser: Browser) -> None:
    assert "tooltap run" in shown(browser, "/").one("p", id="empty").text
