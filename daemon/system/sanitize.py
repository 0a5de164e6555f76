"""Sanitizing untrusted text for a terminal: escape sequences and control characters are made harmless.

All external text passes `sanitize` before it reaches a terminal: names, titles, paths, versions and messages of agents,
texts of servers and of the system. `one_line` is for text that must stay on one line.
"""

from __future__ import annotations

import re

MAX_PART = 100
"""Most code points of a name, a title or another part of a line."""

COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
# Separators of lines and paragraphs, and those that Unicode calls Bidi_Control. They can make a line appear different
# from its text.
_LAYOUT = (0x2028, 0x2029, 0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_VISIBLE: dict[int, str] = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: "\u2421",
    **dict.fromkeys([*range(0x80, 0xA0), *_LAYOUT], "\ufffd"),
    # What is left of file names that are not UTF-8; it cannot be encoded.
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
}
_IN_JSON = re.compile(
    rb"\x7f|\xc2[\x80-\x9f]|" + b"|".join(re.escape(chr(code).encode()) for code in _LAYOUT)  # as UTF-8
)
_SURROGATES = re.compile("[\ud800-\udfff]")
_NOT_ASCII = re.compile(rb"[\x80-\xff]+")


def sanitize(text: str) -> str:
    """Remove color sequences, and make every other control character visible."""
    return visible(COLOURS.sub("", text))


def visible(text: str) -> str:
    """Replace every control character except newline and tab by a visible symbol; `\\r\\n` becomes a newline."""
    return text.replace("\r\n", "\n").translate(_VISIBLE)


def one_line(text: str, length: int = MAX_PART) -> str:
    """Truncate the text to one line of at most `length` code points, without control characters."""
    line = " ".join(sanitize(text[: 4 * length]).split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def sanitize_json(data: bytes, *, plain: bool = False) -> bytes:
    """Escape the control characters that JSON allows in strings; with `plain`, everything that is not ASCII. The JSON
    values stay the same."""
    if plain:
        data = _NOT_ASCII.sub(_escaped, data)
    if data.isascii() and b"\x7f" not in data:  # nearly always, and much faster
        return data
    return _IN_JSON.sub(_escaped, data)


def encodable(text: str) -> str:
    """Make a text encodable as UTF-8: a file name may contain other bytes (surrogate escapes)."""
    return _SURROGATES.sub("\ufffd", text)


def _escaped(match: re.Match[bytes]) -> bytes:
    units = match[0].decode().encode("utf-16-be")
    return b"".join(b"\\u%04x" % (high << 8 | low) for high, low in zip(units[::2], units[1::2], strict=True))
