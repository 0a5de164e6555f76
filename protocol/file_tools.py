"""Payloads of the tools that work on files: shell, reading, writing, editing, searching.

Field names are the keys on the wire; every field is optional. Paths are as the provider states them, mostly absolute.
"""

from __future__ import annotations

from typing import Any

from tooltap.protocol.payloads import OpenStruct, ToolInput, ToolResultPayload

__all__ = [
    "BashInput",
    "BashResult",
    "Change",
    "ChangeResult",
    "CodeSearchInput",
    "DeleteInput",
    "DeleteResult",
    "DiffInput",
    "DiffResult",
    "EditInput",
    "FileInput",
    "FileText",
    "GlobInput",
    "GlobResult",
    "GrepInput",
    "GrepResult",
    "LsInput",
    "LsResult",
    "Match",
    "Modification",
    "MultiEditInput",
    "PatchHunk",
    "PatchInput",
    "PatchResult",
    "ReadInput",
    "ReadResult",
    "SingleEdit",
    "WholeText",
    "WriteInput",
]

# -- shell --------------------------------------------------------------------------------------------------------


class BashInput(ToolInput):
    """A shell command."""

    command: str | None = None
    """Without the shell that it was wrapped in. For a batch, one command per line."""
    commands: list[str] | None = None
    """The commands of a batch."""
    cwd: str | None = None
    description: str | None = None
    """The purpose of the command, according to the model."""
    timeout: int | float | None = None
    """In the provider's unit: milliseconds (Claude Code, OpenCode) or seconds (Kimi, Pi)."""
    run_in_background: bool | None = None


class BashResult(ToolResultPayload):
    """The outcome of a shell command."""

    stdout: str | None = None
    """Includes stderr if the provider merges the two. Absent if the provider states no output."""
    stderr: str | None = None
    exit_code: int | None = None
    """Absent if the provider states none."""
    interrupted: bool | None = None


# -- files --------------------------------------------------------------------------------------------------------


class FileText(OpenStruct):
    """The text of a file, or of some of its lines."""

    content: str | None = None
    filePath: str | None = None
    startLine: int | None = None
    """1-based number of the first line."""
    numLines: int | None = None
    totalLines: int | None = None
    """Lines of the whole file."""


class FileInput(ToolInput):
    """A file that a tool works on."""

    file_path: str | None = None
    file_paths: list[str] | None = None
    """Instead of `file_path`, if one call is about several files."""


class ReadInput(FileInput):
    """A file to read, or some of its lines."""

    offset: int | None = None
    """The first line, counted from 1 (Claude Code, Kimi, Gemini, Copilot) or 0 (OpenCode)."""
    limit: int | None = None
    """Number of lines."""


class ReadResult(ToolResultPayload):
    file: FileText | None = None


class WriteInput(FileInput):
    """A file to write."""

    content: str | None = None
    """The whole new text of the file."""


class ChangeResult(ToolResultPayload):
    """The outcome of a tool that changes files."""

    message: str | None = None
    """The tool's message."""
    applied: bool | None = None
    """Whether the change took effect, if the provider states it."""
    structuredPatch: list[dict[str, Any]] | None = None
    """Claude Code's hunks, each `{oldStart, oldLines, newStart, newLines, lines}`."""
    stdout: str | None = None
    stderr: str | None = None


class DeleteInput(FileInput):
    """Files to delete: `file_paths` is always present, `file_path` only for a single file."""


class DeleteResult(ToolResultPayload):
    message: str | None = None
    deleted: bool | None = None


# -- edits --------------------------------------------------------------------------------------------------------


class EditInput(FileInput):
    """A text to replace in a file."""

    old_string: str | None = None
    """The exact text; empty if text is inserted or the file is new."""
    new_string: str | None = None
    replace_all: bool | None = None


class SingleEdit(OpenStruct):
    """One of several edits in a call."""

    file_path: str | None = None
    """Only if it is not the file of the call."""
    old_string: str | None = None
    new_string: str | None = None
    replace_all: bool | None = None


class MultiEditInput(FileInput):
    edits: list[SingleEdit] | None = None


class WholeText(OpenStruct):
    content: str | None = None


class PatchHunk(OpenStruct):
    old_start: int | None = None
    """1-based number of the first line, if the patch states it."""
    new_start: int | None = None
    old_content: str | None = None
    """Lines, without the newline of the last one."""
    new_content: str | None = None


class Modification(OpenStruct):
    """Old and new text of the changed place or of the whole file; `hunks` if several places changed."""

    old_content: str | None = None
    new_content: str | None = None
    hunks: list[PatchHunk] | None = None


class Change(OpenStruct):
    """The change of one file in a patch."""

    type: str | None = None
    """add, modify, delete or rename."""
    add: WholeText | None = None
    modify: Modification | None = None
    delete: WholeText | None = None
    move_path: str | None = None
    """The new path of a rename."""
    unified_diff: str | None = None
    content: str | None = None
    """The whole text of a new or deleted file, as the provider states it."""


class PatchInput(ToolInput):
    """A change of one or more files."""

    changes: dict[str, Change] | None = None
    """Path -> change."""
    patch: str | None = None
    """The text of the patch, if the provider states it as text."""
    auto_approved: bool | None = None


class PatchResult(ChangeResult):
    changes: dict[str, Change] | None = None
    success: bool | None = None


class DiffInput(ToolInput):
    """All changes in a turn."""

    unified_diff: str | None = None


class DiffResult(ToolResultPayload):
    status: str | None = None


# -- search -------------------------------------------------------------------------------------------------------


class Match(OpenStruct):
    """One match of a search."""

    filePath: str | None = None
    line: int | None = None
    """1-based number of the line."""
    excerpt: str | None = None


class GlobInput(ToolInput):
    pattern: str | None = None
    path: str | None = None
    """The directory to search."""


class GlobResult(ToolResultPayload):
    matches: list[str] | None = None
    """Paths."""
    text: str | None = None
    """The whole output, if it contains more than the matches."""


class GrepInput(ToolInput):
    pattern: str | None = None
    path: str | None = None
    glob: str | None = None
    """The files to search."""
    output_mode: str | None = None


class GrepResult(ToolResultPayload):
    matches: list[Match] | None = None
    text: str | None = None
    """The whole output, if it contains more than the matches."""


class LsInput(ToolInput):
    path: str | None = None


class LsResult(ToolResultPayload):
    entries: list[Any] | None = None
    """Names, or objects of the provider."""
    text: str | None = None


class CodeSearchInput(ToolInput):
    query: str | None = None
    path: str | None = None
