"""How a browser gets in: by a link, once; then with its cookie and a proof that a page of our origin asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.daemon.events import commit, message
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser, browsed, free_port
from tests.daemon.web.http.test_guard import assert_refused

NAVIGATION = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "none"}
USED = "this link was used before, or is too old; `tooltap serve link` prints a new one"


@pytest.fixture
def browser(common: tuple[Running, Browser]) -> Browser:
    return common[1]


def entered(browser: Browser, code: str) -> tuple[int, str, str]:
    """Use a code that must not let anybody in."""
    answer = browser.get("/login", {"Authorization": ""}, method="POST", body=code.encode())
    assert "set-cookie" not in answer.headers
    return answer.error


def test_link_works_once(browser: Browser) -> None:
    link = browser.link()
    assert link.startswith(f"{browser.url}/#login=")
    browser.log_in(link)

    assert entered(browser, link.partition("=")[2]) == (403, "used", USED)


@pytest.mark.parametrize("code", ["", "wrong", "\xff", "x" * 60_000])
def test_wrong_code_is_refused(browser: Browser, code: str) -> None:
    assert entered(browser, code) == (403, "used", USED)
    assert entered(browser, browser.token) == (403, "used", USED)


def test_what_the_browser_gets(browser: Browser) -> None:
    code = browser.link().partition("=")[2]
    answer = browser.get("/login", {"Authorization": ""}, method="POST", body=code.encode())

    attributes = {one.strip() for one in answer.headers["set-cookie"].split(";")[1:]}
    assert attributes == {"HttpOnly", "Max-Age=2592000", "Path=/", "SameSite=strict"}
    assert answer.headers["cache-control"] == "no-store"
    assert browser.token not in str(answer)
    assert code not in str(answer)


def test_cookie_needs_the_secret_and_secret_the_cookie(browser: Browser) -> None:
    known, other = browser.log_in(), browser.log_in()
    assert browser.get("/api/stats", known).status == 200
    assert browser.get("/api/stats", {**known, "Cookie": f"a=b; {known['Cookie']}; c=d"}).status == 200

    for headers in (
        {**known, "Tooltap-Page": ""},
        {**known, "Tooltap-Page": other["Tooltap-Page"]},
        {**known, "Tooltap-Page": known["Cookie"].partition("=")[2]},
        {**known, "Cookie": ""},
        {**known, "Cookie": other["Cookie"]},
        {**known, "Cookie": known["Cookie"] + "x"},
        {**known, "Authorization": f"Bearer {known['Tooltap-Page']}"},
        {**known, "Authorization": f"Bearer {known['Cookie'].partition('=')[2]}"},
    ):
        assert_refused(browser.get("/api/stats", headers))


def test_pass_opens_one_address_of_one_login(browser: Browser) -> None:
    known, other = browser.log_in(), browser.log_in()
    cookie = {"Authorization": "", "Cookie": known["Cookie"]}
    target = browser.admitted("/api/events?kind=message&limit=1", known)
    assert browser.get(target, cookie).json["events"] == []

    given = target.partition("pass=")[2]
    for address, headers in (
        (target, {"Authorization": ""}),
        (target, {**cookie, "Cookie": other["Cookie"]}),
        (f"/api/events?kind=message&limit=2&pass={given}", cookie),
        (f"/api/stats?pass={given}", cookie),
        (f"{target}&pass={given}", cookie),
        (f"{target}x", cookie),
        (target.replace("pass=", "pass=9"), cookie),
        ("/api/stats?pass=", cookie),
        ("/api/stats?pass=0.", cookie),
        ("/api/stats?pass=9" + "9" * 5_000 + ".x", cookie),
    ):
        assert_refused(browser.get(address, headers))


def test_pass_is_only_for_a_page_of_ours(browser: Browser) -> None:
    known = browser.log_in()
    target = browser.admitted("/api/stats", known)

    for headers in ({"Origin": "http://127.0.0.1:1"}, {"Sec-Fetch-Site": "same-site"}, {"Host": "evil.example"}):
        host = headers.get("Host", "")
        assert_refused(browser.get(target, {**known, **headers}), host=host)
        assert_refused(browser.get("/pass", {**known, **headers}, method="POST", body=b"/"), host=host)
    assert_refused(browser.get("/pass", {**known, "Tooltap-Page": ""}, method="POST", body=b"/"))


@pytest.mark.parametrize("site", ["none", "cross-site", "same-site", "same-origin"])
def test_login_page_is_the_same_at_every_address(browser: Browser, site: str) -> None:
    pages = {
        browser.get(address, {"Authorization": "", **NAVIGATION, "Sec-Fetch-Site": site}).body
        for address in ("/", "/?session=x", "/api/stats", "/nothing", "/events/1", f"/?token={browser.token}")
    }

    assert len(pages) == 1
    assert b"tooltap serve link" in pages.pop()
    old = browser.get("/", {"Authorization": "", "Accept": "text/html,*/*"})
    assert old.headers["content-type"] == "text/html; charset=utf-8"
    assert "frame-ancestors 'none'" in old.headers["content-security-policy"]


@pytest.mark.parametrize(
    "headers",
    [
        {**NAVIGATION, "Sec-Fetch-Dest": "iframe"},
        {**NAVIGATION, "Sec-Fetch-Mode": "no-cors"},
        {**NAVIGATION, "Host": "evil.example"},
        {"Accept": "text/html", "Host": "evil.example"},
        {"Accept": "*/*"},
    ],
)
def test_no_login_page_in_frames_and_for_others(browser: Browser, headers: dict[str, str]) -> None:
    host = headers.get("Host", "")
    assert_refused(browser.get("/", {"Authorization": "", **headers}), host=host)
    assert_refused(browser.get("/", {"Authorization": "", **headers}, method="POST"), host=host)


def test_files_of_the_login_page_are_for_our_pages(browser: Browser) -> None:
    for name in ("login.js", "origin.js", "page.css", "code.css", "icon.svg"):
        assert browser.get(f"/static/{name}", {"Authorization": ""}).status == 200
        assert_refused(browser.get(f"/static/{name}", {"Authorization": "", "Sec-Fetch-Site": "same-site"}))
    assert browser.get("/static/../http/token.py", {"Authorization": ""}).status == 404


def test_logins_are_listed_and_ended(browser: Browser) -> None:
    for one in browser.get("/api/logins").json["logins"]:
        browser.get(f"/api/logins/{one['id']}", method="DELETE")
    firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
    known = browser.log_in(known={"User-Agent": firefox})
    other = browser.log_in(known={"User-Agent": "curl/8"})
    [second, first] = browser.get("/api/logins").json["logins"]

    assert (first["browser"], second["browser"], first["address"]) == ("Firefox 140 on Linux", "curl/8", "127.0.0.1")
    assert first["created"] <= first["used"] < first["ends"]
    assert browser.get(f"/api/logins/{first['id']}", method="DELETE").json == {}
    assert_refused(browser.get("/api/stats", known))
    assert [one["id"] for one in browser.get("/api/logins", other).json["logins"]] == [second["id"]]
    sentence = f"no browser is logged in as '{first['id']}'"
    assert browser.get(f"/api/logins/{first['id']}", method="DELETE").error == (404, "not-found", sentence)
    assert browser.get(f"/api/logins/{second['id']}", other, method="DELETE").status == 200
    assert_refused(browser.get("/api/stats", other))


def test_login_makes_no_links(browser: Browser) -> None:
    """What a browser keeps must not become something that lasts longer."""
    answer = browser.get("/api/logins", browser.log_in(), method="POST")

    assert answer.error == (403, "forbidden", "only a request with the token gets a link")


def test_second_login_of_a_browser_replaces_the_first(browser: Browser) -> None:
    known = browser.log_in()
    again = browser.log_in(known=known)

    assert_refused(browser.get("/api/stats", known))
    assert browser.get("/api/stats", again).status == 200


@pytest.mark.parametrize(("address", "kind"), [("/api/events?after=start", "message"), ("/live?after=start", "card")])
def test_end_of_login_ends_its_feeds(tmp_path: Path, address: str, kind: str) -> None:
    with browsed(tmp_path) as (daemon, browser):
        known, other = browser.log_in(), browser.log_in()
        name = known["Cookie"].partition("=")[2].partition(".")[0]
        with browser.stream(browser.admitted(address, known), known) as feed, browser.stream(address, other) as stays:
            feed.until("live")
            browser.get(f"/api/logins/{name}", method="DELETE")
            assert kind not in [one.event for one in feed]  # and the connection ends

            daemon.commit(commit(message("not for everybody")))
            assert "not for everybody" in stays.until(kind)[-1].data


def test_browsers_stay_logged_in_after_restart(tmp_path: Path) -> None:
    listen = {"listen": f"127.0.0.1:{free_port()}"}
    with browsed(tmp_path, listen) as (_, browser):
        known, gone = browser.log_in(), browser.log_in()
        name = gone["Cookie"].partition("=")[2].partition(".")[0]
        browser.get(f"/api/logins/{name}", method="DELETE")
        link = browser.link()
    with browsed(tmp_path, listen) as (_, again):
        assert again.get("/api/stats", known).status == 200
        assert_refused(again.get("/api/stats", gone))
        assert entered(again, link.partition("=")[2]) == (403, "used", USED)
