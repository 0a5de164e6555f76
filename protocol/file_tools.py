"""Payloads of the tools that work on files: shell, reading, writing, editing, searching.

Field names are the keys on the wire; every field is optional. Paths are as the provider writes them, mostly absolute.
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
    command: str | None = None
    """Without the shell it was wrapped in; the commands of a batch, one a line."""
    commands: list[str] | None = None
    """A batch, as it came."""
    cwd: str | None = None
    description: str | None = None
    """What the model says the command is for."""
    timeout: int | float | None = None
    """As the provider counts it: milliseconds (Claude Code, OpenCode) or seconds (Kimi, Pi)."""
    run_in_background: bool | None = None


class BashResult(ToolResultPayload):
    stdout: str | None = None
    """With stderr in it where the provider merges the streams. Absent where the wire states no output."""
    stderr: str | None = None
    exit_code: int | None = None
    """Absent where the wire states none."""
    interrupted: bool | None = None


# -- files --------------------------------------------------------------------------------------------------------


class FileText(OpenStruct):
    """Text of a file, or of some of its lines."""

    content: str | None = None
    filePath: str | None = None
    startLine: int | None = None
    """1-based number of the first line."""
    numLines: int | None = None
    totalLines: int | None = None
    """Lines of the whole file."""


class FileInput(ToolInput):
    file_path: str | None = None
    file_paths: list[str] | None = None
    """In place of `file_path` where one call is about several files."""


class ReadInput(FileInput):
    offset: int | None = None
    """First line, as the provider counts: from 1 (Claude Code, Kimi, Gemini, Copilot) or 0 (OpenCode)."""
    limit: int | None = None
    """Lines."""


class ReadResult(ToolResultPayload):
    file: FileText | None = None


class WriteInput(FileInput):
    content: str | None = None
    """The whole new text of the file."""


class ChangeResult(ToolResultPayload):
    """Of a tool that changes files."""

    message: str | None = None
    """What the tool said."""
    applied: bool | None = None
    """Whether the change took effect, where the provider says."""
    structuredPatch: list[dict[str, Any]] | None = None
    """Claude Code's hunks: `{oldStart, oldLines, newStart, newLines, lines}`."""
    stdout: str | None = None
    stderr: str | None = None


class DeleteInput(FileInput):
    """`file_paths` is always filled, `file_path` where it is one."""


class DeleteResult(ToolResultPayload):
    message: str | None = None
    deleted: bool | None = None


# -- edits --------------------------------------------------------------------------------------------------------


class EditInput(FileInput):
    old_string: str | None = None
    """Whitespace and all; empty where text is inserted or the file is new."""
    new_string: str | None = None
    replace_all: bool | None = None


class SingleEdit(OpenStruct):
    file_path: str | None = None
    """Where it differs from the call's."""
    old_string: str | None = None
    new_string: str | None = None
    replace_all: bool | None = None


class MultiEditInput(FileInput):
    edits: list[SingleEdit] | None = None


class WholeText(OpenStruct):
    content: str | None = None


class PatchHunk(OpenStruct):
    old_start: int | None = None
    """1-based line, where the patch says it."""
    new_start: int | None = None
    old_content: str | None = None
    """Lines without the newline of the last."""
    new_content: str | None = None


class Modification(OpenStruct):
    """Old and new text of the one place, or of the whole file; `hunks` where there are several places."""

    old_content: str | None = None
    new_content: str | None = None
    hunks: list[PatchHunk] | None = None


class Change(OpenStruct):
    """What a patch does to one file."""

    type: str | None = None
    """add, modify, delete or rename."""
    add: WholeText | None = None
    modify: Modification | None = None
    delete: WholeText | None = None
    move_path: str | None = None
    """The new path of a rename."""
    unified_diff: str | None = None
    content: str | None = None
    """The whole text of a new or deleted file, as the provider has it."""


class PatchInput(ToolInput):
    changes: dict[str, Change] | None = None
    """Path -> change."""
    patch: str | None = None
    """The patch's text, where it came as text."""
    auto_approved: bool | None = None


class PatchResult(ChangeResult):
    changes: dict[str, Change] | None = None
    success: bool | None = None


class DiffInput(ToolInput):
    """All changes of a turn."""

    unified_diff: str | None = None


class DiffResult(ToolResultPayload):
    status: str | None = None


# -- search -------------------------------------------------------------------------------------------------------


class Match(OpenStruct):
    filePath: str | None = None
    line: int | None = None
    """1-based."""
    excerpt: str | None = None


class GlobInput(ToolInput):
    pattern: str | None = None
    path: str | None = None
    """Directory to look in."""


class GlobResult(ToolResultPayload):
    matches: list[str] | None = None
    """Paths."""
    text: str | None = None
    """The whole answer, where it says more than the matches."""


class GrepInput(ToolInput):
    pattern: str | None = None
    path: str | None = None
    glob: str | None = None
    """Which files to look in."""
    output_mode: str | None = None


class GrepResult(ToolResultPayload):
    matches: list[Match] | None = None
    text: str | None = None
    """The whole answer, where it says more than the matches."""


class LsInput(ToolInput):
    path: str | None = None


class LsResult(ToolResultPayload):
    entries: list[Any] | None = None
    """Names, or the provider's objects."""
    text: str | None = None


class CodeSearchInput(ToolInput):
    query: str | None = None
    path: str | None = None
