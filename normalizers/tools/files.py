"""Tools that read and change files: Read, Write, Delete, Edit and MultiEdit, of one file; Patch and Diff, of several at
once.

A patch has `changes`: path -> `{type, …}`. `type` is add, modify, delete or rename. Next to the provider's own keys, a
change has canonical ones: `add.content`, `delete.content`, `modify.old_content` and `modify.new_content`; or, for
several hunks, `modify.hunks[]` with `old_start`, `new_start`, `old_content` and `new_content`. Texts of hunks have no
final newline. `move_path` is the new path of a rename. A change in a form that is not known has no type.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from tooltap.normalizers.tools.payload import (
    TEXT_KEYS,
    Payload,
    add_alias,
    add_flag,
    add_number,
    add_text,
    first_text,
    is_integer,
    keys_and_text,
    nonblank,
    objects,
    strings,
    without_nulls,
)
from tooltap.normalizers.tools.unified_diff import hunks, split_files
from tooltap.normalizers.wire.values import between

PATH_KEYS = ("file_path", "path", "filepath", "filePath", "absolute_path", "abs_path", "target_file", "file")
CONTENT_KEYS = ("file_content", "file_text", "new_content", "text", "data", "newText", "new_text", "contents")
_FILE_LIST_KEYS = ("file_paths", "paths", "files", "locations", "items")


def file_paths(payload: Payload) -> list[str]:
    """All files that an input names, each once."""
    single = first_text(payload, PATH_KEYS)
    if single is not None:
        return [single]
    for key in _FILE_LIST_KEYS:
        named = payload.get(key)
        paths = strings(named) + [path for item in objects(named) if (path := first_text(item, PATH_KEYS))]
        if paths:
            return list(dict.fromkeys(paths))
    return []


def add_file_path(payload: Payload) -> None:
    """Set `file_path` for one file, `file_paths` for several."""
    single = first_text(payload, PATH_KEYS)
    if single is not None:
        payload["file_path"] = single
        return
    paths = file_paths(payload)
    if len(paths) == 1:
        payload["file_path"] = paths[0]
    elif paths:
        payload["file_paths"] = paths


# -- Read ---------------------------------------------------------------------------------------------------------


_RANGE_KEYS = frozenset({"offset", "line_offset", "limit", "n_lines", "start_line", "end_line", "view_range"})


def read_input(payload: Payload, raw_name: str) -> Payload:
    add_file_path(payload)
    if _RANGE_KEYS.isdisjoint(payload):
        return payload
    add_number(payload, "offset", "line_offset", "start_line")
    add_number(payload, "limit", "n_lines")
    first, last = _line_range(payload)
    if first is not None:
        payload.setdefault("offset", first)
        if last is not None and last >= first:
            payload.setdefault("limit", last - first + 1)
    return payload


def _line_range(payload: Payload) -> tuple[int | None, int | None]:
    """Read the (first, last) line numbers. Gemini 0.61 has `start_line` and `end_line`; Copilot 1.0 has `view_range`,
    in which -1 is the end of the file."""
    view_range = payload.get("view_range")
    if isinstance(view_range, list) and len(view_range) == 2 and all(map(is_integer, view_range)):
        return view_range[0], view_range[1]
    first, last = payload.get("start_line"), payload.get("end_line")
    return (first if is_integer(first) else None), (last if is_integer(last) else None)


def read_output(value: Any, raw_name: str) -> Payload:
    payload, text = keys_and_text(value, TEXT_KEYS)
    if isinstance(payload.get("file"), dict) or not text:
        return payload
    file = _wrapped_file(text) or (_numbered_file(text) if raw_name in NUMBERING_TOOLS else None) or {"content": text}
    if payload:
        path = first_text(payload, ("filePath", "path", "file_path"))
        if path is not None:
            file["filePath"] = path
        for key in ("startLine", "numLines", "totalLines"):
            if key in payload and is_integer(payload[key]):
                file[key] = payload[key]
    payload["file"] = file
    return payload


NUMBERING_TOOLS = ("Read", "ReadFile")
"""Raw names of tools that number the lines of the text: Claude's (`1\\ttext`, before 2.0 `     1→text`) and Kimi's."""

_CAT_LINE = re.compile(r" *(\d{1,15})[\t→](.*)", re.ASCII | re.DOTALL)


def _numbered_file(text: str) -> Payload | None:
    numbered: list[re.Match[str]] = []
    for line in text.removesuffix("\n").split("\n"):
        match = _CAT_LINE.fullmatch(line)
        if match is None:
            return None
        numbered.append(match)
    content = "\n".join(line[2] for line in numbered) + ("\n" if text.endswith("\n") else "")
    return {"content": content, "startLine": int(numbered[0][1]), "numLines": len(numbered)}


_WRAPPING_TOOLS = frozenset({"read", "Read"})
"""Raw names of OpenCode's tool, which wraps its results in tags."""
_WRAPPERS = ("file", "content")
_WRAPPED_LINE = re.compile(r"(\d{1,15})(?:\||:) ?(.*)", re.ASCII | re.DOTALL)
_FOOTER = re.compile(r"\(End of file.* total (\d{1,15}) lines", re.ASCII)


def _wrapped_file(text: str) -> Payload | None:
    """Read OpenCode's format: numbered lines in `<file>` (`00001| text`) or, since 1.x, in `<content>` (`1: text`)."""
    if "<" not in text or ("</file>" not in text and "</content>" not in text):
        return None
    text = text.replace("\r\n", "\n")
    found = [place for tag in _WRAPPERS if (place := _wrapped(text, tag)) is not None]
    if not found:
        return None
    at, start, end = min(found)
    body = text[start:end].split("\n")
    lines = [line for line in map(_WRAPPED_LINE.fullmatch, body) if line]
    footer = next((footer for footer in map(_FOOTER.match, body) if footer), None)
    if not lines:
        return {"content": "", "totalLines": 0} if footer and int(footer[1]) == 0 else None
    content = "\n".join(line[2] for line in lines)
    file: Payload = {"content": content, "startLine": int(lines[0][1]), "numLines": len(lines)}
    if footer:
        file["totalLines"] = int(footer[1])
    path = between(text[:at], "<path>", "</path>")
    if path is not None and "\n" not in path:
        file["filePath"] = path
    return file


def _wrapped(text: str, tag: str) -> tuple[int, int, int] | None:
    """Find a tagged block: (offset of the first opening tag, start of its text, end of its text at the last closing
    tag)."""
    at = text.find(f"<{tag}>\n")
    start, end = at + len(tag) + 3, text.rfind(f"\n</{tag}>")
    return (at, start, end) if at >= 0 and start <= end else None


# -- Write, Delete ------------------------------------------------------------------------------------------------


def write_input(payload: Payload, raw_name: str) -> Payload:
    content = payload.get("content")
    if isinstance(content, str):
        add_file_path(payload)
        return payload
    if isinstance(content, list):  # ACP: the diff shown for the file
        payload.setdefault("items", content)
    add_file_path(payload)
    add_alias(payload, "content", *CONTENT_KEYS)
    if not isinstance(payload.get("content"), str) and (items := objects(payload.get("items"))):
        content = first_text(items[0], ("newText", "new_string", "newString", "text", "data"))
        if content is not None:
            payload["content"] = content
    return payload


def delete_input(payload: Payload, raw_name: str) -> Payload:
    paths = strings(payload.get("file_paths")) or file_paths(payload)
    if paths:
        payload["file_paths"] = paths
    if len(paths) == 1:
        payload["file_path"] = paths[0]
    return payload


def change_output(value: Any, raw_name: str) -> Payload:
    """Make the result of a change: the text is `message`, and `applied` states whether the change took effect."""
    return _outcome(value, "applied")


def delete_output(value: Any, raw_name: str) -> Payload:
    return _outcome(value, "deleted")


def _outcome(value: Any, flag: str) -> Payload:
    payload, text = keys_and_text(value)
    if nonblank(text):
        payload.setdefault("message", text)
    add_flag(payload, flag, "success", "ok")
    if "error" in payload and flag not in payload:
        error = payload["error"]
        if nonblank(error) or (isinstance(error, dict) and error):
            payload[flag] = False
    return payload


# -- Edit, MultiEdit: texts keep their whitespace, which is needed to apply them ------------------------------------


OLD_TEXT_KEYS = ("old_string", "oldText", "oldString", "old_str", "old_text")
NEW_TEXT_KEYS = ("new_string", "newText", "newString", "new_str", "new_text")
_REPLACE_ALL_KEYS = ("replace_all", "replaceAll", "allow_multiple")
_ANY_REPLACE_ALL_KEY = frozenset(_REPLACE_ALL_KEYS)
_INNER_KEYS = frozenset({"edit", "items"})
_EDIT_LIST_KEYS = ("edits", "edit", "changes", "replacements")


def edit_input(payload: Payload, raw_name: str) -> Payload:
    if isinstance(payload.get("content"), list):  # ACP: the diff shown for the change
        payload.setdefault("items", payload["content"])
    add_file_path(payload)
    _add_texts(payload)
    if _INNER_KEYS.isdisjoint(payload):
        return payload
    inner = [payload["edit"]] if isinstance(payload.get("edit"), dict) else objects(payload.get("items"))[:1]
    for edit in map(_canonical_edit, inner):
        for key in ("old_string", "new_string", "replace_all"):
            if key in edit:
                payload.setdefault(key, edit[key])
    return payload


def multi_edit_input(payload: Payload, raw_name: str) -> Payload:
    add_file_path(payload)
    lists = (objects(payload.get(key)) for key in _EDIT_LIST_KEYS)
    payload["edits"] = [_canonical_edit(edit) for edit in next((edits for edits in lists if edits), [])]
    return payload


def _canonical_edit(edit: Payload) -> Payload:
    edit = dict(edit)
    path = first_text(edit, PATH_KEYS)
    if path is not None:
        edit["file_path"] = path
    add_alias(edit, "old_string", "old")  # Kimi: {old, new}
    add_alias(edit, "new_string", "new")
    _add_texts(edit)
    return edit


def _add_texts(edit: Payload) -> None:
    add_alias(edit, *OLD_TEXT_KEYS)
    add_alias(edit, *NEW_TEXT_KEYS)
    if not _ANY_REPLACE_ALL_KEY.isdisjoint(edit):
        add_flag(edit, *_REPLACE_ALL_KEYS)


# -- Patch and Diff: changes to several files at once -------------------------------------------------------------

_TYPES = {
    "add": "add",
    "create": "add",
    "delete": "delete",
    "remove": "delete",
    "rename": "rename",
    "move": "rename",
    "update": "modify",
    "modify": "modify",
    "edit": "modify",
    "change": "modify",
}
"""Provider's type of a change -> canonical type."""

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
    change = _untagged(change)
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
    edits = objects(change.get("edits"))  # ACP: several diffs of one file
    shows_texts = diff is not None or bool(edits) or (old is not None and new is not None)
    change["type"] = _type(change) or ("modify" if shows_texts else None)
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
    elif edits:
        change["modify"] = _modify(
            [_Replacement(None, None, edit.get("old_string", ""), edit.get("new_string", "")) for edit in edits]
        )
    return without_nulls(change)


def _untagged(change: Payload) -> Payload:
    """A copy of a change, with its type under `type`. Codex 0.58 has the type around the rest, as Rust's enums do by
    default: `{"update": {"unified_diff": …}}`."""
    tags = [key for key in change if key in _TYPES and isinstance(change[key], dict)]
    if len(tags) != 1 or "type" in change or "kind" in change:
        return dict(change)
    (tag,) = tags
    rest = {key: value for key, value in change.items() if key != tag}
    return {"type": tag, **change[tag], **rest}


def _type(change: Payload) -> str | None:
    """The canonical type that a change states; None if it states none that is known."""
    kind = _TYPES.get(str(change.get("type")).lower())
    return "rename" if kind in (None, "modify") and nonblank(change.get("move_path")) else kind


class _Replacement(NamedTuple):
    old_start: int | None
    new_start: int | None
    old: str
    new: str


def _replacements(diff: str) -> list[_Replacement]:
    """Replacements that the hunks make. Hunks without line numbers that change nothing are dropped: of several `@@
    class …` in a row, all but the last only locate the next hunk."""
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
    """Parse a patch, `*** Begin Patch` … `*** End Patch`, which may be embedded in other text, such as a heredoc; None
    if there is none.

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
