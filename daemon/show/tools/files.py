"""Files that are read or written, as source code with the files' line numbers, and cells of notebooks; changes of files
as diffs: edits, patches, the diff of a turn, deleted files; and the text that the tool returned."""

from __future__ import annotations

from collections.abc import Sequence

from tooltap.daemon.show.blocks import SUMMARY_LINES, Body, Look, ToolCard, block, excerpt
from tooltap.daemon.show.diff import Change, change_of, changes_in, changes_of_diff, cut, hunks_of_claude
from tooltap.protocol.payloads import ToolInput
from tooltap.protocol.tools import Change as PatchChange
from tooltap.protocol.tools import (
    ChangeResult,
    DeleteInput,
    DeleteResult,
    DiffInput,
    DiffResult,
    EditInput,
    FileInput,
    FileText,
    MultiEditInput,
    PatchInput,
    PatchResult,
    ReadInput,
    ReadResult,
    ToolTypes,
    WriteInput,
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


class NotebookEditInput(ToolInput):
    """As Claude Code sends it."""

    notebook_path: str | None = None
    cell_id: str | None = None
    cell_type: str | None = None
    """code or markdown."""
    edit_mode: str | None = None
    """replace, insert or delete."""
    new_source: str | None = None


def read_input(payload: ReadInput, look: Look) -> Body:
    facts = (("from", payload.offset), ("lines", payload.limit))
    return _files(payload, look, [(name, str(value)) for name, value in facts if value is not None])


def write_input(payload: WriteInput, look: Look) -> Body:
    head = _files(payload, look, [])
    if not payload.content:
        return head
    return head + source(payload.content, look, "/input/content", path=payload.file_path, first_line=1)


def notebook_input(payload: NotebookEditInput, look: Look) -> Body:
    facts = (("cell", payload.cell_id), ("of", payload.cell_type), ("mode", payload.edit_mode))
    shown = [(name, value) for name, value in facts if value]
    head = _files(FileInput(file_path=payload.notebook_path), look, shown)
    if not payload.new_source:
        return head
    language = "markdown" if payload.cell_type == "markdown" else "python"
    return head + source(payload.new_source, look, "/input/new_source", language=language, first_line=1)


def read_output(result: ReadResult, look: Look) -> Body:
    """Show the text of a file; images and documents are attachments of the result."""
    file = result.file
    if file is None or file.content is None:
        return ()
    path = file.filePath or _path_of_call(look)
    return _extent(file) + source(file.content, look, "/output/file/content", path=path, first_line=file.startLine or 1)


def source(
    text: str,
    look: Look,
    pointer: str = "",
    *,
    path: str | None = None,
    language: str | None = None,
    first_line: int | None = None,
) -> Body:
    """Show source code, as much as the level shows, coloured by its language or by the file's name."""
    part = excerpt(text, look, pointer)
    return block("file_text", part=part, path=path, language=language, first_line=first_line)


def _files(payload: FileInput, look: Look, facts: Sequence[tuple[str, str]]) -> Body:
    paths = [payload.file_path] if payload.file_path else payload.file_paths or []
    if not paths and not facts:
        return ()
    shown = paths if look.is_full else paths[:12]
    return block("files", paths=shown, hidden=len(paths) - len(shown), facts=facts)


def _extent(file: FileText) -> Body:
    """Say which lines of how many these are, unless they are all."""
    if not file.totalLines or file.numLines is None or file.numLines >= file.totalLines:
        return ()
    first = file.startLine or 1
    last = first + max(file.numLines - 1, 0)
    return block("extent", first=first, last=last, total=file.totalLines)


def _path_of_call(look: Look) -> str | None:
    path = look.call.input.get("file_path") if look.call else None
    return path if isinstance(path, str) else None


CARDS = {
    "Edit": ToolCard("✎", edit_input, change_output),
    "MultiEdit": ToolCard("✎", multi_edit_input, change_output),
    "Delete": ToolCard("✕", delete_input, delete_output),
    "Patch": ToolCard("✎", patch_input, patch_output),
    "Diff": ToolCard("±", diff_input, diff_output),
    "Read": ToolCard("▤", read_input, read_output),
    "Write": ToolCard("✎", write_input, change_output),
    "NotebookEdit": ToolCard("✎", notebook_input, change_output, ToolTypes(NotebookEditInput, ChangeResult)),
}
