r"""Terminal output of programs: the text that a terminal finally shows, and its colors as HTML.

    final_screen("10%\r100%\x1b[K\n")     # "100%\n": a progress bar only once, in its last state
    spans("\x1b[1;31mred\x1b[0m")         # <span class="ansi1 ansi31">red</span>

Cursor movements and erasures are carried out; lines may have any length and number. Of all other sequences only
colours and text styles (SGR) remain. 24-bit colours become the nearest of 256.

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

REPLAYED = 65_536
"""Maximum characters of a text in which cursor movements are carried out. In longer text a line shows only what follows
its last carriage return."""
WIDTH = 200
"""Columns up to which a sequence may move the cursor; programs may request any number. Text is not wrapped."""

_SEQUENCE = re.compile(
    r"\x1b\[(?P<params>[0-?]*)[ -/]*(?P<final>[@-~])"
    r"|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # titles, links
    r"|\x1b[PX^_][^\x1b]*\x1b\\"
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"
    r"|(?P<control>[\r\n\x08\x07])"
)
_MOVEMENT = re.compile(r"[\r\x08]|\x1b\[[0-9;]*[A-HJKf]")
_COLOUR = re.compile(r"([345]8);(?:5;(\d{1,3})|2;;?(\d{1,3});(\d{1,3});(\d{1,3}))")
_STYLES = 8
"""Maximum SGR sequences, since the last reset, that are stored for a character."""


def final_screen(written: str) -> str:
    """Return the text that remains visible, with newlines, tabs, SGR sequences, and characters unknown to terminals."""
    written = written.replace("\r\n", "\n")
    if _MOVEMENT.search(written) is None:
        return _SEQUENCE.sub(_colour_or_nothing, written) if "\x1b" in written or "\x07" in written else written
    if len(written) > REPLAYED:
        lines = [line.rstrip("\r").rpartition("\r")[2] for line in written.split("\n")]
        return _SEQUENCE.sub(_colour_or_nothing, "\n".join(lines))
    screen = _Screen()
    at = 0
    for found in _SEQUENCE.finditer(written):
        screen.write(written[at : found.start()])
        at = found.end()
        if found["control"]:
            screen.control(found["control"])
        elif found["final"]:
            screen.sequence(found["params"], found["final"])
    screen.write(written[at:])
    return screen.text()


class _Row:
    __slots__ = ("blank", "characters", "styles")

    def __init__(self) -> None:
        self.characters: list[str] = []
        self.styles: list[str] = []
        self.blank = 0
        """Number of leading characters that are known to be erased, so that erasing again skips them."""


class _Screen:
    """Rows of characters and their SGR sequences, and the cursor. Rows grow when text is written.

    The cost of erasing is bounded by what was written since the last erasure: programs may erase a long line, or many
    lines, again and again.
    """

    def __init__(self) -> None:
        self._rows = [_Row()]
        self._written: set[int] = set()
        """Indexes of rows with text written since all rows were erased."""
        self._row = 0
        self._column = 0
        self._style = ""
        """SGR sequences since the last reset."""

    def write(self, text: str) -> None:
        if not text:
            return
        row = self._rows[self._row]
        characters, styles = row.characters, row.styles
        self._written.add(self._row)
        row.blank = min(row.blank, self._column)
        if (gap := self._column - len(characters)) > 0:
            characters.extend(" " * gap)
            styles.extend([""] * gap)
        end = self._column + len(text)
        characters[self._column : end] = text
        styles[self._column : end] = [self._style] * len(text)
        self._column = end

    def control(self, character: str) -> None:
        if character == "\n":
            self._down(1)
            self._column = 0
        elif character == "\r":
            self._column = 0
        elif character == "\x08":
            self._column = max(0, self._column - 1)

    def sequence(self, params: str, final: str) -> None:
        if final == "m":
            self._colour(params)
            return
        numbers = [int(number[:6]) if number.isdecimal() else 0 for number in params.split(";")]
        count = max(1, numbers[0])
        if final in "AF":
            self._row = max(0, self._row - count)
        elif final in "BE":
            self._down(count)
        elif final == "C":
            self._column = min(self._column + count, max(WIDTH, self._column))
        elif final == "D":
            self._column = max(0, self._column - count)
        elif final == "G":
            self._column = min(count - 1, WIDTH)
        elif final == "K":
            self._erase(numbers[0])
        elif final == "J" and numbers[0] in (0, 2, 3):
            self._erase_below(whole=numbers[0] != 0)
        elif final in "Hf":
            self._row = min(count, len(self._rows)) - 1
            self._column = min(max([1, *numbers[1:2]]) - 1, WIDTH)
        if final in "EF":
            self._column = 0
        elif final in "ABJ":  # a long line that continues in another row would be filled with blanks up to there
            self._column = min(self._column, WIDTH)

    def _colour(self, params: str) -> None:
        if params in ("", "0"):
            self._style = ""
            return
        kept = self._style.split("m")[:-1][1 - _STYLES :]
        self._style = "".join(f"{one}m" for one in kept) + _sgr(params)

    def _down(self, count: int) -> None:
        # At most one row below the last, so that no sequence can request endless empty rows.
        self._row = min(self._row + count, len(self._rows))
        if self._row == len(self._rows):
            self._rows.append(_Row())

    def _erase(self, what: int) -> None:
        row = self._rows[self._row]
        characters, styles = row.characters, row.styles
        if what == 0:
            del characters[self._column :], styles[self._column :]
            row.blank = min(row.blank, self._column)
            return
        end = len(characters) if what == 2 else min(self._column + 1, len(characters))
        if (count := end - row.blank) > 0:
            characters[row.blank : end], styles[row.blank : end] = " " * count, [""] * count
            row.blank = end

    def _erase_below(self, *, whole: bool) -> None:
        if whole:
            del self._rows[self._row + 1 :]
            for at in self._written:
                if at <= self._row:
                    self._rows[at] = _Row()
            self._written.clear()
        else:
            del self._rows[self._row + 1 :]
            self._erase(0)

    def text(self) -> str:
        return "\n".join(_row_text(row.characters, row.styles) for row in self._rows)


def _row_text(characters: list[str], styles: list[str]) -> str:
    if not any(styles):
        return "".join(characters).rstrip(" ")
    parts: list[str] = []
    style = ""
    for character, wanted in zip(characters, styles, strict=True):
        if wanted != style:
            parts.append(f"\x1b[0m{wanted}")
            style = wanted
        parts.append(character)
    return "".join(parts) + ("\x1b[0m" if style else "")


def _colour_or_nothing(found: re.Match[str]) -> str:
    if found["final"] == "m":
        return _sgr(found["params"])
    return "\n" if found["control"] == "\n" else ""


@lru_cache(maxsize=1024)
def _sgr(params: str) -> str:
    """Return the SGR sequence in simple form: `;` between numbers, at most 256 colours."""
    if not re.fullmatch(r"[0-9;:]*", params):
        return ""  # `>4;1m` and the like configure the keyboard
    plain = re.sub(r"\b4:\d", "4", params).replace(":", ";")
    return f"\x1b[{_COLOUR.sub(_nearest, plain)}m"


def _nearest(found: re.Match[str]) -> str:
    if found[1] == "58":
        return "4"  # colour of the underline: underline in the text's colour
    if found[2]:
        return found[0]
    red, green, blue = (min(255, int(found[group])) for group in (3, 4, 5))
    if red == green == blue and 8 <= red <= 238:
        return f"{found[1]};5;{232 + (red - 8) // 10}"
    steps = [min(range(6), key=lambda step: abs(CUBE[step] - part)) for part in (red, green, blue)]
    return f"{found[1]};5;{16 + 36 * steps[0] + 6 * steps[1] + steps[2]}"


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
"""Numbers too large to mean anything. Python refuses to parse those of more than 4,300 digits."""


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
