"""The payloads of canonical tools: for each tool one struct for `input` and one for `output`.

Every field is optional, because every provider leaves something out. Unknown keys go to `extra`; so a provider's own
keys are there beside the canonical ones. Field names are the keys on the wire.

    payload = TOOLS[event.name].input.from_payload(event.input)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from tooltap.protocol.file_tools import (
    BashInput,
    BashResult,
    ChangeResult,
    CodeSearchInput,
    DeleteInput,
    DeleteResult,
    DiffInput,
    DiffResult,
    EditInput,
    GlobInput,
    GlobResult,
    GrepInput,
    GrepResult,
    LsInput,
    LsResult,
    MultiEditInput,
    PatchInput,
    PatchResult,
    ReadInput,
    ReadResult,
    WriteInput,
)
from tooltap.protocol.payloads import OpenStruct, ToolInput, ToolResultPayload

__all__ = ["TOOLS", "McpInput", "McpResult", "ToolTypes"]

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
