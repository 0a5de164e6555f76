"""The page of the files that all sessions changed."""

from __future__ import annotations

import time

import pytest

from tests.daemon.changing import HOUR, two_sessions
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser
from tests.daemon.web.page.reading import Element, shown


@pytest.fixture
def changed(daemon: Running) -> None:
    """Session `two` changed its file two hours ago."""
    daemon.commit(*two_sessions(int(time.time() * 1_000) - 42 * HOUR))


def files(page: Element) -> list[str]:
    return [" ".join(one.one("summary").text.split()) for one in page.all("details", class_="changed")]


def test_files_name_who_changed_them(changed: None, browser: Browser) -> None:
    page = shown(browser, "/files")

    first, second = files(page)
    assert first.startswith("work/a.py +3 −3 3 changes 2 sessions · Gemini CLI, Claude Code")
    assert second.startswith("work/b.py +5 1 change 1 session · Gemini CLI")
    a = page.all("details", class_="changed")[0]
    assert [one.text for one in a.all("a", class_="title")] == ["two", "First"]
    assert a.all("a", class_="title")[1].attributes["href"] == "/sessions/one/files?open=%2Fwork%2Fa.py"
    last = a.all("a")[-1]
    assert last.text == "the last of 2 changes"
    assert shown(browser, last.attributes["href"].partition("#")[0]).all("article", class_="tool-call")


def test_a_file_leads_to_its_diff_and_calls(changed: None, browser: Browser) -> None:
    page = shown(browser, "/files?agent=gemini&file=A.PY")
    (link,) = page.all("a", class_="title")
    diffs = shown(browser, link.attributes["href"])

    (opened,) = [one for one in diffs.all("details", class_="changed") if "open" in one.attributes]
    assert opened.attributes["data-path"] == "a.py"
    assert opened.all("p", class_="made")[0].all("a")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("order=lines", ["a.py", "b.py"]),
        ("agent=claude", ["a.py"]),
        ("project=sub", ["a.py"]),
        ("project=work&project=sub", ["a.py", "b.py"]),
        ("period=day", ["a.py"]),
        ("period=week&file=B.py", ["b.py"]),
        ("file=nothing", []),
    ],
)
def test_filters_live_in_the_address(changed: None, browser: Browser, query: str, found: list[str]) -> None:
    page = shown(browser, f"/files?{query}")

    assert [one.text for one in page.all("span", class_="name")] == found
    assert len(page.all("p", class_="empty")) == (not found)


def test_a_changed_filter_keeps_the_others(changed: None, browser: Browser) -> None:
    page = shown(browser, "/files?agent=claude&period=week&file=a")
    (latest,) = [one for one in page.all("a", class_="pill") if one.text == "Latest"]

    assert latest.attributes["href"] == "/files?agent=claude&period=week&file=a&order=time"


def test_nothing_changed_is_a_sentence(daemon: Running, browser: Browser) -> None:
    assert "No session has changed a file yet." in shown(browser, "/files").one("p", class_="empty").text
