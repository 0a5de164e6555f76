"""Markdown of agents for a Markdown file: it keeps its meaning, and nothing in it escapes its block.

Headings become bold text, so that only the file itself has any. HTML becomes text, images become links, because they
would be loaded from elsewhere, and definitions of links become text, because they would hold for the whole file. Fences
that are left open are closed. What comes out is parsed again until nothing of that is left; a text with which this does
not end is put into a fence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tooltap.daemon.system.sanitize import visible

__all__ = ["code_span", "fenced", "inert", "line", "quoted"]

LONGEST = 32_768
"""Characters of Markdown that is parsed; a longer text is put into a fence."""
BRACKETS = 5_000
"""Most `[` in Markdown that is parsed."""
ROUNDS = 12
SENTINEL = "tooltap-end-of-text"
ACTIVE = frozenset({"heading_open", "html_block", "html_inline", "image"})
"""Tokens that no text may have."""
_BACKTICKS = re.compile(r"`+")
_HEADING = re.compile(r"#{1,6}(?=[ \t]|$)")
_SPECIAL = re.compile(r"[\\`*_\[\]<>#|~&$]")


def inert(text: str) -> str:
    """Return Markdown that is contained. It ends without a newline."""
    shown = visible(text).strip("\n")
    if len(shown) > LONGEST or shown.count("[") > BRACKETS:
        return fenced(shown, "markdown")
    for _ in range(ROUNDS):
        lines = shown.split("\n")
        tokens, env = _parsed(f"{shown}\n\n{SENTINEL}\n")
        if not _repair(lines, tokens, env):
            break
        shown = "\n".join(lines)
    return shown if _is_inert(tokens, env) else fenced(text, "markdown")


def quoted(markdown: str) -> str:
    """Return contained Markdown as a quote."""
    return "\n".join(f"> {one}".rstrip() for one in markdown.split("\n"))


def fenced(text: str, language: str = "") -> str:
    """Return a text in a fence that is longer than any run of backticks inside."""
    shown = visible(text).strip("\n")
    fence = "`" * max(3, 1 + _longest_run(shown))
    return f"{fence}{language}\n{shown}\n{fence}"


def code_span(text: str) -> str:
    """Return one line as code."""
    shown = " ".join(visible(text).split())
    ticks = "`" * (1 + _longest_run(shown))
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}" if shown else ""


def line(text: str) -> str:
    """Return a text as plain text, for a line of Markdown that it does not begin."""
    return _SPECIAL.sub(r"\\\g<0>", " ".join(visible(text).split()))


def _longest_run(text: str) -> int:
    return max((len(run) for run in _BACKTICKS.findall(text)), default=0)


def _parsed(text: str) -> tuple[list[Token], dict[str, Any]]:
    env: dict[str, Any] = {}
    return _parser().parse(text, env), env


@cache
def _parser() -> MarkdownIt:
    """Every reader's Markdown: HTML is HTML, so that it is found."""
    return MarkdownIt("commonmark", {"html": True, "maxNesting": 100}).enable(["table", "strikethrough"])


def _is_inert(tokens: list[Token], env: dict[str, Any]) -> bool:
    """Whether none of that is left, and a text after it is a paragraph of its own."""
    kinds = {token.type for token in tokens} | {child.type for token in tokens for child in token.children or ()}
    last = [(token.type, token.level, token.content) for token in tokens[-3:]]
    is_contained = last == [("paragraph_open", 0, ""), ("inline", 1, SENTINEL), ("paragraph_close", 0, "")]
    return is_contained and not kinds & ACTIVE and not env.get("references")


def _repair(lines: list[str], tokens: list[Token], env: dict[str, Any]) -> bool:
    """Change the lines so that less of them is a heading, HTML, an image, a definition or open; say whether any was
    changed."""
    before = list(lines)
    for token in tokens:
        first, end = token.map or (0, 0)
        at = range(first, min(end, len(lines)))
        if token.type == "heading_open":
            _unhead(lines, at, is_underlined=token.markup in ("=", "-"))
        elif token.type == "html_block":
            _replace(lines, at, "<", "&lt;")
        elif token.type in ("fence", "code_block") and SENTINEL in token.content:
            lines.append(token.markup or "")
        elif token.type == "inline":
            _disarm(lines, at, token.children or ())
    for one in (*env.get("references", {}).values(), *env.get("duplicate_refs", ())):
        first, end = one.get("map") or (0, 0)
        _replace(lines, range(first, min(end, len(lines))), "[", "&#91;")
    return lines != before


def _unhead(lines: list[str], at: range, *, is_underlined: bool) -> None:
    if is_underlined:
        lines[at[-1]] = lines[at[-1]].rstrip(" \t").rstrip("=-")
        return
    for index in at:
        if found := _HEADING.search(lines[index]):
            words = _without_end(lines[index][found.end() :].strip())
            is_plain = words and not re.search(r"[*_`\\<\[]", words)
            lines[index] = lines[index][: found.start()] + (f"**{words}**" if is_plain else words)


def _without_end(heading: str) -> str:
    """Return the words of a heading without the `#` that may end it."""
    words = heading.rstrip("#")
    return words.rstrip() if not words or words[-1] in " \t" else heading


def _disarm(lines: list[str], at: range, children: Iterable[Token]) -> None:
    for child in children:
        if child.type == "html_inline":
            beginning = child.content.split("\n")[0]
            _replace(lines, at, beginning, beginning.replace("<", "&lt;"))
        elif child.type == "image":
            _replace(lines, at, "![", "[")


def _replace(lines: list[str], at: range, old: str, new: str) -> None:
    for index in at:
        lines[index] = lines[index].replace(old, new)
