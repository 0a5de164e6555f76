"""Parses the patch format of Codex and others: `*** Begin Patch` … `*** End Patch`.

The result has the form in which Codex reports applied changes: path -> `{type: add, content}`, `{type: delete}` or
`{type: update, unified_diff, move_path?}`. The hunks of such a patch have no line numbers: `@@`, or `@@ def greet():`.
"""

from __future__ import annotations

from typing import Any

__all__ = ["parse_patch"]

_BEGIN = "*** Begin Patch"
_END = "*** End Patch"
_SECTIONS = {"*** Add File: ": "add", "*** Delete File: ": "delete", "*** Update File: ": "update"}
_MOVE = "*** Move to: "
_MARK = "*** "


def parse_patch(text: str) -> dict[str, dict[str, Any]] | None:
    """The changes of a patch, which may be embedded in other text (a heredoc); None if there is no patch."""
    lines = text.split("\n")
    start = next((number for number, line in enumerate(lines) if line.strip() == _BEGIN), None)
    if start is None:
        return None
    kinds: dict[str, str] = {}
    bodies: dict[str, list[str]] = {}
    moves: dict[str, str] = {}
    path = None
    for line in lines[start + 1 :]:
        if not line.startswith(_MARK):
            if path is not None:
                bodies[path].append(line)
            continue
        mark = line.rstrip()
        if mark == _END:
            break
        kind = next((kind for section, kind in _SECTIONS.items() if mark.startswith(section)), None)
        if kind is not None:
            path = mark.partition(": ")[2]
            if kinds.get(path) != kind:  # the hunks of a file that is updated twice form one change
                kinds[path], bodies[path] = kind, []
        elif path is not None and mark.startswith(_MOVE):
            moves[path] = mark.removeprefix(_MOVE)
        # `*** End of File` locates a hunk, and changes nothing
    return {path: _change(kind, bodies[path], moves.get(path)) for path, kind in kinds.items()}


def _change(kind: str, body: list[str], move_path: str | None) -> dict[str, Any]:
    if kind == "add":
        return {"type": "add", "content": "".join(f"{line.removeprefix('+')}\n" for line in body)}
    if kind == "delete":
        return {"type": "delete"}
    if body and not body[0].startswith("@@"):  # the first hunk may lack its `@@`
        body = ["@@", *body]
    change = {"type": "update", "unified_diff": "".join(f"{line}\n" for line in body)}
    return change if move_path is None else {**change, "move_path": move_path}
