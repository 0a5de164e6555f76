"""The pictures of docs/reference/page.md: each state of the page can still be reached, and has its picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.screenshots import DOCS, EMPTY, PICTURED, PICTURES, play, take
from tests.browser.serving import Site
from tests.test_layout import ROOT

BY_HAND = {"phoenix"}
"""Pictures of other programs."""
SHOWN = {name: (show, options) for name, show, options in [EMPTY, *PICTURES]}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("pictures")) as site:
        play(site)
        yield site


@pytest.fixture
def played_for(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """A site in which everything has been played, or nothing for the picture of nothing."""
    if request.node.callspec.params["name"] != EMPTY[0]:
        yield request.getfixturevalue("played")
        return
    with Site(tmp_path) as site:
        yield site


def size(path: Path) -> bytes:
    """The width and height in the header of a PNG."""
    return path.read_bytes()[16:24]


@pytest.mark.parametrize("name", DOCS)
def test_state_has_its_picture(browser: Browser, played_for: Site, name: str, tmp_path: Path) -> None:
    show, options = SHOWN[name]
    taken = tmp_path / f"{name}.png"
    take(browser, played_for, show, taken, options)

    assert size(taken) == size(PICTURED / f"{name}.png")


def test_page_of_the_documentation_has_them_all() -> None:
    page = (ROOT / "docs" / "reference" / "page.md").read_text()

    assert [f"![{words}](../pictures/{name}.png)" for name, words in DOCS.items()] == [
        line for line in page.splitlines() if line.startswith("![")
    ]
    assert {path.stem for path in PICTURED.iterdir()} == {*DOCS, *BY_HAND}
