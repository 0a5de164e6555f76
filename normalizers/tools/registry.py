"""Registry of canonical tools: one row per tool, with everything that is known of it.

A row has the tool's family, the raw names that mean it, the functions that make its payloads, and the keys of its
preview. Names (`names.py`), previews, counts by family, cards and commands look it up here. The structs of the payloads
are public (`protocol/tools.py`); a tool without structs keeps the provider's own payloads.

A tool family's module knows every provider's spelling of a key. The dialect unwraps a result (exit codes in text,
content blocks) before it is passed to the registry. To add a tool, see `docs/contributing/tool.md`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from tooltap.normalizers.tools import dialogs, files, search, shell, tasks, web
from tooltap.normalizers.tools.paths import relative
from tooltap.normalizers.tools.payload import (
    OF_ERRORS,
    Payload,
    decode_json,
    error_message,
    keep_input,
    keep_output,
    keys_and_text,
    without_nulls,
)
from tooltap.protocol.tools import TOOLS, ToolTypes

Family: TypeAlias = Literal["shell", "read", "edit", "search", "web", "task", "plan", "mcp", "other"]
"""The kind of work that a call does, for counts and colours."""
FAMILIES: Final = get_args(Family)
PATHS = ("file_path", "file_paths", "notebook_path", "path")
"""Keys of file paths, for the previews of tools that work on files."""


class Tool(NamedTuple):
    """One canonical tool."""

    name: str
    family: Family
    spellings: str = ""
    """Raw names that mean this tool, whatever the input; case, `_`, `-` and spaces do not matter. A raw name whose
    meaning depends on the input is in `names.py`."""
    input: Callable[[Payload, str], Payload] = keep_input
    """Makes the input from the provider's keys and the raw tool name. May change and return its argument."""
    output: Callable[[Any, str], Payload] = keep_output
    """Makes the result from the provider's value (a string, a list of blocks or an object; never None) and the raw tool
    name."""
    string_key: str = "value"
    """The key for an input that is a bare string."""
    list_key: str = "items"
    """The key for an input that is a bare list."""
    json_result: bool = False
    """Whether to decode a result that is a string of JSON."""
    preview: tuple[str, ...] | None = None
    """Keys of the input for the preview, the most informative first; empty: the tool has no preview. None: the input is
    the provider's own, and previewed if it is a single short argument."""

    @property
    def types(self) -> ToolTypes | None:
        """Structs of the payloads; None if they are the provider's own."""
        return TOOLS.get(self.name)


_ROWS = (
    # -- with typed payloads, in the order of `protocol/tools.py` ------------------------------------------------------
    Tool(
        "Bash",
        "shell",
        "bash shell execute GeminiBash CodexBash exec_command shell_command local_shell container.exec"
        " run_shell_command command_execution run_commands run_command execute_command run_terminal_cmd"
        " run_terminal_command run_in_terminal launch-process powershell terminal",
        shell.bash_input,
        shell.bash_output,
        string_key="command",
        preview=("command",),
    ),
    Tool(
        "Read",
        "read",
        "read read_file read_files read_many_files view view_image image_view ReadMediaFile open_file",
        files.read_input,
        files.read_output,
        string_key="file_path",
        list_key="file_paths",
        preview=PATHS,
    ),
    Tool("Write", "edit", "", files.write_input, files.change_output, preview=PATHS),
    Tool("Edit", "edit", "", files.edit_input, files.change_output, preview=PATHS),
    Tool("MultiEdit", "edit", "multi_edit", files.multi_edit_input, files.change_output, preview=PATHS),
    Tool(
        "Delete",
        "edit",
        "",
        files.delete_input,
        files.delete_output,
        string_key="file_path",
        list_key="file_paths",
        preview=PATHS,
    ),
    Tool(
        "Patch",
        "edit",
        "patch apply_patch patch_apply file_change CodexPatch GeminiPatch",
        files.patch_input,
        files.patch_output,
        string_key="patch",
        preview=("changes",),
    ),
    Tool(
        "Diff",
        "edit",
        "diff turn_diff CodexDiff GeminiDiff",
        files.diff_input,
        string_key="unified_diff",
        preview=(),
    ),
    Tool(
        "Glob",
        "search",
        "glob find file_search find_files",
        search.glob_input,
        search.glob_output,
        string_key="pattern",
        preview=("pattern", "path"),
    ),
    Tool(
        "Grep",
        "search",
        "grep grep_search grep_files search_file_content search_files search_codebase ripgrep",
        search.grep_input,
        search.matches_output,
        string_key="pattern",
        preview=("pattern", "path"),
    ),
    Tool(
        "LS",
        "read",
        "ls list list_directory list_dir list_files",
        search.ls_input,
        search.ls_output,
        string_key="path",
        preview=("path",),
    ),
    Tool(
        "CodeSearch",
        "search",
        "code_search codebase_search codebase-retrieval semantic_search",
        search.code_search_input,
        search.matches_output,
        string_key="query",
        preview=("query",),
    ),
    Tool(
        "WebFetch",
        "web",
        "web_fetch FetchURL fetch_url fetch_web_content",
        web.fetch_input,
        web.fetch_output,
        string_key="url",
        preview=("url", "urls", "prompt"),
    ),
    Tool(
        "WebSearch",
        "web",
        "web_search google_web_search search_web",
        web.search_input,
        web.search_output,
        string_key="query",
        json_result=True,
        preview=("query",),
    ),
    Tool(
        "TodoWrite",
        "plan",
        "todo_write write_todos todo_list update_plan set_todo_list update_todos",
        tasks.todos_input,
        tasks.todos_output,
        list_key="todos",
        json_result=True,
        preview=("todos",),
    ),
    Tool("TodoRead", "plan", "todo_read", output=tasks.todos_output, json_result=True, preview=()),
    Tool(
        "Task",
        "task",
        "task agent subagent spawn_agent invoke_agent task_create task_update task_get task_list",
        tasks.task_input,
        tasks.task_output,
        string_key="prompt",
        json_result=True,
        preview=("description", "subject", "prompt", "taskId"),
    ),
    Tool(
        "Reasoning",
        "plan",
        "think CodexReasoning GeminiReasoning",
        output=dialogs.reasoning_output,
        string_key="title",
        preview=("title",),
    ),
    Tool("EnterPlanMode", "plan", "enter_plan_mode", preview=()),
    Tool("ExitPlanMode", "plan", "exit_plan_mode", string_key="plan", preview=("plan",)),
    Tool(
        "AskUserQuestion",
        "plan",
        "ask_user_question ask_user ask_question question request_user_input ask_followup_question",
        dialogs.question_input,
        dialogs.question_output,
        json_result=True,
        preview=("questions",),
    ),
    Tool("AcpHistoryImport", "other", preview=("remoteSessionId",)),
    Tool("WorkspaceIndexingPermission", "other", preview=("title",)),
    Tool(
        "change_title",
        "other",
        "change_title mcp__happy__change_title",
        output=dialogs.title_output,
        string_key="title",
        preview=("title",),
    ),
    # -- with the provider's own payloads, under Claude Code's names ---------------------------------------------------
    Tool("Artifact", "other"),
    Tool("BashOutput", "shell", "bash_output read_bash read_powershell read_background_output"),
    Tool("CronCreate", "task", "cron_create"),
    Tool("CronDelete", "task", "cron_delete"),
    Tool("CronList", "task", "cron_list"),
    Tool("EnterWorktree", "other", "enter_worktree"),
    Tool("ExitWorktree", "other", "exit_worktree"),
    Tool("KillShell", "shell", "kill_shell kill_bash stop_bash stop_powershell"),
    Tool("LSP", "search", "lsp"),
    Tool("ListAgents", "task", "list_agents"),
    Tool("ListMcpResources", "mcp", "list_mcp_resources ListMcpResourcesTool"),
    Tool("Monitor", "shell", "monitor"),
    Tool("NotebookEdit", "edit", "notebook_edit", preview=PATHS),
    Tool("ReadMcpResource", "mcp", "read_mcp_resource ReadMcpResourceTool"),
    Tool("ReportFindings", "other", "report_findings"),
    Tool("ScheduleWakeup", "task", "schedule_wakeup loop_wakeup"),
    Tool("SendMessage", "task", "send_message send_input write_agent"),
    Tool("Skill", "task", "skill activate_skill", preview=("skill", "name")),
    Tool("SlashCommand", "task", "slash_command"),
    Tool("TaskOutput", "task", "task_output AgentOutputTool wait_agent read_agent"),
    Tool("TaskStop", "task", "task_stop close_agent"),
    Tool("ToolSearch", "search", "tool_search", preview=("query",)),
    Tool("Workflow", "task"),
)

REGISTRY = {tool.name: tool for tool in _ROWS}
"""Canonical name -> row."""
CANONICAL_TOOLS = tuple(TOOLS)
"""Names of the tools with typed payloads."""
KNOWN_TOOLS = tuple(REGISTRY)
"""Names of all canonical tools."""
_OTHER = Tool("", "other")
MCP_PREFIX = "mcp__"
_OWN_TOOLS = {
    "mcp__tooltap__render_file_contents": PATHS,
    "mcp__tooltap__run_and_display": ("command",),
}
"""Tools of `tooltap mcp` -> keys of the preview."""


def tool_of(name: str) -> Tool:
    """The row of a tool by its canonical name. Tools of MCP servers, and unknown ones, have rows, too."""
    return REGISTRY.get(name) or (_mcp_tool(name) if name.startswith(MCP_PREFIX) else _OTHER)


@lru_cache(maxsize=1_024)
def _mcp_tool(name: str) -> Tool:
    make_input, make_output = _mcp_functions(name)
    return Tool(name, "mcp", input=make_input, output=make_output, preview=_OWN_TOOLS.get(name))


def _mcp_functions(name: str) -> tuple[Callable[[Payload, str], Payload], Callable[[Any, str], Payload]]:
    """The functions that make the input and the result of the MCP tool `name`.

    `_mcp` states server and tool if the name has exactly one separator; otherwise the split is ambiguous.
    """
    parts = name.removeprefix(MCP_PREFIX).split("__")
    identity = {"serverId": parts[0], "toolId": parts[1]} if len(parts) == 2 and all(parts) else None

    def tool_input(payload: Payload, raw_name: str) -> Payload:
        return {**payload, "_mcp": identity}

    def tool_output(value: Any, raw_name: str) -> Payload:
        payload, text = keys_and_text(value)
        payload["_mcp"] = identity
        if text is not None:
            payload.setdefault("text", text)
        return payload

    return tool_input, tool_output


# -- raw names that stay as they are ----------------------------------------------------------------------------------


class Unchanged(NamedTuple):
    """Raw names of known agents that mean no canonical tool."""

    agent: str
    names: str
    why: str
    family: Family = "other"


_UNCHANGED = (
    Unchanged("any agent", "no_such_tool NoSuchTool", "the model called a tool that does not exist"),
    Unchanged("claude", "DeferredToolPlaceholder", "a placeholder in the tool list, never called"),
    Unchanged("claude", "NotebookRead", "no other agent has it, and it has gone", "read"),
    Unchanged(
        "cline",
        "team_attach_outcome_fragment team_await_runs team_broadcast team_cancel_run team_cleanup team_create_outcome"
        " team_finalize_outcome team_list_outcomes team_list_runs team_mission_log team_read_mailbox"
        " team_review_outcome_fragment team_run_task team_send_message team_shutdown_teammate team_spawn_teammate"
        " team_status team_task",
        "team management between agents",
        "task",
    ),
    Unchanged("codex", "exec", "code mode: runs JavaScript that calls tools; each has its own call", "shell"),
    Unchanged("codex", "write_stdin", "types into a running shell", "shell"),
    Unchanged("codex", "image_generation", "generates an image"),
    Unchanged("codex", "guardian_assessment", "a second model's review of a call, which is a permission, too"),
    Unchanged("codex", "request_permissions", "requests a wider sandbox, and does nothing else"),
    Unchanged("codex", "js_repl js_repl_reset", "runs JavaScript in a session that keeps its variables", "shell"),
    Unchanged("codex", "list_mcp_resource_templates", "resource templates, not resources", "mcp"),
    Unchanged("codex", "resume_agent", "wakes a closed subagent; no other agent can", "task"),
    Unchanged("codex", "clock collaboration functions mcp__fixture", "a namespace in the tool list, not a tool"),
    Unchanged(
        "codex, qwen", "create_goal get_goal update_goal", "the session's goal, which is not a to-do list", "plan"
    ),
    Unchanged("copilot", "sql session_store_sql", "SQL on its own database, to-do lists among other things"),
    Unchanged("copilot", "fetch_copilot_cli_documentation", "its own manual"),
    Unchanged("copilot", "list_bash list_powershell", "names of the running shells, not their output", "shell"),
    Unchanged("copilot", "write_bash write_powershell", "types into a running shell", "shell"),
    Unchanged("gemini", "list_background_processes", "names of the running processes, not their output", "shell"),
    Unchanged("gemini", "complete_task", "a subagent's report to the agent that called it", "task"),
    Unchanged("gemini", "update_topic", "topic and intent of the work, more than a session's title"),
    Unchanged("gemini", "save_memory", "writes to the agent's long-term memory"),
    Unchanged("gemini", "get_internal_docs", "its own manual"),
    Unchanged("opencode", "invalid", "replaces a call with invalid arguments"),
    Unchanged("qwen", "tool_call", "a proxy; the call gets the inner tool's name if the wire states it"),
    Unchanged("qwen", "respond_in_schema", "answers a hook's question in a given schema"),
    Unchanged("qwen", "zoom_image", "a region of an image, not the file", "read"),
    Unchanged("vibe", "cron", "schedules, lists and cancels with one tool", "task"),
    Unchanged("vibe", "run_typescript", "TypeScript that calls tools", "shell"),
    Unchanged("vibe", "search_tool_functions", "searches functions that `run_typescript` can call", "search"),
    Unchanged("vibe", "unified_harness_scratchpad", "the harness's own notes"),
    Unchanged("vibe", "wait", "sleeps"),
    Unchanged("acp", "move", "a kind that does not identify a tool", "edit"),
    Unchanged("acp", "other switch_mode", "kinds that do not identify a tool"),
)

PASS_THROUGH = {raw: row for row in _UNCHANGED for raw in row.names.split()}
"""Raw name -> why it stays unchanged. Names in no row stay unchanged too, and appear in the statistics' `tools`."""


# -- families -----------------------------------------------------------------------------------------------------


_FAMILY: dict[str, Family] = {raw: row.family for raw, row in PASS_THROUGH.items()} | {
    name: tool.family for name, tool in REGISTRY.items()
}


def family_of(tool: str | None) -> Family:
    """Return the family of a tool by its name in events, canonical or the provider's. None (no tool) is `other`."""
    if tool is None:
        return "other"
    return _FAMILY.get(tool) or ("mcp" if tool.startswith(MCP_PREFIX) else "other")


ASKING: Final[Mapping[str, Literal["question", "permission"]]] = {
    "AskUserQuestion": "question",
    "ExitPlanMode": "permission",
}
"""Tool whose call waits for a person -> type of the request that such a call is."""


def names_in(family: Family) -> tuple[str, ...]:
    """Return all known names in events of the tools of a family."""
    return tuple(name for name, known in _FAMILY.items() if known == family)


# -- payloads -----------------------------------------------------------------------------------------------------


def tool_input(name: str, value: Any, raw_name: str) -> Payload:
    """Make the canonical input of tool `name`, called as `raw_name` with `value`. Unknown keys are retained."""
    tool = REGISTRY.get(name) or tool_of(name)
    payload = tool.input(_as_object(value, tool), raw_name)
    return without_nulls(payload) if None in payload.values() else payload


def tool_output(name: str, value: Any, raw_name: str) -> Payload:
    """Make the canonical result of tool `name`. Unknown keys are retained. A `value` of None means no stated result."""
    if value is None:
        return {}
    tool = REGISTRY.get(name) or tool_of(name)
    payload = tool.output(decode_json(value) if tool.json_result else value, raw_name)
    if not OF_ERRORS.isdisjoint(payload):
        message = error_message(payload)
        if message is not None:
            payload["errorMessage"] = message
    return without_nulls(payload) if None in payload.values() else payload


def _as_object(value: Any, tool: Tool) -> Payload:
    """The input as an object, whatever its type."""
    if isinstance(value, dict):
        if None in value.values():
            return {key: item for key, item in value.items() if item is not None}
        return value.copy()
    if isinstance(value, str):
        return {tool.string_key: value}
    if isinstance(value, list):
        return {tool.list_key: value}
    return {} if value is None else {"value": value}


# -- previews -----------------------------------------------------------------------------------------------------

PREVIEW_LENGTH = 40
"""Default length of a preview, in code points."""

_PATH_KEYS = frozenset({*PATHS, "changes"})

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def preview(name: str, payload: dict[str, Any], cwd: str | None, length: int = PREVIEW_LENGTH) -> str | None:
    """The preview of a call: its most informative argument in one line of at most `length` code points.

    A path keeps its end, other text its beginning. An unknown tool is previewed only if it has a single short
    argument."""
    keys = tool_of(name).preview
    if keys is None:
        return _only_argument(payload, length)
    for key in keys:
        if key in payload:
            value = payload[key]
            shown = _path(value, cwd, length) if key in _PATH_KEYS else _beginning(value, length)
            if shown:
                return shown
    return None


def _only_argument(payload: dict[str, Any], length: int) -> str | None:
    shown = [value for key, value in payload.items() if key[:1] != "_"]
    if len(shown) != 1 or not isinstance(shown[0], str | int | float):
        return None
    text = _one_line(str(shown[0]))
    return text if 0 < len(text) <= length else None


def _path(value: Any, cwd: str | None, length: int) -> str:
    """The path, or the first of several and the number of the others."""
    if isinstance(value, str):
        first, others = value, 0
    else:
        paths = [path for path in value if isinstance(path, str)] if isinstance(value, list | dict) else []
        if not paths:
            return ""
        first, others = paths[0], len(paths) - 1
    text = _one_line(first)
    text = relative(text, cwd)
    if others:
        text = f"{text} +{others}"
    return text if len(text) <= length else f"…{text[1 - length :]}"


def _beginning(value: Any, length: int) -> str:
    if isinstance(value, str):
        return shortened(value, length)
    if isinstance(value, list) and value:
        # A to-do list shows the entry in progress, else the first; questions show the first.
        entries = [entry for entry in value if isinstance(entry, dict)] or [{}]
        entry = next((one for one in entries if one.get("status") == "in_progress"), entries[0])
        value = entry.get("content") or entry.get("question")
    return shortened(value if isinstance(value, str) else str(value) if isinstance(value, int) else "", length)


def shortened(text: str, length: int = PREVIEW_LENGTH) -> str:
    """The beginning of a text on one line."""
    head = text[:length]
    if head.isprintable() and head[:1] != " " and "  " not in head:  # nothing to remove, nor to collapse
        return head.rstrip()
    return _one_line(text[: 20 * length])[:length].rstrip()


def _one_line(text: str) -> str:
    """Remove terminal escapes, control and direction characters, and collapse whitespace."""
    if " " not in text and text.isprintable():  # most paths
        return text
    joined = " ".join(text.split())
    if joined.isprintable():  # nearly always: nothing but spaces and line ends had to go
        return joined
    return " ".join("".join(char for char in _ESCAPES.sub("", text) if char.isspace() or not _is_control(char)).split())


def _is_control(char: str) -> bool:
    category = unicodedata.category(char)
    return category in ("Cc", "Cs") or (category == "Cf" and char != "\u200d")  # U+200D joins emoji
