"""Untrusted text made safe to print: no control character in it takes effect."""

from __future__ import annotations

import re

__all__ = ["COLOURS", "harmless", "visible"]

COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
_VISIBLE: dict[int, str] = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: "\u2421",
    **dict.fromkeys(range(0x80, 0xA0), "\ufffd"),
    # Bidirectional controls, which can make a line appear different from its text.
    **dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd"),
}


def harmless(text: str) -> str:
    """The text without colours, and with every other control character made visible."""
    return visible(COLOURS.sub("", text))


def visible(text: str) -> str:
    """The text with every control character except newline and tab replaced by a symbol; `\\r\\n` is a newline."""
    return text.replace("\r\n", "\n").translate(_VISIBLE)
