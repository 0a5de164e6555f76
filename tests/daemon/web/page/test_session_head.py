"""The head of a session's page: what one asks at a glance, and what waits for a person."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.events import call, commit, event, message, result
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser
from tests.daemon.web.page.reading import shown
from tooltap.daemon.journal.interface import Commit, Journal
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.web.page.session import Heads
from tooltap.daemon.web.page.successors import Successors
from tooltap.protocol.events import PermissionRequest, SessionEvent, Turn, Usage


def test_head_has_what_one_asks_at_a_glance(daemon: Running, browser: Browser) -> None:
    daemon.commit(
        commit(
            event(SessionEvent, state="started", model="fast-1", title="Repair it", cwd="/src/greeter"),
            call("1"),
            result("1", status="failed", is_error=True),
            event(Usage, scope="session", cost_usd=1.5, input_tokens=1_800_000),
        )
    )

    page = shown(browser, "/sessions/session-1")
    head = page.one("div", id="head")

    assert page.one("h1").text == "Repair it"
    for fact in ("fast-1", "greeter", "1 call", "1 error", "$1.50", "1.8 M tokens"):
        assert fact in head.text


def test_head_links_the_sessions_that_it_comes_from(daemon: Running, browser: Browser) -> None:
    daemon.commit(
        commit(event(SessionEvent, session="old", state="started", title="Repair it"), call("1", session="old")),
        commit(
            event(SessionEvent, "f", state="started", forked_from="old", resumes="unknown", parent_session="old"),
            call("2", "f"),
            stream="f",
        ),
    )

    head = shown(browser, "/sessions/session-1").one("div", id="head")

    links = [(one.text, one.attributes["href"]) for one in head.all("a") if one.text == "Repair it"]
    assert links == [("Repair it", "/sessions/old")] * 2
    for words in ("Forked from Repair it", "Continues unknown", "Started by Repair it"):
        assert words in " ".join(head.text.split())


def fork(name: str, **origin: Any) -> Commit:
    return commit(
        event(SessionEvent, name, session=name, state="started", **origin), call("1", name, session=name), stream=name
    )


def test_head_links_the_sessions_that_come_from_it(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(call("1", session="old")), fork("f", forked_from="old", title="A fork"))
    daemon.commit(fork("r", resumes="old"), fork("t", parent_session="old"), fork("u", forked_from="other"))

    def linked(target: str) -> list[tuple[str, str]]:
        page = shown(browser, target)
        there = page.one("div", id="head") if target == "/sessions/old" else page.all("dl", class_="details")[0]
        links = [(one.text, one.attributes["href"]) for one in there.all("a")]
        return [one for one in links if one[1].startswith("/sessions/") and not one[1].endswith("/share")]

    wanted = [("A fork", "/sessions/f"), ("r", "/sessions/r"), ("t", "/sessions/t")]
    assert linked("/sessions/old") == wanted
    assert linked("/sessions/old/details") == wanted
    head = " ".join(shown(browser, "/sessions/old").one("div", id="head").text.split())
    assert "Forked as A fork Continued as r Started t" in head

    for name in "vwxyz":  # found though the rows were read before; the head has room for four
        daemon.commit(fork(name, forked_from="old"))
    assert linked("/sessions/old")[:5] == [
        *((name, f"/sessions/{name}") for name in "zyxw"),
        ("2 more", "/sessions/old/details"),
    ]
    assert len(linked("/sessions/old/details")) == 8


def test_what_waits_is_on_top_in_full(daemon: Running, browser: Browser) -> None:
    asked = event(
        PermissionRequest,
        permission_id="p",
        type="permission",
        call_id="1",
        name="Bash",
        input={"command": "rm -rf build"},
    )
    daemon.commit(commit(call("1"), asked))

    ask = shown(browser, "/sessions/session-1").one("section", class_="ask")

    assert "rm -rf build" in ask.text
    assert "where the agent runs" in ask.text
    assert ask.all("button") == []


def test_turn_carries_what_it_took(daemon: Running, browser: Browser) -> None:
    daemon.commit(
        commit(
            event(Turn, state="started"),
            message("x"),
            event(Usage, scope="step", context_used=20, context_size=100),
            event(Usage, scope="step", context_used=50, context_size=100),
            event(Usage, scope="turn", cost_usd=0.75),
            event(Usage, scope="session", cost_usd=8.0),
            event(Turn, state="completed", duration_ms=360_000),
        )
    )

    turn = shown(browser, "/sessions/session-1").one("article", id="e1")
    facts = [one.text for one in turn.all("span", class_="fact")]

    assert (turn.one("span", class_="title").text, facts) == ("Turn", ["$0.75", "context 50 %", "6 min"])


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    journal = await SqliteJournal.open(tmp_path / "journal.db")
    yield journal
    await journal.close()


@pytest.mark.anyio
async def test_head_is_rendered_again_only_when_it_says_something_else(journal: Journal) -> None:
    heads = Heads(journal, Successors(journal))
    assert await heads.of("old") is None
    await journal.commit(commit(call("1", session="old")))
    first = await heads.of("old")
    await journal.commit(fork("other", title="Another"))
    assert await heads.of("old") is first

    await journal.commit(fork("f", forked_from="old", title="A fork"))
    later = await heads.of("old")
    assert first is not None
    assert later is not None
    assert "A fork" not in first.html
    assert "A fork" in later.html
