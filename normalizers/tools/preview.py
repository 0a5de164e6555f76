"""The telling argument of a call, in one short line."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

__all__ = ["LENGTH", "preview", "shortened"]

LENGTH = 40
"""Code points."""

_PATHS = ("file_path", "file_paths", "notebook_path", "path")
_KEYS: dict[str, tuple[str, ...]] = {
    "Bash": ("command",),
    "Read": _PATHS,
    "Write": _PATHS,
    "Edit": _PATHS,
    "MultiEdit": _PATHS,
    "Delete": _PATHS,
    "Patch": ("changes",),
    "Glob": ("pattern", "path"),
    "Grep": ("pattern", "path"),
    "LS": ("path",),
    "CodeSearch": ("query",),
    "WebFetch": ("url", "urls", "prompt"),
    "WebSearch": ("query",),
    "TodoWrite": ("todos",),
    "Task": ("description", "subject", "prompt", "taskId"),
    "Reasoning": ("title",),
    "ExitPlanMode": ("plan",),
    "AskUserQuestion": ("questions",),
    "WorkspaceIndexingPermission": ("title",),
    "AcpHistoryImport": ("remoteSessionId",),
    "change_title": ("title",),
    "NotebookEdit": _PATHS,
    "Skill": ("skill", "name"),
    "ToolSearch": ("query",),
    "mcp__tooltap__render_file_contents": _PATHS,
    "mcp__tooltap__run_and_display": ("command",),
}
"""Canonical name -> keys of the input, the most telling first."""

SILENT = ("Diff", "EnterPlanMode", "TodoRead")
"""Canonical tools whose input tells nothing in a line: a whole diff, or no arguments at all."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def preview(name: str, payload: dict[str, Any], cwd: str | None) -> str | None:
    """At most 40 code points; a path keeps its end, other text its beginning. A tool nobody knows shows its only short
    argument, or nothing."""
    for key in _KEYS.get(name, ()):
        value = payload.get(key)
        shown = _path(value, cwd) if key in _PATHS or key == "changes" else _beginning(value)
        if shown:
            return shown
    return None if name in _KEYS or name in SILENT else _only_argument(payload)


def _only_argument(payload: dict[str, Any]) -> str | None:
    shown = [value for key, value in payload.items() if not key.startswith("_")]
    if len(shown) != 1 or not isinstance(shown[0], str | int | float):
        return None
    text = _one_line(str(shown[0]))
    return text if 0 < len(text) <= LENGTH else None


def _path(value: Any, cwd: str | None) -> str:
    """Of several paths the first, and how many more there are."""
    named = [value] if isinstance(value, str) else value if isinstance(value, list | dict) else []
    paths = [path for path in named if isinstance(path, str)]
    if not paths:
        return ""
    text = _one_line(paths[0])
    if cwd:
        text = text.removeprefix(cwd.rstrip("/") + "/")
    if len(paths) > 1:
        text = f"{text} +{len(paths) - 1}"
    return text if len(text) <= LENGTH else f"…{text[1 - LENGTH :]}"


def _beginning(value: Any) -> str:
    if isinstance(value, list) and value:
        # Of a to-do list the entry in progress, else the first; of questions the first.
        entries = [entry for entry in value if isinstance(entry, dict)] or [{}]
        entry = next((one for one in entries if one.get("status") == "in_progress"), entries[0])
        value = entry.get("content") or entry.get("question")
    return shortened(value if isinstance(value, str) else str(value) if isinstance(value, int) else "")


def shortened(text: str) -> str:
    """The beginning of a text, on one line."""
    return _one_line(text[: 20 * LENGTH])[:LENGTH].rstrip()


def _one_line(text: str) -> str:
    """Without terminal escapes, control and direction characters; runs of whitespace are one space."""
    if not text.isprintable():
        text = "".join(char for char in _ESCAPES.sub("", text) if char.isspace() or not _is_control(char))
    return " ".join(text.split())


def _is_control(char: str) -> bool:
    category = unicodedata.category(char)
    return category in ("Cc", "Cs") or (category == "Cf" and char != "\u200d")  # U+200D joins emoji
