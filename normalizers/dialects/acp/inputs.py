"""Inputs of the tools that ACP calls run.

The input is the raw input, if the agent sends one. Gemini CLI and others do not: then it is what the title, the diffs
and the locations state.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from tooltap.normalizers.dialects.acp.content import diffs, text_of
from tooltap.normalizers.dialects.acp.names import CODEX_EVENT, says_more
from tooltap.normalizers.tools.files import PATH_KEYS
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.wire.decode import decode_text
from tooltap.normalizers.wire.values import record, records, string


class ToolUse(msgspec.Struct, omit_defaults=True):
    """The merged updates of an open call so far. `Call.memory` holds it between lines."""

    kind: str | None = None
    title: str | None = None
    raw_input: Any = None
    """None: the agent sent none."""
    content: list[Any] = []
    """Shown before the call ran: diffs, a description, an MCP call's arguments."""
    locations: list[Any] = []
    running: str | None = None
    """Shown while the call ran: the whole output so far."""
    streams_input: bool = False
    """The content is the text of the arguments, as far as the model has written it."""
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
        """Whether the agent has stated the input; `{}`, or a directory alone, means that it will."""
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
    """The object that a text is the JSON of, else {}."""
    if text is None or not text.lstrip().startswith("{"):
        return {}
    try:
        return record(decode_text(text))
    except ValueError:
        return {}


def decoded(raw: Any) -> Any:
    """Vibe sends its raw input and output as strings of JSON."""
    return json_object(raw) or raw if isinstance(raw, str) else raw


def _arguments(raw: dict[str, Any], name: str, mcp: str | None) -> dict[str, Any] | None:
    """The arguments in a raw input that also names the tool."""
    for key in ("arguments", "args"):
        if key in raw and (mcp is not None or len(raw) == 1 or name in (raw.get("tool"), raw.get("name"))):
            return record(raw[key])
    return None


_OF_EVENT = ("call_id", "turn_id", "started_at_ms", "available_decisions", "proposed_execpolicy_amendment")
"""Keys of Codex's own events that say nothing about what was called."""
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
"""Raw names that are only a kind."""
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
    """v1 has one file's texts; v2 has a list of files, and one patch over them."""
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
    """Path -> what happens to the file; several changes of one file become its `edits`."""
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
    command, noted = _split_note(title)
    if noted is None:
        before, noted = _split_note(text)
        noted = None if before else noted
    if quoted := _BACKTICKS.fullmatch(command):
        command = quoted["command"]
    return {"command": command, **(noted or {})}


def _split_note(text: str) -> tuple[str, dict[str, Any] | None]:
    """The text before the note on a command, and the fields of the note; None if there is none."""
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
