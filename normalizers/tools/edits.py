"""Edit and MultiEdit: replacing parts of a file. Texts keep their whitespace, which is needed to apply them."""

from __future__ import annotations

from tooltap.normalizers.tools.files import PATH_KEYS, add_file_path
from tooltap.normalizers.tools.payload import (
    Payload,
    add_alias,
    add_flag,
    first_text,
    objects,
)

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
