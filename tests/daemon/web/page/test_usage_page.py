"""The page of what all sessions used."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.daemon.events import commit, event
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser
from tests.daemon.web.page.reading import Element, shown
from tooltap.protocol.events import QuotaWindow, SessionEvent, Usage

DAY = 86_400_000
HOUR = 3_600_000
NOON = DAY // 2
START = 20_000 * DAY + NOON
"""Noon of 2024-10-04, UTC."""


@pytest.fixture
def used(daemon: Running) -> None:
    """Two days with a day between them: $1.50 with 80 % of the input from the cache, and $0.50 by a subagent."""
    one: dict[str, Any] = {"stream": "one", "session": "one", "ts": START}
    two: dict[str, Any] = {"stream": "two", "session": "two", "provider": "claude", "ts": START + 2 * DAY}
    usage: dict[str, Any] = {"scope": "step", "input_tokens": 1_000, "output_tokens": 20}
    daemon.commit(
        commit(
            event(SessionEvent, state="started", cwd="/work", title="First", **one),
            event(Usage, cost_usd=1.5, cache_read_tokens=800, model="m-1", **usage, **one),
            stream="one",
        ),
        commit(
            event(SessionEvent, state="started", cwd="/play", **two),
            event(Usage, cost_usd=0.5, agent="helper", model="m-2", **usage, **two),
            stream="two",
        ),
    )


def rows(page: Element) -> list[list[str]]:
    body = page.one("table", class_="sums").one("tbody")
    return [[" ".join(cell.text.split()) for cell in row.inside] for row in body.all("tr")]


def test_days_are_a_table_and_a_chart(used: None, browser: Browser) -> None:
    page = shown(browser, "/usage?zone=UTC")

    assert rows(page) == [
        ["2024-10-06", "", "$0.50", "1.0 k", "0 %", "20", "1"],
        ["2024-10-04", "", "$1.50", "1.0 k", "80 %", "20", "1"],
    ]
    chart = page.one("figure").one("svg")
    assert chart.attributes["aria-label"].startswith("Cost of each day from 2024-10-04 to 2024-10-06.")
    assert [one.attributes["height"] for one in chart.all("rect")] == ["96.0", "0.0", "32.0"]
    totals = [one.text for one in page.one("dl", class_="totals").all("dd")]
    assert totals == ["$2.00", "2.0 k", "40", "40 %", "2"]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("by=model", ["m-1", "m-2"]),
        ("by=project", ["work", "play"]),
        ("by=agent", ["Gemini CLI", "Claude Code"]),
        ("by=session", ["First", "two"]),
        ("by=subagent", ["Main agents", "helper"]),
        ("by=session&agent=claude", ["two"]),
        ("by=session&project=work", ["First"]),
        ("by=session&day=2024-10-06", ["two"]),
        ("by=session&day=2024-10-05", []),
        ("by=day&period=week", []),
    ],
)
def test_sums_by_anything(used: None, browser: Browser, query: str, names: list[str]) -> None:
    page = shown(browser, f"/usage?{query}&zone=UTC")

    assert [row[0] for row in rows(page)] == names if names else page.all("p", class_="empty")


@pytest.mark.parametrize(
    ("by", "leads_to"),
    [
        ("day", "/usage?by=session&day=2024-10-06&zone=UTC"),
        ("agent", "/usage?agent=gemini&by=session&zone=UTC"),
        ("project", "/usage?project=work&by=session&zone=UTC"),
        ("session", "/sessions/one/usage"),
    ],
)
def test_a_row_leads_to_its_parts(used: None, browser: Browser, by: str, leads_to: str) -> None:
    first = shown(browser, f"/usage?by={by}&zone=UTC").one("tbody").all("a")[0]

    assert first.attributes["href"] == leads_to
    shown(browser, leads_to)


@pytest.mark.parametrize("query", ["zone=Nowhere", "day=2024-13-01", "day=today", "by=hour"])
def test_what_does_not_exist_is_a_sentence(daemon: Running, browser: Browser, query: str) -> None:
    assert browser.get(f"/usage?{query}").status == 400


def test_the_total_on_home_leads_there(used: None, browser: Browser) -> None:
    pill = shown(browser, "/?agent=claude&status=completed").one("a", class_="sum")

    assert pill.attributes["href"] == "/usage?agent=claude"


def test_quotas_name_who_used_them(daemon: Running, browser: Browser) -> None:
    """A window of five hours, which began an hour ago."""
    now = int(time.time() * 1_000)
    window = QuotaWindow(minutes=300, used_percent=35.0, resets_at=now + 4 * HOUR)
    names: dict[str, Any] = {"stream": "one", "session": "one", "provider": "codex", "ts": now}
    daemon.commit(
        commit(
            event(SessionEvent, state="started", title="First", **names),
            event(Usage, scope="step", input_tokens=1_000, output_tokens=20, quota=[window], **names),
            stream="one",
        )
    )
    quota = shown(browser, "/usage").one("ul", class_="quotas").one("li")

    assert quota.all("p")[0].text.startswith("Codex: 35 % of 5 h used, resets ")
    assert quota.all("rect")[1].attributes["width"] == "35.0"
    assert quota.all("p")[1].text == "Used most by First (1.0 k tokens)"
    assert quota.one("a").attributes["href"] == "/sessions/one/usage"
    assert not shown(browser, "/usage?agent=codex").all("ul", class_="quotas")
