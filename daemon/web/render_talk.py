"""The registry's rows of the tools that are not about files or commands: to-do lists, tasks, dialogs, web, MCP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from markupsafe import Markup

from tooltap.daemon.web import render_dialogs as dialogs
from tooltap.daemon.web import render_mcp as mcp
from tooltap.daemon.web import render_tasks as tasks
from tooltap.daemon.web import render_todos as todos
from tooltap.daemon.web import render_web as web
from tooltap.daemon.web.look import Look

__all__ = ["MCP", "TALK"]

Show: TypeAlias = Callable[[Any, Look], Markup]

MCP: tuple[str, Show, Show] = ("⧉", mcp.mcp_input, mcp.mcp_output)
"""Of every `mcp__<server>__<tool>`."""

TALK: dict[str, tuple[str, Show, Show]] = {
    "TodoWrite": ("☑", todos.todo_write_input, todos.todo_write_output),
    "TodoRead": ("☑", todos.todo_read_input, todos.todo_read_output),
    "Task": ("⑂", tasks.task_input, tasks.task_output),
    "TaskOutput": ("⑂", tasks.task_wait_input, tasks.task_wait_output),
    "TaskStop": ("⑂", tasks.task_stop_input, tasks.task_stop_output),
    "WebFetch": ("⇣", web.fetch_input, web.fetch_output),
    "WebSearch": ("⌕", web.web_search_input, web.web_search_output),
    "AskUserQuestion": ("?", dialogs.question_input, dialogs.question_output),
    "EnterPlanMode": ("☰", dialogs.enter_plan_input, dialogs.plan_output),
    "ExitPlanMode": ("☰", dialogs.plan_input, dialogs.plan_output),
    "Reasoning": ("✻", dialogs.reasoning_input, dialogs.reasoning_output),
    "change_title": ("✎", dialogs.title_input, dialogs.title_output),
    "AcpHistoryImport": ("↺", dialogs.history_import_input, dialogs.answer_output),
    "WorkspaceIndexingPermission": ("?", dialogs.indexing_input, dialogs.answer_output),
    "Skill": ("✦", mcp.skill_input, mcp.skill_output),
    "ToolSearch": ("⌕", mcp.tool_search_input, mcp.tool_search_output),
    "ListMcpResources": ("⧉", mcp.resource_input, mcp.resources_output),
    "list_mcp_resource_templates": ("⧉", mcp.resource_input, mcp.resources_output),
    "ReadMcpResource": ("⧉", mcp.resource_input, mcp.resource_output),
}
"""Canonical name -> icon, what shows its input, what shows its output."""
