"""Coloured text of a terminal as HTML: the classes of its spans, and the colours behind the classes.

    spans("\\x1b[1;31mred\\x1b[0m")     # <span class="ansi1 ansi31">red</span>

A class is `ansi` and the number of the SGR sequence that sets it, as in `ansi1` (bold), `ansi31` (red text) or
`ansi48-200` (background number 200 of 256). In reverse video text and background change places: `inv31`, and
`inv_foreground` and `inv_background` for the colours of the page. `code_css` has a rule for each class.

Rich reads the sequences, one at a time. It never sees the text between them: its search for other sequences takes
quadratic time on text such as many `ESC ]` without an end (rich 15.0).
"""

from __future__ import annotations

import re
from functools import lru_cache

from markupsafe import Markup
from rich.ansi import AnsiDecoder
from rich.style import Style

from tooltap.daemon.system.sanitize import visible

__all__ = ["COLOURS", "CUBE", "STYLES", "background_suffix", "spans", "text_suffix"]

CUBE = (0, 95, 135, 175, 215, 255)
"""Intensities of red, green and blue in the colours 16 to 231."""
_STANDARD = (
    *("#000000", "#cd0000", "#00cd00", "#cdcd00", "#0000ee", "#cd00cd", "#00cdcd", "#e5e5e5"),
    *("#7f7f7f", "#ff0000", "#00ff00", "#ffff00", "#5c5cff", "#ff00ff", "#00ffff", "#ffffff"),
)
COLOURS = (
    *_STANDARD,
    *(f"#{red:02x}{green:02x}{blue:02x}" for red in CUBE for green in CUBE for blue in CUBE),
    *(f"#{grey:02x}{grey:02x}{grey:02x}" for grey in range(8, 248, 10)),
)
"""The 256 colours of xterm by number."""
STYLES = {
    1: ("font-weight", "bold"),
    2: ("font-weight", "lighter"),
    3: ("font-style", "italic"),
    4: ("text-decoration", "underline"),
    9: ("text-decoration", "line-through"),
}
"""SGR number -> CSS property and value. Text that blinks or is concealed is shown like any other."""

_SGR = re.compile(r"(\x1b\[[0-9;]*m)")
_TOO_LONG = re.compile(r"[0-9]{4,}")
"""Numbers without a meaning; Python refuses to read those of more than 4,300 digits."""


def spans(written: str) -> Markup:
    """Render text with SGR sequences. Visible signs replace all other control characters."""
    decoder = AnsiDecoder()
    html = []
    for index, part in enumerate(_SGR.split(written)):
        if index % 2:
            decoder.decode_line(_TOO_LONG.sub("999", part))
        elif part and (classes := _classes(decoder.style)):
            html.append(Markup('<span class="{}">{}</span>').format(classes, visible(part)))
        else:
            html.append(Markup.escape(visible(part)))
    return Markup().join(html)


@lru_cache(maxsize=1024)
def _classes(style: Style) -> str:
    text = "" if style.color is None or style.color.number is None else text_suffix(style.color.number)
    background = (
        "" if style.bgcolor is None or style.bgcolor.number is None else background_suffix(style.bgcolor.number)
    )
    names = {
        "ansi1": style.bold,
        "ansi2": style.dim and not style.bold,
        "ansi3": style.italic,
        "ansi4": style.underline,
        "ansi9": style.strike,
        f"ansi{text}": text and not style.reverse,
        f"ansi{background}": background and not style.reverse,
        f"inv{text or '_background'}": style.reverse,
        f"inv{background or '_foreground'}": style.reverse,
    }
    return " ".join(name for name, is_set in names.items() if is_set)


def text_suffix(number: int) -> str:
    """Return the class suffix of a text colour: `31`, or `38-200` for `38;5;200`."""
    return f"38-{number}" if number >= 16 else str(number + (30 if number < 8 else 82))


def background_suffix(number: int) -> str:
    """Return the class suffix of a background colour: `41`, or `48-200` for `48;5;200`."""
    return f"48-{number}" if number >= 16 else str(number + (40 if number < 8 else 92))
