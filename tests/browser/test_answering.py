"""What waits can be answered on the page: by buttons, forms and keys, by nobody by accident, and everybody sees by
whom."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.answering import Answering, answering
from tests.browser.chromium import Tab, violations
from tests.browser.serving import arrived
from tooltap.protocol.frames import AnswerRequest, FrameError, InterruptRequest, SendRequest

PHONE = {"viewport": {"width": 390, "height": 780}, "has_touch": True, "is_mobile": True}
BY = re.compile(r"^the page in Chrome \d+ on Linux$")
TIMEOUT = 60
SMALL = """() => [...document.querySelectorAll('.replies :is(button, .choice), .composer :is(button, textarea)')]
    .filter((one) => one.checkVisibility()).map((one) => one.getBoundingClientRect())
    .filter(({width, height}) => width < 48 || height < 48).length"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Answering]:
    with answering(tmp_path) as site:
        yield site


@pytest.fixture
def asked(site: Answering) -> Answering:
    """A session, `push`, asks whether it may run a command."""
    site.begin("push", "Push the branch")
    site.ask("push")
    return site


def card(page: Page) -> Locator:
    """Return the first question, once replies to it count."""
    ask = page.locator(".ask").first
    expect(ask).to_have_attribute("data-ready", "")
    return ask


def press(page: Page, name: str) -> None:
    """Press a button of the first question."""
    card(page).get_by_role("button", name=name, exact=True).click()


def told(site: Answering) -> Any:
    request = site.told.get(timeout=TIMEOUT)
    assert BY.fullmatch(request.by or "")
    request.by = None
    return request


@pytest.mark.parametrize("target", ["/", "/board", "/sessions/push"])
def test_allowed(asked: Answering, page: Page, target: str) -> None:
    asked.open(page, target)
    expect(card(page)).to_contain_text("Claude Code wants to run a command")
    expect(page.locator(".asked")).to_have_text("git push")
    press(page, "Allow")

    assert told(asked) == AnswerRequest(permission_id="p", stream="push", outcome="allowed", option_id="once")
    expect(page.locator(".ask .said")).to_have_text("Allowed. The agent has it.")
    expect(page.locator(".ask").get_by_role("button", name="Deny", exact=True)).to_be_disabled()
    asked.settle("push")
    expect(page.locator(".ask")).to_have_count(0)
    assert violations(page) == []


def test_always_says_what_will_be_allowed_before_it_is_sent(asked: Answering, page: Page) -> None:
    asked.open(page, "/sessions/push")
    press(page, "Always…")
    panel = page.locator(".panel:visible")
    expect(panel).to_contain_text("Allowed from now on, without asking: commands that begin with `git push`")
    assert asked.told.empty()
    assert violations(page) == []
    press(page, "Back")
    expect(panel).to_have_count(0)
    press(page, "Always…")
    press(page, "Always allow")

    assert told(asked) == AnswerRequest(
        permission_id="p", stream="push", outcome="allowed", option_id="always", remember=True
    )


def test_denied_with_a_reason(asked: Answering, page: Page) -> None:
    asked.open(page, "/")
    press(page, "Deny and say why…")
    page.get_by_label("Why, for the agent").fill("Not on a Friday: use a draft.")  # `a` and `d` are letters here
    press(page, "Deny")

    assert told(asked) == AnswerRequest(
        permission_id="p", stream="push", outcome="denied", option_id="no", message="Not on a Friday: use a draft."
    )


def test_only_what_is_offered_can_be_chosen(site: Answering, page: Page) -> None:
    site.begin("push", "Push the branch")
    names = ("Allow", "Deny", "Never ask again")
    kinds = ("allow_once", "allow_once", "allow_always")
    offered = zip(names, kinds, strict=True)
    site.ask("push", options=[{"id": name, "name": name, "kind": kind} for name, kind in offered])
    site.open(page, "/")

    expect(card(page).get_by_role("button")).to_have_text(
        ["Allow: Allow a", "Allow: Deny", "Always…", "Dismiss"], use_inner_text=True
    )
    press(page, "Dismiss")
    assert told(site) == AnswerRequest(permission_id="p", stream="push", outcome="cancelled")


def test_questions(site: Answering, page: Page) -> None:
    site.begin("pick", "Pick a database")
    questions = [
        {"question": "Which one?", "options": [{"label": "Postgres"}, {"label": "Redis"}], "freeText": True},
        {"question": "Where?", "id": "where", "multiSelect": True, "options": [{"label": "here"}, {"label": "there"}]},
        {"question": "Why?", "header": "Reason"},
    ]
    site.ask("pick", type="question", name="AskUserQuestion", input=None, options=None, questions=questions)
    site.open(page, "/sessions/pick")
    expect(card(page).locator(".wants")).to_have_text("Claude Code asks you")
    press(page, "Answer")
    expect(page.locator(".ask .said")).to_have_text("An answer is missing.")
    assert site.told.empty()
    page.get_by_label("Something else", exact=True).check()
    page.get_by_label("Something else, in your words").fill("SQLite")
    page.get_by_label("here", exact=True).check()
    page.get_by_label("there", exact=True).check()
    page.get_by_label("Why?").fill("It is one file.")
    assert violations(page) == []
    press(page, "Answer")

    answers = {"Which one?": "SQLite", "where": ["here", "there"], "Why?": "It is one file."}
    assert told(site) == AnswerRequest(permission_id="p", stream="pick", outcome="answered", answers=answers)


def test_form_as_its_schema_says(site: Answering, page: Page) -> None:
    site.begin("fill", "Fill in")
    properties = {
        "name": {"type": "string", "title": "Your name"},
        "port": {"type": "integer", "default": 8080},
        "ratio": {"type": "number"},
        "fast": {"type": "boolean"},
        "level": {"type": "string", "enum": ["low", "high"], "enumNames": ["Low", "High"]},
        "note": {"type": "string"},
    }
    schema = {"type": "object", "properties": properties, "required": ["name", "port", "ratio", "fast", "level"]}
    asks: dict[str, Any] = {"type": "elicitation", "name": None, "title": "Where does it run?", "options": None}
    site.ask("fill", **asks, input={"requested_schema": schema})
    site.open(page, "/sessions/fill")
    expect(card(page)).to_contain_text("Claude Code asks you to fill in a form: Where does it run?")
    page.locator("[data-field='\"name\"'] textarea").fill("Ada")
    page.locator("[data-field='\"ratio\"'] input").fill("0.5")
    page.locator("[data-field='\"fast\"']").get_by_label("No").check()
    page.get_by_label("High").check()
    press(page, "Answer")

    answers = {"name": "Ada", "port": 8080, "ratio": 0.5, "fast": False, "level": "high"}
    assert told(site) == AnswerRequest(permission_id="p", stream="fill", outcome="answered", answers=answers)


@pytest.mark.parametrize(
    ("target", "key", "outcome", "option"), [("/", "a", "allowed", "once"), ("/board", "d", "denied", "no")]
)
def test_keys(asked: Answering, page: Page, target: str, key: str, outcome: Any, option: str) -> None:
    asked.begin("later", "Another")
    asked.ask("later", "q")
    asked.open(page, target)
    card(page)
    page.locator("#find").press(key)  # is typed
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.locator("body").press("?")
    expect(page.locator("#help")).to_be_visible()
    page.locator("body").press(key)  # the help is over it
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    assert asked.told.empty()
    page.evaluate("document.activeElement.blur()")
    page.locator("body").press(key)

    assert told(asked) == AnswerRequest(permission_id="p", stream="push", outcome=outcome, option_id=option)
    assert asked.told.empty()


HASTY = """
new MutationObserver(() => {
    const button = document.querySelector('.ask:not([data-ready]) button[data-outcome=allowed]');
    if (button && !window.hasty) { window.hasty = true; button.click(); }
}).observe(document, {childList: true, subtree: true});
"""
"""Presses "Allow" in the moment in which it appears."""


@pytest.mark.parametrize("target", ["/board", "/sessions/push"])
def test_what_has_just_appeared_cannot_be_allowed(site: Answering, tab: Tab, target: str) -> None:
    site.begin("push", "Push the branch")
    tab.context.add_init_script(HASTY)
    site.open(tab.page, target)
    site.ask("push")
    early = "This has just appeared here. Look at it, then choose again."
    expect(tab.page.locator(".ask .said")).to_have_text(early)
    assert tab.page.evaluate("window.hasty")
    press(tab.page, "Allow")

    assert told(site).outcome == "allowed"
    assert site.told.empty()


@pytest.mark.parametrize("target", ["/", "/board"])
def test_what_has_moved_under_the_pointer_cannot_be_allowed(asked: Answering, page: Page, target: str) -> None:
    asked.begin("later", "Another")
    asked.ask("later", "q")
    asked.open(page, target)
    second = page.locator(".ask").nth(1)
    expect(second).to_have_attribute("data-ready", "")
    page.evaluate(
        "() => { const [first, second] = document.querySelectorAll('.ask'); first.remove();"
        " second.querySelector('button').click(); }"
    )
    expect(page.locator(".ask .said")).to_contain_text("This has just appeared here.")
    assert asked.told.empty()
    press(page, "Allow")

    assert told(asked).permission_id == "q"


def test_panel_that_opens_under_the_pointer_is_read_first(asked: Answering, page: Page) -> None:
    """A double click on "Always…" confirms nothing."""
    asked.open(page, "/")
    card(page)
    page.evaluate(
        "() => { document.querySelector('[data-opens=allow-1]').click();"
        " document.querySelector('[data-lasting]').click(); }"
    )

    expect(page.locator(".ask .said")).to_contain_text("This has just appeared here.")
    assert asked.told.empty()


def test_everybody_sees_who_has_answered(asked: Answering, tab: Tab, browser: Browser) -> None:
    with Tab(browser, **PHONE) as other:
        asked.open(tab.page, "/")
        asked.open(other.page, "/sessions/push")
        expect(card(tab.page)).to_contain_text("nobody has answered yet")
        asked.note("push", "answer", outcome="allowed", by="alice in the terminal")
        for page in (tab.page, other.page):
            expect(page.locator(".since")).to_contain_text("allowed by alice in the terminal just now")
            expect(page.locator(".since")).to_contain_text("the agent has not got it yet")
            expect(page.locator(".ask button")).to_have_count(0)
        asked.note("push", "answer-delivered", outcome="allowed", by="alice in the terminal")
        for page in (tab.page, other.page):
            expect(page.locator(".since")).to_contain_text("the agent has it")
        asked.settle("push")
        for page in (tab.page, other.page):
            expect(page.locator(".ask")).to_have_count(0)


def test_answer_that_failed_can_be_given_again(asked: Answering, page: Page) -> None:
    asked.note("push", "answer", outcome="allowed", by="alice")
    asked.note("push", "answer-failed", reason="the agent has closed its input", outcome="allowed", by="alice")
    asked.open(page, "/sessions/push")
    failed = "The answer of alice has not reached the agent: the agent has closed its input"
    expect(page.locator(".ask .failed")).to_have_text(failed)
    press(page, "Allow")

    assert told(asked).outcome == "allowed"


def test_later_answer_says_who_was_first(asked: Answering, tab: Tab) -> None:
    page, tab.expected = tab.page, "409 (Conflict)"
    asked.open(page, "/")
    card(page)
    asked.refusal = FrameError("already-answered", "answered 3 s ago by alice in the terminal: denied")
    with page.expect_response("**/api/answer") as response:
        press(page, "Allow")
    assert response.value.status == 409
    expect(page.locator(".ask .said")).to_have_text("Answered 3 s ago by alice in the terminal: denied.")
    expect(page.locator(".ask").get_by_role("button", name="Allow")).to_be_disabled()


def test_what_cannot_be_answered_says_why(asked: Answering, page: Page) -> None:
    asked.why_not = "the stream's publisher only reads: start it with `--answers`"
    asked.open(page, "/")

    expect(page.locator(".ask button")).to_have_count(0)
    where = "Answer in the window where the agent runs, in /home/you/ledger."
    why_not = "The stream's publisher only reads: start it with --answers."
    expect(page.locator(".ask .where")).to_contain_text(f"{where} {why_not}")
    expect(page.locator(".ask .where code")).to_have_text("--answers")


def test_what_is_typed_stays_when_something_else_waits(asked: Answering, page: Page) -> None:
    asked.open(page, "/")
    press(page, "Deny and say why…")
    reason = page.get_by_label("Why, for the agent").first
    reason.fill("Not on a")
    asked.begin("later", "Another")
    asked.ask("later", "q")
    expect(page.locator(".ask")).to_have_count(2)

    expect(reason).to_have_value("Not on a")
    expect(reason).to_be_focused()


def test_thumbs_reach_everything_on_a_phone(site: Answering, browser: Browser) -> None:
    site.begin("push", "Push the branch")
    site.ask("push")
    questions = [{"question": "Which one?", "options": [{"label": "a"}, {"label": "b"}]}, {"question": "Why?"}]
    site.ask("push", "q", type="question", name="AskUserQuestion", input=None, options=None, questions=questions)
    with Tab(browser, **PHONE) as tab:
        for target in ("/", "/board", "/sessions/push"):
            site.open(tab.page, target)
            expect(tab.page.locator(".ask")).to_have_count(2)
            assert tab.page.evaluate(SMALL) == 0
            assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert violations(tab.page) == []
        card(tab.page).get_by_role("button", name="Allow").tap()

        assert told(site).outcome == "allowed"


# -- being called ------------------------------------------------------------------------------------------------

NOTIFIED = """
window.told = [];
window.Notification = class {
    static permission = 'default';
    static requestPermission() { this.permission = 'granted'; return Promise.resolve('granted'); }
    constructor(title, options) { window.told.push({title, ...options}); window.lastTold = this; }
    close() {}
};
document.hasFocus = () => false;
"""
"""The browser's notifications, recorded; the reader looks elsewhere."""


def test_title_and_icon_say_that_something_waits(asked: Answering, page: Page) -> None:
    icon = page.locator("link[rel=icon]")
    asked.open(page, "/sessions/push")
    expect(page).to_have_title("(1) Push the branch · tooltap")
    expect(icon).to_have_attribute("href", "/static/icon-waiting.svg")
    asked.begin("later", "Another")
    asked.ask("later", "q")
    expect(page).to_have_title("(2) Push the branch · tooltap")
    expect(page.locator("#waits")).to_have_text("2\xa0waiting")
    asked.settle("later", permission="q")
    asked.settle("push")
    expect(page).to_have_title("Push the branch · tooltap")
    expect(icon).to_have_attribute("href", "/static/icon.svg")


WITHOUT_LIVE_CONTENT = (
    *("/files", "/calls", "/usage", "/search?text=push", "/compare?left=push", "/events/1", "/sessions/push/share"),
    *("/sessions/push/plan", "/sessions/nothing", "/logins"),
)


def opened(site: Answering, tab: Tab, *targets: str) -> list[Page]:
    """Open addresses in pages of one browser."""
    pages = []
    for target in targets:
        page = tab.context.new_page()
        page.goto(f"{site.url}{target}" + ("" if tab.requests else f"#{site.browser.link().partition('#')[2]}"))
        arrived(page)
        pages.append(page)
    return pages


def connections(tab: Tab) -> int:
    return sum("/waiting/live" in url and "pass=" in url for url in tab.requests)


def told_that_wait(pages: list[Page], count: int) -> None:
    for page in pages:
        expect(page).to_have_title(re.compile(rf"^\({count}\) ") if count else re.compile(r"^[^(]"))
        icon = "icon-waiting" if count else "icon"
        expect(page.locator("link[rel=icon]")).to_have_attribute("href", f"/static/{icon}.svg")
        expect(page.locator("#waits")).to_have_text(f"{count}\xa0waiting")
        expect(page.locator("#waits")).to_be_visible(visible=count > 0)


def test_pages_without_live_content_have_one_connection_together(site: Answering, tab: Tab) -> None:
    site.begin("push", "Push the branch")
    pages = opened(site, tab, *WITHOUT_LIVE_CONTENT)
    told_that_wait(pages, 0)
    site.ask("push")
    told_that_wait(pages, 1)
    assert connections(tab) == 1
    told_that_wait(opened(site, tab, "/files"), 1)  # a page that opens later asks
    pages.pop(0).close()  # the one that has the connection
    site.begin("later", "Another")
    site.ask("later", "q")
    told_that_wait(pages, 2)
    assert connections(tab) == 2
    site.settle("push")
    site.settle("later", permission="q")
    told_that_wait(pages, 0)


def test_page_with_live_content_tells_the_others(asked: Answering, tab: Tab) -> None:
    board, files = opened(asked, tab, "/board", "/files")
    told_that_wait([board, files], 1)
    asked.begin("later", "Another")
    asked.ask("later", "q")
    told_that_wait([board, files], 2)
    assert connections(tab) == 0
    board.close()
    asked.settle("push")
    told_that_wait([files], 1)
    assert connections(tab) == 1


def test_page_of_a_browser_without_locks_has_its_own_connection(asked: Answering, tab: Tab) -> None:
    """As over plain HTTP from another machine."""
    tab.context.add_init_script("Object.defineProperty(navigator, 'locks', {value: undefined})")
    pages = opened(asked, tab, "/files", "/usage")
    told_that_wait(pages, 1)
    asked.settle("push")
    told_that_wait(pages, 0)

    assert connections(tab) == 2


def test_notification_opens_the_question(asked: Answering, tab: Tab) -> None:
    tab.context.add_init_script(NOTIFIED)
    page = tab.page
    asked.open(page, "/")
    page.locator('[popovertarget="preferences"]').first.press("Enter")
    page.get_by_label("Notify me in this browser").check()
    page.keyboard.press("Escape")
    asked.settle("push")
    expect(page).to_have_title("Sessions · tooltap")  # the page knows by its connection what waits
    asked.begin("later", "Another")
    asked.ask("later", "q", input={"command": "make deploy"}, title="make deploy")
    page.wait_for_function("() => window.told.length > 0")

    [notification] = page.evaluate("window.told")
    assert notification["title"] == "Claude Code wants to run a command"
    assert notification["body"] == "make deploy"
    page.evaluate("window.lastTold.onclick()")
    page.wait_for_url("**/sessions/later")
    expect(card(page)).to_contain_text("make deploy")


def test_nobody_is_notified_who_has_not_asked_for_it(asked: Answering, tab: Tab) -> None:
    tab.context.add_init_script(NOTIFIED.replace("'default'", "'granted'"))
    asked.open(tab.page, "/")
    asked.begin("later", "Another")
    asked.ask("later", "q")
    expect(tab.page).to_have_title("(2) Sessions · tooltap")

    assert tab.page.evaluate("window.told") == []


# -- a word to the agent ------------------------------------------------------------------------------------------


def test_prompt_is_sent_and_the_turn_interrupted(asked: Answering, page: Page) -> None:
    asked.open(page, "/sessions/push")
    text = page.get_by_label("A prompt for the agent")
    text.fill("Use a draft")
    text.press("Shift+Enter")
    text.press_sequentially("and wait.")
    text.press("Enter")
    sent = told(asked)
    assert (sent.session, sent.text) == ("push", "Use a draft\nand wait.")
    expect(page.locator(".composer .said")).to_have_text("Sent.")
    expect(text).to_have_value("")
    page.get_by_role("button", name="Stop").click()

    assert told(asked) == InterruptRequest(session="push")
    expect(page.locator(".composer .said")).to_have_text("Stopped.")


def test_prompt_that_is_sent_again_has_the_same_key(asked: Answering, tab: Tab) -> None:
    page, tab.expected = tab.page, "503 (Service Unavailable)"
    asked.open(page, "/sessions/push")
    asked.refusal = FrameError("journal", "the journal cannot be written")
    text = page.get_by_label("A prompt for the agent")
    text.fill("Go on.")
    send = page.get_by_role("button", name="Send")
    send.click()
    expect(page.locator(".composer .said")).to_have_text("the journal cannot be written")
    expect(text).to_have_value("Go on.")
    asked.refusal = None
    send.click()
    expect(page.locator(".composer .said")).to_have_text("Sent.")
    text.fill("Go on.")
    text.press("Enter")

    first, again, other = (told(asked) for _ in range(3))
    assert isinstance(first, SendRequest)
    assert first.key == again.key != other.key
