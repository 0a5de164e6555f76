"""Grep, Glob, LS and CodeSearch: the matches, from a list or from text.

`matches` of Grep and CodeSearch are `{filePath?, line?, excerpt?}`; `matches` of Glob and `entries` of LS are strings.
The text of a result is retained as `text` if it holds more than the matches (context lines, notes on truncation).
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from tooltap.normalizers.tools.payload import (
    TEXT_KEYS,
    Payload,
    add_text,
    is_integer,
    keys_and_text,
    nonblank,
    strings,
)

_HEADING = re.compile(r"Found \d+ |Directory listing for |-{2,}$", re.ASCII)
_NOTHING = re.compile(r"(?:No (?:files|matches|results)|0 matches|Found 0 )", re.IGNORECASE)
_NOTE = re.compile(r"\((?=[^()\s]*+\s)[^()]*+\)$")
_NO_NAME = frozenset("FfD-Nn0(")
"""First characters of all lines that the patterns above match; a quick check before them."""
_FOUND_FILES = re.compile(r"Found \d+ files?\b")

_GREP_LINE = re.compile(r"(.+?):(\d{1,15}):(.*)", re.ASCII | re.DOTALL)
_LINE_UNDER_FILE = re.compile(r"\s*L(?:ine )?(\d{1,15}): ?(.*)", re.ASCII | re.DOTALL)


class Matches(NamedTuple):
    matches: list[Any]
    is_all: bool
    """Whether the text holds nothing but the matches."""


# -- text ---------------------------------------------------------------------------------------------------------


def _found_lines(text: str) -> Matches:
    """Read a list of names, one per line."""
    names: list[Any] = []
    is_all = True
    for line in text.splitlines():
        if not line or line.isspace():
            continue
        if line[0] in _NO_NAME:
            if _NOTE.match(line):
                is_all = False
                continue
            if _HEADING.match(line) or _NOTHING.match(line):
                continue
        names.append(line)
    return Matches(names, is_all)


def _found_matches(text: str) -> Matches:
    """Read matches in any agent's format: `path:4:text`, or lines below the name of their file (OpenCode: `/path:` and
    `  Line 4: text`; Gemini and Qwen: `File: path` and `L4: text`)."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or _NOTHING.match(lines[0]):
        return Matches([], len(lines) <= 1)
    if _FOUND_FILES.match(lines[0]):  # Claude's Grep in mode files_with_matches
        names = _found_lines(text)
        return Matches([{"filePath": name} for name in names.matches], names.is_all)
    matches: list[Payload] = []
    file: str | None = None
    rest = 0
    for line in lines:
        under_file = _LINE_UNDER_FILE.fullmatch(line) if file is not None else None
        grep = None if under_file else _GREP_LINE.fullmatch(line)
        heading = None if under_file or grep else _heading(line)
        if under_file:
            matches.append({"filePath": file, "line": int(under_file[1]), "excerpt": under_file[2]})
        elif grep:
            matches.append({"filePath": grep[1], "line": int(grep[2]), "excerpt": grep[3]})
        elif heading:
            file = heading
        elif not _HEADING.match(line):
            rest += 1
    if not matches:
        return Matches([{"excerpt": text.strip()}], True)
    return Matches(matches, rest == 0)


def _heading(line: str) -> str | None:
    """Return the file whose matches follow, if the line names one."""
    if line.startswith("File: ") and len(line) > len("File: "):
        return line.removeprefix("File: ")
    return line[:-1] if line.endswith(":") and "/" in line[1:-1] and not line[0].isspace() else None


def _put(payload: Payload, key: str, found: Matches, text: str) -> None:
    payload[key] = found.matches
    if not found.is_all:
        payload["text"] = text


# -- results ------------------------------------------------------------------------------------------------------


def matches_output(value: Any, raw_name: str) -> Payload:
    payload, text = keys_and_text(value, ("matches", *TEXT_KEYS))
    stated = payload.get("matches")
    if isinstance(stated, list):
        payload["matches"] = [_canonical_match(match) for match in stated]
    elif payload.get("mode") == "files_with_matches":  # Claude: {mode, filenames, numFiles}
        payload["matches"] = [{"filePath": path} for path in strings(payload.get("filenames"))]
    elif nonblank(text):
        _put(payload, "matches", _found_matches(text), text)
    return payload


def _canonical_match(match: Any) -> Any:
    if isinstance(match, str):
        return {"excerpt": match}
    if not isinstance(match, dict):
        return match
    match = dict(match)
    add_text(match, "filePath", "file_path", "path", "file")
    add_text(match, "excerpt", "text", "snippet", "content")
    for key in ("line_number", "lineNumber"):
        if is_integer(match.get(key)):
            match.setdefault("line", match[key])
    return match


def glob_output(value: Any, raw_name: str) -> Payload:
    return _names_output(value, "matches", ("filenames", "files", "paths"))


def ls_output(value: Any, raw_name: str) -> Payload:
    return _names_output(value, "entries", ("files", "filenames", "items"))


def _names_output(value: Any, key: str, list_keys: tuple[str, ...]) -> Payload:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return {key: value}
    payload, text = keys_and_text(value, TEXT_KEYS)
    named = next((payload[one] for one in (key, *list_keys) if isinstance(payload.get(one), list)), None)
    if named is not None:
        payload[key] = named
    elif isinstance(value, list) and text is None:
        return {key: value}
    elif nonblank(text):
        _put(payload, key, _found_lines(text), text)
    return payload


# -- inputs -------------------------------------------------------------------------------------------------------

_CURSOR_PATH = "relative_workspace_path"
_PATH_ALIASES = ("dir_path", "dirpath", "dir", "directory", "folder", "cwd", "target_directory", _CURSOR_PATH)
_ANY_PATH_ALIAS = frozenset(_PATH_ALIASES)


def grep_input(payload: Payload, raw_name: str) -> Payload:
    add_text(payload, "pattern", "query", "regex")
    _add_path(payload)
    add_text(payload, "glob", "include", "include_pattern", "file_pattern")
    _join_queries(payload, "pattern")
    return payload


def glob_input(payload: Payload, raw_name: str) -> Payload:
    add_text(payload, "pattern", "glob", "glob_pattern", "query")
    _add_path(payload)
    return payload


def ls_input(payload: Payload, raw_name: str) -> Payload:
    _add_path(payload)
    return payload


def _add_path(payload: Payload) -> None:
    if not _ANY_PATH_ALIAS.isdisjoint(payload):
        add_text(payload, "path", *_PATH_ALIASES)


def code_search_input(payload: Payload, raw_name: str) -> Payload:
    add_text(payload, "query", "q", "pattern", "information_request", "informationRequest")
    _join_queries(payload, "query")
    return payload


def _join_queries(payload: Payload, key: str) -> None:
    """Join the patterns of Cline, which searches for several in one call."""
    if "queries" not in payload:
        return
    queries = strings(payload["queries"])
    if queries and not nonblank(payload.get(key)):
        payload[key] = "\n".join(queries)
