"""Tool name and input of an ACP call.

The protocol states a kind and a title for each call, and only recently a name. The first of these with a name wins: the
update, or a vendor's part of it; Codex's own event; the call's id; the title, if it has the form of a name; an input
that only one tool has; else the kind.

The input is the raw input, if the agent sends one. Gemini CLI and others send none: then the input is rebuilt from the
title, the diffs and the locations.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, NamedTuple

import msgspec

from tooltap.normalizers.dialects.acp.content import diffs, text_of
from tooltap.normalizers.dialects.opencode.answers import split_mcp_name
from tooltap.normalizers.tools.files import PATH_KEYS
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.tools.registry import CANONICAL_TOOLS
from tooltap.normalizers.tools.web import urls_in
from tooltap.normalizers.wire.decode import decode_text
from tooltap.normalizers.wire.values import first_string, record, records, string

DEFAULT_KIND = "other"
"""Kind of a call that states none."""
KINDS = ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", DEFAULT_KIND)
PROXY = "tool_call"
"""Qwen Code 0.24.4: raw name of the tool that calls tools not offered up front, given their name and arguments."""
CODEX_EVENT = {"parsed_cmd": "exec_command", "changes": "patch_apply"}
"""Key beside `call_id` in a raw input -> raw tool name. Zed's codex-acp (0.16.0) sends Codex's own events as raw
input."""


def raw_name(update: dict[str, Any], call_id: str) -> str:
    """Return the agent's name for a call's tool, from the merged updates of the call."""
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
"""Titles with a name before a colon: Kimi `Shell: ls`, Qwen Code `ReadFile: a.py`, Hermes `patch (replace): a.py`."""
_VERB_TITLE = re.compile(r"(?P<name>[A-Z][A-Za-z]+) `?(?P<object>.+?)`?", re.DOTALL)
"""Titles of a verb and its object: Droid 0.215 `Grep greet`, ``Edit `/ws/a.py` ``."""


def _name_in_title(title: str, kind: str, raw: Any) -> str | None:
    """Tool name in a title, or None. Recognised are the form of an MCP call; a known name before a colon or before its
    argument; and a single word that is neither an argument nor a description.

    The first title of OpenCode and of Kimi Code is the tool's name, while the input is empty or has only the directory.
    When OpenCode replays a session, the input is whole and the title is an argument. Copilot's title is the model's
    description of the call, which may be one word, too (`List`).
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
        if title == "wait" and "receiverThreadIds" in raw:  # codex-acp's word for it; Vibe's `wait` sleeps
            return "wait_agent"
        return title if kind == DEFAULT_KIND and title not in raw.values() and _is_identifier(title) else None
    verb = _VERB_TITLE.fullmatch(title) if given and len(title) <= _TITLE else None
    return verb["name"] if verb and verb["object"] in raw.values() and _is_known(verb["name"]) else None


def _is_identifier(word: str) -> bool:
    """Return whether a word looks like an identifier, not like the first English word of a sentence."""
    if word[0] == "_" or "a" <= word[0] <= "z":
        return True
    return "-" not in word and ("_" in word[1:-1] or _HUMP.search(word) is not None)


_TITLE = 1_024
"""Maximum length of a title that is parsed as a verb and a path, in characters."""


def _is_known(name: str, kind: str | None = None) -> bool:
    """Return whether `name` is a known tool's name. With the kind `execute`, it must be a shell's: a title may also be
    a command such as `ls`."""
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
"""Titles of Copilot CLI 1.0.102, which states no names: (beginning of the title, key that the input must have,
tool)."""
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
"""Sets of keys that only one tool has in its input, and that tool: Copilot CLI 1.0.102, as far as no other agent is
known to send these keys."""
_OF_READ_AGENT = frozenset({"agent_id", "wait", "timeout"})
"""Keys that Copilot's `read_agent` has in its input, and nothing else, as exported sessions in public repositories have
it."""
_GLOB = re.compile(r"(?:^|/)\*")
"""Glob pattern: no regular expression begins with an asterisk."""
_SEARCHES_WEB = re.compile(r"(?:Web search|Searching (?:the Web|for: ))", re.IGNORECASE)
"""Titles of web searches in Copilot CLI 1.0.102 and codex-acp 0.16.0: the kind is `fetch`, and the first line has no
input."""


def _name_by_input(title: str, kind: str, raw: dict[str, Any]) -> str | None:
    """Return the raw name of the tool that the input and title identify, or None. A call of the kind `execute` runs a
    command, or steers one that runs (Copilot's `stop_bash`)."""
    if kind == "execute" and "command" in raw:
        return None
    for beginning, key, name in _BEGINNINGS:
        if key in raw and title.startswith(beginning):
            return name
    if kind == "execute":
        return None
    for keys, name in _ONLY_TOOL:
        if keys <= raw.keys():
            return name
    if "agent_id" in raw and raw.keys() <= _OF_READ_AGENT:
        return "read_agent"
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
"""Substring that a title must contain -> pattern of the whole title."""
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


# -- inputs -------------------------------------------------------------------------------------------------------


class ToolUse(msgspec.Struct, omit_defaults=True):
    """The merged updates of an open call so far. `Call.memory` holds it between lines."""

    kind: str | None = None
    title: str | None = None
    raw_input: Any = None
    """The agent's raw input; None if it sent none."""
    content: list[Any] = []
    """Content shown before the call ran: diffs, a description, an MCP call's arguments."""
    locations: list[Any] = []
    running: str | None = None
    """Output shown while the call ran: the whole text so far."""
    streams_input: bool = False
    """True if the content is the text of the arguments, as written by the model so far."""
    terminals: list[str] = []
    response: Any = None
    """claude-agent-acp: the tool's own result object, which arrives before the result."""

    def memory(self) -> dict[str, Any]:
        """The stated fields as a dict for `Call.memory`, in the order of the struct."""
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
        if self.streams_input:
            memory["streams_input"] = True
        if self.terminals:
            memory["terminals"] = self.terminals
        if self.response is not None:
            memory["response"] = self.response
        return memory

    @property
    def has_input(self) -> bool:
        """True if the agent has stated the input. `{}`, or a directory alone, is a placeholder for one that follows."""
        raw = self.raw_input
        return (says_more(raw) if type(raw) is dict else bool(raw)) or bool(diffs(self.content))


def read_input(use: ToolUse, name: str, mcp: str | None) -> tuple[Any, str | None]:
    """The input of the call named `name`, and its canonical name if the wire states more than the raw name.

    `mcp`: its canonical name, if it is a tool of an MCP server."""
    raw = decoded(use.raw_input)
    if type(raw) is dict:
        if mcp is not None and isinstance(raw.get("invocation"), dict):
            raw = raw["invocation"]
        if ("arguments" in raw or "args" in raw) and (arguments := _arguments(raw, name, mcp)) is not None:
            return arguments, mcp
        if "call_id" in raw and not CODEX_EVENT.keys().isdisjoint(raw):
            raw = {key: item for key, item in raw.items() if key not in _OF_EVENT}
        if says_more(raw):
            return _located(raw, name, use) if mcp is None and use.locations else raw, mcp
    elif raw is not None:
        return raw, mcp
    if mcp is not None:
        return {**(raw or {}), **json_object(text_of(use.content))}, mcp
    value, canonical = _read_shown(use, name, raw is None)
    return {**(raw or {}), **value}, canonical


def json_object(text: str | None) -> dict[str, Any]:
    """Parse a text that is a JSON object; `{}` for any other text."""
    if text is None or not text.lstrip().startswith("{"):
        return {}
    try:
        return record(decode_text(text))
    except ValueError:
        return {}


def decoded(raw: Any) -> Any:
    """Decode Vibe's raw input or output, a string of JSON; return any other value unchanged."""
    return json_object(raw) or raw if isinstance(raw, str) else raw


def _arguments(raw: dict[str, Any], name: str, mcp: str | None) -> dict[str, Any] | None:
    """The arguments in a raw input that also names the tool."""
    for key in ("arguments", "args"):
        if key in raw and (mcp is not None or len(raw) == 1 or name in (raw.get("tool"), raw.get("name"))):
            return record(raw[key])
    return None


_OF_EVENT = ("call_id", "turn_id", "started_at_ms", "available_decisions", "proposed_execpolicy_amendment")
"""Keys of Codex's own events that do not describe the call."""
_NAMES_FILES = (*PATH_KEYS, "file_paths", "paths", "files", "items")
_ON_FILES = ("Read", "Write", "Edit", "MultiEdit", "Delete")


def _located(raw: dict[str, Any], name: str, use: ToolUse) -> dict[str, Any]:
    """The raw input with the files that only the locations state (Copilot names none when it requests permission)."""
    if not raw.keys().isdisjoint(_NAMES_FILES) or canonical_name(name, raw, "") not in _ON_FILES:
        return raw
    return {**_paths(use), **raw}


def _paths(use: ToolUse) -> dict[str, Any]:
    paths = [path for item in records(use.locations) if (path := string(item.get("path")))]
    if not paths:
        return {}
    return {"file_paths": paths} if len(paths) > 1 else {"file_path": paths[0]}


def _read_shown(use: ToolUse, name: str, never_sent: bool) -> tuple[dict[str, Any], str | None]:
    """The input as the diffs and locations state it; if the agent sends no raw input at all, also the title."""
    if use.content and (changes := [change for diff in diffs(use.content) for change in _changes(diff)]):
        shown, suggested = _read_changes(changes, name)
        return shown, suggested if name in _NAMELESS else None
    canonical = canonical_name(name, {}, "")
    value = _paths(use) if use.locations and canonical != "Bash" else {}
    title = (use.title or "").removeprefix(f"{name}: ")
    is_command = canonical == "Bash" and _BACKTICKS.fullmatch(title)
    if (never_sent or is_command) and title not in ("", name):
        value |= _read_title(title, name, canonical, use)
    return value, None


# -- diffs ----------------------------------------------------------------------------------------------------------

_NAMELESS = ("edit", "other", "unknown")
"""Raw names that are a kind, not a tool."""
_PATCH_KINDS = {"modify": "update", "move": "update", "copy": "add"}


class FileChange(NamedTuple):
    """One change of one file."""

    path: str
    kind: str
    """add, update, delete, or another word of the agent."""
    old: str | None = None
    new: str | None = None
    moved_from: str | None = None
    patch: str | None = None


def _changes(diff: dict[str, Any]) -> list[FileChange]:
    """Split a diff into changes. v1 has one file's texts; v2 has a list of files, and one patch for all of them."""
    path = string(diff.get("path"))
    if path is not None:
        kind = string(record(diff.get("_meta")).get("kind")) or ""
        return [FileChange(path, kind, string(diff.get("oldText")), string(diff.get("newText")))]
    text = string(record(diff.get("patch")).get("text"))
    return [
        FileChange(path, str(item.get("operation")), moved_from=string(item.get("oldPath")), patch=text)
        for item in records(diff.get("changes"))
        if (path := string(item.get("path")))
    ]


def _read_changes(changes: list[FileChange], name: str) -> tuple[dict[str, Any], str]:
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


def _edit(change: FileChange) -> dict[str, Any]:
    return {"old_string": change.old or "", "new_string": change.new or ""}


def _patch_entries(changes: list[FileChange]) -> dict[str, Any]:
    """Path -> change of the file; several changes of one file become its `edits`."""
    entries: dict[str, Any] = {}
    for change in changes:
        same_file = [one for one in changes if one.path == change.path]
        if len(same_file) == 1:
            entries[change.moved_from or change.path] = _patch_entry(change)
        else:
            entries[change.path] = {"type": "update", "edits": [_edit(one) for one in same_file]}
    return entries


def _patch_entry(change: FileChange) -> dict[str, Any]:
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

_SHELL_NOTE = re.compile(r" ?\[(?:current working directory|in) ")
_BACKTICKS = re.compile(r"`(?P<command>.+)`", re.DOTALL)
_QUOTED = re.compile(r'"(.*)"', re.DOTALL)
_PATTERN = re.compile(r"'(?P<pattern>.*?)'(?: in (?P<include>.+?))?(?: within (?P<path>.+))?", re.DOTALL)


def _read_title(title: str, name: str, canonical: str, use: ToolUse) -> dict[str, Any]:
    """Rebuild the input from the title, whose form depends on the tool. The examples are Gemini CLI's."""
    if canonical == "Bash":
        return _command(title, use)
    if canonical in ("Grep", "Glob"):  # `'greet' in *.py within src`
        return _groups(_PATTERN.fullmatch(title))
    quoted = _QUOTED.search(title)
    if canonical == "WebSearch":  # `Searching the web for: "fixture page answer"`
        return {"query": quoted[1]} if quoted else {}
    if canonical == "WebFetch" or name == "fetch":  # `Processing URLs and … from prompt: "Summarise http://…"`
        urls = urls_in(title)
        return {**({"url": urls[0]} if urls else {}), **({"prompt": quoted[1]} if quoted else {})}
    return {"path": title} if name == "list_directory" else {}


def _command(title: str, use: ToolUse) -> dict[str, Any]:
    """Rebuild the input of a command from the title.

    Gemini CLI 0.61: the title is the command, and the text is `[current working directory /ws] (description)`; older
    versions have both in the title. Other agents put the command in backticks; Hermes truncates it there, and has the
    whole command in the text, after `$ `."""
    text = text_of(use.content) or ""
    if use.kind is None:
        return {}
    if use.kind != "execute":  # codex-acp shows a command that reads as `Read file 'src/app.py'`, without the command
        return {"description": title}
    if text.startswith("$ "):
        return {"command": text[2:]}
    command, noted = _split_note(title)
    if noted is None:
        before, noted = _split_note(text)
        noted = None if before else noted
    if quoted := _BACKTICKS.fullmatch(command):
        command = quoted["command"]
    return {"command": command, **(noted or {})}


def _split_note(text: str) -> tuple[str, dict[str, Any] | None]:
    """Split a command's note from the text before it: (text, fields of the note); the fields are None if there is no
    note."""
    note = _SHELL_NOTE.search(text)
    end = text.find("]", note.end()) if note else -1
    if note is None or end < 0:
        return text, None
    said = {"cwd": text[note.end() : end]}
    last = text.rfind(")")
    if text.startswith(" (", end + 1) and last >= end + 3:
        said["description"] = text[end + 3 : last]
    return text[: note.start()], {key: one for key, one in said.items() if one}


def _groups(found: re.Match[str] | None) -> dict[str, Any]:
    return {key: value for key, value in found.groupdict().items() if value} if found else {}
