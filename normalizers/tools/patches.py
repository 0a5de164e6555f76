"""Patch and Diff: changes to several files at once.

A patch has `changes`: path -> `{type, …}`. `type` is add, modify, delete or rename. Next to the provider's own keys, a
change has canonical ones: `add.content`, `delete.content`, `modify.old_content` and `modify.new_content`; or, for
several hunks, `modify.hunks[]` with `old_start`, `new_start`, `old_content` and `new_content`. Texts of hunks have no
final newline. `move_path` is the new path of a rename.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tooltap.normalizers.tools.files import PATH_KEYS, change_output
from tooltap.normalizers.tools.payload import Payload, add_text, first_text, nonblank, objects, strings, without_nulls
from tooltap.normalizers.tools.unified_diff import hunks, split_files

_TYPES = {
    "add": "add",
    "create": "add",
    "delete": "delete",
    "remove": "delete",
    "rename": "rename",
    "move": "rename",
}
"""Every other type (`update`, `modify`, …) means modify."""

_TEXT_KEYS = ("patch", "patchText", "patch_text", "input", "unified_diff", "diff")


def patch_input(payload: Payload, raw_name: str) -> Payload:
    changes = _changes(payload)
    if changes:
        payload["changes"] = changes
    return payload


def _changes(payload: Payload) -> Payload:
    named = payload.get("changes") or payload.get("items")
    if isinstance(named, dict):
        return {path: _canonical_change(change) for path, change in named.items()}
    if isinstance(named, list):
        listed = [(first_text(change, PATH_KEYS), change) for change in objects(named)]
        return {path: _canonical_change(change) for path, change in listed if path is not None}
    text = first_text(payload, _TEXT_KEYS)
    if text is not None:
        patched = parse_patch(text)
        if patched is None:
            patched = {
                file.path: {"type": file.kind, "unified_diff": file.text, "move_path": file.move_path}
                for file in split_files(text)
            }
        return {path: _canonical_change(change) for path, change in patched.items()}
    return {path: _canonical_change({"type": "delete"}) for path in strings(payload.get("file_paths"))}


def _canonical_change(change: Any) -> Payload:
    """Make the canonical change of one file from any provider's form."""
    if not isinstance(change, dict):
        return {"value": change}
    change = dict(change)
    kind = change.get("kind")
    diff = first_text(change, ("unified_diff", "unifiedDiff", "diff"))
    if isinstance(kind, dict):  # Codex app-server: {kind: {type, move_path}, diff}
        change = {**change, **kind}
        del change["kind"]
        if _type(change) in ("add", "delete"):  # its `diff` is the content of the file, even if it looks like a diff
            change.setdefault("content", change.get("diff"))
            diff = None
    elif nonblank(kind):  # Codex exec: {path, kind}
        change["type"] = kind
        del change["kind"]
    old = first_text(change, ("old_content", "oldContent", "oldText"))
    new = first_text(change, ("new_content", "newContent", "newText"))
    if diff is not None and nonblank(change.get("move_path")):  # Codex app-server repeats the path after the diff
        diff = diff.removesuffix(f"\n\nMoved to: {change['move_path']}")
    if change.get("type") == "diff":  # ACP: a file without an old text is new
        change["type"] = "add" if old is None else "modify"
    change["type"] = _type(change)
    parts = [] if diff is None else _replacements(diff)
    if parts:
        change["unified_diff"] = diff
    elif diff is not None:
        change.setdefault("content", diff)
    if change["type"] == "add":
        content = change.get("content", new)
        if content is not None:
            change["add"] = {"content": content}
    elif change["type"] == "delete":
        change["delete"] = without_nulls({"content": change.get("content", old)})
    elif old is not None and new is not None:
        change["modify"] = {"old_content": old, "new_content": new}
    elif parts:
        change["modify"] = _modify(parts)
    elif edits := objects(change.get("edits")):  # ACP: several diffs of one file
        change["modify"] = _modify(
            [_Replacement(None, None, edit.get("old_string", ""), edit.get("new_string", "")) for edit in edits]
        )
    return without_nulls(change)


def _type(change: Payload) -> str:
    kind = _TYPES.get(str(change.get("type")).lower(), "modify")
    return "rename" if kind == "modify" and nonblank(change.get("move_path")) else kind


class _Replacement(NamedTuple):
    old_start: int | None
    new_start: int | None
    old: str
    new: str


def _replacements(diff: str) -> list[_Replacement]:
    """Several `@@ class …` in a row only locate the next hunk."""
    found = (_Replacement(one.old_start, one.new_start, one.old, one.new) for one in hunks(diff))
    return [one for one in found if one.old_start is not None or one.old != one.new]


def _modify(parts: list[_Replacement]) -> Payload:
    converted = [
        {
            "old_start": hunk.old_start,
            "new_start": hunk.new_start,
            "old_content": hunk.old,
            "new_content": hunk.new,
        }
        for hunk in parts
    ]
    if len(converted) == 1:
        return {"old_content": parts[0].old, "new_content": parts[0].new}
    return {"hunks": [without_nulls(hunk) for hunk in converted]}


def patch_output(value: Any, raw_name: str) -> Payload:
    payload = change_output(value, raw_name)
    changes = _changes({"changes": payload.get("changes")})
    if changes:
        payload["changes"] = changes
    if payload.get("applied") is False and not any(nonblank(payload.get(key)) for key in ("stderr", "message")):
        add_text(payload, "errorMessage", "stdout")
    return payload


def diff_input(payload: Payload, raw_name: str) -> Payload:
    add_text(payload, "unified_diff", "unifiedDiff", "diff", "patch")
    return payload


# -- the patch format of Codex and others -------------------------------------------------------------------------

_BEGIN = "*** Begin Patch"
_END = "*** End Patch"
_SECTIONS = {"*** Add File: ": "add", "*** Delete File: ": "delete", "*** Update File: ": "update"}
_MOVE = "*** Move to: "
_MARK = "*** "


def parse_patch(text: str) -> dict[str, dict[str, Any]] | None:
    """The changes of a patch, `*** Begin Patch` … `*** End Patch`; None if there is none. It may be in another text,
    such as a heredoc.

    The changes have the form in which Codex reports applied ones: path -> `{type: add, content}`, `{type: delete}` or
    `{type: update, unified_diff, move_path?}`. Hunks have no line numbers: `@@`, or `@@ def greet():`.
    """
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
