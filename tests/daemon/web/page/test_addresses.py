"""The addresses of the page: of a session, of one that is not known, and those of earlier versions."""

from __future__ import annotations

import pytest

from tests.daemon.events import commit, event, message
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser
from tests.daemon.web.page.reading import read, seqs, shown
from tooltap.daemon.web.page.addresses import session_url
from tooltap.protocol.events import SessionEvent


def test_unknown_session_says_so_and_suggests_others(daemon: Running, browser: Browser) -> None:
    daemon.commit(
        commit(event(SessionEvent, state="started", title="Repair the greeter"), message("Done.")),
        commit(message("x", "t", session="another"), stream="t"),
    )

    mistyped = browser.get("/sessions/sesion-1")
    titled = browser.get("/sessions/greeter")
    odd = browser.get("/sessions/%FF%2F..%3Cb%3E")

    assert [mistyped.status, titled.status, odd.status] == [404, 404, 404]
    page = read(mistyped.body)
    assert page.one("h1").text == "There is no session “sesion-1” in the journal."
    for answer in (mistyped, titled):
        assert read(answer.body).one("ul", class_="near").one("a").attributes["href"] == "/sessions/session-1"
    assert read(odd.body).all("ul", class_="near") == []
    assert "/" in [one.attributes["href"] for one in read(odd.body).one("main").all("a")]


def test_session_has_an_address_whatever_its_id(daemon: Running, browser: Browser) -> None:
    name = 'a/b ?c#d%2F"<b>\u202e'
    daemon.commit(commit(message("x", session=name)))

    page = shown(browser, session_url(name))

    assert seqs(page) == [1]
    assert browser.get(f"{session_url(name)}?session=other").status == 400


def test_session_whose_id_ends_like_an_address_is_not_a_part_of_another(daemon: Running, browser: Browser) -> None:
    ends = ("files", "usage", "plan", "details", "share", "export.html", "export.md")
    daemon.commit(commit(message("x", session="a")))
    for end in ends:
        daemon.commit(commit(message(end, end, session=f"a/{end}"), stream=end))

    for number, end in enumerate(ends, 2):
        address = session_url(f"a/{end}")
        assert seqs(shown(browser, address)) == [number]
        assert browser.get(f"{address}/{end}").status == 200
        assert browser.get(f"/sessions/a/{end}").status == 200
    assert browser.get("/api/sessions/a%2Ffiles").status == 404
    assert browser.get("/api/sessions/a%2Ffiles/files").status == 200


@pytest.mark.parametrize("name", ["a\nb", "a\n", "\n", "a\r\nb/c\n", "a\u2028b"])
def test_session_has_pages_though_its_id_has_line_ends(name: str, daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(message("x", session=name)))
    daemon.commit(commit(message("x", "t", session="a"), stream="t"))

    assert seqs(shown(browser, session_url(name))) == [1]
    assert [browser.get(f"{session_url(name)}/{one}").status for one in ("files", "usage", "share")] == [200] * 3
    assert browser.get(f"/api{session_url(name)}/files").status == 200


def test_timeline_of_one_session_is_its_page(browser: Browser) -> None:
    answer = browser.get("/events?session=s&before=4")

    assert (answer.status, answer.headers["Location"]) == (303, "/sessions/s?before=4")
