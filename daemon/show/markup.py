"""Text of agents and their tools as HTML: Markdown, source code, terminal colours, links; and templates.

The HTML is inert whatever the text: nh3 cleans Markdown, everything else is escaped, visible signs replace control
characters and changes of writing direction, and only web and mail addresses become links. Styles are classes, because
the page's Content-Security-Policy allows no style in the HTML. These functions never cut a text; `excerpt` does.
"""

from __future__ import annotations

import os
import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache, lru_cache
from hashlib import sha256
from importlib.util import cache_from_source
from pathlib import PureWindowsPath
from tempfile import NamedTemporaryFile
from time import thread_time
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import nh3
import pygments
from jinja2 import BytecodeCache, ChoiceLoader, Environment, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token as MarkdownToken
from markupsafe import Markup, escape
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.styles import get_style_by_name
from pygments.token import STANDARD_TYPES, Token
from pygments.util import ClassNotFound

from tooltap import __version__
from tooltap.daemon.formats import amount, cost_word, cost_words, counted, dollars, is_cost_bound, spent, written
from tooltap.daemon.show.ansi import COLOURS, STYLES, background_suffix, final_screen, spans, text_suffix
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
"""Maximum characters of Markdown that is parsed; ordinary text of this length takes half a second."""
BRACKETS = 5_000
"""Maximum number of `[` in Markdown that is parsed: for each, the parser searches the rest of the text for its end."""

_TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "strong", "em", "s", "code", "pre", "blockquote"),
    *("ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "a", "span"),
}
_ATTRIBUTES = {"a": {"href", "title", "target"}, "ol": {"start"}, "code": {"class"}, "span": {"class"}}


def text(value: str) -> Markup:
    """Render plain text."""
    return escape(visible(value))


def markdown(value: str) -> Markup:
    """Render Markdown. Line breaks are kept, as in terminals. Images become links, so that nothing is loaded from
    elsewhere; links to files become code, since they would lead into our pages; formulas are shown as they are written.
    Markdown that is too long, or nested so deeply that the parser would drop parts, is rendered as plain text."""
    shown, parser = visible(value), _markdown()
    if len(shown) > MARKDOWN or shown.count("[") > BRACKETS:
        return _plain(shown)
    tokens = parser.parse(shown)
    if any(token.level >= parser.options["maxNesting"] - 1 for token in tokens):
        return _plain(shown)
    for token in tokens:
        if token.children:
            token.children = list(_without_file_links(token.children))
    cleaned = nh3.clean(
        parser.renderer.render(tokens, parser.options, {}),
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        url_schemes=set(LINKS),
        set_tag_attribute_values={"a": {"target": "_blank"}},
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
    if _scheme(url) not in LINKS:
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


class _CompiledTemplates(BytecodeCache):
    """Keeps compiled templates where Python keeps compiled modules, and only if it may: all of them take half a second
    to compile."""

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        """Return the path of the file."""
        return "" if filename is None else cache_from_source(f"{filename}.py")

    def get_source_checksum(self, source: str) -> str:
        return sha256(f"{__version__} {source}".encode()).hexdigest()

    def load_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError), open(bucket.key, "rb") as file:
            bucket.load_bytecode(file)

    def dump_bytecode(self, bucket: Bucket) -> None:
        if not bucket.key or sys.dont_write_bytecode:
            return
        with suppress(OSError):
            folder = os.path.dirname(bucket.key)
            os.makedirs(folder, exist_ok=True)
            with NamedTemporaryFile(dir=folder, delete=False) as file:
                bucket.write_bytecode(file)
            os.replace(file.name, bucket.key)


def environment(*packages: str) -> Environment:
    """Return the environment with the templates of these packages, and the filters that they share."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(one) for one in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        bytecode_cache=_CompiledTemplates(),
        optimized=False,  # so that what is compiled does not depend on filters
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
        "is_cost_bound": is_cost_bound,
        "spent": spent,
        "cost_word": cost_word,
        "cost_words": cost_words,
        "written": written,
        "tail": lambda session: visible(session[-TAIL:]),
    }
    environment.globals |= {"code": code}
    return environment


@cache
def _markdown() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "breaks": True, "highlight": _fenced})
    parser.enable(["table", "strikethrough"])
    parser.add_render_rule("image", _image)
    parser.validateLink = _is_shown  # type: ignore[method-assign]
    parser.inline.ruler.before("escape", "formula", _formula)
    parser.block.ruler.before("code", "formula", _formula_block, {"alt": ["paragraph"]})
    return parser


_FORMULAS = {"$$": "$$", "\\(": "\\)", "\\[": "\\]"}
FORMULA = 4_000
"""Maximum characters of a formula."""


def _formula(state: StateInline, silent: bool) -> bool:
    """Parse a formula within a paragraph as code, with its signs: Markdown would take characters from it."""
    begin = state.pos
    end = _FORMULAS.get(state.src[begin : begin + 2])
    at = -1 if end is None else state.src.find(end, begin + 2, begin + FORMULA)
    if at < begin + 3:
        return False
    if not silent:
        state.push("code_inline", "code", 0).content = state.src[begin : at + 2]
    state.pos = at + 2
    return True


def _formula_block(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Parse lines that are a formula as code: a line of it may look like an item of a list."""
    start = state.bMarks[first] + state.tShift[first]
    closing = _FORMULAS.get(state.src[start : start + 2])
    if closing is None or closing == "\\)":
        return False
    at = state.src.find(closing, start + 2, start + FORMULA)
    if at < 0 or "\n\n" in state.src[start:at]:
        return False
    last = next((line for line in range(first, end) if state.eMarks[line] >= at + 2), end)
    if last == end or state.src[at + 2 : state.eMarks[last]].strip():
        return False
    if not silent:
        token = state.push("code_block", "code", 0)
        token.content = state.getLines(first, last + 1, state.blkIndent, True)
        token.map = [first, last + 1]
        state.line = last + 1
    return True


def _is_shown(url: str) -> bool:
    """Whether a link is one to the web or to a file; any other stays as it is written."""
    scheme = _scheme(unquote(url))
    return scheme in LINKS or scheme == "" or _file_of(url) is not None


_LINE_OF_FILE = re.compile(r"#L(\d+)(?:C\d+)?(?:-L?(\d+)(?:C\d+)?)?$")


def _without_file_links(children: Iterable[MarkdownToken]) -> Iterator[MarkdownToken]:
    """Replace links to anything but the web by what they link to: a file as code, `path:line`."""
    inside: list[MarkdownToken] | None = None
    target: str | None = None
    for token in children:
        if token.type == "link_open" and _scheme(str(token.attrs.get("href", ""))) not in LINKS:
            inside, target = [], _file_of(str(token.attrs.get("href", "")))
        elif token.type == "link_close" and inside is not None:
            if target is None or not _ends(target, "".join([one.content for one in inside])):
                yield from inside
                if target is not None:
                    yield MarkdownToken("text", "", 0, content=" ")
            if target is not None:
                yield MarkdownToken("code_inline", "code", 0, content=target, attrs={"class": "file"})
            inside = None
        elif inside is not None:
            inside.append(token)
        else:
            yield token


def _ends(target: str, words: str) -> bool:
    """Whether words are the end of a path, with its line or without."""
    paths = (target, target.rpartition(":")[0])
    return any(f"/{path}".replace("\\", "/").endswith(f"/{words}".replace("\\", "/")) for path in paths)


def _file_of(href: str) -> str | None:
    """Return the file that a link names, with its line; None if it names none."""
    path = unquote(href)
    scheme = _scheme(path)
    if scheme in ("file", "vscode"):
        path = path.partition("://file" if scheme == "vscode" else "://")[2]
    elif len(scheme) > 1 or path[:1] in ("", "#", "?"):
        return None
    return _LINE_OF_FILE.sub(lambda found: ":" + "-".join(filter(None, found.groups())), path) or None


def _scheme(url: str) -> str:
    try:
        return urlsplit(url).scheme.lower()
    except ValueError:
        return ""


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
    return _lexer_of_name(PureWindowsPath(path).name) if path else None


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


# -- the style sheet of source code, terminals and diffs -------------------------------------------------------------


# The colours are those of Pygments' styles and of xterm. They are designed for other backgrounds than the page's, and
# some would be unreadable here. So each colour is made lighter or darker until it is readable, and the backgrounds that
# programs set are only faint tints: every text colour is readable on every background, in light and dark. CSS
# `color-scheme` selects light or dark.


READABLE = 4.5
"""Contrast that WCAG 2 requires of text at level AA."""
STEPS = 50
"""Steps of the search between two colours."""
TINT = 1.3
"""Highest contrast of a background with the page's."""


class Scheme(NamedTuple):
    style: str
    """A style of Pygments."""
    background: str
    text: str
    faint: str
    """Colour of line numbers and the like."""
    added: str
    removed: str
    marked: str
    """Background of text that matches a search."""


LIGHT = Scheme("default", "#f7f6f4", "#1c1b19", "#59636e", "#2da44e", "#cf222e", "#fff3b0")
DARK = Scheme("github-dark", "#191816", "#eceae5", "#9198a1", "#2ea043", "#f85149", "#5c4a00")

_LAYOUT = """\
:root { color-scheme: light dark; }
:root[data-theme="light"] { color-scheme: light; }
:root[data-theme="dark"] { color-scheme: dark; }
pre { overflow: auto; }
pre.code .linenos, pre.diff .linenos { display: inline-block; min-width: 3ch; padding-right: 1ch; text-align: right; \
user-select: none; }
pre.diff .line, pre.code .line { display: block; }
pre.diff ins, pre.diff del { text-decoration: none; }
pre.diff mark { border-radius: 2px; font-weight: bold; }
"""


@cache
def code_css() -> str:
    return _LAYOUT + "".join(f"{rule}\n" for rules in (_page(), _source(), _terminal()) for rule in rules)


def _page() -> Iterator[str]:
    yield _rule("pre", **_both("background-color", LIGHT.background, DARK.background))
    yield _rule("pre", **_both("color", *(_text(one, one.text) for one in (LIGHT, DARK))))
    faint = _both("color", *(_text(one, one.faint) for one in (LIGHT, DARK)))
    yield _rule("pre.code .linenos, pre.diff .linenos, pre.diff .hunk, pre.diff em", **faint)
    for selector, name in (("ins", "added"), ("del", "removed")):
        back = (tint(getattr(one, name), one.background) for one in (LIGHT, DARK))
        yield _rule(f"pre.diff {selector}.line", **_both("background-color", *back))
        front = (_text(one, getattr(one, name)) for one in (LIGHT, DARK))
        yield _rule(f"pre.diff {selector} .sign, pre.diff {selector} mark", **_both("color", *front))
    yield _rule("pre.diff mark", **{"background-color": "transparent", "text-decoration": "underline"})
    marked = (tint(one.marked, one.background) for one in (LIGHT, DARK))
    yield _rule("pre.code mark", **_both("background-color", *marked), color="inherit")


def _source() -> Iterator[str]:
    """Yield CSS rules for the classes of Pygments' tokens."""
    light, dark = get_style_by_name(LIGHT.style), get_style_by_name(DARK.style)
    for token, name in STANDARD_TYPES.items():
        if not name or token in Token.Text:
            continue
        one, other = light.style_for_token(token), dark.style_for_token(token)
        colours = [
            _text(scheme, f"#{style['color']}" if style["color"] else scheme.text)
            for scheme, style in ((LIGHT, one), (DARK, other))
        ]
        declared = _both("color", *colours)
        if one["bold"]:
            declared["font-weight"] = "bold"
        if one["italic"]:
            declared["font-style"] = "italic"
        yield _rule(f"pre .{name}", **declared)


def _terminal() -> Iterator[str]:
    """Yield CSS rules for the classes of `ansi.spans`."""
    for number, (name, value) in STYLES.items():
        yield _rule(f"pre .ansi{number}", **{name: value})
    yield _rule("pre .inv_foreground", **_both("color", *(_text(one, one.text) for one in (LIGHT, DARK))))
    yield _rule(
        "pre .inv_background", **_both("background-color", *(tint(one.text, one.background) for one in (LIGHT, DARK)))
    )
    for number, colour in enumerate(COLOURS):
        text, background = text_suffix(number), background_suffix(number)
        front = _both("color", *(_text(one, colour) for one in (LIGHT, DARK)))
        back = _both("background-color", *(tint(colour, one.background) for one in (LIGHT, DARK)))
        yield _rule(f"pre .ansi{text}, pre .inv{background}", **front)
        yield _rule(f"pre .ansi{background}, pre .inv{text}", **back)


def _rule(selector: str, **declared: str) -> str:
    return f"{selector} {{ {' '.join(f'{name}: {value};' for name, value in declared.items())} }}"


def _both(name: str, light: str, dark: str) -> dict[str, str]:
    return {name: light if light == dark else f"light-dark({light}, {dark})"}


@cache
def _text(scheme: Scheme, colour: str) -> str:
    """Make a colour readable on the page's background and, by a margin, on every tint of it."""
    return readable(colour, scheme.background, READABLE * TINT)


def readable(colour: str, background: str, ratio: float = READABLE) -> str:
    """Make a colour darker or lighter until it has this contrast with the background."""
    end = "#000000" if _luminance(background) > 0.5 else "#ffffff"
    return _first(colour, end, lambda step: contrast(step, background) >= ratio)


def tint(colour: str, background: str) -> str:
    """Tint the background with a colour as far as a contrast of `TINT` to the plain background allows."""
    return _first(colour, background, lambda step: contrast(step, background) <= TINT)


def _first(one: str, other: str, passes: Callable[[str], bool]) -> str:
    """Return the first mix of two colours, on the way from `one` to `other`, that passes. All mixes after it pass as
    well."""
    share = bisect_left(range(STEPS), True, key=lambda step: passes(_mixed(one, other, step / STEPS)))
    return _mixed(one, other, share / STEPS)


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours `#rrggbb`, from 1 to 21, as WCAG 2 defines it."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [part / 255 for part in _parts(colour)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _mixed(one: str, other: str, share: float) -> str:
    """Mix two colours. `share`: the part of the other, from 0 to 1."""
    pairs = zip(_parts(one), _parts(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def _parts(colour: str) -> tuple[int, int, int]:
    """Parse `#rgb` or `#rrggbb`."""
    digits = colour.removeprefix("#")
    if len(digits) == 3:
        digits = "".join(2 * digit for digit in digits)
    return int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:], 16)
