"""Files that are read or written, as source code with the files' line numbers, and cells of notebooks; changes of files
as diffs: edits, patches, the diff of a turn, deleted files; and the text that the tool returned."""

from __future__ import annotations

from collections.abc import Sequence

from tooltap.daemon.show.blocks import SUMMARY_LINES, Body, RenderContext, ToolCard, block, excerpt
from tooltap.daemon.show.diff import FileDiff, change_of, changes_in, changes_of_diff, cut, hunks_of_claude
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
"""Maximum lines of all changes of a card; the raw view has the rest."""
TAGS = {"+": "ins", "-": "del", " ": "span", "\\": "em"}


def changes_body(changes: Sequence[FileDiff], context: RenderContext, *pointers: str) -> Body:
    """Show diffs of files, as much as the level shows. `pointers`: the places in the event of the compared texts, to
    link to those that were cut."""
    if not changes:
        return ()
    shown = changes if context.is_full else changes[:SUMMARY_FILES]
    return block(
        "diff",
        changes=cut(shown, FULL_LINES) if context.is_full else cut(shown, SUMMARY_LINES, brief=True),
        hidden_files=len(changes) - len(shown),
        parts=[excerpt("", context, pointer) for pointer in pointers],
        tags=TAGS,
    )


def edit_input(payload: EditInput, context: RenderContext) -> Body:
    return changes_body(changes_in(payload), context, "/input/old_string", "/input/new_string")


def multi_edit_input(payload: MultiEditInput, context: RenderContext) -> Body:
    numbers = range(len(payload.edits or []))
    pointers = [f"/input/edits/{at}/{key}" for at in numbers for key in ("old_string", "new_string")]
    return changes_body(changes_in(payload), context, *pointers)


def patch_input(payload: PatchInput, context: RenderContext) -> Body:
    return _patch(payload.changes, context, "/input") or changes_body(
        changes_of_diff(payload.patch or ""), context, "/input/patch"
    )


def _patch(changes: dict[str, PatchChange] | None, context: RenderContext, pointer: str) -> Body:
    shown = [change_of(path, change) for path, change in (changes or {}).items()]
    keys = [path.replace("~", "~0").replace("/", "~1") for path in changes or {}]
    pointers = [f"{pointer}/changes/{key}/{text}" for key in keys for text in ("unified_diff", "content")]
    return changes_body(shown, context, *(one for one in pointers if one in context.outputs))


def diff_input(payload: DiffInput, context: RenderContext) -> Body:
    return changes_body(changes_of_diff(payload.unified_diff or ""), context, "/input/unified_diff")


def diff_output(result: DiffResult, context: RenderContext) -> Body:
    return _texts(context, (("status", result.status),))


def change_output(result: ChangeResult, context: RenderContext) -> Body:
    """Show the tool's text. The call's card shows the change; level `full` repeats it with its place in the file."""
    texts = _texts(context, (("message", result.message), ("stdout", result.stdout), ("stderr", result.stderr)))
    not_applied = block("remark", text="Not applied.") if result.applied is False else ()
    changes: Body = ()
    if result.structuredPatch and (context.is_full or context.call is None):
        changes = changes_body([FileDiff.of("", "", hunks_of_claude(result.structuredPatch))], context)
    return texts + not_applied + changes


def patch_output(result: PatchResult, context: RenderContext) -> Body:
    body = change_output(result, context)
    return body + (_patch(result.changes, context, "/output") if context.is_full or context.call is None else ())


def delete_input(payload: DeleteInput, context: RenderContext) -> Body:
    paths = payload.file_paths or ([payload.file_path] if payload.file_path else [])
    return changes_body([FileDiff.of(path, "delete", []) for path in paths], context)


def delete_output(result: DeleteResult, context: RenderContext) -> Body:
    not_deleted = block("remark", text="Not deleted.") if result.deleted is False else ()
    return _texts(context, (("message", result.message),)) + not_deleted


def _texts(context: RenderContext, texts: Sequence[tuple[str, str | None]]) -> Body:
    """Show the texts that the tool returned under these keys of its output."""
    excerpts = [excerpt(text, context, f"/output/{key}") for key, text in texts if text]
    return block("texts", texts=excerpts) if excerpts else ()


class NotebookEditInput(ToolInput):
    """Input of `NotebookEdit`, as Claude Code sends it."""

    notebook_path: str | None = None
    cell_id: str | None = None
    cell_type: str | None = None
    """code or markdown."""
    edit_mode: str | None = None
    """replace, insert or delete."""
    new_source: str | None = None


def read_input(payload: ReadInput, context: RenderContext) -> Body:
    facts = (("from", payload.offset), ("lines", payload.limit))
    return _files(payload, context, [(name, str(value)) for name, value in facts if value is not None])


def write_input(payload: WriteInput, context: RenderContext) -> Body:
    head = _files(payload, context, [])
    if not payload.content:
        return head
    return head + source(payload.content, context, "/input/content", path=payload.file_path, first_line=1)


def notebook_input(payload: NotebookEditInput, context: RenderContext) -> Body:
    facts = (("cell", payload.cell_id), ("of", payload.cell_type), ("mode", payload.edit_mode))
    shown = [(name, value) for name, value in facts if value]
    head = _files(FileInput(file_path=payload.notebook_path), context, shown)
    if not payload.new_source:
        return head
    language = "markdown" if payload.cell_type == "markdown" else "python"
    return head + source(payload.new_source, context, "/input/new_source", language=language, first_line=1)


def read_output(result: ReadResult, context: RenderContext) -> Body:
    """Show the text of a file; images and documents are attachments of the result."""
    file = result.file
    if file is None or file.content is None:
        return ()
    path = file.filePath or _path_of_call(context)
    return _extent(file) + source(
        file.content, context, "/output/file/content", path=path, first_line=file.startLine or 1
    )


def source(
    text: str,
    context: RenderContext,
    pointer: str = "",
    *,
    path: str | None = None,
    language: str | None = None,
    first_line: int | None = None,
) -> Body:
    """Show source code, as much as the level shows, coloured by its language or by the file's name."""
    part = excerpt(text, context, pointer)
    return block("file_text", part=part, path=path, language=language, first_line=first_line)


def _files(payload: FileInput, context: RenderContext, facts: Sequence[tuple[str, str]]) -> Body:
    paths = [payload.file_path] if payload.file_path else payload.file_paths or []
    if not paths and not facts:
        return ()
    shown = paths if context.is_full else paths[:12]
    return block("files", paths=shown, hidden=len(paths) - len(shown), facts=facts)


def _extent(file: FileText) -> Body:
    """Show the range of lines and the total, unless all lines are shown."""
    if not file.totalLines or file.numLines is None or file.numLines >= file.totalLines:
        return ()
    first = file.startLine or 1
    last = first + max(file.numLines - 1, 0)
    return block("extent", first=first, last=last, total=file.totalLines)


def _path_of_call(context: RenderContext) -> str | None:
    path = context.call.input.get("file_path") if context.call else None
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
