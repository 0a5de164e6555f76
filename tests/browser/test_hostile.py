"""What agents and their tools say is text, whatever it looks like: nothing of it runs, nothing is fetched for it, and
nothing of it hides or turns what stands beside it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import Tab
from tests.browser.recordings import answered, called, said
from tests.browser.serving import Site
from tooltap.protocol.tools import TOOLS

BEACON = "http://elsewhere.example/beacon"
HOSTILE = "\n".join(
    [
        "<script>alert('script')</script>",
        f"<img src={BEACON} onerror=alert('image')><svg onload=alert('svg')><iframe srcdoc='<script>alert(1)</script>'>",
        f"'\"--></textarea></title></pre></template><style>@import '{BEACON}';*{{display:none}}</style>",
        f"<link rel=stylesheet href={BEACON}><meta http-equiv=refresh content='0;url={BEACON}'><base href={BEACON}>",
        f"<form action={BEACON}><button formaction=javascript:alert(1) autofocus onfocus=alert(1)>go</button></form>",
        f"![image]({BEACON}) [link](javascript:alert(1)) [data](data:text/html,<script>alert(1)</script>)",
        "<javascript:alert(1)> <a href='java\tscript:alert(1)'>a</a> &#106;avascript:alert(1)",
        "{{ 7 * 7 }} {% raw %} ${7*7} <%= 7 %> __proto__ constructor",
        "\x1b]8;;javascript:alert(1)\x07hyper\x1b]8;;\x07 \x1b[2J\x1b[1;31mred\x1b[0m \x1b]0;title\x07 \x1b[?1049h \x9b31m",
        "\u202efdp.exe\u202c \u2066isolate\u2069 zero\u200bwidth \u061c \ufeff\u0000\u0008back\u007f",
        "https://user:pass@elsewhere.example/\u202etxt.exe javascript:alert(1) file:///etc/passwd",
    ]
)
ADDRESSES = ("javascript:alert(1)", "data:text/html,<script>alert(1)</script>", " java\nscript:alert(1)", "//elsewhere.example")
TURNING = ["\u202e", "\u202c", "\u2066", "\u2069", "\u200b", "\u061c", "\u0000", "\u001b", "\u009b"]
MEGABYTE = 1_048_576


@pytest.fixture
def hostile(site: Site) -> str:
    """The stream in which every tool was called with nothing but this, and answered with it."""
    agent = site.publish("hostile", "claude-stream", session=HOSTILE[:40])
    agent.write({"type": "system", "subtype": "init", "session_id": "<img src=x onerror=alert(1)>\u202e", "model": HOSTILE})
    agent.write(said(HOSTILE, 0))
    for number, (tool, types) in enumerate(TOOLS.items()):
        agent.write(called(tool, filled(types.input), f"call-{number}"))
        agent.write(answered(f"call-{number}", HOSTILE, tool_use_result=filled(types.result)))
    for number, address in enumerate(ADDRESSES):
        agent.write(called("WebFetch", {"url": address, "prompt": address}, f"web-{number}"))
        found = {"results": [{"title": HOSTILE, "url": address}, {"content": [{"title": HOSTILE, "url": address}]}]}
        agent.write(answered(f"web-{number}", HOSTILE, tool_use_result=found))
    agent.write(called("mcp__<b>__" + HOSTILE[:60], {HOSTILE: {"__proto__": [HOSTILE, {"x": HOSTILE}]}}, "mcp"))
    agent.write(answered("mcp", [{"type": "text", "text": HOSTILE}, {"type": "resource_link", "uri": ADDRESSES[0]}]))
    agent.write(called("Bash", {"command": HOSTILE}, "failed"))
    agent.write(answered("failed", HOSTILE, is_error=True))
    agent.write({"type": HOSTILE, "text": HOSTILE}, HOSTILE.encode().replace(b"\n", b" "))
    agent.finish()
    return "hostile"


def filled(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """A payload with the hostile text wherever there can be text."""
    return {field.encode_name: _value(field.type) for field in msgspec.structs.fields(kind) if field.name != "extra"}


def _value(kind: Any) -> Any:
    text = str(kind)
    if "list[" in text:
        return [HOSTILE, {"path": HOSTILE, "content": HOSTILE, "title": HOSTILE, "label": HOSTILE, "question": HOSTILE}]
    return {HOSTILE: HOSTILE, "content": HOSTILE} if "dict" in text else HOSTILE


def prefer(page: Page, **values: str) -> None:
    """Remember preferences, by their form."""
    page.locator('[popovertarget="preferences"]').first.click()
    form = page.locator("#preferences form")
    for name, value in values.items():
        form.locator(f'select[name="{name}"]').select_option(value)
    form.get_by_role("button", name="Remember").click()


def test_nothing_of_it_runs_at_any_level(site: Site, tab: Tab, hostile: str) -> None:
    page = tab.page
    title = page.title()
    for level in ("title", "summary", "full"):
        site.enter(page, stream=hostile)
        prefer(page, level=level)
        expect(page.locator("article.tool-call").first).to_have_attribute("data-level", level)
        page.goto(f"{site.url}/?stream={hostile}&before=1000000")

        inert(page)

    assert title == ""
    assert [request for request in tab.requests if not request.startswith(site.url)] == []


def inert(page: Page) -> None:
    """Nothing in the timeline but what our own templates make."""
    feed = page.locator("body")
    expect(feed.locator("main :is(script, style, iframe, object, embed, link, meta, base, form, svg, template)")).to_have_count(0)
    expect(feed.locator("main img:not([src^='/api/outputs/'])")).to_have_count(0)
    assert page.evaluate("[...document.querySelectorAll('*')].flatMap(e => [...e.attributes]).filter(a => /^on|^style$|^srcdoc$|^formaction$/.test(a.name)).map(a => a.name)") == []
    schemes = page.evaluate("[...new Set([...document.querySelectorAll('a[href]')].map(a => a.protocol))]")
    assert set(schemes) <= {"http:", "https:", "mailto:"}
    text = page.evaluate("document.documentElement.outerHTML")
    assert [sign for sign in TURNING if sign in text] == []
    assert "49" not in page.locator("article.message .prose").first.inner_text()
