"""The payloads of canonical tools: for each tool one struct for `input` and one for `output`.

Every field is optional, because every provider leaves something out. Unknown keys, such as a provider's own, go to
`extra`. Field names are the keys on the wire. Paths are as the provider states them, mostly absolute.

    payload = TOOLS[event.name].input.from_payload(event.input)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

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
    "McpInput",
    "McpResult",
    "Modification",
    "MultiEditInput",
    "PatchHunk",
    "PatchInput",
    "PatchResult",
    "ReadInput",
    "ReadResult",
    "SingleEdit",
    "TOOLS",
    "ToolTypes",
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
    """add, modify, delete or rename; absent if the provider states the change in a form that is not known."""
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


# -- other tools --------------------------------------------------------------------------------------------------

# -- web ----------------------------------------------------------------------------------------------------------


class WebFetchInput(ToolInput):
    url: str | None = None
    urls: list[str] | None = None
    """Instead of `url`, if one call fetches several pages."""
    prompt: str | None = None
    """What to find out."""


class WebFetchResult(ToolResultPayload):
    text: str | None = None
    """The page, or what the agent's own model extracted from it."""
    url: str | None = None
    code: int | None = None
    """HTTP status."""
    bytes: int | None = None


class WebSearchInput(ToolInput):
    query: str | None = None


class SearchHit(OpenStruct):
    title: str | None = None
    url: str | None = None
    snippet: str | None = None
    """The text of a hit, or the whole answer if it lists no hits."""


class WebSearchResult(ToolResultPayload):
    results: list[SearchHit] | None = None


# -- to-do lists, tasks -------------------------------------------------------------------------------------------


class Todo(OpenStruct):
    content: str | None = None
    status: str | None = None
    """pending, in_progress or completed; or a value of the provider, such as cancelled."""
    activeForm: str | None = None
    """The entry as an action in progress ("Reading the code")."""
    priority: str | None = None
    id: str | None = None


class TodoWriteInput(ToolInput):
    todos: list[Todo] | None = None
    """The whole list, not only its changes."""
    explanation: str | None = None


class TodoReadInput(ToolInput):
    pass


class TodoResult(ToolResultPayload):
    todos: list[Todo] | None = None
    oldTodos: list[Todo] | None = None
    message: str | None = None


class TaskInput(ToolInput):
    operation: str | None = None
    """run (a subagent); create, update, get or list (entries of a task list)."""
    prompt: str | None = None
    description: str | None = None
    subagent_type: str | None = None
    subject: str | None = None
    """The title of a task."""
    taskId: str | int | None = None
    status: str | None = None


class TaskResult(ToolResultPayload):
    content: str | None = None
    """The subagent's answer."""
    tasks: list[Any] | None = None
    task: dict[str, Any] | None = None
    agentId: str | None = None
    status: str | None = None


# -- dialogs ------------------------------------------------------------------------------------------------------


class ReasoningInput(ToolInput):
    title: str | None = None


class ReasoningResult(ToolResultPayload):
    content: str | None = None
    status: str | None = None


class EnterPlanModeInput(ToolInput):
    pass


class ExitPlanModeInput(ToolInput):
    plan: str | None = None
    """Markdown."""


class PlanModeResult(ToolResultPayload):
    plan: str | None = None
    message: str | None = None


class Question(OpenStruct):
    question: str | None = None
    header: str | None = None
    multiSelect: bool | None = None
    options: list[Any] | None = None
    """Each `{label, description?}`."""


class AskUserQuestionInput(ToolInput):
    questions: list[Question] | None = None


class AskUserQuestionResult(ToolResultPayload):
    answers: dict[str, Any] | None = None
    """Question, or its id -> answer; several choices are joined by commas."""


class ChangeTitleInput(ToolInput):
    title: str | None = None


class ChangeTitleResult(ToolResultPayload):
    title: str | None = None
    message: str | None = None


class AcpHistoryImportInput(ToolInput):
    """A tool of Happier: whether to import a session's history from the agent."""

    provider: str | None = None
    remoteSessionId: str | None = None
    localCount: int | None = None
    """Number of messages."""
    remoteCount: int | None = None
    """Number of messages."""
    note: str | None = None
    localTail: list[Any] | None = None
    remoteTail: list[Any] | None = None


class WorkspaceIndexingPermissionInput(ToolInput):
    title: str | None = None
    options: list[Any] | None = None
    toolCall: dict[str, Any] | None = None


# -- MCP ----------------------------------------------------------------------------------------------------------


class McpIdentity(OpenStruct):
    serverId: str | None = None
    toolId: str | None = None


class McpInput(ToolInput):
    """The input of every `mcp__<server>__<tool>`; the tool's arguments are further keys."""

    mcp: McpIdentity | None = msgspec.field(default=None, name="_mcp")


class McpResult(ToolResultPayload):
    """The result of every `mcp__<server>__<tool>`."""

    mcp: McpIdentity | None = msgspec.field(default=None, name="_mcp")
    text: str | None = None
    """The text blocks of the result, one per line."""
    content: list[Any] | None = None
    """The other blocks of the result."""


class ToolTypes(NamedTuple):
    """The structs of a tool's payloads."""

    input: type[ToolInput]
    result: type[ToolResultPayload]


TOOLS = {
    "Bash": ToolTypes(BashInput, BashResult),
    "Read": ToolTypes(ReadInput, ReadResult),
    "Write": ToolTypes(WriteInput, ChangeResult),
    "Edit": ToolTypes(EditInput, ChangeResult),
    "MultiEdit": ToolTypes(MultiEditInput, ChangeResult),
    "Delete": ToolTypes(DeleteInput, DeleteResult),
    "Patch": ToolTypes(PatchInput, PatchResult),
    "Diff": ToolTypes(DiffInput, DiffResult),
    "Glob": ToolTypes(GlobInput, GlobResult),
    "Grep": ToolTypes(GrepInput, GrepResult),
    "LS": ToolTypes(LsInput, LsResult),
    "CodeSearch": ToolTypes(CodeSearchInput, GrepResult),
    "WebFetch": ToolTypes(WebFetchInput, WebFetchResult),
    "WebSearch": ToolTypes(WebSearchInput, WebSearchResult),
    "TodoWrite": ToolTypes(TodoWriteInput, TodoResult),
    "TodoRead": ToolTypes(TodoReadInput, TodoResult),
    "Task": ToolTypes(TaskInput, TaskResult),
    "Reasoning": ToolTypes(ReasoningInput, ReasoningResult),
    "EnterPlanMode": ToolTypes(EnterPlanModeInput, PlanModeResult),
    "ExitPlanMode": ToolTypes(ExitPlanModeInput, PlanModeResult),
    "AskUserQuestion": ToolTypes(AskUserQuestionInput, AskUserQuestionResult),
    "AcpHistoryImport": ToolTypes(AcpHistoryImportInput, ToolResultPayload),
    "WorkspaceIndexingPermission": ToolTypes(WorkspaceIndexingPermissionInput, ToolResultPayload),
    "change_title": ToolTypes(ChangeTitleInput, ChangeTitleResult),
}
"""Canonical name -> the structs of its payloads. These are the canonical tools."""
