"""Files that are read or written, as source code with the files' line numbers; cells of notebooks."""

from __future__ import annotations

from collections.abc import Sequence

from tooltap.daemon.show.blocks import Body, block
from tooltap.daemon.show.render_options import Look, excerpt
from tooltap.daemon.show.tools.card import ToolCard
from tooltap.daemon.show.tools.edits import change_output
from tooltap.protocol.payloads import ToolInput
from tooltap.protocol.tools import ChangeResult, FileInput, FileText, ReadInput, ReadResult, ToolTypes, WriteInput


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
    "Read": ToolCard("▤", read_input, read_output),
    "Write": ToolCard("✎", write_input, change_output),
    "NotebookEdit": ToolCard("✎", notebook_input, change_output, ToolTypes(NotebookEditInput, ChangeResult)),
}
