"""What is inside `input` and `output`: one struct for the input and one for the result of each canonical tool.

Every field is optional, because every provider leaves something out, and unknown keys are kept in `extra`: providers'
own spellings stand beside the canonical keys. Field names are the keys on the wire.

    payload = TOOLS[event.name].input.from_payload(event.input)

Paths are as the provider writes them, mostly absolute.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from tooltap.protocol.payloads import OpenStruct

__all__ = ["TOOLS", "Happy", "McpInput", "McpResult", "ToolInput", "ToolResultPayload", "ToolTypes"]


class Happy(OpenStruct):
    """What the payload was before it was canonical."""

    v: int | None = None
    """Version of the payload rules: 2."""
    protocol: str | None = None
    """The wire family: acp, codex, claude, …"""
    provider: str | None = None
    rawToolName: str | None = None
    """The tool's name on the wire, else the type word of its item or kind; `unknown` where only a result is seen."""
    canonicalToolName: str | None = None


class ToolInput(OpenStruct):
    """What every input has."""

    happy: Happy | None = msgspec.field(default=None, name="_happy")
    raw: Any = msgspec.field(default=None, name="_raw")
    """The provider's own object for the call, cut to a bounded size."""
    acp: dict[str, Any] | None = msgspec.field(default=None, name="_acp")
    """In traces of the ancestor: kind, title, raw input and locations of the ACP update."""


class ToolResultPayload(OpenStruct):
    """What every result has."""

    happy: Happy | None = msgspec.field(default=None, name="_happy")
    raw: Any = msgspec.field(default=None, name="_raw")
    """The provider's own object for the result, cut to a bounded size."""
    errorMessage: str | None = None
    """The provider's words on a result that is not completed."""
    error: str | dict[str, Any] | None = None
    """As the provider has it."""
    value: Any = None
    """An answer that has no form the tool knows."""


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


# -- web ----------------------------------------------------------------------------------------------------------


class WebFetchInput(ToolInput):
    url: str | None = None
    urls: list[str] | None = None
    """In place of `url` where one call fetches several pages."""
    prompt: str | None = None
    """What to find out from the page."""


class WebFetchResult(ToolResultPayload):
    text: str | None = None
    """The page, or what the agent's own model made of it."""
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
    """Text of a hit, or of an answer that lists no hits."""


class WebSearchResult(ToolResultPayload):
    results: list[SearchHit] | None = None


# -- to-do lists, tasks -------------------------------------------------------------------------------------------


class Todo(OpenStruct):
    content: str | None = None
    status: str | None = None
    """pending, in_progress, completed; or the provider's own word, such as cancelled."""
    activeForm: str | None = None
    """The entry as a continuing action ("Reading the code")."""
    priority: str | None = None
    id: str | None = None


class TodoWriteInput(ToolInput):
    todos: list[Todo] | None = None
    """The whole list, not a change of it."""
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
    """Title of a task."""
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
    """`{label, description?}` each."""


class AskUserQuestionInput(ToolInput):
    questions: list[Question] | None = None


class AskUserQuestionResult(ToolResultPayload):
    answers: dict[str, Any] | None = None
    """Question, or its id, -> answer; several choices are joined by commas."""


class ChangeTitleInput(ToolInput):
    title: str | None = None


class ChangeTitleResult(ToolResultPayload):
    title: str | None = None
    message: str | None = None


class AcpHistoryImportInput(ToolInput):
    """The ancestor's own: whether to take over a session's history from the agent."""

    provider: str | None = None
    remoteSessionId: str | None = None
    localCount: int | None = None
    """Messages."""
    remoteCount: int | None = None
    """Messages."""
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
    """Of every `mcp__<server>__<tool>`; the arguments are in `extra`."""

    mcp: McpIdentity | None = msgspec.field(default=None, name="_mcp")


class McpResult(ToolResultPayload):
    mcp: McpIdentity | None = msgspec.field(default=None, name="_mcp")
    text: str | None = None
    """The text blocks of the answer, one a line."""
    content: list[Any] | None = None
    """Its other blocks."""


class ToolTypes(NamedTuple):
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
"""Canonical name -> the structs of its payloads: the 24 tools of V2."""
