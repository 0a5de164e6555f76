"""Parser of unified diffs: the files of a diff, and the hunks of a file.

Hunks may lack line numbers (`@@`, or `@@ def greet(name):`), as in patches written by a model.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@", re.ASCII)
_GIT_HEADER = re.compile(r'diff --git "?a/(.*?)"? "?b/(.*?)"?\Z', re.DOTALL)
_NO_FILE = "/dev/null"


class UnifiedHunk(NamedTuple):
    old_start: int | None
    """Number of the first line before; None if the hunk has no line numbers."""
    new_start: int | None
    lines: list[str]
    """Lines, each with its prefix: a space, `-` or `+`; `\\` before a remark. An empty string is an unchanged empty
    line."""
    title: str = ""
    """Text of the header beside the line numbers, such as the name of the enclosing function."""

    @property
    def old(self) -> str:
        """The lines before, joined by newlines, without a final one."""
        return "\n".join(line[1:] for line in self.lines if line[:1] not in ("+", "\\"))

    @property
    def new(self) -> str:
        return "\n".join(line[1:] for line in self.lines if line[:1] not in ("-", "\\"))


class FileDiff(NamedTuple):
    path: str
    kind: str
    """add, modify, delete or rename."""
    move_path: str | None
    text: str
    """The part of the diff that is about this file."""


def hunks(diff: str) -> list[UnifiedHunk]:
    """Parse the hunks of one file's diff. Lines before the first hunk are headers.

    The counts of a hunk determine its end, because other text may follow; a hunk without counts ends at the next
    one."""
    found: list[UnifiedHunk] = []
    lines = diff.removesuffix("\n").split("\n")
    at = 0
    while at < len(lines):
        head = lines[at]
        at += 1
        if not head.startswith("@@"):
            continue
        start = at
        if header := _HUNK.match(head):
            old_left, new_left = (1 if header[group] is None else int(header[group]) for group in (2, 4))
            while at < len(lines) and (old_left > 0 or new_left > 0):
                mark = lines[at][:1]
                old_left -= mark not in ("+", "\\")
                new_left -= mark not in ("-", "\\")
                at += 1
            while at < len(lines) and lines[at].startswith("\\"):
                at += 1
            found.append(
                UnifiedHunk(int(header[1]), int(header[3]), lines[start:at], head[header.end() :].removeprefix(" "))
            )
        else:
            while at < len(lines) and not lines[at].startswith("@@"):
                at += 1
            if at > start:
                found.append(UnifiedHunk(None, None, lines[start:at], head.strip("@ ")))
    return found


def split_files(diff: str) -> list[FileDiff]:
    """Split a diff of several files, in order. Empty if no line names a file."""
    parts: list[list[str]] = []
    lines = diff.split("\n")
    inside = 0  # remaining lines of the current hunk, old and new
    seen_hunk = False
    for line in lines:
        if inside <= 0 and line.startswith("@@") and (header := _HUNK.match(line)):
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
        if line.startswith("diff --git ") and (git := _GIT_HEADER.match(line)):
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
