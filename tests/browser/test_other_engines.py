"""The page works in Firefox and WebKit: what it is made of is as new as their releases of the last two years."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.other_engines import ENGINES, Engine, Key
from tests.browser.recordings import assistant_message
from tests.browser.scene import CALLS, PROMPTS, SESSION, Scene
from tests.browser.serving import Site
from tests.programs import require

LIVE = "return document.querySelector('#connection')?.textContent === 'Live'"
CURRENT = "return document.querySelector('#outline a[aria-current]')?.textContent.includes(arguments[0])"
COUNT = "return document.querySelectorAll(arguments[0]).length"
CLICK = "document.querySelector(arguments[0]).click(); return true"
VISIBLE = "return document.querySelector(arguments[0])?.checkVisibility()"
IN_VIEW = """
const box = document.querySelector(arguments[0])?.getBoundingClientRect();
return box && box.height > 0 && box.top < innerHeight && box.bottom > 0;
"""
LAST_CALL = """
const heads = [...document.querySelectorAll("#feed article.tool-call > header a.head")];
const head = heads.findLast((one) => one.checkVisibility());
head.focus();
return head.closest("article").id;
"""
FITS = "return document.documentElement.scrollWidth <= innerWidth"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site")) as site:
        Scene(site).play()
        yield site


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest, scene: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    kind = ENGINES[request.param]
    require(*kind.PROGRAMS)
    engine = kind(tmp_path_factory.mktemp("profile"))
    try:
        engine.resize(1_400, 1_000)
        engine.open(scene.link())
        engine.wait(LIVE)
        yield engine
    finally:
        engine.quit()


@pytest.fixture
def session(engine: Engine, scene: Site) -> Iterator[Engine]:
    engine.open(f"{scene.url}/sessions/{SESSION}")
    engine.wait(LIVE)
    engine.wait(CURRENT, PROMPTS[3])
    yield engine
    assert engine.errors(scene.url) == []


def test_sessions_are_listed_and_live(engine: Engine, scene: Site) -> None:
    engine.open(scene.url)
    engine.wait(LIVE)
    engine.wait("return document.querySelector('main').innerText.includes(arguments[0])", PROMPTS[0])
    name = type(engine).__name__
    agent = scene.publish(name, "claude-stream")
    agent.write({"type": "user", "message": {"role": "user", "content": f"Hello {name}"}, "session_id": name})
    agent.write(assistant_message("Hello", 1, name))

    engine.wait("return document.querySelector('main').innerText.includes(arguments[0])", f"Hello {name}")
    agent.finish()
    assert engine.errors(scene.url) == []


def test_minimap_and_outline_lead_through_a_session(session: Engine) -> None:
    assert session.run(COUNT, "#minimap svg g a") == CALLS - 1
    session.run("document.querySelector('#window').focus()")
    session.press(Key.HOME)
    session.wait(CURRENT, PROMPTS[0])
    session.press(Key.PAGE_DOWN)
    session.wait(CURRENT, PROMPTS[1])
    session.run(CLICK, "#outline li:first-child a")
    session.wait(CURRENT, PROMPTS[0])
    session.press("G")
    session.wait(CURRENT, PROMPTS[3])
    failed = session.run("return document.querySelector('#minimap a:has(.failed)').getAttribute('href').split('#')[1]")
    session.run("document.querySelector('#window').focus()")
    session.press(Key.PAGE_UP)
    session.press(Key.PAGE_UP)
    session.wait(CURRENT, PROMPTS[1])
    session.wait(COUNT, f"#{failed}")


def test_row_opens_in_place(session: Engine) -> None:
    row = session.run(LAST_CALL)
    session.press(Key.ENTER)
    session.wait("return document.querySelector(`#${arguments[0]} .head`).ariaExpanded === 'true'", row)
    session.wait(VISIBLE, f"#{row} .body")


def test_palette_finds_and_leads(session: Engine) -> None:
    session.press(Key.CONTROL, "k")
    session.wait(VISIBLE, "#palette")
    for letter in "unfindable":
        session.press(letter)
    session.wait("return document.querySelector('#palette').innerText.includes('unfindable')")
    session.press(Key.ESCAPE)
    session.wait("return !document.querySelector('#palette').open")


@pytest.mark.parametrize("tab", ["files", "usage", "plan", "details"])
def test_tabs(session: Engine, tab: str) -> None:
    session.run(CLICK, f"#tab-{tab}")

    session.wait(VISIBLE, f"#panel-{tab} > .tab")


@pytest.mark.parametrize("path", ["", "board", "events", "search?text=migrate", f"sessions/{SESSION}/share"])
def test_pages_fit_a_narrow_window(engine: Engine, scene: Site, path: str) -> None:
    """As narrow as these windows get."""
    engine.resize(300, 1_000)
    try:
        engine.open(f"{scene.url}/{path}")
        engine.wait("return document.readyState === 'complete' && !document.querySelector('#login')")
        assert engine.run("return innerWidth") <= 500
        engine.wait(FITS)
    finally:
        engine.resize(1_400, 1_000)
    assert engine.errors(scene.url) == []
