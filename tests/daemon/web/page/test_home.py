"""The home page: one table of sessions, and filters that live in the address."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.daemon.events import call, commit, event, message, result
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser, browsed
from tests.daemon.web.page.reading import Element, read, shown
from tests.daemon.zones import zone_where_it_is
from tooltap.daemon.web.page.home import Total, total_words
from tooltap.protocol.events import PermissionRequest, SessionEvent, Usage

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


@pytest.fixture
def of_two_hosts(daemon: Running) -> None:
    theirs: dict[str, Any] = {"host": "box", "session": "box/theirs", "stream": "box/s"}
    used = event(Usage, index=1, scope="session", input_tokens=700_000, **theirs)
    daemon.commit(
        commit(message("there", **theirs), used, stream="box/s"),
        commit(message("here", "t", session="with/slash"), stream="t"),
    )


@pytest.mark.parametrize(
    ("query", "chosen", "found"),
    [
        ("", "Any host", {"box/theirs", "with/slash"}),
        ("host=box", "box", {"box/theirs"}),
        ("host=.", "This machine", {"with/slash"}),
        ("host=.&host=box", "This machine, box", {"box/theirs", "with/slash"}),
    ],
)
def test_sessions_of_a_host_are_chosen(
    of_two_hosts: None, browser: Browser, query: str, chosen: str, found: set[str]
) -> None:
    page = shown(browser, f"/?{query}")
    [menu] = [one for one in page.all("details", class_="menu") if one.one("summary").text == chosen]

    assert set(listed(page)) == found
    assert {"This machine", "box"} <= {one.text for one in menu.all("a")}


def test_menu_of_hosts_is_only_there_with_a_remote(three: None, browser: Browser) -> None:
    assert "Any host" not in [one.text for one in shown(browser, "/").all("summary")]


def test_home_lists_sessions_by_day(three: None, browser: Browser) -> None:
    page = shown(browser, "/")

    assert listed(page) == ["session-3", "session-2", "session-1"]
    assert [one.text for one in page.all("th", scope="rowgroup")] == ["2024-10-05", "2024-10-04"]
    row = page.all("tr")[-1]
    for fact in ("Repair it", "greeter", "fast-1", "$1.50", "1.8 M"):
        assert fact in row.text
    assert row.one("a", class_="errors").text == "1"
    assert row.one("svg").all("path")[0].attributes["data-family"] == "shell"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("agent=claude", ["session-3", "session-2"]),
        ("agent=claude&agent=gemini", ["session-3", "session-2", "session-1"]),
        ("project=greeter", ["session-1"]),
        ("project=greeter&project=elsewhere", ["session-1"]),
        ("project=elsewhere", []),
        ("status=completed&status=running", ["session-3", "session-2", "session-1"]),
        ("period=month", []),
        ("status=waiting", []),
    ],
)
def test_filters(three: None, browser: Browser, query: str, found: list[str]) -> None:
    assert listed(shown(browser, f"/?{query}")) == found


def test_filters_keep_each_other_and_all_their_values(three: None, browser: Browser) -> None:
    page = shown(browser, "/?agent=claude&agent=gemini&period=month")
    failed = next(one for one in page.all("a", class_="pill") if one.text.startswith("Failed"))

    assert failed.attributes["href"] == "/?status=failed&agent=claude&agent=gemini&period=month"


def test_period_is_counted_from_now(daemon: Running, browser: Browser) -> None:
    now = int(time.time() * 1_000)
    for name, days in (("today", 0.1), ("lately", 5), ("before", 20)):
        daemon.commit(commit(message("x", name, session=name, ts=now - int(days * DAY)), stream=name))

    found = {period: listed(shown(browser, f"/?period={period}")) for period in ("day", "week", "month")}

    assert found == {"day": ["today"], "week": ["today", "lately"], "month": ["today", "lately", "before"]}


def test_counts_are_of_what_the_other_filters_let_through(three: None, browser: Browser) -> None:
    page = shown(browser, "/?agent=claude&status=failed")

    counts = {one.attributes["data-count"]: one.text for one in page.all("span") if "data-count" in one.attributes}
    assert (counts["all"], counts["failed"]) == ("2", "0")
    assert "No session is like this." in page.one("p", id="empty").text


def test_errors_lead_to_the_failed_calls(three: None, browser: Browser) -> None:
    link = shown(browser, "/").one("a", class_="errors").attributes["href"]

    assert [one.attributes["data-status"] for one in shown(browser, link).all("article", class_="tool-call")] == [
        "failed"
    ]


def test_older_rows_come_in_parts_of_which_each_row_is_in_one(daemon: Running, browser: Browser) -> None:
    names = [f"s{number:03}" for number in range(230)]
    for number, name in enumerate(names):
        daemon.commit(commit(message("x", name, session=name, ts=20_000 * DAY + number), stream=name))
    page = shown(browser, "/")
    first = page.all("tbody")
    older = read(browser.get(f"/rows?before={first[-1].attributes['data-last']}").body)
    last = read(browser.get(f"/rows?before={older.all('tbody')[-1].attributes['data-last']}").body)

    found = [*listed(page), *listed(older), *listed(last)]

    assert found == names[::-1]
    assert [len(listed(part)) for part in [*first, *older.all("tbody"), *last.all("tbody")]] == [50, 50, 50, 50, 30]
    assert ["data-more" in one.attributes for one in last.all("tbody")] == [False]
    assert [one.text for one in page.all("th", scope="rowgroup")] == ["2024-10-04"]
    assert older.all("th", scope="rowgroup") == []
    second = older.all("tbody")[0].attributes
    again = read(browser.get(f"/rows?before={second['data-before']}&last={second['data-last']}").body)
    assert listed(again) == listed(older.all("tbody")[0])
    link = page.one("a", id="older-sessions").attributes["href"]
    assert listed(shown(browser, link)) == listed(older)


def test_what_waits_is_on_top_in_full(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(event(SessionEvent, state="started", title="Repair it", cwd="/src/greeter"), call("1")))
    asked: dict[str, Any] = {"permission_id": "p", "type": "permission", "call_id": "1", "name": "Bash"}
    daemon.commit(commit(event(PermissionRequest, **asked, input={"command": "rm -rf build"}, line=2), base=1))

    page = shown(browser, "/")

    ask = page.one("section", class_="ask")
    assert "rm -rf build" in ask.text
    assert "/src/greeter" in ask.one("p", class_="where").text
    assert "hidden" not in page.one("a", id="waits").attributes
    assert page.one("a", id="waits").text == "1\xa0waiting"


def test_row_says_which_session_it_comes_from(daemon: Running, browser: Browser) -> None:
    """Also when it is sent again. A session that is not known has no link."""
    daemon.commit(commit(event(SessionEvent, state="started", title="Repair it"), call("1")))
    where: dict[str, Any] = {"stream": "f", "session": "fork"}
    origin: dict[str, Any] = {"forked_from": "session-1", "parent_session": "gone"}
    daemon.commit(commit(event(SessionEvent, state="started", **origin, **where), call("1", **where), stream="f"))

    def origins(row: Element) -> list[tuple[str, str, list[str]]]:
        marks = row.all("span", class_="origin")
        return [(one.text, one.attributes["title"], [a.attributes["href"] for a in one.all("a")]) for one in marks]

    wanted = [("forked from Repair it", "Repair it", ["/sessions/session-1"]), ("started by gone", "gone", [])]
    page = shown(browser, "/")
    assert [origins(one) for one in page.all("tr") if "data-session" in one.attributes] == [wanted, []]
    with browser.stream("/rows/live") as stream:
        stream.until("counts")
        daemon.commit(commit(message("more", **where), stream="f", base=1))
        assert origins(read(f"<table>{stream.until('row')[-1].data}</table>")) == wanted


def test_changes_are_sent_row_by_row(three: None, daemon: Running, browser: Browser) -> None:
    with browser.stream("/rows/live?agent=claude") as stream:
        stream.until("waits")
        daemon.commit(commit(message("new", "v", session="new", provider="claude", ts=20_002 * DAY), stream="v"))
        sent = stream.until("counts")
        daemon.commit(commit(message("not asked for", "w", session="hidden", ts=20_002 * DAY), stream="w"))
        gone = stream.until("gone")[-1]

    assert [one.event for one in sent] == ["row", "counts"]
    assert listed(read(f"<table>{sent[0].data}</table>")) == ["new"]
    assert sent[1].json["all"] == 3
    assert sent[1].json["total"] == "0 tokens"
    assert gone.data == "hidden"


def test_total_is_that_of_the_page_of_the_usage(daemon: Running, browser: Browser) -> None:
    """Also of a session with tokens of no known cost, and 100,000 for $5 a million; the other one cost $1.25."""
    tokens: dict[str, Any] = {"scope": "step", "input_tokens": 100_000, "output_tokens": 0, "ts": 20_000 * DAY}
    daemon.commit(
        commit(
            message("x", ts=20_000 * DAY),
            event(Usage, model="claude-opus-4-5", **tokens),
            event(Usage, model="nobody-knows-this", **tokens),
        ),
        commit(
            message("x", "t", session="session-2", ts=20_000 * DAY),
            event(Usage, "t", session="session-2", cost_usd=1.25, model="m-1", **tokens),
            stream="t",
        ),
    )

    of_all = shown(browser, "/usage?zone=UTC").one("dl", class_="totals").all("dd")[0].text
    rows = {one["session"]: one for one in browser.get("/api/sessions").json["sessions"]}
    with browser.stream("/rows/live") as stream:
        assert stream.until("counts")[-1].json["total"] == "$1.75 · 300 k tokens"
    assert of_all == "about $1.75"
    known = {name: (one.get("costUsd"), one.get("knownCostUsd")) for name, one in rows.items()}
    assert known == {"session-1": (None, 0.5), "session-2": (1.25, None)}


def test_total_with_a_lower_bound_is_one() -> None:
    assert total_words(Total(3.209, 1_880_000)) == "$3.21 · 1.9 M tokens"
    assert total_words(Total(3.209, 1_880_000, is_tokens_bound=True)) == "$3.21 · ≥ 1.8 M tokens"
    assert total_words(Total(3.209, 1_880_000, True, True)) == "≥ $3.20 · ≥ 1.8 M tokens"


def test_budget_is_of_the_readers_day(tmp_path: Path) -> None:
    """What was spent six hours ago: where it is one o'clock in the afternoon today, and where it is two in the night
    yesterday."""
    spent = event(Usage, scope="session", cost_usd=3.0, ts=int(time.time() * 1_000) - 6 * 3_600_000)
    with browsed(tmp_path, usage={"budget": {"day": 2.5}}) as (daemon, browser):
        daemon.commit(commit(spent))
        assert shown(browser, "/").one("div", id="budgets").attributes["data-address"] == "/budgets"
        zones = [urlencode({"zone": zone_where_it_is(hour)}) for hour in (13, 2)]
        found = [shown(browser, f"/budgets?{zone}").text.strip() for zone in zones]
        refused = browser.get("/budgets?zone=Europe/Atlantis")

    assert found == ["Over budget today: $3.00 of $2.50", ""]
    assert (refused.status, "there is no time zone 'Europe/Atlantis'" in refused.body.decode()) == (400, True)


def test_reader_that_comes_back_gets_what_changed_meanwhile(three: None, daemon: Running, browser: Browser) -> None:
    with browser.stream("/rows/live?after=4") as stream:
        sent = stream.until("counts")

    assert [listed(read(f"<table>{one.data}</table>"))[0] for one in sent if one.event == "row"] == [
        "session-2",
        "session-3",
    ]
    assert "$1.50 · 1.8 M tokens" in sent[-1].json["total"]


def test_many_changes_are_not_sent_row_by_row(daemon: Running, browser: Browser) -> None:
    for number in range(50):
        daemon.commit(commit(message("x", f"t{number}", session=f"s{number}"), stream=f"t{number}"))
    with browser.stream("/rows/live?after=0") as stream:
        sent = stream.until("counts")

    assert [one.event for one in sent] == ["renew", "counts"]


def test_wrong_filter_is_an_error_page(browser: Browser) -> None:
    assert browser.get("/?status=odd").status == 400


def test_empty_journal_shows_how_to_begin(browser: Browser) -> None:
    assert "tooltap run" in shown(browser, "/").one("p", id="empty").text
