"""The README is a short introduction."""

from __future__ import annotations

from tests.docs.pages import DOCS, README, blocks_of, prose_of, tagged

WORDS = 700


def test_readme_is_short() -> None:
    """Words outside of blocks of code."""
    assert len(prose_of(README).split()) <= WORDS


def test_readme_begins_with_two_commands() -> None:
    assert tagged(README, "make") == "make demo\nmake test\n"


def test_readme_shows_one_program() -> None:
    """The same as the how-to, which explains it."""
    [program] = [block.text for block in blocks_of(README) if block.language == "python"]
    how_to = [block.text for block in blocks_of(DOCS / "how-to" / "subscribe.md") if block.language == "python"]

    assert program.replace("  # or `async for`", "  # or `async for`, with asyncio or trio") in how_to
