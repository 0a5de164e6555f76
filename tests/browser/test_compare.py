"""Comparing two sessions in the browser: choosing them, reading them, on a phone and by keyboard."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import Tab, violations
from tests.browser.recordings import answered, assistant_message, called
from tests.browser.serving import Site
from tests.browser.test_hostile import HOSTILE, UNSEEN
from tests.browser.test_looks import FITS, PHONE

STRANGE = "<b onclick=alert(1)>\u202e"
TEXTS = {"a": "def greet(name):\n    return f'Hello, {name}!'\n", "b": "def greet(name):\n    return 'Hi ' + name\n"}


def publish(site: Site, session: str, prompt: str, text: str, said: str) -> None:
    agent = site.publish("strange" if session == STRANGE else session, "claude-stream")
    agent.write(
        {
            "type": "system",
            "subtype": "init",
            "session_id": session,
            "cwd": "/src/greeter",
            "model": f"model-{session}",
        },
        {"type": "user", "message": {"role": "user", "content": prompt}, "session_id": session},
        called("Write", {"file_path": "/src/greeter/app.py", "content": text}, "w", session),
        answered("w", "File created successfully", session),
        assistant_message(said, 1, session),
        {"type": "result", "subtype": "success", "session_id": session, "is_error": False, "duration_ms": 65_000},
    )
    agent.finish()


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("two")) as site:
        for session, text in TEXTS.items():
            publish(site, session, "Write a greeting in app.py", text, f"**Written** by {session}.")
        publish(site, STRANGE, HOSTILE, HOSTILE, HOSTILE)
        yield site


def test_from_a_session_to_a_comparison(two: Site, page: Page) -> None:
    two.enter(page, session="a")
    page.get_by_role("link", name="Compare with…").press("Enter")  # it moves while the page loads
    expect(page.get_by_role("heading", level=1)).to_have_text("Compare two sessions")
    expect(page.get_by_label("First", exact=True)).to_have_value("a")
    page.get_by_label("Second", exact=True).select_option("b")
    page.get_by_role("button", name="Compare").click()

    pair = page.get_by_role("region", name="Turn 1 of the first, turn 1 of the second")
    expect(pair.locator(".prompt")).to_have_text("Write a greeting in app.py")
    expect(pair.locator(".answer")).to_have_text(["Written by a.", "Written by b."])
    expect(pair.locator(".families")).to_have_text(["edit 1", "edit 1"])
    file = page.locator(".compared", has_text="app.py")
    expect(file.locator(".outcome")).to_have_text("Differs")
    expect(file.locator("del")).to_contain_text("return f'Hello, {name}!'")
    expect(file.locator("ins")).to_contain_text("return 'Hi ' + name")
    page.wait_for_load_state()  # with its styles
    tops = page.locator(".pair .half").evaluate_all("all => all.map(one => one.getBoundingClientRect().top)")
    assert tops[0] == tops[1]

    page.get_by_role("link", name="Swap sides").click()
    expect(page.locator(".pair .answer")).to_have_text(["Written by b.", "Written by a."])
    page.locator(".pair").get_by_role("link", name="Turn 1").first.click()
    expect(page.locator("#head h1")).to_have_text("Write a greeting in app.py")


@pytest.mark.parametrize("query", [{"left": "a", "right": "b"}, {"left": "a"}, {}], ids=["both", "one", "none"])
def test_axe_and_a_phone(two: Site, browser: Browser, query: dict[str, str]) -> None:
    with Tab(browser, reduced_motion="reduce", **PHONE) as tab:
        two.enter(tab.page, "/compare", **query)
        expect(tab.page.locator(".choose")).to_be_visible()
        tab.page.evaluate(FITS)
        for scheme in ("light", "dark"):
            tab.page.emulate_media(color_scheme=scheme)
            assert violations(tab.page) == []
        halves = tab.page.locator(".pair .half").evaluate_all("all => all.map(one => one.getBoundingClientRect().left)")
        assert len(set(halves)) <= 1  # one under the other


def test_nothing_of_agents_runs(two: Site, page: Page) -> None:
    two.enter(page, "/compare", left="a", right=STRANGE)

    expect(page.locator(".pair")).to_have_count(2)
    expect(page.locator(".compared")).not_to_have_count(0)
    text = page.locator("main").inner_text()
    assert [sign for sign in UNSEEN if sign in text] == []
    assert page.locator("main :is(script, iframe, img, style, link, svg)").count() == 0
