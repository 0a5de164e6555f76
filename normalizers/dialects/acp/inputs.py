"""What the tool of an ACP call was called with.

The raw input, where the agent sends it. Gemini CLI and others send none: then the input is what the title, the diffs
and the locations say, and nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from tooltap.normalizers.dialects.acp.content import decoded, diffs, json_object, text_of
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.wire.values import record, records, string

__all__ = ["ToolUse", "read_input"]


class ToolUse(msgspec.Struct, omit_defaults=True):
    """What the updates of an open call have said so far, merged; `Call.memory` holds it between lines."""

    kind: str | None = None
    title: str | None = None
    raw_input: Any = None
    """None: the agent sent none."""
    content: list[Any] = []
    """What the call showed before it ran: diffs, a description, an MCP call's arguments."""
    locations: list[Any] = []
    running: str | None = None
    """What it showed while it ran: the whole output so far."""
    terminals: list[str] = []
    response: Any = None
    """claude-agent-acp: the tool's own result object, which comes before the result."""

    @property
    def has_input(self) -> bool:
        """Whether the agent has said what the tool was called with; `{}`, or a directory alone, is \"not yet\"."""
        raw = self.raw_input
        said = bool(raw.keys() - {"cwd"}) if isinstance(raw, dict) else bool(raw)
        return said or bool(diffs(self.content))


class ReadInput(msgspec.Struct, frozen=True):
    value: Any
    name: str | None = None
    """The canonical name, where the wire says more than the raw name."""


def read_input(use: ToolUse, name: str, mcp: str | None) -> ReadInput:
    """What the call named `name` was called with; `mcp`: its canonical name, if it is an MCP server's tool."""
    raw = decoded(use.raw_input)
    if isinstance(raw, dict):
        if mcp is not None and isinstance(raw.get("invocation"), dict):
            raw = raw["invocation"]
        if (arguments := _arguments(raw, name, mcp)) is not None:
            return ReadInput(arguments, mcp)
        if raw.keys() - {"cwd"}:
            return ReadInput(raw, mcp)
    elif raw is not None:
        return ReadInput(raw, mcp)
    said = ReadInput(json_object(text_of(use.content)), mcp) if mcp is not None else _said(use, name, raw is None)
    return ReadInput({**(raw or {}), **said.value}, said.name)


def _arguments(raw: dict[str, Any], name: str, mcp: str | None) -> dict[str, Any] | None:
    """The arguments of a raw input that names the tool beside them."""
    for key in ("arguments", "args"):
        if key in raw and (mcp is not None or len(raw) == 1 or raw.get("tool") == name):
            return record(raw[key])
    return None


def _said(use: ToolUse, name: str, never_sent: bool) -> ReadInput:
    """What diffs, locations and, if the agent sends no raw input at all, title and description say."""
    changes = [change for diff in diffs(use.content) for change in _changes(diff)]
    if changes:
        return _read_changes(changes, name)
    canonical = canonical_name(name, {}, "")
    value = {} if canonical == "Bash" else _read_locations(use)
    reader = _TITLES.get(canonical) or _TITLES.get(name)
    title = (use.title or "").removeprefix(f"{name}: ")
    is_command = canonical == "Bash" and _BACKTICKS.fullmatch(title)
    if reader is not None and (never_sent or is_command) and title not in ("", name):
        value |= reader(msgspec.structs.replace(use, title=title))
    return ReadInput(value)


def _read_locations(use: ToolUse) -> dict[str, Any]:
    paths = [path for item in records(use.locations) if (path := string(item.get("path")))]
    if len(paths) > 1:
        return {"file_paths": paths}
    return {"file_path": paths[0]} if paths else {}


# -- diffs ----------------------------------------------------------------------------------------------------------


_NAMELESS = ("edit", "other", "unknown")
"""Raw names that are only a kind."""
_PATCH_KINDS = {"modify": "update", "move": "update", "copy": "add"}


class Change(msgspec.Struct, frozen=True):
    """One change of one file."""

    path: str
    kind: str
    """add, update, delete, or what else the agent calls it."""
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


def _read_changes(changes: list[Change], name: str) -> ReadInput:
    """The diffs as the input of their tool; where the wire has only a kind, they say which tool that is."""
    only_kind = name in _NAMELESS
    first = changes[0]
    is_whole_patch = len({change.path for change in changes}) > 1 or (first.old is None and first.new is None)
    if is_whole_patch or canonical_name(name, {}, "") == "Patch":
        return ReadInput({"changes": _patch_entries(changes)}, "Patch" if only_kind else None)
    if len(changes) > 1:
        edits = [_edit(change) for change in changes]
        return ReadInput({"file_path": first.path, "edits": edits}, "MultiEdit" if only_kind else None)
    if first.kind == "delete":
        return ReadInput({"file_path": first.path}, "Delete" if only_kind else None)
    whole = {"file_path": first.path, "content": first.new or ""}
    edit = {"file_path": first.path, **_edit(first)}
    is_new = not first.old and first.kind not in ("update", "modify")
    if only_kind:
        return ReadInput(whole, "Write") if is_new else ReadInput(edit, "Edit")
    is_written = canonical_name(name, whole if is_new else edit, "") == "Write"
    return ReadInput(whole if is_written else edit)


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


def _command(use: ToolUse) -> dict[str, Any]:
    """Gemini CLI 0.61: the title is the command, the text `[current working directory /ws] (what it is for)`; older
    versions have both in the title. Others put the command in backticks; Hermes cuts it short there, and has the whole
    of it in the text, after `$ `."""
    title, text = use.title or "", text_of(use.content) or ""
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
    note = note or _SHELL_NOTE.fullmatch(text)
    said = {key: value for key, value in note.groupdict().items() if value} if note else {}
    return {"command": command, **said}


def _pattern(use: ToolUse) -> dict[str, Any]:
    """Gemini CLI: `'greet' in *.py within src`."""
    found = _PATTERN.fullmatch(use.title or "")
    return {key: value for key, value in found.groupdict().items() if value} if found else {}


def _query(use: ToolUse) -> dict[str, Any]:
    """Gemini CLI: `Searching the web for: "fixture page answer"`."""
    found = _QUOTED.search(use.title or "")
    return {"query": found[1]} if found else {}


def _page(use: ToolUse) -> dict[str, Any]:
    """Gemini CLI: `Processing URLs and instructions from prompt: "Summarise http://…"`."""
    url, prompt = _URL.search(use.title or ""), _QUOTED.search(use.title or "")
    return {**({"url": url[0]} if url else {}), **({"prompt": prompt[1]} if prompt else {})}


def _directory(use: ToolUse) -> dict[str, Any]:
    """Gemini CLI: the title of `list_directory` is the path."""
    return {"path": use.title}


_TITLES: dict[str, Callable[[ToolUse], dict[str, Any]]] = {
    "Bash": _command,
    "Grep": _pattern,
    "Glob": _pattern,
    "WebSearch": _query,
    "WebFetch": _page,
    "fetch": _page,
    "list_directory": _directory,
}
"""Canonical or raw name -> what its title says."""
