"""The files that a session changed: `SessionFiles` follows the events of its calls, in order.

Calls that did not succeed changed nothing. What shell commands change is not seen, unless a later call contradicts what
was known of a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tooltap.normalizers.changes.file import MAX_TEXT, File
from tooltap.normalizers.changes.paths import absolute, relative
from tooltap.normalizers.changes.steps import FILE_TOOLS, Step, steps
from tooltap.protocol.replies import FileChange, FileDiff

KINDS = ("session", "tool-call", "tool-update", "tool-result")
"""Kinds of events that `note` reads."""
MAX_FILES = 1_000
"""Changed files of a session; those that come later are counted, not followed."""
MAX_READS = 64 * MAX_TEXT
"""Code points of files that were read and not changed, which are remembered."""
MAX_OPEN = 1_000
"""Open calls whose input is remembered."""


class SessionFiles:
    def __init__(self, cwd: str | None = None) -> None:
        self._cwd = cwd
        self._files: dict[str, File] = {}
        self._gone: list[File] = []
        """Deleted files whose path another file has."""
        self._open: dict[tuple[str, str], tuple[int, dict[str, Any]]] = {}
        self._done: set[tuple[str, str]] = set()
        self._read_length = 0
        self._changed = 0
        self.complete = True
        """False if more files changed than are followed."""

    def note(self, seq: int, event: dict[str, Any]) -> None:
        """An event as decoded from JSON, of one of `KINDS`."""
        kind = event["kind"]
        if event.get("replay") or event.get("partial"):
            return
        if kind == "session":
            if self._cwd is None:
                self._cwd = event.get("cwd")
        elif event["name"] in FILE_TOOLS:
            self._note_call(seq, kind, event)

    def changes(self) -> list[FileChange]:
        """Each changed file, by path."""
        found = [file.change(self._shown) for file in self._changed_files()]
        return sorted((one for one in found if one is not None), key=lambda one: one.path)

    def diff(self, path: str) -> FileDiff | None:
        """The change of one file, by its path now or before; None if it did not change."""
        wanted = absolute(path, self._cwd)
        named = [file for file in self._changed_files() if wanted in (file.path, file.origin)]
        for file in sorted(named, key=lambda file: file.path != wanted):
            if (found := file.diff(self._shown)) is not None:
                return found
        return None

    def text(self, path: str) -> str | None:
        """The text of a file now, by its path; None if it is gone, or if not all of it is known."""
        file = self._files.get(absolute(path, self._cwd))
        return None if file is None else file.text

    def _changed_files(self) -> Iterator[File]:
        return (file for file in [*self._files.values(), *self._gone] if file.calls)

    def _shown(self, path: str) -> str:
        return relative(path, self._cwd)

    def _note_call(self, seq: int, kind: str, event: dict[str, Any]) -> None:
        key = (event["stream"], event["callId"])
        if kind == "tool-result":
            self._note_result(key, event)
            return
        given = event.get("input")
        if given is None:
            return
        first, _ = self._open.pop(key, (seq, {}))
        self._open[key] = (first, _with_cut(given, event, "/input/"))
        if len(self._open) > MAX_OPEN:
            del self._open[next(iter(self._open))]

    def _note_result(self, key: tuple[str, str], event: dict[str, Any]) -> None:
        call = self._open.get(key)
        if event["status"] != "completed" or event.get("async") or call is None or key in self._done:
            return
        self._done.add(key)
        seq, given = self._open.pop(key)
        for step in steps(event["name"], given, _with_cut(event["output"], event, "/output/")):
            self._take(step, seq)

    def _take(self, step: Step, seq: int) -> None:
        path = absolute(step.path, self._cwd)
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = File(path)
        if step.kind == "read":
            self._read_length += file.read(step)
            self._forget_reads()
            return
        if not file.calls:
            if self._changed >= MAX_FILES:
                self.complete = False
                return
            self._changed += 1
        if step.kind == "move" and step.to is not None:
            self._move(file, absolute(step.to, self._cwd), seq)
        else:
            file.take(step, seq)

    def _move(self, file: File, to: str, seq: int) -> None:
        there = self._files.get(to)
        if there is not None and there.calls and there.exists:
            there.take(Step("delete", to), seq)
        if there is not None and there.existed and there.calls:
            self._gone.append(there)
        del self._files[file.path]
        file.move(to, seq)
        self._files[to] = file

    def _forget_reads(self) -> None:
        if self._read_length > MAX_READS:
            self._read_length = 0
            for path in [path for path, file in self._files.items() if not file.calls]:
                del self._files[path]


def _with_cut(payload: dict[str, Any], event: dict[str, Any], place: str) -> dict[str, Any]:
    """The payload without what an output body holds the whole of: the event has only its beginning."""
    cut = [pointer.removeprefix(place) for pointer in event.get("outputs") or {} if pointer.startswith(place)]
    names = {pointer.partition("/")[0] for pointer in cut} - {"_raw"}
    return {**payload, **dict.fromkeys(names)} if names else payload
