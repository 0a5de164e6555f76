"""Files that a session changed, and the history of each within the session.

Calls that did not succeed changed nothing. Changes by shell commands are invisible, unless a later call contradicts the
known content of a file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from tooltap.normalizers.changes.content import Content, hunks_of, split_lines, unified
from tooltap.normalizers.changes.file_calls import FileCalls
from tooltap.normalizers.changes.steps import Step
from tooltap.normalizers.tools.paths import absolute, relative
from tooltap.protocol.replies import ChangeKind, FileChange, FileDiff, Hunk

MAX_TEXT = 1_048_576
"""Maximum length of a file that is diffed, in code points."""
MAX_CALLS = 1_000
MAX_FILE_READS = 20
"""Maximum number of reads per file that are remembered before its first change."""


class File:
    """One file over the course of a session: its known content, and its changes."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.origin: str | None = path
        """Path of the file before the session; None if it did not exist."""
        self.existed: bool | None = None
        """True if the file existed before the session; None if unknown."""
        self.exists = True
        self.calls: list[int] = []
        """The `seq` of each call that changed it."""
        self._reads: list[Step] = []
        self._content: Content | None = None
        self._is_stated = True
        """False once a change was not stated in full, so that the file's text is unknown."""
        self._omitted: str | None = None

    def read(self, step: Step) -> int:
        """Record what a call has read. Returns the number of code points remembered for it."""
        text = step.text or ""
        self.existed = True if self.existed is None else self.existed
        if unfit(text) or self._omitted:
            return 0
        if self._content is not None:
            if self.exists:
                _learn(self._content, step)
            return 0
        if step.first is None:
            self._reads = []
        if len(self._reads) >= MAX_FILE_READS:
            return 0
        self._reads.append(step)
        return len(text)

    def take(self, step: Step, seq: int) -> None:
        """Apply a change to the file."""
        if len(self.calls) < MAX_CALLS and seq not in self.calls[-1:]:
            self.calls.append(seq)
        texts = (step.text, step.before, step.old, step.new)
        self._omitted = self._omitted or next((why for text in texts if text and (why := unfit(text))), None)
        if self._content is None:
            self._content = self._begin(step)
        if step.kind == "unknown":
            self._is_stated = False
            if self.existed is None:
                self.existed = not step.created
            self._content = Content()
        elif step.kind == "write":
            self._write(self._content, step, seq)
        elif step.kind == "delete":
            self._delete(self._content, seq)
        else:
            self._change(self._content, step, seq)
        self.exists = step.kind != "delete"
        if self._omitted:
            self._content = Content()

    def move(self, to: str, seq: int) -> None:
        if self._content is None:
            self._content = self._begin(Step("move", self.path))
        self.existed = True if self.existed is None else self.existed
        if seq not in self.calls[-1:]:
            self.calls.append(seq)
        self.path = to

    def change(self, shown: Callable[[str], str]) -> FileChange | None:
        """Return the change of the file; None if it is unchanged. `shown` formats a path for display."""
        return self._described(shown, self._hunks())

    def diff(self, shown: Callable[[str], str]) -> FileDiff | None:
        hunks = self._hunks()
        change = self._described(shown, hunks)
        if change is None:
            return None
        lines = [*_head(change, bool(hunks[0])), *unified(hunks[0])]
        return FileDiff(
            **{name: getattr(change, name) for name in change.__struct_fields__},
            diff="".join(f"{line}\n" for line in lines),
            hunks=hunks[0],
        )

    @property
    def text(self) -> str | None:
        """Current text; None if the file was deleted or its text is not fully known."""
        is_known = self.exists and self._is_stated and not self._omitted and self._content is not None
        return self._content.text if is_known and self._content is not None else None

    @property
    def content(self) -> Content | None:
        """Its lines, as far as they are known; None before the first change."""
        return self._content

    # -- inside -------------------------------------------------------------------------------------------------

    def _begin(self, step: Step) -> Content:
        """The content before the first change, as far as it is known."""
        content = Content() if step.before is None else Content.of(step.before)
        for one in self._reads if step.before is None else ():
            _learn(content, one)
        if content.text is not None and step.kind == "write" and step.created:
            content = Content.of("")
        self._reads = []
        return content

    def _write(self, content: Content, step: Step, seq: int) -> None:
        text = step.text or ""
        if self.existed is None and step.created is not None:
            self.existed = not step.created
        known = content.text
        if known is None and step.parts:
            self._patch(content, step, seq)
            content.learn_all(text)
        elif known is None and self.existed is None and not content.loose:
            # An agent overwrites what it has read; a file of which nothing was said is probably new.
            self._content = Content.of("")
            self._content.consistent = False
            self._content.become(text, seq)
        else:
            content.become(text, seq)
        if self.existed is None:
            self.existed = False

    def _delete(self, content: Content, seq: int) -> None:
        self.existed = True if self.existed is None else self.existed
        if content.text is None:
            self._is_stated = False
            self._content = Content()
        else:
            content.become("", seq)

    def _change(self, content: Content, step: Step, seq: int) -> None:
        self.existed = True if self.existed is None else self.existed
        if step.before is not None and content.text is None:
            content.learn_all(step.before)
        if step.parts and (step.kind == "patch" or content.text is None):
            self._patch(content, step, seq)
        else:
            content.replace(step.old, step.new, step.everywhere, seq)

    def _patch(self, content: Content, step: Step, seq: int) -> None:
        for part in reversed(step.parts):
            if part.start is None:
                content.patch_somewhere(part.lines, seq)
            else:
                content.patch(max(part.start, 1), part.lines, seq)
        if step.bounded and step.parts and step.parts[-1].start is not None:
            tail = step.parts[-1].lines[-3:]
            if len(tail) < 3 or any(line[:1] != " " for line in tail):
                content.open = False

    def _hunks(self) -> tuple[list[Hunk], bool]:
        return ([], False) if self._content is None or self._omitted else hunks_of(self._content)

    def _described(self, shown: Callable[[str], str], hunks: tuple[list[Hunk], bool]) -> FileChange | None:
        found, whole = hunks
        is_moved = self.existed and self.exists and self.path != self.origin
        if not self.exists and not self.existed:
            return None
        known = self._is_stated and not self._omitted
        if self.exists and self.existed and not is_moved and known and not found:
            return None
        if not self.exists:
            kind: ChangeKind = "deleted"
        elif not self.existed:
            kind = "added"
        else:
            kind = "renamed" if is_moved else "modified"
        marks = [line[:1] for hunk in found for line in hunk.lines]
        return FileChange(
            path=shown(self.path),
            old_path=shown(self.origin) if is_moved and self.origin else None,
            kind=kind,
            added=marks.count("+") if known else None,
            removed=marks.count("-") if known else None,
            complete=whole and known,
            omitted=self._omitted,  # type: ignore[arg-type]
            calls=self.calls,
        )


def _head(change: FileChange, has_hunks: bool) -> Iterator[str]:
    """Header lines of the diff, in git's format."""
    old, new = _quoted(f"a/{change.old_path or change.path}"), _quoted(f"b/{change.path}")
    if change.old_path is not None:
        yield f"diff --git {old} {new}"
        yield f"rename from {_quoted(change.old_path)}"
        yield f"rename to {_quoted(change.path)}"
    if has_hunks:
        yield f"--- {'/dev/null' if change.kind == 'added' else old}"
        yield f"+++ {'/dev/null' if change.kind == 'deleted' else new}"


def _quoted(path: str) -> str:
    return path if path.isprintable() and '"' not in path else json.dumps(path)


def _learn(content: Content, step: Step) -> None:
    if step.first is None:
        content.learn_all(step.text or "")
    else:
        content.learn_part(step.first, split_lines(step.text or ""))


def unfit(text: str) -> str | None:
    """Return why a text is not compared; None if it can be."""
    if len(text) > MAX_TEXT:
        return "large"
    return "binary" if "\0" in text else None


KINDS = ("session", "tool-call", "tool-update", "tool-result")
"""Kinds of events that `note` reads."""
MAX_FILES = 1_000
"""Maximum number of changed files that are followed; changes of any further file only set `complete` to False."""
MAX_READS = 64 * MAX_TEXT
"""Maximum total length of remembered reads of unchanged files, in code points."""


class SessionFiles:
    """Follows the tool events of a session, in order, and tracks the files that they change."""

    def __init__(self, cwd: str | None = None) -> None:
        self._cwd = cwd
        self._files: dict[str, File] = {}
        self._gone: list[File] = []
        """Changed files whose path a moved file has taken over."""
        self._calls = FileCalls()
        self._read_length = 0
        self._changed = 0
        self.complete = True
        """False if more files changed than are followed."""

    def note(self, seq: int, event: dict[str, Any]) -> None:
        """Process an event of one of `KINDS`, decoded from JSON."""
        if event["kind"] == "session":
            if self._cwd is None and not event.get("replay"):
                self._cwd = event.get("cwd")
        elif (done := self._calls.note(seq, event)) is not None:
            for step in done.steps:
                self._take(step, done.seq)

    def changes(self) -> list[FileChange]:
        """The changed files, by path."""
        found = [file.change(self.shown) for file in self._changed_files()]
        return sorted((one for one in found if one is not None), key=lambda one: one.path)

    def diff(self, path: str) -> FileDiff | None:
        """The change of one file, by its path now or before; None if it did not change."""
        wanted = absolute(path, self._cwd)
        named = [file for file in self._changed_files() if wanted in (file.path, file.origin)]
        for file in sorted(named, key=lambda file: file.path != wanted):
            if (found := file.diff(self.shown)) is not None:
                return found
        return None

    def text(self, path: str) -> str | None:
        """Return the current text of a file by its path; None if it was deleted or its text is not fully known."""
        file = self._files.get(absolute(path, self._cwd))
        return None if file is None else file.text

    def _changed_files(self) -> Iterator[File]:
        return (file for file in [*self._files.values(), *self._gone] if file.calls)

    def shown(self, path: str) -> str:
        """Return an absolute path as it is in the list: relative to the session's directory if the file is in there."""
        return relative(path, absolute(self._cwd, None) if self._cwd else None)

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
