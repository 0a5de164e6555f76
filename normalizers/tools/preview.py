"""The preview of a call: its most informative argument in one short line."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from tooltap.normalizers.tools.registry import PATHS, tool_of

LENGTH = 40
"""Code points."""

_PATHS = frozenset({*PATHS, "changes"})

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def preview(name: str, payload: dict[str, Any], cwd: str | None, length: int = LENGTH) -> str | None:
    """At most so many code points. A path keeps its end, other text its beginning. An unknown tool is previewed only if
    it has a single short argument."""
    keys = tool_of(name).preview
    if keys is None:
        return _only_argument(payload, length)
    for key in keys:
        if key in payload:
            value = payload[key]
            shown = _path(value, cwd, length) if key in _PATHS else _beginning(value, length)
            if shown:
                return shown
    return None


def _only_argument(payload: dict[str, Any], length: int) -> str | None:
    shown = [value for key, value in payload.items() if key[:1] != "_"]
    if len(shown) != 1 or not isinstance(shown[0], str | int | float):
        return None
    text = _one_line(str(shown[0]))
    return text if 0 < len(text) <= length else None


def _path(value: Any, cwd: str | None, length: int) -> str:
    """The path, or the first of several and the number of the others."""
    if isinstance(value, str):
        first, others = value, 0
    else:
        paths = [path for path in value if isinstance(path, str)] if isinstance(value, list | dict) else []
        if not paths:
            return ""
        first, others = paths[0], len(paths) - 1
    text = _one_line(first)
    if cwd:
        text = text.removeprefix(cwd.rstrip("/") + "/")
    if others:
        text = f"{text} +{others}"
    return text if len(text) <= length else f"…{text[1 - length :]}"


def _beginning(value: Any, length: int) -> str:
    if isinstance(value, str):
        return shortened(value, length)
    if isinstance(value, list) and value:
        # A to-do list shows the entry in progress, else the first; questions show the first.
        entries = [entry for entry in value if isinstance(entry, dict)] or [{}]
        entry = next((one for one in entries if one.get("status") == "in_progress"), entries[0])
        value = entry.get("content") or entry.get("question")
    return shortened(value if isinstance(value, str) else str(value) if isinstance(value, int) else "", length)


def shortened(text: str, length: int = LENGTH) -> str:
    """The beginning of a text on one line."""
    head = text[:length]
    if head.isprintable() and head[:1] != " " and "  " not in head:  # nothing to remove, nor to collapse
        return head.rstrip()
    return _one_line(text[: 20 * length])[:length].rstrip()


def _one_line(text: str) -> str:
    """Remove terminal escapes, control and direction characters, and collapse whitespace."""
    if " " not in text and text.isprintable():  # most paths
        return text
    joined = " ".join(text.split())
    if joined.isprintable():  # nearly always: nothing but spaces and line ends had to go
        return joined
    return " ".join("".join(char for char in _ESCAPES.sub("", text) if char.isspace() or not _is_control(char)).split())


def _is_control(char: str) -> bool:
    category = unicodedata.category(char)
    return category in ("Cc", "Cs") or (category == "Cf" and char != "\u200d")  # U+200D joins emoji
