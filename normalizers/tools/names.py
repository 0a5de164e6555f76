"""Lookup of a tool's canonical name by its raw name.

The registry has the raw names that determine a tool by themselves; this module has those whose meaning depends on the
input. Raw names are compared without case, `_`, `-` and spaces (`name_key`), so `read_file`, `ReadFile` and `readfile`
are the same. Names are an open set: an unknown name, and every `mcp__<server>__<tool>`, stays unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from tooltap.normalizers.tools.files import NEW_TEXT_KEYS, OLD_TEXT_KEYS
from tooltap.normalizers.tools.registry import REGISTRY

TOOLSETS = ("file_system.", "functions.", "vibe.")
"""Prefixes that name a toolset: Vibe 3.0.2 (`file_system.bash`) and OpenAI's `functions.`. Other prefixes with a dot
may name an MCP server and are not removed."""

OWN_SERVER = "tooltap"
"""Name of `tooltap mcp` in agents' configurations. It identifies our own tools, however an agent joins the names of
server and tool."""
_OWN_PREFIXES = tuple(f"{OWN_SERVER}{joint}" for joint in ("__", "_", "-", "."))


def name_key(raw_name: str) -> str:
    """The normal form of a tool name, equal for all its spellings."""
    return raw_name.lower().replace("_", "").replace("-", "").replace(" ", "")


SPELLED_NAMES = {
    raw: name for name, tool in REGISTRY.items() if tool.spellings for raw in (name, *tool.spellings.split())
}
"""Raw name in its common spelling -> canonical name, if the name alone decides."""

TOOL_NAMES = {name_key(raw): name for name, tool in REGISTRY.items() for raw in tool.spellings.split()}
"""`name_key` of a raw name -> canonical name, if the name alone decides."""


def canonical_name(raw_name: str, value: Any, call_id: str) -> str:
    """The canonical name for a call of `raw_name` with input `value`; `raw_name` itself if there is none."""
    found = SPELLED_NAMES.get(raw_name)
    if found is not None:
        return found
    found, by_input = _looked_up(raw_name) if len(raw_name) <= _SHORT else _look_up(raw_name)
    if by_input is not None:
        found = by_input(value if isinstance(value, dict) else {}, call_id)
    return found or raw_name


_CHANGES_KEYS = ("edits", "edit", "changes")
_ANY_CHANGES = frozenset(_CHANGES_KEYS)
_CONTENT_KEYS = ("file_content", "content", "text")
_SHORT = 128
"""Maximum length of a raw name whose lookup is cached, in characters."""
_ByInput: TypeAlias = Callable[[Mapping[str, Any], str], str | None]


def _look_up(raw_name: str) -> tuple[str | None, _ByInput | None]:
    """Return (canonical name, None) if the raw name determines the tool, (None, rule) if the input does, else (None,
    None)."""
    name = raw_name
    for toolset in TOOLSETS:
        name = name.removeprefix(toolset)
    key = name_key(name)
    found = TOOL_NAMES.get(key)
    if found is None and OWN_SERVER in raw_name:
        found = _own_tool(raw_name)
    return found, BY_INPUT.get(key) if found is None else None


def _own_tool(raw_name: str) -> str | None:
    name = raw_name.removeprefix("mcp_")
    prefix = next((one for one in _OWN_PREFIXES if name.startswith(one) and name != one), None)
    return f"mcp__{OWN_SERVER}__{name.removeprefix(prefix)}" if prefix is not None else None


_looked_up = lru_cache(maxsize=1_024)(_look_up)


def _unknown_tool(value: Mapping[str, Any], call_id: str) -> str | None:
    """Rule for `unknown_tool`: Auggie over ACP uses this name to request the permission to index the workspace."""
    title = value.get("title")
    if not isinstance(title, str):
        call = value.get("toolCall")
        title = call.get("title") if isinstance(call, dict) else None
    return "WorkspaceIndexingPermission" if title == "Workspace Indexing Permission" else None


def _delete(value: Mapping[str, Any], call_id: str) -> str:
    return "Patch" if _filled(value.get("changes"), dict) else "Delete"


def _write(value: Mapping[str, Any], call_id: str) -> str:
    # Gemini over ACP: `write_todos` has kind `write`, and its call id starts with the tool's name.
    if call_id.startswith("write_todos") or _filled(value.get("todos"), list):
        return "TodoWrite"
    return "Write"


def _edit(value: Mapping[str, Any], call_id: str) -> str:
    """Rule for `edit`: ACP's kind `edit` covers patches and new files; Pi, Kimi and Vibe make several edits with one
    tool."""
    if not _ANY_CHANGES.isdisjoint(value):
        if _filled(value.get("changes"), dict):
            return "Patch"
        if any(_filled(value.get(key), list) for key in _CHANGES_KEYS):
            return "MultiEdit"
    if not any(key in value and _nonblank(value[key]) for key in _CONTENT_KEYS):
        return "Edit"
    replaces = any(isinstance(value.get(key), str) for key in (*OLD_TEXT_KEYS, *NEW_TEXT_KEYS))
    return "Edit" if replaces else "Write"


def _editor(value: Mapping[str, Any], call_id: str) -> str:
    """Rule for tools that combine several: Anthropic's text editor has a `command`; Cline's `editor` depends on its
    arguments."""
    command = value.get("command")
    if command == "view":
        return "Read"
    if command == "create":
        return "Write"
    changes_a_part = value.get("insert_line") is not None or any(_filled(value.get(key), str) for key in OLD_TEXT_KEYS)
    return "Edit" if command is not None or changes_a_part else "Write"


def _fetch(value: Mapping[str, Any], call_id: str) -> str | None:
    if _any_nonblank(value, ("url", "href", "uri", "link")):
        return "WebFetch"
    if _any_nonblank(value, ("query", "q", "text", "pattern", "information_request", "informationRequest")):
        return "WebSearch"
    return None


def _search(value: Mapping[str, Any], call_id: str) -> str:
    # codex-acp 2.6.0 reports web searches with kind `search`; the type of the item is in the input.
    return "WebSearch" if name_key(str(value.get("type"))) == "websearch" else "CodeSearch"


def _todo(value: Mapping[str, Any], call_id: str) -> str:
    """Rule for `todo`: Vibe reads and writes the list with the same tool."""
    return "TodoRead" if value.get("action") == "read" else "TodoWrite"


def _collaboration(value: Mapping[str, Any], call_id: str) -> str | None:
    """Rule for Codex's collaboration items, which name the tool in `tool`, without the suffix `agent` (`wait`)."""
    tool = name_key(str(value.get("tool")))
    return TOOL_NAMES.get(tool) or TOOL_NAMES.get(f"{tool}agent")


def _any_nonblank(value: Mapping[str, Any], keys: tuple[str, ...]) -> bool:
    return any(_nonblank(value.get(key)) for key in keys)


def _nonblank(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _filled(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and bool(value)


_RULES: dict[_ByInput, str] = {
    _unknown_tool: "unknown_tool",
    _delete: "delete remove delete_file remove_file remove_files",
    _write: "write write_file write_to_file create create_file save_file",
    _edit: "edit edit_file replace replace_in_file replace_string_in_file str_replace str_replace_file search_replace",
    _editor: "editor file_editor str_replace_editor str_replace_based_edit_tool",
    _fetch: "fetch",
    _search: "search",
    _todo: "todo",
    _collaboration: "collab_tool_call collab_agent_tool_call",
}

BY_INPUT = {name_key(raw): rule for rule, names in _RULES.items() for raw in names.split()}
"""`name_key` of a raw name -> rule, if the name alone does not decide."""
