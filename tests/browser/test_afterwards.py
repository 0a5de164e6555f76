"""What people do with a session afterwards: what was typed is shown, copied and exported to the character."""

from __future__ import annotations

import random
import re
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.browser.pages import prefer
from tests.browser.recordings import answered, assistant_message, called
from tests.browser.serving import Site
from tests.cli.command import here
from tests.daemon.show.carding import made
from tooltap.protocol.events import encode

PASTED = """fix this:
Traceback (most recent call last):
  File "app/__init__.py", line 3, in <module>
    run(*args, **kwargs)
TypeError: __init__() got 2*3*4 arguments

# comment
- item
\ttab   and    columns
<div class="x">hello</div> &nbsp; &amp;
C:\\new\\_table\\*.txt"""
CHARACTERS = "#<>`~!-=[]()*_|\\:;&.,?@^+{}'\"/%$ \t\n\u00a0\u3000a1é漢"


def prompts() -> list[str]:
    chance = random.Random(28)
    made = ["x" + "".join(chance.choices(CHARACTERS, k=200)) + "x" for _ in range(20)]
    return [PASTED, *made]


def text_of(element: Locator) -> str:
    """Return the text of an element as it is laid out, which is done only for what is in view."""
    element.scroll_into_view_if_needed()
    return element.inner_text()


def claude_lines(texts: list[str]) -> list[dict[str, object]]:
    return [{"type": "user", "message": {"role": "user", "content": text}, "session_id": "typed"} for text in texts]


def test_prompts_are_shown_and_copied_to_the_character(site: Site, page: Page) -> None:
    texts = prompts()
    agent = site.publish("typed", "claude-stream")
    agent.write(*claude_lines(texts))
    agent.finish()
    site.enter(page, stream="typed")
    prefer(page, level="full")
    shown = page.locator("article.message .typed")
    expect(shown).to_have_count(len(texts))

    assert [text_of(one) for one in shown.all()] == texts
    selected = shown.first.evaluate("one => { getSelection().selectAllChildren(one); return String(getSelection()); }")
    assert selected == PASTED


def test_a_file_of_an_answer_opens_its_diff(site: Site, page: Page) -> None:
    """One that the session did not change says so; neither leaves the session for a page that is not there."""
    edit = {"file_path": "/src/ledger/src/app.ts", "old_string": "a", "new_string": "b"}
    agent = site.publish("names-files", "claude-stream")
    agent.write(called("Edit", edit, "e1", "files"), answered("e1", "ok", "files"))
    agent.write(assistant_message("Changed [app.ts:42](src/app.ts#L42), like [other](lib/other.ts).", 1, "files"))
    agent.finish()
    site.enter(page, "/sessions/files")
    expect(page.locator("#connection")).to_have_text("Live")
    files = page.locator(".prose code.file")
    changed, other = files.first, files.last
    expect(changed).to_have_text("src/app.ts:42")

    other.click()
    expect(page.locator(".prose small")).to_have_text(" (not changed here)")
    changed.press("Enter")

    expect(page).to_have_url(re.compile(r"/sessions/files/files\?open="))
    expect(page.locator("pre.diff")).to_contain_text("b")


def test_the_address_of_an_event_has_its_id(site: Site, page: Page) -> None:
    agent = site.publish("named", "claude-stream")
    agent.write(assistant_message("said", 1, "named"))
    agent.finish()
    site.enter(page, "/sessions/named")
    head = page.locator("article.message")
    seq = head.get_attribute("data-seq")

    site.enter(page, "/sessions/named", at=str(seq))

    expect(page).to_have_url(re.compile(rf"\?at={seq}&event=named%3A"))


def test_each_paragraph_has_its_own_direction(site: Site, page: Page) -> None:
    agent = site.publish("directions", "claude-stream")
    agent.write(assistant_message("It is done.\n\nשלום `npm run x` עולם", 1, "directions"))
    agent.finish()
    site.enter(page, "/sessions/directions")
    second = page.locator(".prose p").nth(1)
    expect(second).to_be_visible()

    left = second.evaluate(
        """(one) => {
            const range = document.createRange();
            range.selectNodeContents(one);
            return range.getBoundingClientRect().left - one.getBoundingClientRect().left;
        }"""
    )
    assert left > 100  # it stands at the right
    assert second.locator("code").evaluate("(one) => getComputedStyle(one).direction") == "ltr"


def test_exported_prompts_are_shown_to_the_character(page: Page, tmp_path: Path) -> None:
    texts, events = prompts(), tmp_path / "events.jsonl"
    said = [made("message", seq=seq, role="user", text=text) for seq, text in enumerate(texts, 1)]
    events.write_bytes(b"".join(encode(one) + b"\n" for one in said))
    exported = tmp_path / "session.html"
    here("export", "--html", "--level", "full", events, "-o", exported)

    page.goto(exported.as_uri())

    assert [text_of(one) for one in page.locator("article.message .typed").all()] == texts
