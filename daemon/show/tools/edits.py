"""Changes of files as diffs: edits, patches, the diff of a turn, deleted files; and the text that the tool returned."""

from __future__ import annotations

from collections.abc import Sequence

from tooltap.daemon.show.blocks import Body, block
from tooltap.daemon.show.changes import change_of, changes_in
from tooltap.daemon.show.diff import (
    Change,
    changes_of_diff,
    cut,
    hunks_of_claude,
)
from tooltap.daemon.show.render_options import SUMMARY_LINES, Look, excerpt
from tooltap.daemon.show.tools.card import ToolCard
from tooltap.protocol.tools import Change as PatchChange
from tooltap.protocol.tools import (
    ChangeResult,
    DeleteInput,
    DeleteResult,
    DiffInput,
    DiffResult,
    EditInput,
    MultiEditInput,
    PatchInput,
    PatchResult,
)

SUMMARY_FILES = 12
FULL_LINES = 5_000
"""Lines of all changes of a card; the raw view has the rest."""
TAGS = {"+": "ins", "-": "del", " ": "span", "\\": "em"}


def changes_body(changes: Sequence[Change], look: Look, *pointers: str) -> Body:
    """Show diffs of files, as much as the level shows. `pointers`: the places in the event of the compared texts, to
    link to those that were cut."""
    if not changes:
        return ()
    shown = changes if look.is_full else changes[:SUMMARY_FILES]
    return block(
        "diff",
        changes=cut(shown, FULL_LINES) if look.is_full else cut(shown, SUMMARY_LINES, brief=True),
        hidden_files=len(changes) - len(shown),
        parts=[excerpt("", look, pointer) for pointer in pointers],
        tags=TAGS,
    )


def edit_input(payload: EditInput, look: Look) -> Body:
    return changes_body(changes_in(payload), look, "/input/old_string", "/input/new_string")


def multi_edit_input(payload: MultiEditInput, look: Look) -> Body:
    numbers = range(len(payload.edits or []))
    pointers = [f"/input/edits/{at}/{key}" for at in numbers for key in ("old_string", "new_string")]
    return changes_body(changes_in(payload), look, *pointers)


def patch_input(payload: PatchInput, look: Look) -> Body:
    return _patch(payload.changes, look, "/input") or changes_body(
        changes_of_diff(payload.patch or ""), look, "/input/patch"
    )


def _patch(changes: dict[str, PatchChange] | None, look: Look, pointer: str) -> Body:
    shown = [change_of(path, change) for path, change in (changes or {}).items()]
    keys = [path.replace("~", "~0").replace("/", "~1") for path in changes or {}]
    pointers = [f"{pointer}/changes/{key}/{text}" for key in keys for text in ("unified_diff", "content")]
    return changes_body(shown, look, *(one for one in pointers if one in look.outputs))


def diff_input(payload: DiffInput, look: Look) -> Body:
    return changes_body(changes_of_diff(payload.unified_diff or ""), look, "/input/unified_diff")


def diff_output(result: DiffResult, look: Look) -> Body:
    return _texts(look, (("status", result.status),))


def change_output(result: ChangeResult, look: Look) -> Body:
    """Show the tool's text. The call's card shows the change; level `full` repeats it with its place in the file."""
    texts = _texts(look, (("message", result.message), ("stdout", result.stdout), ("stderr", result.stderr)))
    not_applied = block("remark", text="Not applied.") if result.applied is False else ()
    changes: Body = ()
    if result.structuredPatch and (look.is_full or look.call is None):
        changes = changes_body([Change.of("", "", hunks_of_claude(result.structuredPatch))], look)
    return texts + not_applied + changes


def patch_output(result: PatchResult, look: Look) -> Body:
    body = change_output(result, look)
    return body + (_patch(result.changes, look, "/output") if look.is_full or look.call is None else ())


def delete_input(payload: DeleteInput, look: Look) -> Body:
    paths = payload.file_paths or ([payload.file_path] if payload.file_path else [])
    return changes_body([Change.of(path, "delete", []) for path in paths], look)


def delete_output(result: DeleteResult, look: Look) -> Body:
    not_deleted = block("remark", text="Not deleted.") if result.deleted is False else ()
    return _texts(look, (("message", result.message),)) + not_deleted


def _texts(look: Look, texts: Sequence[tuple[str, str | None]]) -> Body:
    """Show the texts that the tool returned under these keys of its output."""
    excerpts = [excerpt(text, look, f"/output/{key}") for key, text in texts if text]
    return block("texts", texts=excerpts) if excerpts else ()


CARDS = {
    "Edit": ToolCard("✎", edit_input, change_output),
    "MultiEdit": ToolCard("✎", multi_edit_input, change_output),
    "Delete": ToolCard("✕", delete_input, delete_output),
    "Patch": ToolCard("✎", patch_input, patch_output),
    "Diff": ToolCard("±", diff_input, diff_output),
}
