"""Canonical names: every tool of the recorded agents, and ambiguous names."""

from __future__ import annotations

from typing import Any

import pytest

from tooltap.normalizers.tools.names import BY_INPUT, TOOL_NAMES, canonical_name, name_key
from tooltap.normalizers.tools.registry import KNOWN_TOOLS, PASS_THROUGH

MCP_OF_THE_RECORDINGS = ("change_title", "echo", "fail", "picture")

OFFERED = {
    "claude-code 2.1": "Agent AskUserQuestion Bash CronCreate CronDelete CronList DeferredToolPlaceholder Edit"
    " EnterPlanMode EnterWorktree ExitPlanMode ExitWorktree Glob Grep ListAgents Monitor NotebookEdit Read"
    " ReportFindings ScheduleWakeup SendMessage Skill TaskCreate TaskGet TaskList TaskOutput TaskStop TaskUpdate"
    " TodoWrite ToolSearch WebFetch WebSearch Workflow Write web_search",
    "claude-code 1.0": "Bash BashOutput Edit ExitPlanMode Glob Grep KillShell MultiEdit NotebookEdit Read SlashCommand"
    " Task TodoWrite WebFetch WebSearch Write web_search",
    "cline": "ask_question editor fetch_web_content read_files run_commands search_codebase spawn_agent"
    " team_attach_outcome_fragment team_await_runs team_broadcast team_cancel_run team_cleanup team_create_outcome"
    " team_finalize_outcome team_list_outcomes team_list_runs team_mission_log team_read_mailbox"
    " team_review_outcome_fragment team_run_task team_send_message team_shutdown_teammate team_spawn_teammate"
    " team_status team_task",
    "codex": "apply_patch clock close_agent collab_tool_call collaboration command_execution commandExecution"
    " create_goal exec exec_command file_change fileChange functions get_goal imageView list_mcp_resource_templates"
    " list_mcp_resources local_shell patch_apply read_mcp_resource request_user_input resume_agent send_input shell"
    " shell_command spawn_agent todo_list tool_search update_goal update_plan view_image wait_agent web_search"
    " webSearch write_stdin",
    "copilot": "ask_user bash create edit fetch_copilot_cli_documentation glob grep list_agents list_bash read_agent"
    " read_bash session_store_sql skill sql stop_bash task view web_fetch write_agent",
    "gemini": "activate_skill ask_user complete_task enter_plan_mode exit_plan_mode glob google_web_search grep_search"
    " invoke_agent list_background_processes list_directory read_background_output read_file read_many_files replace"
    " run_shell_command search_file_content update_topic web_fetch write_file write_todos",
    "kimi": "Agent AskUserQuestion EnterPlanMode ExitPlanMode FetchURL Glob Grep ReadFile ReadMediaFile SetTodoList"
    " Shell StrReplaceFile TaskList TaskOutput TaskStop WriteFile",
    "opencode": "bash edit glob grep invalid list question read skill task todoread todowrite webfetch write",
    "pi": "bash edit find grep ls read write",
    "qwen": "agent ask_user_question edit enter_plan_mode exit_plan_mode get_goal glob grep_search list_agents"
    " loop_wakeup monitor notebook_edit read_file read_mcp_resource report_findings respond_in_schema"
    " run_shell_command skill todo_write tool_call tool_search update_goal web_fetch write_file zoom_image",
    "vibe": "cron edit file_system.bash file_system.read_file file_system.search_replace file_system.write_file grep"
    " run_typescript search_tool_functions skill unified_harness_scratchpad vibe.todo wait",
}
"""Names that the recorded agents offered to their models, or that occurred on the wire."""


@pytest.mark.parametrize(("agent", "raw"), [(agent, raw) for agent, names in OFFERED.items() for raw in names.split()])
def test_every_recorded_tool_is_canonical_or_explained(agent: str, raw: str) -> None:
    name = canonical_name(raw, {}, "call_1")

    if raw == "collab_tool_call":  # names its tool in the input
        return
    assert (name in KNOWN_TOOLS) != (raw in PASS_THROUGH)
    assert raw not in PASS_THROUGH or name == raw


BY_NAME = {
    "Bash": "Bash bash BASH shell Shell execute command_execution commandExecution exec_command shell_command"
    " local_shell container.exec run_shell_command run_commands CodexBash GeminiBash file_system.bash"
    " functions.exec_command",
    "Read": "Read read read_file readfile ReadFile read_files view_image view functions.read_file",
    "Write": "Write write write_file WriteFile create",
    "Edit": "Edit edit replace StrReplaceFile str_replace file_system.search_replace edit_file",
    "MultiEdit": "MultiEdit multiedit",
    "Delete": "Delete delete remove",
    "Patch": "Patch patch apply_patch patch_apply file_change fileChange CodexPatch GeminiPatch",
    "Diff": "diff CodexDiff GeminiDiff",
    "Glob": "Glob glob find",
    "Grep": "Grep grep grep_search grep_files search_file_content search_codebase",
    "LS": "LS ls list list_directory",
    "CodeSearch": "search codesearch codebase_search",
    "WebFetch": "WebFetch webfetch web_fetch FetchURL",
    "WebSearch": "WebSearch websearch web_search google_web_search webSearch",
    "TodoWrite": "TodoWrite todowrite todo_write write_todos todo_list update_plan SetTodoList vibe.todo",
    "TodoRead": "TodoRead todoread",
    "Task": "Task task Agent agent spawn_agent spawnAgent invoke_agent TaskCreate TaskUpdate TaskGet TaskList",
    "Reasoning": "think CodexReasoning GeminiReasoning",
    "EnterPlanMode": "EnterPlanMode enter_plan_mode",
    "ExitPlanMode": "ExitPlanMode exit_plan_mode",
    "AskUserQuestion": "AskUserQuestion ask_user_question ask_user question request_user_input",
    "change_title": "change_title mcp__happy__change_title",
    "KillShell": "KillShell KillBash stop_bash",
    "TaskOutput": "TaskOutput wait_agent",
    "Skill": "Skill skill activate_skill",
    "mcp__tooltap__render_diff": "mcp__tooltap__render_diff mcp_tooltap_render_diff tooltap_render_diff"
    " tooltap__render_diff tooltap-render_diff tooltap.render_diff",
    "tooltap_": "tooltap_",
    "tooltaps_list": "tooltaps_list",
}


@pytest.mark.parametrize(("raw", "name"), [(raw, name) for name, raws in BY_NAME.items() for raw in raws.split()])
def test_name_alone_decides(raw: str, name: str) -> None:
    assert canonical_name(raw, {}, "call_1") == name


@pytest.mark.parametrize(
    ("raw", "value", "name"),
    [
        ("edit", {"changes": {"a.py": {"type": "add"}}}, "Patch"),
        ("edit", {"changes": {}}, "Edit"),
        ("edit", {"path": "a.py", "edits": [{"oldText": "a", "newText": "b"}]}, "MultiEdit"),
        ("edit", {"filePath": "a.py", "content": "text\n"}, "Write"),
        ("edit", {"file_content": "", "content": "text\n"}, "Write"),
        ("edit", {"content": " \n"}, "Edit"),
        ("Edit", {"content": "text", "old_string": "", "new_string": "x"}, "Edit"),
        ("edit", {"content": "text", "oldString": "a", "newString": "x"}, "Edit"),
        ("StrReplaceFile", {"path": "a.py", "edit": {"old": "a", "new": "b"}}, "Edit"),
        ("StrReplaceFile", {"path": "a.py", "edit": [{"old": "a", "new": "b"}]}, "MultiEdit"),
        ("delete", {"changes": {"a.py": {"type": "delete"}}}, "Patch"),
        ("remove", {"file_paths": ["a.py"]}, "Delete"),
        ("write", {"todos": [{"content": "a"}]}, "TodoWrite"),
        ("write", {"todos": []}, "Write"),
        ("write_file", {"file_path": "a.py", "content": "x"}, "Write"),
        ("fetch", {"href": "https://example.com"}, "WebFetch"),
        ("fetch", {"url": "", "q": "words"}, "WebSearch"),
        ("fetch", {"id": 1}, "fetch"),
        ("search", {"query": "greet"}, "CodeSearch"),
        ("search", {"type": "webSearch", "query": "greet"}, "WebSearch"),
        ("editor", {"path": "a.py", "new_text": "x"}, "Write"),
        ("editor", {"path": "a.py", "old_text": "a", "new_text": "x"}, "Edit"),
        ("editor", {"path": "a.py", "insert_line": 0, "new_text": "x"}, "Edit"),
        ("str_replace_based_edit_tool", {"command": "view", "path": "a.py"}, "Read"),
        ("str_replace_based_edit_tool", {"command": "create", "path": "a.py", "file_text": "x"}, "Write"),
        ("str_replace_editor", {"command": "str_replace", "path": "a.py", "old_str": "a"}, "Edit"),
        ("vibe.todo", {"action": "read"}, "TodoRead"),
        ("vibe.todo", {"action": "write", "todos": []}, "TodoWrite"),
        ("collab_tool_call", {"tool": "spawn_agent"}, "Task"),
        ("collabAgentToolCall", {"tool": "spawnAgent"}, "Task"),
        ("collab_tool_call", {"tool": "wait"}, "TaskOutput"),
        ("collab_tool_call", {"tool": "close_agent"}, "TaskStop"),
        ("collab_tool_call", {"tool": "resume_agent"}, "collab_tool_call"),
        ("unknown tool", {"title": "Workspace Indexing Permission"}, "WorkspaceIndexingPermission"),
        ("Unknown tool", {"toolCall": {"title": "Workspace Indexing Permission"}}, "WorkspaceIndexingPermission"),
        ("Unknown tool", {"title": "Run", "toolCall": {"title": "Workspace Indexing Permission"}}, "Unknown tool"),
    ],
)
def test_input_decides(raw: str, value: dict[str, Any], name: str) -> None:
    assert canonical_name(raw, value, "call_1") == name


def test_call_id_decides_for_todos() -> None:
    """Gemini over ACP names the tool only in the call id."""
    assert canonical_name("write", {}, "write_todos-1769335045-1") == "TodoWrite"


@pytest.mark.parametrize(
    "raw",
    [
        *(f"mcp__fixture__{tool}" for tool in MCP_OF_THE_RECORDINGS),
        "mcp__linear-server__create_issue",
        "mcp__read__bash",
        "fixture_echo",
        "fixture-echo",
        "mcp_fixture_echo",
        "fixture__echo",
        "mock.search",
        "tasks",
        "taskfoo",
        "TaskOutput",
        "other",
        "",
        "日本語",
    ],
)
def test_other_names_stay_unchanged(raw: str) -> None:
    assert canonical_name(raw, {"path": "a.py"}, "call_1") == raw


@pytest.mark.parametrize("value", [None, "text", 3, [], [{"edits": [1]}]])
def test_non_object_input_is_ignored(value: Any) -> None:
    assert canonical_name("edit", value, "call_1") == "Edit"


@pytest.mark.parametrize("name", KNOWN_TOOLS)
def test_canonical_name_is_stable(name: str) -> None:
    assert canonical_name(name, {}, "call_1") == name


def test_no_name_is_mapped_and_passed_through() -> None:
    assert not {name_key(raw) for raw in PASS_THROUGH} & {*TOOL_NAMES, *BY_INPUT}
    assert all(canonical_name(raw, {}, "call_1") == raw for raw in PASS_THROUGH)
