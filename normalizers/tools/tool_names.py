"""Tables of tool names: the canonical tool of each raw name, and the raw names that stay unchanged.

Raw names are compared without case, `_`, `-` and spaces (`name_key`), so `read_file`, `ReadFile` and `readfile` are the
same. Names whose meaning depends on the input are in `names.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from tooltap.protocol.tools import TOOLS

__all__ = ["CANONICAL_TOOLS", "LATER_TOOLS", "PASS_THROUGH", "SPELLED_NAMES", "TOOLSETS", "TOOL_NAMES", "name_key"]

CANONICAL_TOOLS = tuple(TOOLS)
"""The tools with typed payloads."""

LATER_TOOLS = (
    "Artifact",
    "BashOutput",
    "CronCreate",
    "CronDelete",
    "CronList",
    "EnterWorktree",
    "ExitWorktree",
    "KillShell",
    "LSP",
    "ListAgents",
    "ListMcpResources",
    "Monitor",
    "NotebookEdit",
    "ReadMcpResource",
    "ReportFindings",
    "ScheduleWakeup",
    "SendMessage",
    "Skill",
    "SlashCommand",
    "TaskOutput",
    "TaskStop",
    "ToolSearch",
    "Workflow",
)
"""Tools that agents have added since V2, with Claude Code's names. Their payloads are the provider's own."""


def name_key(raw_name: str) -> str:
    """The normal form of a tool name, equal for all its spellings."""
    return raw_name.lower().replace("_", "").replace("-", "").replace(" ", "")


TOOLSETS = ("file_system.", "functions.", "vibe.")
"""Prefixes that name a toolset: Vibe 3.0.2 (`file_system.bash`) and OpenAI's `functions.`. Other prefixes with a dot
may name an MCP server and are not removed."""

_SPELLINGS = {
    "Bash": "bash shell execute GeminiBash CodexBash exec_command shell_command local_shell container.exec"
    " run_shell_command"
    " command_execution run_commands run_command execute_command run_terminal_cmd run_terminal_command run_in_terminal"
    " launch-process powershell terminal",
    "Read": "read read_file read_files read_many_files view view_image image_view ReadMediaFile open_file",
    "MultiEdit": "multi_edit",
    "Patch": "patch apply_patch patch_apply file_change CodexPatch GeminiPatch",
    "Diff": "diff turn_diff CodexDiff GeminiDiff",
    "Glob": "glob find file_search find_files",
    "Grep": "grep grep_search grep_files search_file_content search_files search_codebase ripgrep",
    "LS": "ls list list_directory list_dir list_files",
    "CodeSearch": "code_search codebase_search codebase-retrieval semantic_search",
    "WebFetch": "web_fetch FetchURL fetch_url fetch_web_content",
    "WebSearch": "web_search google_web_search search_web",
    "TodoWrite": "todo_write write_todos todo_list update_plan set_todo_list update_todos",
    "TodoRead": "todo_read",
    "Task": "task agent spawn_agent invoke_agent task_create task_update task_get task_list",
    "Reasoning": "think CodexReasoning GeminiReasoning",
    "EnterPlanMode": "enter_plan_mode",
    "ExitPlanMode": "exit_plan_mode",
    "AskUserQuestion": "ask_user_question ask_user ask_question question request_user_input ask_followup_question",
    "change_title": "change_title mcp__happy__change_title",
    "BashOutput": "bash_output read_bash read_background_output",
    "CronCreate": "cron_create",
    "CronDelete": "cron_delete",
    "CronList": "cron_list",
    "EnterWorktree": "enter_worktree",
    "ExitWorktree": "exit_worktree",
    "KillShell": "kill_shell kill_bash stop_bash",
    "LSP": "lsp",
    "ListAgents": "list_agents",
    "ListMcpResources": "list_mcp_resources ListMcpResourcesTool",
    "Monitor": "monitor",
    "NotebookEdit": "notebook_edit",
    "ReadMcpResource": "read_mcp_resource ReadMcpResourceTool",
    "ReportFindings": "report_findings",
    "ScheduleWakeup": "schedule_wakeup loop_wakeup",
    "SendMessage": "send_message send_input write_agent",
    "Skill": "skill activate_skill",
    "SlashCommand": "slash_command",
    "TaskOutput": "task_output AgentOutputTool wait_agent read_agent",
    "TaskStop": "task_stop close_agent",
    "ToolSearch": "tool_search",
}

SPELLED_NAMES = {raw: name for name, spellings in _SPELLINGS.items() for raw in (name, *spellings.split())}
"""Raw name in its common spelling -> canonical name, if the name alone decides."""

TOOL_NAMES = {name_key(raw): name for name, spellings in _SPELLINGS.items() for raw in spellings.split()}
"""`name_key` of a raw name -> canonical name, if the name alone decides."""


class PassThrough(NamedTuple):
    agent: str
    why: str


_UNCHANGED = {
    PassThrough("any agent", "the model called a tool that does not exist"): "no_such_tool NoSuchTool",
    PassThrough("claude", "a placeholder in the tool list, never called"): "DeferredToolPlaceholder",
    PassThrough("cline", "team management between agents"): "team_attach_outcome_fragment team_await_runs"
    " team_broadcast team_cancel_run team_cleanup team_create_outcome team_finalize_outcome team_list_outcomes"
    " team_list_runs team_mission_log team_read_mailbox team_review_outcome_fragment team_run_task team_send_message"
    " team_shutdown_teammate team_spawn_teammate team_status team_task",
    PassThrough("codex", "code mode: runs JavaScript that calls tools; each has its own call"): "exec",
    PassThrough("codex", "types into a running shell"): "write_stdin",
    PassThrough("codex", "generates an image"): "image_generation",
    PassThrough("codex", "a second model's review of a call, which is a permission, too"): "guardian_assessment",
    PassThrough("codex", "requests a wider sandbox, and does nothing else"): "request_permissions",
    PassThrough("codex", "runs JavaScript in a session that keeps its variables"): "js_repl js_repl_reset",
    PassThrough("codex", "resource templates, not resources"): "list_mcp_resource_templates",
    PassThrough("codex", "wakes a closed subagent; no other agent can"): "resume_agent",
    PassThrough("codex", "a namespace in the tool list, not a tool"): "clock collaboration functions mcp__fixture",
    PassThrough("codex, qwen", "the session's goal, which is not a to-do list"): "create_goal get_goal update_goal",
    PassThrough("copilot", "SQL on its own database, to-do lists among other things"): "sql session_store_sql",
    PassThrough("copilot", "its own manual"): "fetch_copilot_cli_documentation",
    PassThrough("copilot", "names of the running shells, not their output"): "list_bash",
    PassThrough("gemini", "names of the running processes, not their output"): "list_background_processes",
    PassThrough("gemini", "a subagent's report to the agent that called it"): "complete_task",
    PassThrough("gemini", "topic and intent of the work, more than a session's title"): "update_topic",
    PassThrough("gemini", "writes to the agent's long-term memory"): "save_memory",
    PassThrough("gemini", "its own manual"): "get_internal_docs",
    PassThrough("opencode", "replaces a call with invalid arguments"): "invalid",
    PassThrough("qwen", "a proxy; the call gets the inner tool's name if the wire states it"): "tool_call",
    PassThrough("qwen", "answers a hook's question in a given schema"): "respond_in_schema",
    PassThrough("qwen", "a region of an image, not the file"): "zoom_image",
    PassThrough("vibe", "schedules, lists and cancels with one tool"): "cron",
    PassThrough("vibe", "TypeScript that calls tools"): "run_typescript",
    PassThrough("vibe", "searches functions that `run_typescript` can call"): "search_tool_functions",
    PassThrough("vibe", "the harness's own notes"): "unified_harness_scratchpad",
    PassThrough("vibe", "sleeps"): "wait",
    PassThrough("acp", "kinds that do not identify a tool"): "other move switch_mode",
}

PASS_THROUGH = {raw: reason for reason, names in _UNCHANGED.items() for raw in names.split()}
"""Raw names of known agents that stay unchanged -> agent and reason. Names in neither table stay unchanged too, and
appear in the statistics' `tools`."""
