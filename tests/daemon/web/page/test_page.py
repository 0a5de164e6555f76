"""The page over HTTP: its content, its links, and preferences."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.daemon.containment.test_retention import fail
from tests.daemon.events import call, commit, event, message, result
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser, browsed
from tests.daemon.web.page.reading import hrefs, prefer, read, section, seqs, shown
from tooltap.daemon.journal.sqlite import retention
from tooltap.daemon.web.page.addresses import session_url
from tooltap.protocol.events import SessionEvent, Usage

SCRIPTS = ["/static/forms.js", "/static/page.js"]
HOSTILE = "\"><script>alert(1)</script>' \x1b]0;x\x07\u202egnp.exe"


def test_page_has_sessions_and_timeline(daemon: Running, browser: Browser) -> None:
    daemon.commit(
        commit(event(SessionEvent, state="started", model="fast-1", title="Fix the tests"), message("old")),
        commit(
            message("x", "t", session="session-2", provider="claude"), call("1", "t", session="session-2"), stream="t"
        ),
        commit(event(Usage, scope="session", cost_usd=1.5, line=2), base=1),
    )

    page = shown(browser)
    first, second = page.one("nav", class_="sessions").all("li")

    assert [first.attributes["data-session"], second.attributes["data-session"]] == ["session-1", "session-2"]
    assert first.one("a").attributes["href"] == "/sessions/session-1"
    assert "Fix the tests" in first.text
    for fact in ("Gemini CLI", "fast-1", "3 events", "$1.50", "open"):
        assert fact in first.text
    assert "1 open call" in second.text
    assert seqs(page) == [2, 3, 4]
    assert page.one("div", id="feed").attributes["role"] == "feed"
    assert seqs(shown(browser, "/events?kind=session&kind=usage")) == [1, 5]


def test_sessions_show_end_of_their_ids(daemon: Running, browser: Browser) -> None:
    for session in ("0000-0000-abc123", "0000-0000-def456"):
        daemon.commit(commit(message("x", session[-1], session=session), stream=session[-1]))

    page = shown(browser)

    assert [one.one("span", class_="tail").text for one in page.all("li")] == ["def456", "abc123"]
    assert [one.one("span", class_="of").text[-6:] for one in page.all("article")] == ["abc123", "def456"]


def test_empty_journal_shows_how_to_begin(browser: Browser) -> None:
    page = shown(browser)

    assert "tooltap run" in page.one("p", id="empty").text
    assert "hidden" not in page.one("p", id="empty").attributes
    assert seqs(page) == []
    assert hrefs(page) == {}


def test_call_and_its_events_are_one_card(daemon: Running, browser: Browser) -> None:
    output = {"stdout": "hello from the shell", "exit_code": 0}
    daemon.commit(commit(call("1"), message("between"), result("1", output=output)))

    page = shown(browser, "/events?text=hello")
    card = page.one("article", id="e1")

    assert card.attributes["data-status"] == "completed"
    assert [one.attributes["id"] for one in card.all("article")] == ["e3"]
    assert "hello from the shell" in card.one("div", **{"data-slot": "output"}).text
    assert card.all("a", class_="head")[0].attributes["href"] == "/events/1"


def test_pages_link_to_older_and_newer_ones(tmp_path: Path) -> None:
    with browsed(tmp_path, {"cards": 3}) as (daemon, browser):
        daemon.commit(commit(*(message(str(n)) for n in range(8))))
        newest = shown(browser)
        older = shown(browser, hrefs(newest)["older"])
        oldest = shown(browser, hrefs(older)["older"])
        back = shown(browser, hrefs(oldest)["newer"])

        assert [seqs(page) for page in (newest, older, oldest, back)] == [[6, 7, 8], [3, 4, 5], [1, 2], [3, 4, 5]]
        assert "newer" not in hrefs(newest)
        assert "older" not in hrefs(oldest)
        assert newest.one("main").attributes["data-newest"] == "true"
        assert older.one("main").attributes["data-newest"] == "false"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"session": "session-2"}, [5, 6]),
        ({"provider": "claude"}, [5, 6]),
        ({"kind": "message"}, [1, 5]),
        ({"kind": ["message", "tool-result"]}, [1, 3, 5]),
        ({"tool": "Bash"}, [2, 3, 4, 6]),
        ({"tool": "sh", "session": "session-1"}, [2, 4]),
        ({"agent": "child"}, [5]),
        ({"stream": "t", "kind": "tool-call"}, [6]),
        ({"state": "failed"}, [2, 3]),
        ({"state": "failed", "kind": "tool-result"}, [3]),
        ({"state": "running"}, [4, 6]),
        ({"text": "NEEDLE"}, [1]),
        ({"text": "needle", "provider": "claude"}, []),
        ({"provider": "", "kind": "", "tool": "", "state": "", "text": ""}, [1, 2, 3, 4, 5, 6]),
    ],
    ids=str,
)
def test_query_filters_events(daemon: Running, browser: Browser, query: dict[str, Any], found: list[int]) -> None:
    other: dict[str, Any] = {"stream": "t", "session": "session-2", "provider": "claude"}
    daemon.commit(
        commit(message("a needle"), call("1"), result("1", status="failed", is_error=True), call("2")),
        commit(message("x", agent="child", **other), call("3", **other), stream="t"),
    )

    page = shown(browser, f"/events?{urlencode(query, doseq=True)}")

    assert sorted(seqs(page)) == found
    chips = [one.attributes["href"] for one in page.all("ul", class_="chips") for one in one.all("a")]
    named = [value for name, value in query.items() if name != "session"]  # the head names the session
    assert len(chips) == len([one for value in named for one in ([value] if isinstance(value, str) else value) if one])


def test_filter_chip_removes_one_filter(browser: Browser) -> None:
    page = shown(browser, "/events?provider=claude&provider=codex&text=a%26b")

    assert {one.attributes["href"] for one in page.one("ul", class_="chips").all("a")} == {
        "/events?provider=codex&text=a%26b",
        "/events?provider=claude&text=a%26b",
        "/events?provider=claude&provider=codex",
    }


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("before=x", "before"),
        ("at=-1", "at"),
        ("after=99999999999999999999", "after"),
        ("state=perfect", "state"),
        ("colour=red", "unknown key `colour`"),
        ("text=%FF", "the query is not UTF-8"),
        ("text=" + "x" * 1_001, "text"),
    ],
)
def test_bad_query_is_an_error_page(browser: Browser, query: str, sentence: str) -> None:
    answer = browser.get(f"/events?{query}")

    assert answer.status == 400
    assert sentence in read(answer.body).one("main").text


def test_slow_search_continues_on_next_page(tmp_path: Path) -> None:
    with browsed(tmp_path, {"search_bytes": 4_096}) as (daemon, browser):
        daemon.commit(commit(message("needle"), *(message("x" * 500) for _ in range(30))))
        page = shown(browser, "/events?text=needle")
        pages = 1
        while not seqs(page):
            page = shown(browser, hrefs(page)["older"])
            pages += 1

        assert seqs(page) == [1]
        assert 3 < pages < 10
        assert "older" not in hrefs(page)


def test_card_includes_result_from_next_page(tmp_path: Path) -> None:
    with browsed(tmp_path, {"cards": 2}) as (daemon, browser):
        daemon.commit(commit(call("1"), call("2"), message("x"), result("2"), result("1"), message("y")))

        first = shown(browser, "/events?after=0")
        found = shown(browser, "/events?kind=tool-call&after=0")

        assert seqs(first) == [1, 5, 2, 4]
        assert [one.attributes["data-status"] for one in first.all("article", class_="tool-call")] == ["completed"] * 2
        assert section(first)["data-last"] == "2"
        assert seqs(found) == [1, 2]


def test_found_result_is_shown_with_its_call(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(call("1"), message("x"), result("1", output={"stdout": "needle"}), call("2")))

    assert seqs(shown(browser, "/events?text=needle")) == [1, 3]
    assert seqs(shown(browser, "/events?text=needle&kind=tool-result")) == [3]


def test_subagent_of_another_stream_is_in_card_of_its_call(tmp_path: Path) -> None:
    """Also where only a later page says which call has started it."""
    child: dict[str, Any] = {"stream": "child", "agent": "a"}
    about: dict[str, Any] = {"agent": "a", "parent": "task", "last_session": "session-1"}
    with browsed(tmp_path, {"cards": 3}) as (daemon, browser):
        daemon.commit(
            commit(call("task")),
            commit(message("before", **child), message("more", **child), stream="child", **about),
            commit(event(SessionEvent, state="updated", parent="task", **child), stream="child", base=1, **about),
        )

        page = shown(browser, "/events?after=0")

        assert seqs(page) == [1, 2, 3]
        assert [one.attributes["id"] for one in page.one("article", id="e1").all("article")] == ["e2", "e3"]


def test_link_to_event_opens_page_around_it(tmp_path: Path) -> None:
    with browsed(tmp_path, {"cards": 4}) as (daemon, browser):
        daemon.commit(commit(*(message(str(n)) for n in range(20))))

        page = shown(browser, "/sessions/session-1?at=9")

        assert seqs(page) == [8, 9, 10, 11]
        assert hrefs(page)["older"] == "/sessions/session-1?before=8"
        assert hrefs(page)["newer"] == "/sessions/session-1?after=11"


def test_a_link_names_its_event_by_id(tmp_path: Path) -> None:
    """The number of an event changes when the journal is built again; a link that names none says so."""
    with browsed(tmp_path, {"cards": 4}) as (daemon, browser):
        daemon.commit(commit(*(message(str(n), "other", id=f"other:{n}:0") for n in range(5)), stream="other"))
        daemon.commit(commit(*(message(str(n), "s", id=f"s:{n}:0") for n in range(5)), stream="s"))
        event_id = browser.get("/api/events/7").json["event"]["id"]
        path = "/sessions/session-1"
        sentence = "The event of this link is not in the journal any more."

        page = shown(browser, f"{path}?at=7")
        moved = browser.get(f"{path}?at=2&event={event_id}")
        gone = [shown(browser, f"{path}?{query}") for query in ("at=99", "at=7&event=s:99:0")]

    assert page.one("main").attributes["data-event"] == event_id
    assert (moved.status, moved.headers["location"]) == (303, f"{path}?{urlencode({'at': 7, 'event': event_id})}#e7")
    for one in gone:
        assert sentence in [said.text for said in one.all("p")]
        assert "data-event" not in one.one("main").attributes
    assert sentence not in [said.text for said in page.all("p")]


def test_cards_are_a_section(tmp_path: Path) -> None:
    with browsed(tmp_path, {"cards": 3}) as (daemon, browser):
        daemon.commit(commit(call("1"), message("2"), message("3"), message("4"), result("1"), message("6")))

        older = shown(browser, "/cards?before=5")
        newer = shown(browser, "/cards?after=2")
        again = shown(browser, "/cards?first=1&last=3&also=5&also=99")

        assert [seqs(page) for page in (older, newer, again)] == [[2, 3, 4], [3, 4, 5], [1, 5, 2, 3]]
        assert section(older) == {
            "class": "cards",
            "data-first": "2",
            "data-last": "4",
            "data-older": "true",
            "data-newer": "true",
        }
        assert again.one("article", id="e1").attributes["data-status"] == "completed"


def test_card_has_requested_level(daemon: Running, browser: Browser) -> None:
    lines = "\n".join(str(n) for n in range(100))
    daemon.commit(commit(call("1"), result("1", output={"stdout": lines})))

    title = shown(browser, "/cards/2?level=title")
    summary = shown(browser, "/cards/2?level=summary")
    full = shown(browser, "/cards/2?level=full")
    whole = shown(browser, "/cards/1?level=expanded&also=2")

    assert [page.one("article", id="e2").attributes["data-level"] for page in (title, summary, full, whole)] == [
        *("title", "summary", "full", "full")
    ]
    assert [("99" in page.text, "\n5\n" in page.text) for page in (title, summary, full)] == [
        (False, False),
        (False, True),
        (True, True),
    ]
    assert [one.attributes["id"] for one in whole.inside] == ["e1"]


def test_missing_card_is_not_found(browser: Browser) -> None:
    assert browser.get("/cards/5").error == (404, "not-found", "there is no event 5 to show")
    assert browser.get(f"/cards/{10**30}").error == (404, "not-found", f"there is no event {10**30}")
    assert browser.get("/cards/x").status == 404
    assert browser.get("/cards/1?level=huge").status == 400


def test_preferences_are_remembered(daemon: Running, browser: Browser) -> None:
    transcript: dict[str, Any] = {"stream": "t", "dialect": "claude-transcript"}
    daemon.commit(commit(call("1"), call("2", name="Read")), commit(call("3", **transcript), stream="t"))
    cookie = prefer(
        browser, level="title", transcripts="full", tool="Read", tool_level="full", tap="open", theme="dark", debug="on"
    )

    page = shown(browser, Cookie=cookie)
    levels = [page.one("article", id=f"e{n}").attributes["data-level"] for n in (1, 2, 3)]
    chosen = [one for one in page.one("section", id="preferences").all("input") if "checked" in one.attributes]

    assert levels == ["title", "full", "full"]
    assert page.one("html").attributes["data-theme"] == "dark"
    assert page.one("body").attributes["data-tap"] == "open"
    assert [one.attributes.get("value", one.attributes["name"]) for one in chosen] == ["open", "end", "dark", "debug"]
    assert "open" in shown(browser, "/events/1", Cookie=cookie).one("details", id="json-raw").attributes
    assert "open" not in shown(browser, "/events/1").one("details", id="json-raw").attributes


def test_invalid_cookie_is_ignored(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(call("1")))

    page = shown(browser, Cookie="tooltap_preferences=xyz; other=1")

    assert page.one("article", id="e1").attributes["data-level"] == "title"


def test_invalid_form_is_an_error_page(browser: Browser) -> None:
    answer = browser.get("/preferences", method="POST", body=b"level=huge")

    assert answer.status == 400
    assert "invalid preference" in read(answer.body).one("main").text
    assert "Set-Cookie" not in answer.headers
    assert browser.get("/preferences").status == 405


def test_event_page_has_three_views(daemon: Running, browser: Browser) -> None:
    shown_to_user = {"origin": "rule", "text": "for the user"}
    output = {"stdout": "for the model", "_raw": {"verbatim": "the provider's"}}
    daemon.commit(commit(call("1"), result("1", output=output, display=shown_to_user), message("next")))

    page = shown(browser, "/events/2")
    views = {name: page.one("details", id=f"json-{name}").text for name in ("display", "assistant", "raw")}

    assert page.one("section", id="view-user").attributes["data-verdict"] == "differs"
    assert "for the user" in views["display"]
    assert "for the model" not in views["display"]
    assert "for the model" in views["assistant"]
    assert "for the user" not in views["assistant"]
    assert ["the provider's" in view for view in views.values()] == [False, False, True]
    assert hrefs(page) == {"previous": "/events/1", "next": "/events/3", "in-timeline": "/sessions/session-1?at=2#e2"}


def test_event_page_shows_whole_call(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(call("1"), call("2"), message("x"), result("2"), result("1"), message("y")))

    assert [seqs(shown(browser, f"/events/{seq}")) for seq in (1, 4, 5, 6)] == [[1, 5], [2, 4], [1, 5], [6]]


@pytest.mark.parametrize("seq", [0, 7, 2**63 - 1, 2**63, 10**30])
def test_missing_event_is_not_found(browser: Browser, seq: int) -> None:
    answer = browser.get(f"/events/{seq}")

    assert answer.status == 404
    assert f"there is no event {seq}" in read(answer.body).one("main").text


def test_json_of_view_can_be_copied(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(message('a\x1b[0m\u202eb "c" <d> é')))

    text = shown(browser, "/events/1").one("details", id="json-raw").one("div", class_="json").text

    assert '"text": "a\\u001b[0m\\u202eb \\"c\\" <d> é"' in text


def test_hostile_names_are_text(daemon: Running, browser: Browser) -> None:
    daemon.commit(
        commit(
            event(SessionEvent, state="started", session=HOSTILE, title=HOSTILE, model=HOSTILE, provider=HOSTILE),
            call("1", session=HOSTILE, title=HOSTILE, name=HOSTILE, agent=HOSTILE),
        )
    )
    query = urlencode({"text": HOSTILE, "tool": HOSTILE, "provider": HOSTILE})
    session = session_url(HOSTILE)

    pages = ["/", "/events", f"/events?{query}", f"{session}?{query}", session, "/events/1", "/events/2"]
    for target in pages:
        answer = browser.get(target)
        page = read(answer.body)
        scripts = [one.attributes.get("src") for one in page.all("script")]
        assert answer.status == 200
        assert scripts in ([], SCRIPTS)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", page.one("main").text if page.all("main") else page.text)
        assert not any(name.startswith("on") for one in page.all("a") for name in one.attributes)

    links = [one.attributes["href"] for one in shown(browser).one("nav", class_="sessions").all("li")[0].all("a")]
    assert seqs(shown(browser, links[0])) == [2]


def test_page_has_no_inline_or_foreign_resources(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(call("1"), result("1"), message("![image](https://evil.example/x.png)")))

    for target in ("/", "/events/3", "/events?text=x", "/events?before=x"):
        page = read(browser.get(target).body)
        assert [one.attributes["src"] for one in page.all("script")] == SCRIPTS
        assert all(one.attributes["href"].startswith("/static/") for one in page.all("link"))
        assert not page.all("style")
        assert not page.all("img")
        assert not [one.tag for one in page.every() if "style" in one.attributes]


def test_static_files_are_served(browser: Browser) -> None:
    page = shown(browser)
    styles = [one.attributes["href"] for one in page.all("link", rel="stylesheet")]
    assert len(styles) == len(set(styles))
    assert "/static/code.css" in styles
    needed = [one.attributes["href"] for one in page.all("link")] + [
        one.attributes["src"] for one in page.all("script")
    ]

    types = {name: browser.get(name).headers["Content-Type"].partition(";")[0] for name in needed}

    assert set(types.values()) == {"text/css", "text/javascript", "image/svg+xml"}
    assert browser.get("/static/../page.py").status == 404
    assert browser.get("/static/none.js").status == 404


def test_old_sessions_are_on_further_pages(daemon: Running, browser: Browser) -> None:
    for n in range(60):
        daemon.commit(commit(message("x", f"s{n}", session=f"session-{n}"), stream=f"s{n}"))

    page = shown(browser)
    (older,) = page.all("a", class_="older-sessions")
    rest = shown(browser, older.attributes["href"])

    names = [one.attributes["data-session"] for part in (page, rest) for one in part.one("ol").all("li")]
    assert names == [f"session-{n}" for n in range(59, -1, -1)]


def test_form_keeps_every_value_of_a_filter(browser: Browser) -> None:
    page = shown(browser, "/events?tool=Edit&tool=MultiEdit&kind=tool-call&kind=tool-result")
    fields = [one.attributes for one in page.one("form", id="filters").all("input")]

    assert [one["value"] for one in fields if one["name"] == "tool"] == ["MultiEdit", "Edit"]
    assert [one["value"] for one in fields if one["name"] == "kind"] == ["tool-result"]
    assert "selected" in next(one for one in page.all("option") if one.text == "tool-call").attributes


def test_oldest_page_says_what_was_not_kept(daemon: Running, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a session that could not be deleted as a whole."""
    monkeypatch.setattr(retention, "STEP", 1)
    fail(monkeypatch, "_shrink", lambda connection, stream, budget: stream == "s", TypeError("put in by the test"))
    daemon.commit(commit(message("old", "o"), stream="o", state="ended", updated=1))
    daemon.commit(commit(message("other", "t", session="session-2"), stream="t"))
    daemon.commit(commit(message("old", "p"), stream="p", state="ended", updated=1))
    daemon.commit(commit(message("a"), message("b"), message("c"), state="ended", updated=1))
    daemon.expire(2)

    def notes(target: str) -> list[str]:
        return [one.text for one in shown(browser, target).all("p", class_="gap")]

    assert notes("/events") == notes("/cards?before=5") == ["Events between 1 and 3 were not kept."]
    assert notes("/cards?before=3") == ["Events between 1 and 2 were not kept."]
    assert notes("/sessions/session-1") == ["Events between 1 and 3 were not kept."]
    assert notes("/sessions/session-2") == []
