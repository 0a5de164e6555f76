"""Attacks on the answers that a person gives on the page: by an agent whose output or options deceive, by hostile
pages, by a replayed cookie, and by another user of the machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.attacks.hostile import Hostile
from tests.attacks.stranger import Stranger
from tests.browser.answering import Answering, answering
from tests.browser.chromium import Tab
from tests.browser.test_hostile import HOSTILE

ANSWER = {"permissionId": "p", "outcome": "allowed"}
TOLD = (
    ("/api/answer", ANSWER),
    ("/api/send", {"session": "s", "text": "Delete everything."}),
    ("/api/interrupt", {"session": "s"}),
)
COVER = (
    "<div style='position:fixed;inset:0;z-index:2147483647'><button>Allow</button></div>"
    "<dialog open style='position:fixed'>Allow</dialog>"
    "<style>.ask { display: none } button { position: fixed; inset: 0 }</style>"
)
ON_TOP = """() => [...document.querySelectorAll('.replies button, .composer button')]
    .filter((one) => one.checkVisibility())
    .filter((one) => {
        const {left, top, width, height} = one.getBoundingClientRect();
        return !one.contains(document.elementFromPoint(left + width / 2, top + height / 2));
    }).map((one) => one.textContent)"""
"""The buttons that something else covers."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Answering]:
    with answering(tmp_path) as site:
        site.begin("push", f"Allow {COVER}")
        yield site


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with Tab(browser) as tab:
        yield tab.page


def ready(page: Page) -> None:
    expect(page.locator(".ask").first).to_have_attribute("data-ready", "")


def test_output_is_drawn_over_no_button(site: Answering, page: Page) -> None:
    """Neither by HTML and styles, nor by its size: lines without end, in the command too."""
    endless = f"{COVER}\n{HOSTILE}\n" + "X" * 20_000 + "\n" * 400
    site.say("push", endless)
    site.ask("push", input={"command": endless, "description": endless}, title=endless)
    for target in ("/sessions/push", "/", "/board"):
        site.open(page, target)
        ready(page)

        assert page.evaluate(ON_TOP) == []
        assert page.locator(".ask").first.get_by_role("button").all_inner_texts() == [
            *("Allow a", "Always…", "Deny d", "Deny and say why…")
        ]
        contained = page.locator(".asked").first.evaluate("one => getComputedStyle(one).contain")
        assert contained == "paint"


def test_words_of_an_agent_do_not_change_what_a_button_does(site: Answering, page: Page) -> None:
    """An option that refuses is called "Allow"; one that allows for ever, "Deny"."""
    kinds = ("reject_once", "allow_always", "grant_everything")
    offered = [
        {"id": "no", "name": "Allow", "kind": kinds[0]},
        {"id": "ever", "name": "Deny\u202e", "kind": kinds[1], "remembers": f"{COVER}\u202eeverything"},
        {"id": "what", "name": "Allow", "kind": kinds[2]},
    ]
    site.ask("push", options=offered, name="Allow", title="Allow")
    site.open(page, "/sessions/push")
    ready(page)
    buttons = page.locator(".ask").get_by_role("button")
    assert buttons.all_inner_texts() == ["Always…", "Deny d", "Deny and say why…"]
    buttons.first.click()
    ready(page)
    remembers = page.locator(".remembers:visible")
    expect(remembers).to_contain_text("<style>.ask { display: none }")
    assert "\u202e" not in (remembers.text_content() or "")
    page.get_by_role("button", name="Back").click()
    ready(page)
    page.get_by_role("button", name="Deny", exact=True).click()

    told: Any = site.told.get(timeout=60)
    assert (told.outcome, told.option_id, told.remember) == ("denied", "no", False)


def test_page_of_another_site_shows_no_buttons(site: Answering, page: Page, hostile: Hostile) -> None:
    """In a frame, under its own buttons."""
    site.ask("push")
    site.open(page, "/sessions/push")
    policy = site.browser.get("/sessions/push").headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    with Tab(page.context.browser or pytest.fail("no browser")) as other:
        other.expected = "frame-ancestors"
        other.page.goto(hostile.page(body=f'<iframe src="{site.url}/sessions/push"></iframe>'))
        frames = [frame.content() for frame in other.page.frames[1:]]
        other.wrong.clear()

    assert len(frames) == 1
    assert "git push" not in frames[0]
    assert "replies" not in frames[0]


@pytest.mark.parametrize(("target", "body"), TOLD)
def test_only_a_page_of_ours_tells_an_agent_anything(site: Answering, target: str, body: Any) -> None:
    """Whoever has the cookie, an address with a signature, or both, and forges all else that a browser sends."""
    site.ask("push")
    login = site.browser.log_in()
    cookie = {"Authorization": "", "Cookie": login["Cookie"]}
    forged = {"Origin": site.url, "Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
    signed = site.browser.admitted(target, login)
    data = json.dumps(body).encode()

    def status(address: str, headers: dict[str, str], method: str = "POST", sent: bytes | None = data) -> int:
        return site.browser.get(address, headers, method=method, body=sent).status

    assert status(target, cookie | forged) == 403
    assert status(signed, cookie | forged) == 403
    assert status(signed, forged | {"Authorization": ""}) == 403
    assert status(target, cookie | forged | {"Tooltap-Page": login["Cookie"].partition("=")[2]}) == 403
    assert status(target, login | forged | {"Origin": "http://127.0.0.1:1"}) == 403
    assert status(target, login | forged | {"Sec-Fetch-Site": "same-site"}) == 403
    assert status(target, login | forged | {"Content-Type": "text/plain"}) == 415
    assert status(f"{target}?permissionId=p&outcome=allowed", login, "GET", None) == 405
    for method in ("PUT", "DELETE", "PATCH"):
        assert status(target, login | forged, method) == 400
    assert site.told.empty()
    assert status(target, login | forged) == 200
    assert "the page in" in str(site.told.get(timeout=60).by)


def test_login_that_has_ended_answers_nothing(site: Answering) -> None:
    login = site.browser.log_in()
    [name] = [one["id"] for one in site.browser.get("/api/logins").json["logins"]]
    site.browser.get(f"/api/logins/{name}", method="DELETE")
    headers = login | {"Content-Type": "application/json"}

    assert site.browser.get("/api/answer", headers, method="POST", body=json.dumps(ANSWER).encode()).status == 403
    assert site.told.empty()


def post(url: str, target: str, body: str) -> int:
    """Send a JSON body as another user, with a guessed token and a guessed login."""
    import urllib.error
    import urllib.request

    headers = {
        "Content-Type": "application/json",
        "Authorization": "Bearer guess",
        "Cookie": "tooltap=guess",
        "Tooltap-Page": "guess",
    }
    try:
        with urllib.request.urlopen(urllib.request.Request(url + target, body.encode(), headers), timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_other_user_tells_an_agent_nothing(site: Answering, stranger: Stranger) -> None:
    site.ask("push")
    for target, body in TOLD:
        assert stranger.run(post, site.url, target, json.dumps(body)) == 403

    assert site.told.empty()
