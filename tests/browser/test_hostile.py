"""Text of agents and their tools stays text: nothing of it runs, nothing is fetched for it, and
nothing of it hides or turns what stands beside it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import Tab
from tests.browser.pages import prefer
from tests.browser.recordings import answered, assistant_message, called
from tests.browser.serving import Site
from tooltap.daemon.show.blocks import LEVELS
from tooltap.protocol.tools import TOOLS

BEACON = "http://elsewhere.example/beacon"
HOSTILE = "\n".join(
    [
        "<script>alert('script')</script>",
        f"<img src={BEACON} onerror=alert('image')><svg onload=alert('svg')>",
        "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
        f"'\"--></textarea></title></pre></template><style>@import '{BEACON}';*{{display:none}}</style>",
        f"<link rel=stylesheet href={BEACON}><meta http-equiv=refresh content='0;url={BEACON}'><base href={BEACON}>",
        f"<form action={BEACON}><button formaction=javascript:alert(1) autofocus onfocus=alert(1)>go</button></form>",
        f"![image]({BEACON}) [link](javascript:alert(1)) [data](data:text/html,<script>alert(1)</script>)",
        "<javascript:alert(1)> <a href='java\tscript:alert(1)'>a</a> &#106;avascript:alert(1)",
        "{{ 7 * 7 }} {% raw %} ${7*7} <%= 7 %> __proto__ constructor",
        "\x1b]8;;javascript:alert(1)\x07hyper\x1b]8;;\x07 \x1b[2J\x1b[1;31mred\x1b[0m \x1b]0;title\x07",
        "\x1b[?1049h \x9b31m",
        "\u202efdp.exe\u202c \u2066isolate\u2069 zero\u200bwidth \u061c \ufeff\u0000\u0008back\u007f",
        "https://user:pass@elsewhere.example/\u202etxt.exe javascript:alert(1) file:///etc/passwd",
    ]
)
ADDRESSES = (
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    " java\nscript:alert(1)",
    "//elsewhere.example",
)
UNSEEN = ["\u202e", "\u202c", "\u2066", "\u2069", "\u0000", "\u001b", "\u009b"]
FOREIGN = """() => {
    const tags = "script:not([src^='/static/']), link:not([href^='/static/']), style, iframe, object, embed, base, svg";
    const elements = [...document.querySelectorAll(`${tags}, img:not([src^='/api/outputs/']), article form`)];
    const attributes = [...document.querySelectorAll("body *")].flatMap((one) => [...one.attributes])
        .filter(({ name }) => /^(on.*|style|srcdoc|formaction|autofocus)$/.test(name));
    const links = [...document.querySelectorAll("a")].filter(({ protocol }) => !/^(https?|mailto):$/.test(protocol));
    return [...elements, ...links].map((one) => one.outerHTML).concat(attributes.map((one) => one.name));
}"""
"""What our templates never make."""
MEGABYTE = 1_048_576


@pytest.fixture(scope="module")
def hostile(site: Site) -> str:
    publish(site, "hostile")
    return "hostile"


def publish(site: Site, stream: str) -> None:
    """Publish calls and results of every tool with only this text."""
    agent = site.publish(stream, "claude-stream")
    session = f"<img src=x onerror=alert(1)>\u202e{stream}"
    agent.write({"type": "system", "subtype": "init", "session_id": session, "model": HOSTILE, "cwd": HOSTILE})
    agent.write(assistant_message(HOSTILE, 0, session))
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


def filled(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the payload with the hostile text in every place for text."""
    return {field.encode_name: _value(field.type) for field in msgspec.structs.fields(kind) if field.name != "extra"}


def _value(kind: Any) -> Any:
    text = str(kind)
    if "list[" in text:
        return [HOSTILE, {"path": HOSTILE, "content": HOSTILE, "title": HOSTILE, "label": HOSTILE, "question": HOSTILE}]
    return {HOSTILE: HOSTILE, "content": HOSTILE} if "dict" in text else HOSTILE


def test_nothing_runs_at_any_level(site: Site, tab: Tab, hostile: str) -> None:
    for level in LEVELS:
        site.enter(tab.page, stream=hostile)
        prefer(tab.page, level=level)
        expect(tab.page.locator("article.tool-call").first).to_have_attribute("data-level", level)
        tab.page.wait_for_function("() => { scrollTo(0, 0); return document.querySelector('#older').hidden; }")

        assert_inert(tab.page)

    assert [address for address in tab.requests if not address.startswith(site.url)] == []


def test_nothing_runs_on_event_page(site: Site, tab: Tab, hostile: str) -> None:
    site.enter(tab.page, stream=hostile)
    heads = tab.page.locator("article.card > header .head")
    addresses = heads.evaluate_all("heads => heads.map(head => head.href)")
    for address in addresses[:: len(addresses) // 12]:
        tab.page.goto(address)
        expect(tab.page.locator("#views")).to_have_count(1)

        assert_inert(tab.page)


def test_nothing_runs_when_live(site: Site, tab: Tab) -> None:
    site.enter(tab.page, stream="hostile-live")
    expect(tab.page.locator("#connection")).to_have_text("Live")
    publish(site, "hostile-live")

    expect(tab.page.locator("article.unparsed")).to_have_count(2)
    assert_inert(tab.page)


def test_megabyte_in_one_line_is_a_card(site: Site, page: Page) -> None:
    agent = site.publish("megabytes", "claude-stream")
    agent.write(assistant_message("word " * (MEGABYTE // 5), 1), called("Bash", {"command": "x" * MEGABYTE}, "long"))
    agent.write(answered("long", "<b>" * (MEGABYTE // 3)), assistant_message("the end", 2))
    agent.finish()
    site.enter(page, stream="megabytes")

    expect(page.locator("article.message").last).to_contain_text("the end")
    page.locator("article.tool-call > header .head").click()
    expect(page.locator("article.tool-call").get_by_role("link", name="the whole").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("document.documentElement.outerHTML.length") < MEGABYTE


def assert_inert(page: Page) -> None:
    """Check that the page contains only elements of our own templates."""
    assert page.evaluate(FOREIGN) == []
    html = page.content()
    assert [sign for sign in UNSEEN if sign in html] == []
    assert page.title().endswith("tooltap")
