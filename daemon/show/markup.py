"""Text of agents and their tools as HTML: Markdown, source code, terminal colours, links; and templates.

The HTML is inert whatever the text: nh3 cleans Markdown, everything else is escaped, visible signs replace control
characters and changes of writing direction, and only web and mail addresses become links. Styles are classes, because
the page's Content-Security-Policy allows no style in the HTML. These functions never cut a text; `excerpt` does.
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
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup, escape
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.token import Token
from pygments.util import ClassNotFound

from tooltap.daemon.formats import amount, counted, dollars, spent
from tooltap.daemon.show.ansi import final_screen, spans
from tooltap.daemon.show.blocks import Body, Link, brief
from tooltap.daemon.system.sanitize import visible
from tooltap.normalizers.catalog.registry import product_names

TAIL = 6
"""Last characters of a session's id, which distinguish sessions of the same name. Many ids begin with the time."""
LINKS = frozenset({"http", "https", "mailto"})
"""Schemes of URLs that become links."""
HIGHLIGHTED = 65_536
"""Longest source code, in characters, that is coloured."""
HIGHLIGHTED_LINE = 500
"""Longest line, in characters, of source code that is coloured."""
HIGHLIGHTING = 0.25
"""Seconds of CPU time after which the rest is not coloured: on some lines, such as `[ [ [` in Markdown, lexers take
quadratic time or more (Pygments 2.21)."""
MARKDOWN = 65_536
"""Longest Markdown, in characters, that is parsed; ordinary text of this length takes half a second."""
BRACKETS = 5_000
"""Most `[` in Markdown that is parsed; the parser searches the rest of the text for the end of each."""

_TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "strong", "em", "s", "code", "pre", "blockquote"),
    *("ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "a", "span"),
}
_ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "code": {"class"}, "span": {"class"}}


def text(value: str) -> Markup:
    """Render plain text."""
    return escape(visible(value))


def markdown(value: str) -> Markup:
    """Render Markdown. Images become links, so that nothing is loaded from elsewhere. Markdown that is too long, or
    nested so deeply that the parser would drop parts, is rendered as plain text."""
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
    return Markup(visible(cleaned))  # the parser has decoded references such as `&#x202e;`


def _plain(shown: str) -> Markup:
    return Markup('<pre class="text">{}</pre>').format(shown)


def code(value: str, *, path: str | None = None, language: str | None = None, first_line: int | None = None) -> Markup:
    """Render source code with colours, and with line numbers if `first_line` is given. `language`: a name that Pygments
    knows; without one the file's name decides."""
    inside = _coloured(visible(value), _lexer(language, path))
    if first_line is not None:
        lines = inside.removesuffix("\n").split("\n")
        inside = "\n".join(f'<span class="linenos">{at}</span>{line}' for at, line in enumerate(lines, first_line))
    return Markup('<pre class="code" tabindex="0" role="group" aria-label="text">\n{}</pre>').format(Markup(inside))


def ansi(value: str) -> Markup:
    """Render what a terminal finally shows of a tool's output: text, colours, weight and underlining."""
    return spans(final_screen(value))


def link(url: str, shown: str | None = None) -> Markup:
    """Render a link if the URL is safe to follow; else its text."""
    words = text(shown or url)
    try:
        scheme = urlsplit(url).scheme.lower()
    except ValueError:
        scheme = ""
    if scheme not in LINKS:
        return words
    return Markup('<a href="{}" rel="noopener noreferrer nofollow" target="_blank">{}</a>').format(visible(url), words)


def clock(milliseconds: int, form: str = "%Y-%m-%d %H:%M:%S UTC") -> str:
    """Format the time of an event as `2026-11-22 04:05:06 UTC`. Any number is accepted: agents write them."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime(form)
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"


def time_of_day(milliseconds: int) -> str:
    """Format the time of an event as `04:05:06`, in UTC."""
    return clock(milliseconds, "%H:%M:%S")


def product(provider: str) -> str:
    """Return the name of an agent as its users know it; of one that tooltap does not know, its id."""
    return product_names().get(provider) or visible(brief(provider))


def template(name: str, **values: Any) -> Markup:
    """Render a template of `daemon/show/templates`."""
    return Markup(_environment().get_template(name).render(**values))


def body_html(value: Body | Link | str) -> Markup:
    """Render a body, a link, or plain text. What is HTML already stays so."""
    match value:
        case Markup():
            return value
        case Link(url=url, text=shown):
            return link(url, shown)
        case str():
            return text(value)
    return Markup().join([template(f"{block.kind}.html", **block.values) for block in value])


def _brief(value: str) -> str:
    return visible(brief(value))


@cache
def _environment() -> Environment:
    return environment("tooltap.daemon.show")


def environment(*packages: str) -> Environment:
    """Return the templates of these packages, with the filters that they share."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(one) for one in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "visible": visible,
        "html": body_html,
        "brief": _brief,
        "product": product,
        "markdown": markdown,
        "ansi": ansi,
        "link": link,
        "clock": clock,
        "time_of_day": time_of_day,
        "amount": amount,
        "counted": counted,
        "dollars": dollars,
        "spent": spent,
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
    """Render the inside of a fenced code block."""
    return _coloured(value, _lexer(language, None))


def _coloured(value: str, lexer: Lexer | None) -> str:
    if lexer is None or len(value) > HIGHLIGHTED or len(max(value.split("\n"), key=len)) > HIGHLIGHTED_LINE:
        return str(escape(value))
    return str(pygments.format(_tokens(value.removeprefix("\ufeff"), lexer), _formatter()))


def _tokens(value: str, lexer: Lexer) -> Iterator[tuple[Any, str]]:
    """Yield tokens until `HIGHLIGHTING` has passed, then the rest as text."""
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
    """Return a lexer; None for plain text and languages unknown to Pygments."""
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
