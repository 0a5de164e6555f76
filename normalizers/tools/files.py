"""Read, Write, Delete, Edit and MultiEdit: files, whole or in parts."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.tools.payload import (
    TEXT_KEYS,
    Payload,
    add_alias,
    add_flag,
    add_number,
    first_text,
    is_integer,
    keys_and_text,
    nonblank,
    objects,
    strings,
)
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
    """Gemini 0.61 has `start_line` and `end_line`; Copilot 1.0 has `view_range`, in which -1 is the end of the file."""
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
"""Raw names of the tool of OpenCode, whose results are wrapped."""
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
    if not lines:
        return None
    content = "\n".join(line[2] for line in lines)
    file: Payload = {"content": content, "startLine": int(lines[0][1]), "numLines": len(lines)}
    footer = next((footer for footer in map(_FOOTER.match, body) if footer), None)
    if footer:
        file["totalLines"] = int(footer[1])
    path = between(text[:at], "<path>", "</path>")
    if path is not None and "\n" not in path:
        file["filePath"] = path
    return file


def _wrapped(text: str, tag: str) -> tuple[int, int, int] | None:
    """Offsets of the first opening tag, and of the text from there to the last closing one."""
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
