"""The changes of files that a call states in its input."""

from __future__ import annotations

from typing import Any

from tooltap.daemon.show.diff import Change, Hunk, between, changes_of_diff, hunks_of_diff, whole
from tooltap.protocol.payloads import ToolInput
from tooltap.protocol.tools import TOOLS, DiffInput, EditInput, Modification, MultiEditInput, PatchInput, SingleEdit
from tooltap.protocol.tools import Change as PatchChange


def changes_of(name: str, payload: dict[str, Any]) -> list[Change]:
    """Return the changes that a call of a canonical tool states; none for a tool that changes no text."""
    types = TOOLS.get(name)
    return [] if types is None else changes_in(types.input.from_payload(payload))


def changes_in(payload: ToolInput) -> list[Change]:
    """Return the changes that a call states in its input; none for a tool that changes no text."""
    match payload:
        case EditInput():
            edits = [_edit(payload, payload.file_path or "")]
        case MultiEditInput():
            edits = [_edit(edit, edit.file_path or payload.file_path or "") for edit in payload.edits or []]
        case PatchInput(changes=None):
            return changes_of_diff(payload.patch or "")
        case PatchInput():
            return [change_of(path, change) for path, change in (payload.changes or {}).items()]
        case DiffInput():
            return changes_of_diff(payload.unified_diff or "")
        case _:
            return []
    return [edit for edit in edits if edit is not None]


def _edit(edit: EditInput | SingleEdit, path: str) -> Change | None:
    if edit.old_string is None and edit.new_string is None:
        return None
    hunks, note = between(edit.old_string or "", edit.new_string or "")
    if edit.replace_all:
        note = f"Wherever the text is found. {note}".strip()
    return Change.of(path, "", hunks, note=note)


def change_of(path: str, change: PatchChange) -> Change:
    """Return the change of one file of a patch."""
    hunks, note = _hunks(change)
    return Change.of(path, change.type or "", hunks, moved_to=change.move_path or "", note=note)


def _hunks(change: PatchChange) -> tuple[list[Hunk], str]:
    if change.unified_diff and (hunks := hunks_of_diff(change.unified_diff)):
        return hunks, ""
    if change.modify is not None:
        return _modified(change.modify)
    if change.add is not None or change.type == "add":
        return whole((change.add and change.add.content) or change.content or "", "+"), ""
    if change.delete is not None or change.type == "delete":
        return whole((change.delete and change.delete.content) or change.content or "", "-"), ""
    return [], ""


def _modified(change: Modification) -> tuple[list[Hunk], str]:
    if not change.hunks:
        return between(change.old_content or "", change.new_content or "")
    compared = [between(hunk.old_content or "", hunk.new_content or "") for hunk in change.hunks]
    return [hunk for hunks, _ in compared for hunk in hunks], next((note for _, note in compared if note), "")
