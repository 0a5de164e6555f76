"""Pages of other origins, in a browser: they get nothing but 403, unless the user allows them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.chromium import PROGRAM, TIMEOUT, close
from tests.browser.serving import Site
from tests.daemon.events import commit, message
from tests.daemon.web.browsing import browsed
from tests.http_server import HttpServer
from tests.programs import found

ATTEMPTS = """
<img src="{url}/api/events"><script src="{url}/api/events"></script><link rel="stylesheet" href="{url}/api/stats">
<iframe src="{url}/"></iframe><iframe name="target"></iframe>
<form method="post" action="{url}/preferences" target="target"><input name="debug" value="on"></form>
<script>
    const tried = [
        fetch("{url}/api/events", {{credentials: "include"}}).then(() => "read", () => "failed"),
        fetch("{url}/api/sessions", {{credentials: "include", mode: "no-cors"}}).then(r => r.type, () => "failed"),
        new Promise(resolve => {{
            const source = new EventSource("{url}/api/events?after=start", {{withCredentials: true}});
            source.onmessage = () => resolve("read");
            source.onerror = () => {{ source.close(); resolve("failed"); }};
        }}),
    ];
    document.forms[0].submit();
    window.outcome = Promise.all(tried);
</script>
"""


def answers(site: Site) -> Counter[str]:
    """Count responses by status at the daemon, because a browser hides refused ones from the page."""
    with site.daemon.connect() as wire:
        return Counter(wire.ask("stats")["web"]["answers"])


@pytest.fixture
def known(browser: Browser, site: Site) -> Iterator[Page]:
    """A tab of a browser with the cookie."""
    context = browser.new_context()
    context.set_default_timeout(TIMEOUT)
    page = context.new_page()
    site.enter(page, "/api/stats")
    assert [cookie["value"] for cookie in context.cookies()]
    yield page
    close(context)


READING = """
async ([url, token]) => {
    const headers = {Authorization: `Bearer ${token}`, Accept: "text/event-stream"};
    const response = await fetch(`${url}/api/events?after=start`, {headers});
    const reader = response.body.getReader();
    for (let text = ""; ; text += new TextDecoder().decode((await reader.read()).value)) {
        if (text.includes("event: live")) return text;
    }
}
"""


def test_allowed_origin_reads_events_with_token(page: Page, tmp_path: Path) -> None:
    with (
        HttpServer(lambda _, answer: answer.whole(200, b"<!doctype html>", "Content-Type: text/html")) as other,
        browsed(tmp_path, {"origins": [other.url]}) as (daemon, gateway),
    ):
        daemon.commit(commit(message("for whom it may concern")))
        page.goto(other.url)

        assert "for whom it may concern" in page.evaluate(READING, [gateway.url, gateway.token])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_other_origin_gets_nothing(known: Page, site: Site, host: str) -> None:
    """Another port of the same host is the same site, so the browser sends the cookie."""
    page = ATTEMPTS.format(url=site.url).encode()
    before = answers(site)
    with HttpServer(lambda _, answer: answer.whole(200, page, "Content-Type: text/html")) as other:
        with known.expect_response(f"{site.url}/preferences"):
            known.goto(other.url.replace("127.0.0.1", host))
        outcome = known.evaluate("window.outcome")
        known.wait_for_load_state("networkidle")

    got = answers(site) - before
    assert got["403"] == 8
    assert got.keys() <= {"403", "404"}  # the browser may look for an icon of the page that it was on
    assert outcome == ["failed", "failed", "failed"]


def test_dns_rebinding_gets_nothing(browser: Browser, site: Site) -> None:
    """For the browser the page and the gateway have the same origin."""
    arguments = ["--host-resolver-rules=MAP evil.example 127.0.0.1", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    rebound = browser.browser_type.launch(executable_path=found(PROGRAM), args=arguments)
    try:
        page = rebound.new_page()
        for address in ("/", "/healthz", "/?pass=0.x"):
            response = page.goto(f"{site.url.replace('127.0.0.1', 'evil.example')}{address}")
            assert response is not None
            assert (response.status, response.header_value("set-cookie")) == (403, None)
            assert response.url.endswith(address)
    finally:
        rebound.close()
