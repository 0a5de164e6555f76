"""Every link of every page leads somewhere, and everything a page names exists."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, blocks_of, name_of, prose_of
from tests.test_layout import FOLDERS, ROOT
from tooltap.cli.subcommands import COMMANDS

MAKEFILE = "".join((folder / "Makefile").read_text() for folder in (ROOT, ROOT / "tests"))
MOVING = {"CHANGELOG.md"}
"""Pages that may name what is not there any more."""


def links_of(page: Path) -> list[str]:
    text = re.sub(r"`[^`]*`", "", prose_of(page))
    return re.findall(r"\]\(([^)\s]+)\)", text)


@cache
def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as code hosts and MyST make them."""
    slugs: list[str] = []
    for heading in re.findall(r"^#+ (.+)$", prose_of(page), re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        again = sum(1 for one in slugs if re.fullmatch(rf"{re.escape(slug)}(-\d+)?", one))
        slugs.append(f"{slug}-{again}" if again else slug)
    return set(slugs)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_resolve(page: Path) -> None:
    for link in links_of(page):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), link
        assert target.is_relative_to(ROOT), link
        if anchor:
            assert anchor in anchors_of(target), link


@pytest.mark.parametrize("page", [page for page in PAGES if name_of(page) not in MOVING], ids=name_of)
def test_named_files_targets_and_commands_exist(page: Path) -> None:
    text = page.read_text()
    for path in re.findall(rf"`((?:{'|'.join(FOLDERS)}|clients|docs|tests)/[\w./-]*)`", text):
        assert (ROOT / path).exists(), path
    for target in re.findall(r"`make ([a-z-]+)", text):
        assert f"\n{target}:" in MAKEFILE, target
    shell = "\n".join(block.text for block in blocks_of(page) if block.language == "sh")
    assert set(re.findall(r"^ *(?:[\w=$()]* )?tooltap ([a-z]+)\b", shell, re.MULTILINE)) <= set(COMMANDS)


def test_index_lists_every_page() -> None:
    index = DOCS / "index.md"
    listed = {(DOCS / link).resolve() for link in links_of(index)}

    assert {page for page in PAGES if page.is_relative_to(DOCS)} - {index} <= listed
    assert {page for page in PAGES if page.parent == ROOT} - {ROOT / "README.md"} <= listed


def test_pages_named_in_code_exist() -> None:
    for folder in FOLDERS:
        for module in (ROOT / folder).rglob("*.py"):
            for page in re.findall(r"\bdocs/[\w/-]+\.(?:md|json|toml)\b", module.read_text()):
                assert (ROOT / page).is_file(), f"{page} in {module.relative_to(ROOT)}"
