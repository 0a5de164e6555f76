"""Texts that try to take over a terminal, and a check of bytes that are about to reach one."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

__all__ = ["ARGUMENT", "FILE_NAME", "HOSTILE", "LONG", "offences", "poisoned"]

FORGED = "FORGED"
HOSTILE = (
    "\x1b]52;c;cHduZWQ=\x07"  # writes the clipboard
    "\x1b]8;;http://evil.example\x1b\\x"  # a link
    "\x1b]0;title\x07\x1bP$q\x1b\\"
    "\x1b[2J\x1b[5;41m\x1b[\x1b[31m31m"  # erases; blinks; a sequence in a sequence
    "\x9b5m\x9d0;t\x9c\x90q\x85"  # the same as single C1 characters
    "\u202e\u2066\u200f\u061c"  # turns the line around
    "\x00\x08\x7f\x0c\x0b\x05\r"
    f"\n{FORGED}\r\n{FORGED}\u2028{FORGED}"  # a line that looks like ours
)
LONG = HOSTILE + "x" * 200_000
ARGUMENT = HOSTILE.replace("\x00", "").replace("/", "") + "\udcff"
"""Hostile argument of a command line, with a byte that is not UTF-8."""
FILE_NAME = b"\xff\xc2\x9b2m\x1b]0;t\x07\n" + FORGED.encode() + b"\xe2\x80\xae\xed\xa0\x80\x7f"
"""Hostile file name, which is not UTF-8."""

LONGEST = 5_100
"""Maximum characters of a line that is not JSON."""
BIDIRECTIONAL = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
MARKS = "\u200e\u200f\u061c"
OURS = re.compile(r"\x1b\[(?:0|1|2|3[1-6])m|\r(?:\x1b\[\?25l)?(?=  \[)|\x1b\[\?25h")
"""Matches our own escape sequences: colors, and those of progress bars."""

STRUCTURE = {
    *("type", "dir", "subtype", "method", "sessionUpdate", "role", "jsonrpc", "status", "event", "object", "kind"),
    *("stop_reason", "stopReason", "level", "state", "protocol", "dialect", "optionId", "outcome", "parent"),
}
"""Keys whose values identify the kind of a line, and are not replaced."""


def offences(
    shown: bytes, *, terminal: bool, json_lines: bool = False, exact: bool = False, texts: bool = False
) -> list[str]:
    """List what is wrong in the output of a command. `terminal`: our own colors and progress bars are allowed. `exact`:
    characters that JSON allows in strings may be unescaped. `texts`: texts of several lines are allowed."""
    try:
        text = shown.decode()
    except UnicodeDecodeError as error:
        return [f"not UTF-8: {error}"]
    if terminal:
        text = OURS.sub("", text)
    found = sorted({repr(one) for one in text if one not in "\n\t" and _acts(one) and not (exact and one >= "\x7f")})
    for line in text.split("\n"):
        if line.startswith(FORGED) and not texts:
            found.append(f"a forged line: {line[:100]}")
        if len(line) > LONGEST and not line.startswith(("{", " ", "[")) and not json_lines:
            found.append(f"a line of {len(line)} characters: {line[:100]}")
    if json_lines:
        found += _not_json(text)
    return found


def _acts(one: str) -> bool:
    return unicodedata.category(one) in ("Cc", "Cs") or unicodedata.bidirectional(one) in BIDIRECTIONAL or one in MARKS


def _not_json(text: str) -> Iterator[str]:
    for line in text.removesuffix("\n").split("\n") if text and not text.startswith("{\n") else [text or "0"]:
        try:
            json.loads(line)
        except ValueError as error:
            yield f"no JSON: {error}: {line[:100]}"


def poisoned(value: Any, text: str = HOSTILE) -> Any:
    """Return a line with the text added to every string that does not identify the kind of line, and as a new key."""
    if isinstance(value, dict):
        changed = {key: one if key in STRUCTURE else poisoned(one, text) for key, one in value.items()}
        return {**changed, f"new{text}": text} if "type" in value else changed
    if isinstance(value, list):
        return [poisoned(one, text) for one in value]
    return f"{value}{text}" if isinstance(value, str) else value
