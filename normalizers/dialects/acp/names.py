"""Name of the tool that an ACP call runs.

The protocol states a kind and a title for each call, and only recently a name. The first of these with a name wins:
the update, or a vendor's part of it; Codex's own event; the call's id; the title, if it has the form of a name; an
input that only one tool has; else the kind.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from tooltap.normalizers.dialects.opencode.answers import split_mcp_name
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.tools.registry import CANONICAL_TOOLS
from tooltap.normalizers.wire.values import first_string, record, string

DEFAULT_KIND = "other"
"""The protocol's default."""
KINDS = ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", DEFAULT_KIND)
PROXY = "tool_call"
"""Qwen Code 0.24.4: calls a tool that was not offered up front, by its name and arguments."""
CODEX_EVENT = {"parsed_cmd": "exec_command", "changes": "patch_apply"}
"""The codex-acp of Zed (0.16.0) sends Codex's own events as raw input: a key beside `call_id` -> the tool's name."""


def raw_name(update: dict[str, Any], call_id: str) -> str:
    """The agent's name for the tool of a call, read from what the updates of the call have stated."""
    title = string(update.get("title")) or ""
    kind = string(update.get("kind")) or DEFAULT_KIND
    found = stated_name(update) or name_in_id(call_id) or _name_in_title(title, kind, update.get("rawInput"))
    return found or _name_by_input(title, kind, record(update.get("rawInput"))) or kind


# -- stated ---------------------------------------------------------------------------------------------------------

_NAMES_IN_RAW = frozenset({"_toolName", "arguments", "call_id"})


def stated_name(update: dict[str, Any]) -> str | None:
    """The name in an update: its own field, else one in a vendor's `_meta` or beside the arguments in the raw input."""
    name: Any = update.get("name")
    if not name or type(name) is not str:
        meta = update.get("_meta")
        name = _name_in_meta(meta) if meta and type(meta) is dict else None
    raw = update.get("rawInput")
    if type(raw) is not dict or _NAMES_IN_RAW.isdisjoint(raw):
        return None if name is None else str(name)
    if name == PROXY:
        return first_string(raw, "name") if "arguments" in raw else PROXY
    if name is not None:
        return str(name)
    if name := first_string(raw, "_toolName"):  # Cursor
        return name
    if "call_id" in raw:
        return next((tool for key, tool in CODEX_EVENT.items() if key in raw), None)
    is_named = isinstance(raw.get("arguments"), dict) and "server" not in raw
    return first_string(raw, "tool") if is_named else None  # Hermes, in permission requests


def _name_in_meta(meta: dict[str, Any]) -> str | None:
    """The name in a vendor's object, or in the `toolCall` of one."""
    owners = [meta]
    for owner in meta.values():
        if type(owner) is dict:
            owners.append(owner)
    for owner in owners:
        if name := first_string(owner, "toolName", "tool_name"):
            return name
    for owner in owners:  # goose
        if "toolCall" in owner and (name := first_string(record(owner["toolCall"]), "toolName", "tool_name")):
            return name
    return first_string(record(meta["x.ai/tool"]), "name") if "x.ai/tool" in meta else None  # Grok


# -- in the id ------------------------------------------------------------------------------------------------------

_ID_NAMES = (
    # Gemini CLI: `read_file__read_file_1795293973564_0`, a tool's name, `__`, and the model's id or a synthetic one.
    re.compile(r"(?P<name>.{1,128}?)__(?P=name)_\d"),
    re.compile(r"(?P<name>[a-z][a-z0-9]*(?:_[a-z0-9]+)*)__"),
)
_STAMPED_IDS = {
    "-": re.compile(r"(?P<name>[A-Za-z][\w.]*)-\d{12,}"),  # before 0.50: `run_shell_command-1769335045695`
    ":": re.compile(r"(?P<name>[a-z]+(?:_[a-z]+)+):[0-9a-f]{8}-"),  # codex-acp 2.6.0: `guardian_assessment:` and a UUID
}


def name_in_id(call_id: str) -> str | None:
    """The tool's name in the id of a call, or None."""
    if "__" in call_id:
        for pattern in _ID_NAMES:
            if found := pattern.match(call_id):
                return found["name"]
    for separator, pattern in _STAMPED_IDS.items():
        if separator in call_id and (found := pattern.match(call_id)):
            return found["name"]
    return None


# -- in the title ---------------------------------------------------------------------------------------------------

_WORD = re.compile(r"[A-Za-z_][\w-]*")
_HUMP = re.compile(r"[a-z][A-Z]")
_NAMED_TITLE = re.compile(r"(?P<name>[A-Za-z_]\w*)(?: \([^)]*\))?: .")
"""Kimi `Shell: ls`, Qwen Code `ReadFile: a.py`, Hermes `patch (replace): a.py`."""
_VERB_TITLE = re.compile(r"(?P<name>[A-Z][A-Za-z]+) `?(?P<object>.+?)`?", re.DOTALL)
"""Droid 0.215 `Grep greet`, ``Edit `/ws/a.py` ``."""


def _name_in_title(title: str, kind: str, raw: Any) -> str | None:
    """A title in the form of an MCP call; a known name before a colon, or before what it is called with; one word that
    is neither an argument nor a description.

    The first title of OpenCode and of Kimi Code is the tool's name, while the input is empty or has only the directory.
    When OpenCode replays a session, the input is whole and the title is an argument. Copilot's title is what the model
    says that the call is for, which may be one word, too (`List`).
    """
    if _match_mcp_title(title) is not None:
        return title
    named = _NAMED_TITLE.match(title) if ": " in title else None
    if named and _is_known(named["name"]):
        return named["name"]
    given = type(raw) is dict and says_more(raw)
    if _WORD.fullmatch(title):
        if not given:
            is_name = kind == DEFAULT_KIND or type(raw) is dict or _is_known(title, kind)
            return title if is_name else None
        return title if kind == DEFAULT_KIND and title not in raw.values() and _is_identifier(title) else None
    verb = _VERB_TITLE.fullmatch(title) if given and len(title) <= _TITLE else None
    return verb["name"] if verb and verb["object"] in raw.values() and _is_known(verb["name"]) else None


def _is_identifier(word: str) -> bool:
    """Whether it is no English word at the beginning of a sentence."""
    if word[0] == "_" or "a" <= word[0] <= "z":
        return True
    return "-" not in word and ("_" in word[1:-1] or _HUMP.search(word) is not None)


_TITLE = 1_024
"""Characters of a title that may be a verb and a path."""


def _is_known(name: str, kind: str | None = None) -> bool:
    """Whether it is a tool's name. A command may have one, too (`ls`)."""
    canonical = canonical_name(name, {}, "")
    return canonical == "Bash" if kind == "execute" else canonical in CANONICAL_TOOLS and canonical != "CodeSearch"


def says_more(raw: dict[str, Any]) -> bool:
    """Whether a raw input has more than the directory."""
    return len(raw) > ("cwd" in raw)


# -- by the input ---------------------------------------------------------------------------------------------------

_BEGINNINGS = (
    ("Viewing ", "path", "view"),
    ("Searching for '", "pattern", "grep"),
    ("Finding files matching ", "pattern", "glob"),
    ("Sending input to shell", "shellId", "write_bash"),
    ("Stopping shell session", "shellId", "stop_bash"),
    ("Using skill", "skill", "skill"),
)
"""Beginnings of the titles of Copilot CLI 1.0.102, which states no names; a key of the input; the tool."""
_ONLY_TOOL = (
    ({"agent_type", "prompt"}, "task"),
    ({"subagent_type", "prompt"}, "task"),
    ({"path", "file_text"}, "create"),
    ({"shellId", "delay"}, "read_bash"),
    ({"description", "query", "source"}, "session_store_sql"),
    ({"description", "query"}, "sql"),
    ({"pattern", "output_mode"}, "grep"),
    ({"todos"}, "todo_write"),
    ({"questions"}, "ask_user_question"),
)
"""Keys that only one tool has in its input. Copilot CLI 1.0.102, as far as no other agent is known to send them."""
_GLOB = re.compile(r"(?:^|/)\*")
"""No regular expression begins with an asterisk."""
_SEARCHES_WEB = re.compile(r"(?:Web search|Searching (?:the Web|for: ))", re.IGNORECASE)
"""Copilot CLI 1.0.102, codex-acp 0.16.0: kind `fetch`, and in the first line no input."""


def _name_by_input(title: str, kind: str, raw: dict[str, Any]) -> str | None:
    """The only tool that has such an input; None if the kind says as much."""
    if kind == "execute":
        return None
    for beginning, key, name in _BEGINNINGS:
        if key in raw and title.startswith(beginning):
            return name
    for keys, name in _ONLY_TOOL:
        if keys <= raw.keys():
            return name
    if kind == "fetch" and not first_string(raw, "url") and _SEARCHES_WEB.match(title):
        return "web_search"
    pattern = string(raw.get("pattern"))
    if pattern is None or kind not in ("read", "search"):
        return None
    return "glob" if _GLOB.search(pattern) else "grep"


# -- MCP ------------------------------------------------------------------------------------------------------------

_MCP_TITLES = {
    "mcp.": re.compile(r"mcp\.(?P<server>[^.\s]+)\.(?P<tool>\S+)"),  # codex-acp 2.6.0
    "Tool: ": re.compile(r"Tool: (?P<server>[^/\s]+)/(?P<tool>\S+)"),  # codex-acp before 1.0
    " MCP Server)": re.compile(r"(?P<tool>\S+) \((?P<server>.+) MCP Server\)"),  # Gemini CLI
    " (MCP)": re.compile(r"(?P<server>.+) - (?P<tool>\S+) \(MCP\)"),  # Claude Code
}
"""A part of a title -> the form of the whole title."""
_SERVER_KEYS = (("server", "tool"), ("providerIdentifier", "toolName"))
"""Keys of an MCP server and its tool in a raw input: Codex; Cursor."""
_ANNOUNCED_TITLE = re.compile(r"(?P<server>.+?) - (?P<tool>[\w.-]+)")


def mcp_name(name: str, title: str, raw_input: Any, servers: Collection[str]) -> str | None:
    """`mcp__<server>__<tool>`, if the wire or the name of an announced server shows where to split."""
    if type(raw_input) is dict:
        owner = record(raw_input.get("invocation")) or raw_input
        for server_key, tool_key in _SERVER_KEYS:
            if server_key in owner and tool_key in owner:
                server, tool = owner[server_key], owner[tool_key]
                if type(server) is str and type(tool) is str:
                    return _joined(server, tool)
    if found := _match_mcp_title(name, title):
        return _joined(found["server"], found["tool"])
    if not servers:
        return None
    announced = _ANNOUNCED_TITLE.fullmatch(title) if " - " in title and name in KINDS else None
    if announced and announced["server"] in servers:
        return _joined(announced["server"], announced["tool"])
    # Without a character between them, there are no server and tool in it.
    if name.isalnum() or name.startswith("mcp__") or canonical_name(name, {}, "") != name:
        return None
    splits = split_mcp_name(name.removeprefix("mcp_"), servers)
    return next((_joined(server, tool.removeprefix("_")) for server, tool in splits if tool != "_"), None)


def _match_mcp_title(*titles: str) -> re.Match[str] | None:
    for sign, pattern in _MCP_TITLES.items():
        for title in titles:
            if sign in title and (found := pattern.fullmatch(title)):
                return found
    return None


def _joined(server: str, tool: str) -> str:
    return f"mcp__{server}__{tool}"
