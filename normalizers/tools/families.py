"""The family of a call: what kind of work it does, for counts and colours. One table for rows, pages and commands."""

from __future__ import annotations

from tooltap.normalizers.tools.mcp import PREFIX

__all__ = ["FAMILIES", "family_of", "tools_of"]

_TOOLS = {
    "shell": "Bash BashOutput KillShell Monitor container.exec exec js_repl js_repl_reset list_background_processes"
    " list_bash run_typescript write_stdin",
    "read": "LS NotebookRead Read zoom_image",
    "edit": "Delete Diff Edit MultiEdit NotebookEdit Patch Write move",
    "search": "CodeSearch Glob Grep LSP",
    "web": "WebFetch WebSearch",
    "task": "ListAgents SendMessage Task TaskOutput TaskStop Workflow complete_task resume_agent",
    "plan": "EnterPlanMode ExitPlanMode Reasoning TodoRead TodoWrite create_goal get_goal update_goal",
    "mcp": "ListMcpResources ReadMcpResource list_mcp_resource_templates",
}

FAMILIES = (*_TOOLS, "other")
_FAMILY = {tool: family for family, tools in _TOOLS.items() for tool in tools.split()}


def family_of(tool: str | None) -> str:
    """`tool`: a canonical name, or the provider's, as in an event's `name`."""
    if tool is None:
        return "other"
    return _FAMILY.get(tool) or ("mcp" if tool.startswith(PREFIX) else "other")


def tools_of(family: str) -> tuple[str, ...]:
    """The tools that are named in a family."""
    return tuple(_TOOLS[family].split())
