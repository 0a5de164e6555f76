"""Text of agents and their tools as HTML: Markdown, source code, terminal colours, links.

Whatever comes in, what goes out is inert: Markdown is cleaned by nh3, everything else is escaped, control characters
and writing directions are replaced by signs, and only web and mail addresses become links. Styles are classes, since
the page's Content-Security-Policy allows no style in the markup. Long text is cut where `Excerpt` says, never here.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import PurePosixPath
from time import thread_time
from typing import Any
from urllib.parse import urlsplit

import nh3
import pygments
from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup, escape
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.token import Token
from pygments.util import ClassNotFound

from tooltap.daemon.system.harmless import visible
from tooltap.daemon.web.html.look import brief
from tooltap.daemon.web.html.screen import settled
from tooltap.daemon.web.html.terminal import spans

__all__ = ["ansi", "clock", "code", "compile_templates", "link", "markdown", "template", "text", "time_of_day"]

TAIL = 6
"""Characters of a session's id that tell it from others of the same name; the first ones of many ids are the time."""
LINKS = frozenset({"http", "https", "mailto"})
"""Schemes that a link may have."""
HIGHLIGHTED = 65_536
"""Characters of source code up to which it is coloured."""
HIGHLIGHTED_LINE = 500
"""Characters of its longest line."""
HIGHLIGHTING = 0.25
"""Seconds of computing after which the rest is not coloured: there are lines, such as `[ [ [` in Markdown, of which
lexers take quadratic time and more (Pygments 2.21)."""
MARKDOWN = 65_536
"""Characters of Markdown up to which it is read; an ordinary text takes half a second for as many."""
BRACKETS = 5_000
"""Of one text; each one is looked for an end in all that follows."""

_TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "strong", "em", "s", "code", "pre", "blockquote"),
    *("ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "a", "span"),
}
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "code": {"class"}, "span": {"class"}}


def text(value: str) -> Markup:
    """Plain text, as it is."""
    return escape(visible(value))


def markdown(value: str) -> Markup:
    """What a model wrote for a person. Images of others are links: nothing is loaded from elsewhere. Plain text where
    it is too much to read, or nested so deeply that the parser would leave some out."""
    shown, parser = visible(value), _markdown()
    if len(shown) > MARKDOWN or shown.count("[") > BRACKETS:
        return _plain(shown)
    tokens = parser.parse(shown)
    if any(token.level >= parser.options["maxNesting"] - 1 for token in tokens):
        return _plain(shown)
    cleaned = nh3.clean(
        parser.renderer.render(tokens, parser.options, {}),
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        url_schemes=set(LINKS),
        link_rel="noopener noreferrer nofollow",
    )
    return Markup(visible(cleaned))  # character references (`&#x202e;`) are characters now


def _plain(shown: str) -> Markup:
    return Markup('<pre class="text">{}</pre>').format(shown)


def code(value: str, *, path: str | None = None, language: str | None = None, first_line: int | None = None) -> Markup:
    """Source code with its colours; with line numbers where `first_line` is given. The language is that of the name
    given as Pygments has it, else of the file's name."""
    inside = _coloured(visible(value), _lexer(language, path))
    if first_line is not None:
        lines = inside.removesuffix("\n").split("\n")
        inside = "\n".join(f'<span class="linenos">{at}</span>{line}' for at, line in enumerate(lines, first_line))
    return Markup('<pre class="code" tabindex="0" role="group" aria-label="text">\n{}</pre>').format(Markup(inside))


def ansi(value: str) -> Markup:
    """What a terminal shows in the end of a tool's output: text, colours, weight and underlining."""
    return spans(settled(value))


def link(url: str, shown: str | None = None) -> Markup:
    """An address to follow, if it is one that is safe to follow; else its text."""
    words = text(shown or url)
    try:
        scheme = urlsplit(url).scheme.lower()
    except ValueError:
        scheme = ""
    if scheme not in LINKS:
        return words
    return Markup('<a href="{}" rel="noopener noreferrer nofollow" target="_blank">{}</a>').format(visible(url), words)


def clock(milliseconds: int, form: str = "%Y-%m-%d %H:%M:%S UTC") -> str:
    """A time of an event as `2026-11-22 04:05:06 UTC`; whatever number an agent wrote."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime(form)
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"


def time_of_day(milliseconds: int) -> str:
    """The same as `04:05:06`, in UTC."""
    return clock(milliseconds, "%H:%M:%S")


def template(name: str, **values: Any) -> Markup:
    """A template of this package, filled in."""
    return Markup(_environment().get_template(name).render(**values))


def _brief(value: str) -> str:
    return visible(brief(value))


def compile_templates() -> None:
    """All of them; they are else compiled when they are filled in for the first time."""
    for name in _environment().list_templates():
        _environment().get_template(name)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("tooltap.daemon.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "visible": visible,
        "brief": _brief,
        "markdown": markdown,
        "ansi": ansi,
        "link": link,
        "clock": clock,
        "time_of_day": time_of_day,
        "tail": lambda session: visible(session[-TAIL:]),
    }
    environment.globals |= {"code": code}
    return environment


@cache
def _markdown() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "highlight": _fenced})
    parser.enable(["table", "strikethrough"])
    parser.add_render_rule("image", _image)
    return parser


def _image(renderer: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    return str(link(str(token.attrs.get("src", "")), token.content or None))


def _fenced(value: str, language: str, attributes: str) -> str:
    """The inside of a fenced block."""
    return _coloured(value, _lexer(language, None))


def _coloured(value: str, lexer: Lexer | None) -> str:
    if lexer is None or len(value) > HIGHLIGHTED or len(max(value.split("\n"), key=len)) > HIGHLIGHTED_LINE:
        return str(escape(value))
    return str(pygments.format(_tokens(value.removeprefix("\ufeff"), lexer), _formatter()))


def _tokens(value: str, lexer: Lexer) -> Iterator[tuple[Any, str]]:
    """As far as the lexer comes in its time, and the rest as text."""
    end = thread_time() + HIGHLIGHTING
    at = 0
    for kind, text in lexer.get_tokens(value):
        yield kind, text
        at += len(text)
        if thread_time() > end:
            yield Token.Text, value[at:]
            return


@cache
def _formatter() -> HtmlFormatter[str]:
    return HtmlFormatter(nowrap=True)


def _lexer(language: str | None, path: str | None) -> Lexer | None:
    """None for plain text, and what Pygments does not know."""
    if language:
        return _lexer_of_language(language)
    return _lexer_of_name(PurePosixPath(path).name) if path else None


@lru_cache(maxsize=256)
def _lexer_of_language(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        return None


@lru_cache(maxsize=1024)
def _lexer_of_name(name: str) -> Lexer | None:
    try:
        return get_lexer_for_filename(name, stripnl=False)
    except ClassNotFound:
        return None
