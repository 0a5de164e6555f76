"""The registry's rows of the tools that are not about files or commands: to-do lists, tasks, dialogs, web, MCP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from markupsafe import Markup

from tooltap.daemon.web.cards import dialogs, mcp, tasks, todos, web
from tooltap.daemon.web.cards.any import nothing
from tooltap.daemon.web.html.look import Look
from tooltap.protocol import tools
from tooltap.protocol.payloads import ToolInput
from tooltap.protocol.tools import ToolTypes

__all__ = ["MCP", "TALK", "TYPES"]

Show: TypeAlias = Callable[[Any, Look], Markup]

MCP: tuple[str, Show, Show] = ("⊞", nothing, mcp.mcp_output)
"""Of every `mcp__<server>__<tool>`. The header names server and tool; the arguments have no form."""

TALK: dict[str, tuple[str, Show, Show]] = {
    "TodoWrite": ("☑", todos.todo_write_input, todos.todo_write_output),
    "TodoRead": ("☑", nothing, todos.todo_read_output),
    "Task": ("⇉", tasks.task_input, tasks.task_output),
    "TaskOutput": ("⇉", nothing, tasks.background_output),
    "TaskStop": ("⇉", nothing, tasks.background_output),
    "WebFetch": ("⇣", web.fetch_input, web.fetch_output),
    "WebSearch": ("⌕", web.web_search_input, web.web_search_output),
    "AskUserQuestion": ("?", dialogs.question_input, dialogs.question_output),
    "EnterPlanMode": ("☰", nothing, dialogs.plan_output),
    "ExitPlanMode": ("☰", dialogs.plan_input, dialogs.plan_output),
    "Reasoning": ("✻", dialogs.reasoning_input, dialogs.reasoning_output),
    "change_title": ("✎", dialogs.title_input, dialogs.title_output),
    "AcpHistoryImport": ("↺", dialogs.history_import_input, nothing),
    "WorkspaceIndexingPermission": ("?", dialogs.indexing_input, nothing),
    "Skill": ("✦", mcp.skill_input, mcp.any_output),
    "ToolSearch": ("⌕", mcp.tool_search_input, mcp.tool_search_output),
    "ListMcpResources": ("⊞", nothing, mcp.resources_output),
    "list_mcp_resource_templates": ("⊞", nothing, mcp.resources_output),
    "ReadMcpResource": ("⊞", nothing, mcp.resource_output),
}
"""Canonical name -> icon, what shows its input, what shows its output."""

TYPES: dict[str, ToolTypes] = {
    "Task": ToolTypes(tasks.TaskCall, tasks.TaskEnd),
    "TaskOutput": ToolTypes(ToolInput, tasks.Background),
    "TaskStop": ToolTypes(ToolInput, tasks.Background),
    "WebFetch": ToolTypes(tools.WebFetchInput, web.Fetched),
    "WebSearch": ToolTypes(tools.WebSearchInput, web.Found),
    "AskUserQuestion": ToolTypes(tools.AskUserQuestionInput, dialogs.Answers),
    "EnterPlanMode": ToolTypes(tools.EnterPlanModeInput, dialogs.Planned),
    "ExitPlanMode": ToolTypes(tools.ExitPlanModeInput, dialogs.Planned),
    "Skill": ToolTypes(mcp.SkillInput, mcp.AnyResult),
    "ToolSearch": ToolTypes(mcp.ToolSearchInput, mcp.ToolsFound),
    "ListMcpResources": ToolTypes(ToolInput, mcp.Resources),
    "list_mcp_resource_templates": ToolTypes(ToolInput, mcp.Resources),
    "ReadMcpResource": ToolTypes(ToolInput, mcp.Resource),
}
"""Structs of tools that have none of their own; and those of others, with keys that only some providers have."""
