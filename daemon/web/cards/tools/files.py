"""Files that are read or written, as source code with the files' line numbers; cells of notebooks."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from tooltap.daemon.web.cards.tool_card import ToolCard
from tooltap.daemon.web.cards.tools.edits import change_output
from tooltap.daemon.web.html.look import Look, excerpt
from tooltap.daemon.web.html.markup import template
from tooltap.protocol.file_tools import ChangeResult, FileInput, FileText, ReadInput, ReadResult, WriteInput
from tooltap.protocol.payloads import ToolInput
from tooltap.protocol.tools import ToolTypes

__all__ = ["CARDS", "source"]


class NotebookEditInput(ToolInput):
    """As Claude Code sends it."""

    notebook_path: str | None = None
    cell_id: str | None = None
    cell_type: str | None = None
    """code or markdown."""
    edit_mode: str | None = None
    """replace, insert or delete."""
    new_source: str | None = None


def read_input(asked: ReadInput, look: Look) -> Markup:
    facts = (("from", asked.offset), ("lines", asked.limit))
    return _files(asked, look, [(name, str(value)) for name, value in facts if value is not None])


def write_input(asked: WriteInput, look: Look) -> Markup:
    head = _files(asked, look, [])
    if not asked.content:
        return head
    return head + source(asked.content, look, "/input/content", path=asked.file_path, first_line=1)


def notebook_input(asked: NotebookEditInput, look: Look) -> Markup:
    facts = (("cell", asked.cell_id), ("of", asked.cell_type), ("mode", asked.edit_mode))
    shown = [(name, value) for name, value in facts if value]
    head = _files(FileInput(file_path=asked.notebook_path), look, shown)
    if not asked.new_source:
        return head
    language = "markdown" if asked.cell_type == "markdown" else "python"
    return head + source(asked.new_source, look, "/input/new_source", language=language, first_line=1)


def read_output(result: ReadResult, look: Look) -> Markup:
    """Render the text of a file; images and documents are attachments of the result."""
    file = result.file
    if file is None or file.content is None:
        return Markup()
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
) -> Markup:
    """Render source code, as much as the level shows, coloured by its language or by the file's name."""
    part = excerpt(text, look, pointer)
    return template("file_text.html", part=part, path=path, language=language, first_line=first_line)


def _files(asked: FileInput, look: Look, facts: Sequence[tuple[str, str]]) -> Markup:
    paths = [asked.file_path] if asked.file_path else asked.file_paths or []
    if not paths and not facts:
        return Markup()
    shown = paths if look.is_full else paths[:12]
    return template("files.html", paths=shown, hidden=len(paths) - len(shown), facts=facts)


def _extent(file: FileText) -> Markup:
    """Say which lines of how many these are, unless they are all."""
    if not file.totalLines or file.numLines is None or file.numLines >= file.totalLines:
        return Markup()
    first = file.startLine or 1
    last = first + max(file.numLines - 1, 0)
    return Markup('<p class="extent">lines {:,} to {:,} of {:,}</p>').format(first, last, file.totalLines)


def _path_of_call(look: Look) -> str | None:
    path = look.call.input.get("file_path") if look.call else None
    return path if isinstance(path, str) else None


CARDS = {
    "Read": ToolCard("▤", read_input, read_output),
    "Write": ToolCard("✎", write_input, change_output),
    "NotebookEdit": ToolCard("✎", notebook_input, change_output, ToolTypes(NotebookEditInput, ChangeResult)),
}
