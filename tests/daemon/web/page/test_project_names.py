"""Two projects whose folders have the same name are told apart wherever the page names them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.daemon.events import call, commit, event, message
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser
from tests.daemon.web.page.reading import read, shown
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import SessionEvent, Turn


@pytest.fixture
def two(daemon: Running) -> None:
    """Sessions of two projects, which run."""
    for name, folder in (("a", "/work/app"), ("b", "/home/app")):
        where: dict[str, Any] = {"stream": name, "session": name}
        events: list[Produced] = [
            event(SessionEvent, state="started", title=f"In {name}", cwd=folder, **where),
            event(Turn, state="started", **where),
            message("needle", **where),
            call("1", **where),
        ]
        daemon.commit(commit(*events, stream=name))


def test_home(two: None, daemon: Running, browser: Browser) -> None:
    page = shown(browser, "/")
    assert [one.all("span")[0].text for one in page.all("span", class_="who")] == ["home/app", "work/app"]

    with browser.stream("/rows/live") as stream:
        stream.until("counts")
        daemon.commit(commit(message("more", stream="a", session="a"), stream="a", base=1))
        row = read(f"<table>{stream.until('row')[-1].data}</table>")
    assert row.one("span", class_="who").all("span")[0].text == "work/app"


def test_board(two: None, browser: Browser) -> None:
    columns = shown(browser, "/board").all("section", class_="column")
    assert [one.one("p", class_="who").one("b").text for one in columns] == ["home/app", "work/app"]


def test_comparison(two: None, browser: Browser) -> None:
    page = shown(browser, "/compare?left=a&right=b")
    sides = [one.all("p", class_="who")[0].text for one in page.all("div", class_="side")]
    assert [one.partition(" · ")[0] for one in sides] == ["work/app", "home/app"]
    assert [one.attributes["label"] for one in page.all("optgroup")[:2]] == ["In work/app", "Other sessions"]


def test_search(two: None, daemon: Running, browser: Browser) -> None:
    def found(query: str) -> list[str]:
        groups = shown(browser, f"/search?text=needle{query}").all("section", class_="found")
        return [one.one("p", class_="who").all("span")[0].text for one in groups]

    daemon.until_indexed()
    assert sorted(found("")) == ["home/app", "work/app"]
    assert found("&project=work/app") == ["work/app"]
    assert sorted(found("&project=app")) == ["home/app", "work/app"]
    assert found("&project=other") == []
    choices = shown(browser, "/search").one("select", name="project").all("option")[1:]
    assert [(one.attributes["value"], one.text) for one in choices] == [
        ("home/app", "home/app"),
        ("work/app", "work/app"),
    ]


def test_palette(two: None, browser: Browser) -> None:
    assert "work/app" in browser.get("/find?text=").body.decode()
