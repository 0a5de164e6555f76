"""What the tool of an ACP call is called: the protocol has a kind and a title, and only lately a name.

`raw_name` finds the agent's own name for the tool, `mcp_name` the server and tool of a call to an MCP server.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.tools.tool_names import CANONICAL_TOOLS
from tooltap.normalizers.wire.values import record, records, string

__all__ = ["mcp_name", "raw_name", "stated_name"]

DEFAULT_KIND = "other"
"""The protocol's default."""
_KINDS = ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", DEFAULT_KIND)

_ID_NAMES = (
    # Gemini CLI: `read_file__read_file_1795293973564_0`, a tool's name, `__`, and the id of the model or a made-up one.
    re.compile(r"(?P<name>.+?)__(?P=name)_\d"),
    re.compile(r"(?P<name>[a-z][a-z0-9]*(?:_[a-z0-9]+)*)__"),
    # Before 0.50: `run_shell_command-1769335045695`.
    re.compile(r"(?P<name>[A-Za-z][\w.]*)-\d{12,}"),
)
_WORD = re.compile(r"[A-Za-z_][\w-]*")
_NAMED_TITLE = re.compile(
    r"(?P<name>[A-Za-z_]\w*)(?: \([^)]*\))?: ."
)  # Kimi `Shell: ls`, Hermes `patch (replace): a.py`
_MCP_TITLES = {
    "mcp.": re.compile(r"mcp\.(?P<server>[^.\s]+)\.(?P<tool>\S+)"),  # codex-acp 2.6.0
    "Tool: ": re.compile(r"Tool: (?P<server>[^/\s]+)/(?P<tool>\S+)"),  # codex-acp before 1.0
    " MCP Server)": re.compile(r"(?P<tool>\S+) \((?P<server>.+) MCP Server\)"),  # Gemini CLI
    " (MCP)": re.compile(r"(?P<server>.+) - (?P<tool>\S+) \(MCP\)"),  # Claude Code
}
"""What is in a title of the form -> the form."""
_ANNOUNCED_TITLE = re.compile(r"(?P<server>.+?) - (?P<tool>[\w.-]+)")
_NOT_IN_WORDS = re.compile(r"\W")


def stated_name(update: dict[str, Any]) -> str | None:
    """The name field of an update, else the one in a vendor's `_meta` or beside the arguments in the raw input."""
    for owner, key in _name_places(update):
        name = owner.get(key)
        if isinstance(name, str) and name:
            return name
    return None


def _name_places(update: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    yield update, "name"
    if meta := record(update.get("_meta")):
        owners = [meta, *records(list(meta.values()))]
        owners += [record(owner.get("toolCall")) for owner in owners]  # goose
        yield from ((owner, key) for owner in owners for key in ("toolName", "tool_name"))
        yield record(meta.get("x.ai/tool")), "name"  # Grok
    raw = record(update.get("rawInput"))
    yield raw, "_toolName"  # Cursor
    if isinstance(raw.get("arguments"), dict) and "server" not in raw:
        yield raw, "tool"  # Hermes, in permission requests


def raw_name(update: dict[str, Any], call_id: str) -> str:
    """The agent's name for the tool of a call, told from the update that opens it."""
    title = string(update.get("title")) or ""
    kind = string(update.get("kind")) or DEFAULT_KIND
    return stated_name(update) or _name_in_id(call_id) or _name_in_title(title, kind, update) or kind


def _name_in_id(call_id: str) -> str | None:
    return next((found["name"] for pattern in _ID_NAMES if (found := pattern.match(call_id))), None)


def _name_in_title(title: str, kind: str, update: dict[str, Any]) -> str | None:
    """A title in an MCP form; or a known name before a colon; or one word that cannot be an argument.

    OpenCode's first title is the tool's name, as long as the input is empty but for the directory; when it tells an
    old session again, the input is whole and the title is an argument.
    """
    if _match_mcp_title(title) is not None:
        return title
    named = _NAMED_TITLE.match(title)
    if named and canonical_name(named["name"], {}, "") in CANONICAL_TOOLS:
        return named["name"]
    raw_input = update.get("rawInput")
    not_yet = isinstance(raw_input, dict) and not raw_input.keys() - {"cwd"}
    return title if _WORD.fullmatch(title) and (not_yet or kind == DEFAULT_KIND) else None


def mcp_name(name: str, title: str, raw_input: Any, servers: Collection[str]) -> str | None:
    """`mcp__<server>__<tool>`, where the wire or an announced server's name says where to split."""
    raw = record(raw_input)
    owner = record(raw.get("invocation")) or raw
    for server_key, tool_key in (("server", "tool"), ("providerIdentifier", "toolName")):  # Codex; Cursor
        server, tool = owner.get(server_key), owner.get(tool_key)
        if isinstance(server, str) and isinstance(tool, str):
            return _joined(server, tool)
    if found := _match_mcp_title(name, title):
        return _joined(found["server"], found["tool"])
    announced = _ANNOUNCED_TITLE.fullmatch(title) if name in _KINDS else None
    if announced and announced["server"] in servers:
        return _joined(announced["server"], announced["tool"])
    if name.startswith("mcp__") or canonical_name(name, {}, "") != name:
        return None
    rest = name.removeprefix("mcp_")
    spelled = _spelled(rest)
    for server in sorted(servers, key=len, reverse=True):
        prefix = _spelled(server) + "_"
        if spelled.startswith(prefix) and (called := rest[len(prefix) :].removeprefix("_")):
            return _joined(server, called)
    return None


def _match_mcp_title(*titles: str) -> re.Match[str] | None:
    for sign, pattern in _MCP_TITLES.items():
        for title in titles:
            if sign in title and (found := pattern.fullmatch(title)):
                return found
    return None


def _spelled(name: str) -> str:
    """As agents spell a server's name in a tool's: whatever is no letter or digit may have become `_`."""
    return _NOT_IN_WORDS.sub("_", name)


def _joined(server: str, tool: str) -> str:
    return f"mcp__{server}__{tool}"
