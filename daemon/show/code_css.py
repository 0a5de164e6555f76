"""The style sheet of source code, terminals and diffs, made from the colours of Pygments' styles and of xterm.

Those colours are designed for other backgrounds than the page's, and some would be unreadable here. So each colour is
made lighter or darker until it is readable, and the backgrounds that programs set are only faint tints: every text
colour is readable on every background, in light and dark. CSS `color-scheme` selects light or dark.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from pygments.styles import get_style_by_name
from pygments.token import STANDARD_TYPES, Token

from tooltap.daemon.show.ansi import COLOURS, STYLES, background_suffix, text_suffix

READABLE = 4.5
"""Contrast that WCAG 2 requires of text at level AA."""
STEPS = 50
"""Steps from one colour to another."""
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
    """Rules for the classes of Pygments' tokens."""
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
    """Rules for the classes of `terminal.spans`."""
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
    """Return the first colour on the way from one to the other that passes. All after it pass as well."""
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
