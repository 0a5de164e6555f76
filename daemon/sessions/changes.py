"""How many files a session has changed, and how many lines its calls have added and removed.

Lines are counted call by call, so that a line that was changed twice counts twice. The request `files` compares what
was before with what is now.
"""

from __future__ import annotations

import zlib
from collections import Counter
from typing import Any, ClassVar

import msgspec

from tooltap.normalizers.changes.content import split_lines
from tooltap.normalizers.changes.steps import FILE_TOOLS, Step, absolute, steps
from tooltap.normalizers.core.items import Produced

MAX_FILES = 500
"""Most files that are counted; later ones are ignored."""
MAX_OPEN = 100
"""Calls without a result."""


class Change(msgspec.Struct, array_like=True):
    file: int
    """CRC-32 of its path."""
    added: int
    removed: int


class Changes(msgspec.Struct, omit_defaults=True):
    KINDS: ClassVar = ("session", "tool-call", "tool-update", "tool-result")

    cwd: str | None = None
    """The first one: paths may be relative to it."""
    files: set[int] = set()
    """CRC-32 of their paths."""
    added: int = 0
    removed: int = 0
    open: dict[str, list[Change]] = {}
    """Id of a call -> what it is to change."""

    def note(self, seq: int, ts: int | None, entry: Produced) -> None:
        if entry.kind == "session":
            self.cwd = self.cwd or entry.fields.cwd
        elif entry.tool in FILE_TOOLS and entry.tool != "Read":
            if entry.kind == "tool-result":
                self._close(entry)
            elif entry.fields.input is not None:
                self._open(entry)

    def absorb(self, earlier: Changes) -> None:
        self.cwd = earlier.cwd or self.cwd
        self.files = set(sorted(self.files | earlier.files)[:MAX_FILES])
        self.added += earlier.added
        self.removed += earlier.removed
        self.open = {**earlier.open, **self.open}

    def _open(self, entry: Produced) -> None:
        call_id = entry.fields.call_id
        found = self._changes(entry.tool or "", entry.fields.input, {})
        if found and (call_id in self.open or len(self.open) < MAX_OPEN):
            self.open[call_id] = found

    def _close(self, entry: Produced) -> None:
        result = entry.fields
        if result.async_:
            return
        changes = self.open.pop(result.call_id, [])
        if result.status != "completed" or result.output.get("applied") is False:
            return
        if stated := _stated(result.output):
            changes = [Change(one.file, *stated) for one in changes[:1]]
        elif entry.tool == "Patch" and (of_result := self._changes("Patch", {}, result.output)):
            changes = of_result
        for change in changes:
            if change.file in self.files or len(self.files) < MAX_FILES:
                self.files.add(change.file)
                self.added += change.added
                self.removed += change.removed

    def _changes(self, name: str, given: dict[str, Any], answer: dict[str, Any]) -> list[Change]:
        """Of each file once, also if a patch has several hunks and a new path for it."""
        found: dict[str, Change] = {}
        for step in steps(name, given, answer):
            change = found.pop(step.path, Change(0, 0, 0))
            path = step.to or step.path
            added, removed = _lines(step)
            file = zlib.crc32(absolute(path, self.cwd).encode("utf-8", "surrogatepass"))
            found[path] = Change(file, change.added + added, change.removed + removed)
        return list(found.values())


def _lines(step: Step) -> tuple[int, int]:
    """Lines added and removed."""
    if step.kind == "write":
        return _difference(step.before or "", step.text or "")
    if step.kind == "delete":
        return 0, len(split_lines(step.before or ""))
    if step.kind == "patch":
        marks = Counter(line[:1] for part in step.parts for line in part.lines)
        return marks["+"], marks["-"]
    return _difference(step.old, step.new)


def _difference(old: str, new: str) -> tuple[int, int]:
    before, after = Counter(split_lines(old)), Counter(split_lines(new))
    return (after - before).total(), (before - after).total()


def _stated(output: dict[str, Any]) -> tuple[int, int] | None:
    """By the hunks of the result, which the call does not know: how often a text was replaced, what was overwritten."""
    hunks = output.get("structuredPatch")
    if not isinstance(hunks, list) or not hunks:
        return None
    lines = [line for hunk in hunks if isinstance(hunk, dict) for line in hunk.get("lines") or () if type(line) is str]
    marks = Counter(line[:1] for line in lines)
    return marks["+"], marks["-"]
