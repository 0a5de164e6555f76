"""Text of anybody's, shown as what it is: no control character of it takes effect where it is printed."""

from __future__ import annotations

import re

__all__ = ["COLOURS", "harmless", "visible"]

COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
_VISIBLE: dict[int, str] = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: "\u2421",
    **dict.fromkeys(range(0x80, 0xA0), "\ufffd"),
    # Writing directions that could make a line show other than what it says.
    **dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd"),
}


def harmless(text: str) -> str:
    """The text with its colours taken off and every other control character made visible."""
    return visible(COLOURS.sub("", text))


def visible(text: str) -> str:
    """The text with every control character but newline and tab replaced by a sign for it; `\\r\\n` is a newline."""
    return text.replace("\r\n", "\n").translate(_VISIBLE)
