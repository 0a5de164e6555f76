"""The page of one session: its minimap, which is a slider, its outline, and how both follow what one reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.browser import scale
from tests.browser.chromium import Tab, violations
from tests.browser.long_session import SESSION as LONG
from tests.browser.scene import CALLS, PROMPTS, SESSION, Scene
from tests.browser.serving import Site

PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 780}, "is_mobile": True, "has_touch": True}
CURRENT = '#outline a[aria-current="location"]'
FITS = "() => document.documentElement.scrollWidth <= innerWidth"
TO_TOP = "() => { scrollBy(0, -innerHeight); return scrollY === 0 && document.querySelector('#older').hidden; }"


@pytest.fixture(scope="module")
def scene(site: Site) -> Scene:
    scene = Scene(site)
    scene.play()
    return scene


@pytest.fixture
def slider(site: Site, page: Page, scene: Scene) -> Locator:
    site.enter(page, session=SESSION)
    expect(page.locator("#connection")).to_have_text("Live")
    expect(page.locator(CURRENT)).to_contain_text(PROMPTS[3])
    return page.get_by_role("slider")


def test_map_and_outline_show_the_session(page: Page, slider: Locator) -> None:
    expect(page.locator("#minimap svg g a")).to_have_count(CALLS - 1)
    expect(page.locator("#minimap .turn-mark")).to_have_count(4)
    expect(page.locator("#minimap .failed")).to_have_count(2)
    expect(page.locator("#minimap .waiting")).to_have_count(1)
    entries = page.locator("#outline a[data-turn]")
    expect(entries).to_have_count(4)
    expect(entries.nth(1)).to_contain_text("1 error")
    expect(entries.nth(3)).to_contain_text("waiting for you")
    expect(page.locator("#outline ol ol a")).to_contain_text("Explore: writers of invoices")
    assert violations(page) == []


@pytest.mark.parametrize("size", [{"viewport": {"width": 1280, "height": 500}}, PHONE], ids=["desktop", "phone"])
def test_bar_says_which_session_it_is_while_its_head_is_out_of_sight(
    site: Site, browser: Browser, scene: Scene, size: dict[str, Any]
) -> None:
    with Tab(browser, **size) as tab:
        page = tab.page
        site.enter(page, session=SESSION)
        where = page.locator("#where")
        expect(where).to_be_in_viewport()
        expect(where).to_contain_text(page.locator("#head h1").text_content() or "?")
        expect(where).to_contain_text(page.locator(".glance .state").text_content() or "?")
        page.wait_for_function(TO_TOP)
        expect(where).to_be_hidden()
        expect(page.locator("#head h1")).to_be_in_viewport()
        assert page.evaluate(FITS)
        expect(page.locator(".dock .ask .where")).to_have_css("position", "static")  # it stays in the request


def test_click_on_a_bar_lands_at_its_call(page: Page, slider: Locator) -> None:
    failed = page.locator("#minimap a:has(.failed)").first
    seq = (failed.get_attribute("href") or "").partition("#e")[2]

    failed.click()

    expect(page.locator(f"#e{seq}")).to_be_in_viewport()
    expect(page.locator(f"#e{seq}")).to_have_attribute("data-status", "failed")
    expect(page).to_have_url(re.compile(rf"[?&]at={seq}$"))
    expect(page.locator(CURRENT)).to_contain_text(PROMPTS[1])
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r", turn 2, Bash pytest -q tests/models · failed"))
    expect(slider).to_be_focused()


def test_keys_on_the_slider(page: Page, slider: Locator) -> None:
    slider.focus()
    slider.press("Home")
    expect(page.locator(CURRENT)).to_contain_text(PROMPTS[0])
    slider.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuenow", "2")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("turn 1, Read"))
    slider.press("ArrowLeft")
    expect(slider).to_have_attribute("aria-valuenow", "1")
    slider.press("PageDown")
    expect(page.locator(CURRENT)).to_contain_text(PROMPTS[1])
    slider.press("End")
    expect(slider).to_have_attribute("aria-valuenow", str(CALLS - 1))
    expect(page.locator(CURRENT)).to_contain_text(PROMPTS[3])
    slider.press("PageUp")
    expect(page.locator(CURRENT)).to_contain_text(PROMPTS[2])


def test_drag_moves_conversation(page: Page, slider: Locator) -> None:
    box = page.locator("#minimap").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2

    page.mouse.move(box["x"] + box["width"] * 0.9, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, middle, steps=5)
    page.mouse.move(box["x"] + 3, middle, steps=5)
    page.mouse.up()

    expect(page.locator(CURRENT)).to_contain_text(PROMPTS[0])
    expect(page.locator("article.message", has_text=PROMPTS[0])).to_be_in_viewport()
    assert page.locator("#window").bounding_box()["x"] < box["x"] + box["width"] * 0.2  # type: ignore[index]


def test_outline_leads_to_a_turn_and_follows_the_reader(page: Page, slider: Locator) -> None:
    page.locator("#outline a", has_text=PROMPTS[1]).click()
    expect(page.locator(CURRENT)).to_contain_text(PROMPTS[1])
    expect(page.locator("article.message", has_text=PROMPTS[1])).to_be_in_viewport()

    page.set_viewport_size({"width": 1280, "height": 400})  # in which the second turn leaves the view
    page.wait_for_function(TO_TOP)
    expect(page.locator(CURRENT)).to_contain_text(PROMPTS[0])
    left = page.locator("#window").evaluate("one => one.style.insetInlineStart")
    assert float(left.removesuffix("%")) < 5

    page.keyboard.press("G")
    expect(page.locator(CURRENT)).to_contain_text(PROMPTS[3])


@pytest.mark.parametrize(("forth", "back"), [("n", "p"), ("]", "[")])
def test_keys_for_turns(page: Page, slider: Locator, forth: str, back: str) -> None:
    page.keyboard.press(back)
    expect(page.locator(CURRENT)).to_contain_text(PROMPTS[2])
    page.keyboard.press(back)
    expect(page.locator(CURRENT)).to_contain_text(PROMPTS[1])
    page.keyboard.press(forth)
    expect(page.locator(CURRENT)).to_contain_text(PROMPTS[2])
    page.keyboard.press("?")
    expect(page.locator("#help")).to_contain_text("next, previous turn")


def test_older_events_come_though_one_went_elsewhere_while_a_page_was_on_its_way(
    site: Site, page: Page, scene: Scene
) -> None:
    held: list[Route] = []
    page.route("**/cards?*before=*", lambda route: held.append(route), times=1)
    with page.expect_request("**/cards?*before=*"):
        site.enter(page, session=SESSION)
    page.locator("#outline a", has_text=PROMPTS[1]).click()
    expect(page.locator("article.message", has_text=PROMPTS[1])).to_be_in_viewport()
    held[0].continue_()

    page.wait_for_function(TO_TOP)
    expect(page.locator(CURRENT)).to_contain_text(PROMPTS[0])


def test_subagent_is_reached_from_the_outline(page: Page, slider: Locator) -> None:
    page.locator("#outline ol ol a").click()

    expect(page.locator("article.tool-call", has_text="Explore: writers of invoices").first).to_be_in_viewport()
    expect(page.locator(CURRENT)).to_contain_text(PROMPTS[2])


def test_filters_apply_to_the_session(page: Page, slider: Locator) -> None:
    page.get_by_role("button", name="Filter").click()
    page.locator("#filters [name=state]").select_option("failed")
    page.locator("#filters").get_by_role("button", name="Show").click()

    expect(page).to_have_url(re.compile(rf"/sessions/{SESSION}\?.*state=failed"))
    expect(page.locator("#feed > section > article")).to_have_count(2)
    page.get_by_role("link", name="Without state failed").click()
    expect(page.locator(".chips")).to_have_count(0)
    expect(page.locator(CURRENT)).to_contain_text(PROMPTS[3])


def test_bars_are_links_without_script(site: Site, browser: Browser, page: Page, slider: Locator) -> None:
    links = page.locator("#minimap svg a, #outline a").evaluate_all("all => all.map((one) => one.getAttribute('href'))")

    assert len(links) > CALLS
    for link in links:
        at, event = link.removeprefix("?at=").split("#e")
        assert at == event
        assert int(at) > 0


def test_phone_has_sheets_and_fits(site: Site, browser: Browser, scene: Scene) -> None:
    with Tab(browser, **PHONE) as tab:
        page = tab.page
        site.enter(page, session=SESSION)
        expect(page.locator(CURRENT)).to_have_count(1)
        page.wait_for_function(FITS)
        for name in ("Turns", "Filter", "Files, usage, plan"):
            box = page.get_by_role("button", name=name, exact=True).bounding_box()
            assert box is not None
            assert box["height"] >= 44

        page.get_by_role("button", name="Turns").click()
        expect(page.locator("#outline")).to_be_in_viewport()
        assert violations(page, within="#outline") == []
        page.locator("#outline a", has_text=PROMPTS[1]).click()
        expect(page.locator("#outline")).to_be_hidden()
        expect(page.locator("article.message", has_text=PROMPTS[1])).to_be_in_viewport()
        page.wait_for_function(FITS)

        page.get_by_role("button", name="Files, usage, plan").click()
        expect(page.locator("#aside")).to_be_in_viewport()


@pytest.fixture
def long(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path) as site:
        scale.fill(site, 3_000)
        yield site


def test_long_session_is_mapped_after_its_page_came(long: Site, page: Page) -> None:
    long.enter(page, session=LONG)

    expect(page.locator("#minimap svg")).to_have_count(1)
    assert page.locator("#minimap svg g a").count() <= 600
    slider = page.get_by_role("slider")
    slider.press("Home")
    expect(page.locator("#older")).to_be_hidden()
    expect(page.locator("article.turn").first).to_be_in_viewport()
    slider.press("End")
    expect(page.locator("#feed article.tool-call").last).to_be_in_viewport()


def test_map_grows_with_a_live_session(page: Page, slider: Locator, scene: Scene) -> None:
    scene.answer()
    expect(page.locator("#outline a", has_text=PROMPTS[3])).to_contain_text("running")
    expect(page.locator("#minimap .running")).to_have_count(0)

    scene.call("Bash", {"command": "make deploy"}, 3_000, "ok")
    expect(page.locator("#minimap svg g a")).to_have_count(CALLS)
    scene.end()
    expect(page.locator("#outline a", has_text=PROMPTS[3])).to_contain_text("$0.87")
