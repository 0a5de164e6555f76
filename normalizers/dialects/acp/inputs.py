"""The tools of ACP calls: their names, and what they were called with.

The protocol has a kind and a title for each call, and only since recently a name. The input is the raw input, if the
agent sends one. Gemini CLI and others do not: then it is what the title, the diffs and the locations state.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, NamedTuple

import msgspec

from tooltap.normalizers.dialects.acp.content import diffs, text_of
from tooltap.normalizers.dialects.opencode.answers import split_mcp_name
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.tools.tool_names import CANONICAL_TOOLS
from tooltap.normalizers.wire.values import first_string, record, records, string

__all__ = ["ToolUse", "decoded", "json_object", "mcp_name", "raw_name", "read_input", "stated_name"]


class ToolUse(msgspec.Struct, omit_defaults=True):
    """What the updates of an open call have stated so far, merged. `Call.memory` holds it between lines."""

    kind: str | None = None
    title: str | None = None
    raw_input: Any = None
    """None: the agent sent none."""
    content: list[Any] = []
    """Shown before the call ran: diffs, a description, an MCP call's arguments."""
    locations: list[Any] = []
    running: str | None = None
    """Shown while the call ran: the whole output so far."""
    terminals: list[str] = []
    response: Any = None
    """claude-agent-acp: the tool's own result object, which arrives before the result."""

    def memory(self) -> dict[str, Any]:
        """What was stated, as `Call.memory` holds it: in the order of the fields."""
        memory: dict[str, Any] = {}
        if self.kind is not None:
            memory["kind"] = self.kind
        if self.title is not None:
            memory["title"] = self.title
        if self.raw_input is not None:
            memory["raw_input"] = self.raw_input
        if self.content:
            memory["content"] = self.content
        if self.locations:
            memory["locations"] = self.locations
        if self.running is not None:
            memory["running"] = self.running
        if self.terminals:
            memory["terminals"] = self.terminals
        if self.response is not None:
            memory["response"] = self.response
        return memory

    @property
    def has_input(self) -> bool:
        """Whether the agent has stated the input; `{}`, or a directory alone, means that it will."""
        raw = self.raw_input
        return (_says_more(raw) if type(raw) is dict else bool(raw)) or bool(diffs(self.content))


def read_input(use: ToolUse, name: str, mcp: str | None) -> tuple[Any, str | None]:
    """The input of the call named `name`, and its canonical name if the wire states more than the raw name.

    `mcp`: its canonical name, if it is a tool of an MCP server."""
    raw = decoded(use.raw_input)
    if type(raw) is dict:
        if mcp is not None and isinstance(raw.get("invocation"), dict):
            raw = raw["invocation"]
        if ("arguments" in raw or "args" in raw) and (arguments := _arguments(raw, name, mcp)) is not None:
            return arguments, mcp
        if _says_more(raw):
            return raw, mcp
    elif raw is not None:
        return raw, mcp
    if mcp is not None:
        return {**(raw or {}), **json_object(text_of(use.content))}, mcp
    value, canonical = _read_shown(use, name, raw is None)
    return {**(raw or {}), **value}, canonical


def _says_more(raw: dict[str, Any]) -> bool:
    """Whether a raw input has more than the directory."""
    return len(raw) > ("cwd" in raw)


def json_object(text: str | None) -> dict[str, Any]:
    """The object that a text is the JSON of, else {}."""
    if text is None or not text.lstrip().startswith("{"):
        return {}
    try:
        return record(msgspec.json.decode(text))
    except msgspec.DecodeError:
        return {}


def decoded(raw: Any) -> Any:
    """Vibe sends its raw input and output as strings of JSON."""
    return json_object(raw) or raw if isinstance(raw, str) else raw


def _arguments(raw: dict[str, Any], name: str, mcp: str | None) -> dict[str, Any] | None:
    """The arguments in a raw input that also names the tool."""
    for key in ("arguments", "args"):
        if key in raw and (mcp is not None or len(raw) == 1 or raw.get("tool") == name):
            return record(raw[key])
    return None


def _read_shown(use: ToolUse, name: str, never_sent: bool) -> tuple[dict[str, Any], str | None]:
    """The input as the diffs and locations state it; if the agent sends no raw input at all, also the title."""
    if use.content and (changes := [change for diff in diffs(use.content) for change in _changes(diff)]):
        shown, suggested = _read_changes(changes, name)
        return shown, suggested if name in _NAMELESS else None
    canonical = canonical_name(name, {}, "")
    value: dict[str, Any] = {}
    if use.locations and canonical != "Bash":
        paths = [path for item in records(use.locations) if (path := string(item.get("path")))]
        if paths:
            value = {"file_paths": paths} if len(paths) > 1 else {"file_path": paths[0]}
    title = (use.title or "").removeprefix(f"{name}: ")
    is_command = canonical == "Bash" and _BACKTICKS.fullmatch(title)
    if (never_sent or is_command) and title not in ("", name):
        value |= _read_title(title, name, canonical, use)
    return value, None


# -- diffs ----------------------------------------------------------------------------------------------------------

_NAMELESS = ("edit", "other", "unknown")
"""Raw names that are only a kind."""
_PATCH_KINDS = {"modify": "update", "move": "update", "copy": "add"}


class Change(NamedTuple):
    """One change of one file."""

    path: str
    kind: str
    """add, update, delete, or another word of the agent."""
    old: str | None = None
    new: str | None = None
    moved_from: str | None = None
    patch: str | None = None


def _changes(diff: dict[str, Any]) -> list[Change]:
    """v1 has one file's texts; v2 has a list of files, and one patch over them."""
    path = string(diff.get("path"))
    if path is not None:
        kind = string(record(diff.get("_meta")).get("kind")) or ""
        return [Change(path, kind, string(diff.get("oldText")), string(diff.get("newText")))]
    text = string(record(diff.get("patch")).get("text"))
    return [
        Change(path, str(item.get("operation")), moved_from=string(item.get("oldPath")), patch=text)
        for item in records(diff.get("changes"))
        if (path := string(item.get("path")))
    ]


def _read_changes(changes: list[Change], name: str) -> tuple[dict[str, Any], str]:
    """The diffs as the input of the tool `name`, and the canonical name that they suggest."""
    first = changes[0]
    is_whole_patch = len({change.path for change in changes}) > 1 or (first.old is None and first.new is None)
    if is_whole_patch or canonical_name(name, {}, "") == "Patch":
        return {"changes": _patch_entries(changes)}, "Patch"
    if len(changes) > 1:
        return {"file_path": first.path, "edits": [_edit(change) for change in changes]}, "MultiEdit"
    if first.kind == "delete":
        return {"file_path": first.path}, "Delete"
    written = {"file_path": first.path, "content": first.new or ""}
    edit = {"file_path": first.path, **_edit(first)}
    is_new = not first.old and first.kind not in ("update", "modify")
    if name not in _NAMELESS:
        is_new = canonical_name(name, written if is_new else edit, "") == "Write"
    return (written, "Write") if is_new else (edit, "Edit")


def _edit(change: Change) -> dict[str, Any]:
    return {"old_string": change.old or "", "new_string": change.new or ""}


def _patch_entries(changes: list[Change]) -> dict[str, Any]:
    """Path -> what happens to the file; several changes of one file become its `edits`."""
    entries: dict[str, Any] = {}
    for change in changes:
        same_file = [one for one in changes if one.path == change.path]
        if len(same_file) == 1:
            entries[change.moved_from or change.path] = _patch_entry(change)
        else:
            entries[change.path] = {"type": "update", "edits": [_edit(one) for one in same_file]}
    return entries


def _patch_entry(change: Change) -> dict[str, Any]:
    kind = _PATCH_KINDS.get(change.kind, change.kind) or ("update" if change.old else "add")
    entry: dict[str, Any] = {"type": kind, "unified_diff": change.patch}
    if change.moved_from is not None:
        entry["move_path"] = change.path
    if kind in ("add", "delete"):
        entry["content"] = change.new if kind == "add" else change.old
    else:
        entry |= {"old_content": change.old, "new_content": change.new}
    return {key: value for key, value in entry.items() if value is not None}


# -- titles ---------------------------------------------------------------------------------------------------------

_SHELL_NOTE = re.compile(
    r" ?\[(?:current working directory|in) (?P<cwd>[^\]]*)\](?: \((?P<description>.*)\))?", re.DOTALL
)
_BACKTICKS = re.compile(r"`(?P<command>.+)`", re.DOTALL)
_QUOTED = re.compile(r'"(.*)"', re.DOTALL)
_URL = re.compile(r"https?://[^\s\"'<>]+")
_PATTERN = re.compile(r"'(?P<pattern>.*?)'(?: in (?P<include>.+?))?(?: within (?P<path>.+))?", re.DOTALL)


def _read_title(title: str, name: str, canonical: str, use: ToolUse) -> dict[str, Any]:
    """The input as the title states it, in a form of its own for each tool. The examples are Gemini CLI's."""
    if canonical == "Bash":
        return _command(title, use)
    if canonical in ("Grep", "Glob"):  # `'greet' in *.py within src`
        return _groups(_PATTERN.fullmatch(title))
    quoted, url = _QUOTED.search(title), _URL.search(title)
    if canonical == "WebSearch":  # `Searching the web for: "fixture page answer"`
        return {"query": quoted[1]} if quoted else {}
    if canonical == "WebFetch" or name == "fetch":  # `Processing URLs and … from prompt: "Summarise http://…"`
        return {**({"url": url[0]} if url else {}), **({"prompt": quoted[1]} if quoted else {})}
    return {"path": title} if name == "list_directory" else {}


def _command(title: str, use: ToolUse) -> dict[str, Any]:
    """Gemini CLI 0.61: the title is the command, the text `[current working directory /ws] (what it is for)`; older
    versions have both in the title. Others put the command in backticks; Hermes truncates it there, and has the whole
    of it in the text, after `$ `."""
    text = text_of(use.content) or ""
    if use.kind is None:
        return {}
    if use.kind != "execute":  # codex-acp shows a command that reads as `Read file 'src/app.py'`, without the command
        return {"description": title}
    if text.startswith("$ "):
        return {"command": text[2:]}
    note = _SHELL_NOTE.search(title)
    command = title[: note.start()] if note else title
    if quoted := _BACKTICKS.fullmatch(command):
        command = quoted["command"]
    return {"command": command, **_groups(note or _SHELL_NOTE.fullmatch(text))}


def _groups(found: re.Match[str] | None) -> dict[str, Any]:
    return {key: value for key, value in found.groupdict().items() if value} if found else {}


# -- names ----------------------------------------------------------------------------------------------------------

DEFAULT_KIND = "other"
"""The protocol's default."""
_KINDS = ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", DEFAULT_KIND)

_ID_NAMES = (
    # Gemini CLI: `read_file__read_file_1795293973564_0`, a tool's name, `__`, and the model's id or a synthetic one.
    re.compile(r"(?P<name>.+?)__(?P=name)_\d"),
    re.compile(r"(?P<name>[a-z][a-z0-9]*(?:_[a-z0-9]+)*)__"),
)
# Before 0.50: `run_shell_command-1769335045695`.
_STAMPED_ID = re.compile(r"(?P<name>[A-Za-z][\w.]*)-\d{12,}")
_WORD = re.compile(r"[A-Za-z_][\w-]*")
# Kimi `Shell: ls`, Hermes `patch (replace): a.py`.
_NAMED_TITLE = re.compile(r"(?P<name>[A-Za-z_]\w*)(?: \([^)]*\))?: .")
_MCP_TITLES = {
    "mcp.": re.compile(r"mcp\.(?P<server>[^.\s]+)\.(?P<tool>\S+)"),  # codex-acp 2.6.0
    "Tool: ": re.compile(r"Tool: (?P<server>[^/\s]+)/(?P<tool>\S+)"),  # codex-acp before 1.0
    " MCP Server)": re.compile(r"(?P<tool>\S+) \((?P<server>.+) MCP Server\)"),  # Gemini CLI
    " (MCP)": re.compile(r"(?P<server>.+) - (?P<tool>\S+) \(MCP\)"),  # Claude Code
}
"""A part of a title -> the form of the whole title."""
_SERVER_KEYS = (("server", "tool"), ("providerIdentifier", "toolName"))
"""Where a raw input has an MCP server and its tool: Codex; Cursor."""
_ANNOUNCED_TITLE = re.compile(r"(?P<server>.+?) - (?P<tool>[\w.-]+)")


_NAMES_IN_RAW = frozenset({"_toolName", "arguments"})


def stated_name(update: dict[str, Any]) -> str | None:
    """The name in an update: its own field, else one in a vendor's `_meta` or beside the arguments in the raw input."""
    name: Any = update.get("name")
    if name and type(name) is str:
        return name
    meta = update.get("_meta")
    if meta and type(meta) is dict and (name := _name_in_meta(meta)) is not None:
        return name
    raw = update.get("rawInput")
    if type(raw) is not dict or _NAMES_IN_RAW.isdisjoint(raw):
        return None
    if name := first_string(raw, "_toolName"):  # Cursor
        return name
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


def raw_name(update: dict[str, Any], call_id: str) -> str:
    """The agent's name for the tool of a call, read from the update that opens the call."""
    title = string(update.get("title")) or ""
    kind = string(update.get("kind")) or DEFAULT_KIND
    return stated_name(update) or _name_in_id(call_id) or _name_in_title(title, kind, update) or kind


def _name_in_id(call_id: str) -> str | None:
    if "__" in call_id:
        for pattern in _ID_NAMES:
            if found := pattern.match(call_id):
                return found["name"]
    found = _STAMPED_ID.match(call_id) if "-" in call_id else None
    return found["name"] if found else None


def _name_in_title(title: str, kind: str, update: dict[str, Any]) -> str | None:
    """A title in the form of an MCP call; or a known name before a colon; or one word that cannot be an argument.

    OpenCode's first title is the tool's name, while the input is empty except for the directory. When it replays a
    session, the input is whole and the title is an argument.
    """
    if _match_mcp_title(title) is not None:
        return title
    named = _NAMED_TITLE.match(title) if ": " in title else None
    if named and canonical_name(named["name"], {}, "") in CANONICAL_TOOLS:
        return named["name"]
    raw_input = update.get("rawInput")
    not_yet = type(raw_input) is dict and not _says_more(raw_input)
    return title if _WORD.fullmatch(title) and (not_yet or kind == DEFAULT_KIND) else None


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
    announced = _ANNOUNCED_TITLE.fullmatch(title) if " - " in title and name in _KINDS else None
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
