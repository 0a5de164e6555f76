"""Unified diffs taken apart: one part per file, and the old and new text of each hunk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["FileDiff", "Hunk", "hunks", "split_files"]

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.ASCII)
_GIT_HEADER = re.compile(r'diff --git (?:"?a/(.*?)"?) (?:"?b/(.*?)"?)$')
_NO_FILE = "/dev/null"


class Hunk(NamedTuple):
    old_start: int | None
    new_start: int | None
    old: str
    """Lines joined by newlines, without one at the end."""
    new: str


class FileDiff(NamedTuple):
    path: str
    kind: str
    """add, modify, delete or rename."""
    move_path: str | None
    text: str
    """The file's part of the diff."""


def hunks(diff: str) -> list[Hunk]:
    """The hunks of one file's diff. Line counts decide where a hunk ends, so that text after it is not taken for its
    content; lines before the first hunk are headers. Hunks without numbers (`*** Begin Patch`) end with the diff."""
    found: list[Hunk] = []
    lines = iter(diff.split("\n"))
    for line in lines:
        header = _HUNK.match(line)
        if header:
            found.append(_hunk(header, lines))
    return found or _hunks_without_numbers(diff)


def _hunks_without_numbers(diff: str) -> list[Hunk]:
    sides: list[tuple[list[str], list[str]]] = []
    for line in diff.removesuffix("\n").split("\n"):
        mark, text = line[:1], line[1:]
        if line.startswith("@@"):
            sides.append(([], []))
        elif sides:
            old, new = sides[-1]
            if mark != "+":
                old.append(text)
            if mark != "-":
                new.append(text)
    return [Hunk(None, None, "\n".join(old), "\n".join(new)) for old, new in sides]


def _hunk(header: re.Match[str], lines: Iterator[str]) -> Hunk:
    old_left, new_left = (1 if header[group] is None else int(header[group]) for group in (2, 4))
    old: list[str] = []
    new: list[str] = []
    while old_left > 0 or new_left > 0:
        line = next(lines, None)
        if line is None:
            break
        mark, text = line[:1], line[1:]
        if mark == "\\":  # "\ No newline at end of file"
            continue
        if mark != "+":
            old.append(text)
            old_left -= 1
        if mark != "-":
            new.append(text)
            new_left -= 1
    return Hunk(int(header[1]), int(header[3]), "\n".join(old), "\n".join(new))


def split_files(diff: str) -> list[FileDiff]:
    """The parts of a diff of several files, in order. Empty where nothing names a file."""
    parts: list[list[str]] = []
    lines = diff.split("\n")
    inside = 0  # lines that the current hunk still has to come
    seen_hunk = False
    for line in lines:
        header = _HUNK.match(line)
        if header and inside <= 0:
            inside = sum(1 if header[group] is None else int(header[group]) for group in (2, 4))
            seen_hunk = True
        elif inside > 0:
            inside -= {"+": 1, "-": 1, "\\": 0}.get(line[:1], 2)
        elif line.startswith("diff --git ") or (line.startswith("--- ") and (seen_hunk or not parts)):
            parts.append([])
            seen_hunk = False
        if parts:
            parts[-1].append(line)
    return [file for file in map(_file_diff, parts) if file is not None]


def _file_diff(lines: list[str]) -> FileDiff | None:
    old = new = None
    kind = "modify"
    for line in lines:
        git = _GIT_HEADER.match(line)
        if git:
            old, new = git[1], git[2]
        elif line.startswith("--- "):
            old = _path(line[4:], "a/")
        elif line.startswith("+++ "):
            new = _path(line[4:], "b/")
        elif line.startswith("new file mode"):
            kind = "add"
        elif line.startswith("deleted file mode"):
            kind = "delete"
        elif line.startswith("@@ "):
            break
    if old == _NO_FILE:
        kind, old = "add", new
    elif new == _NO_FILE:
        kind, new = "delete", old
    if old is None or new is None:
        return None
    moved = kind == "modify" and old != new
    return FileDiff(old, "rename" if moved else kind, new if moved else None, "\n".join(lines))


def _path(text: str, prefix: str) -> str:
    """`a/src/app.py<tab>2026-11-21 …` -> `src/app.py`."""
    return text.split("\t", 1)[0].strip().strip('"').removeprefix(prefix)
