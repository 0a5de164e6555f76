"""What a terminal shows in the end of what a program has written to it: progress bars once, as they ended.

    settled("10%\\r100%\\x1b[K\\n")     # "100%\\n"

Cursor movements and erasures are carried out, on lines of any length and number; of all other sequences only colours
and weight are left (SGR), which a converter to HTML understands, with 24-bit colours as the nearest of the 256.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tooltap.daemon.web.html.terminal import CUBE

__all__ = ["settled"]

REPLAYED = 65_536
"""Characters up to which cursor movements are carried out; of longer text each line shows what it ends with."""
WIDTH = 200
"""Columns: no further the cursor is moved; a program may ask for any. Text is not wrapped."""

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
"""Colour sequences without a reset between them that are kept for a character."""


def settled(written: str) -> str:
    """Text with no other control characters than newlines, tabs, colours, and what no terminal knows."""
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


class _Screen:
    """Rows of characters and of their colours; the cursor. Rows grow as they are written to."""

    def __init__(self) -> None:
        self._rows: list[tuple[list[str], list[str]]] = [([], [])]
        self._row = 0
        self._column = 0
        self._style = ""
        """Colour sequences since the last reset."""

    def write(self, text: str) -> None:
        if not text:
            return
        characters, styles = self._rows[self._row]
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

    def _colour(self, params: str) -> None:
        if params in ("", "0"):
            self._style = ""
            return
        kept = self._style.split("m")[:-1][1 - _STYLES :]
        self._style = "".join(f"{one}m" for one in kept) + _sgr(params)

    def _down(self, count: int) -> None:
        # No further than to a row behind the last: nobody scrolls through rows that nothing was written to.
        self._row = min(self._row + count, len(self._rows))
        if self._row == len(self._rows):
            self._rows.append(([], []))

    def _erase(self, what: int) -> None:
        characters, styles = self._rows[self._row]
        if what == 0:
            del characters[self._column :], styles[self._column :]
        else:
            end = len(characters) if what == 2 else min(self._column + 1, len(characters))
            characters[:end], styles[:end] = " " * end, [""] * end

    def _erase_below(self, *, whole: bool) -> None:
        if whole:
            self._rows[:] = [([], []) for _ in range(self._row + 1)]
        else:
            del self._rows[self._row + 1 :]
            self._erase(0)

    def text(self) -> str:
        return "\n".join(_row_text(characters, styles) for characters, styles in self._rows)


def _row_text(characters: list[str], styles: list[str]) -> str:
    if not any(styles):
        return "".join(characters).rstrip(" ")
    pieces: list[str] = []
    style = ""
    for character, wanted in zip(characters, styles, strict=True):
        if wanted != style:
            pieces.append(f"\x1b[0m{wanted}")
            style = wanted
        pieces.append(character)
    return "".join(pieces) + ("\x1b[0m" if style else "")


def _colour_or_nothing(found: re.Match[str]) -> str:
    if found["final"] == "m":
        return _sgr(found["params"])
    return "\n" if found["control"] == "\n" else ""


@lru_cache(maxsize=1024)
def _sgr(params: str) -> str:
    """The sequence with what converters know: `;` between numbers, at most 256 colours."""
    if not re.fullmatch(r"[0-9;:]*", params):
        return ""  # `>4;1m` and the like ask something of the keyboard
    plain = re.sub(r"\b4:\d", "4", params).replace(":", ";")
    return f"\x1b[{_COLOUR.sub(_nearest, plain)}m"


def _nearest(found: re.Match[str]) -> str:
    if found[1] == "58":
        return "4"  # colour of the line below
    if found[2]:
        return found[0]
    red, green, blue = (min(255, int(found[group])) for group in (3, 4, 5))
    if red == green == blue and 8 <= red <= 238:
        return f"{found[1]};5;{232 + (red - 8) // 10}"
    steps = [min(range(6), key=lambda step: abs(CUBE[step] - part)) for part in (red, green, blue)]
    return f"{found[1]};5;{16 + 36 * steps[0] + 6 * steps[1] + steps[2]}"
