"""One file in the course of a session: what is known of it, and what became of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from tooltap.normalizers.changes.content import Content, split_lines
from tooltap.normalizers.changes.hunks import hunks_of, unified
from tooltap.normalizers.changes.steps import Step
from tooltap.protocol.replies import ChangeKind, FileChange, FileDiff, Hunk

MAX_TEXT = 1_048_576
"""Code points of a file that is compared."""
MAX_CALLS = 1_000
MAX_READS = 20
"""Parts of a file that are remembered before it changes."""


class File:
    def __init__(self, path: str) -> None:
        self.path = path
        self.origin: str | None = path
        """Its path before the session; None if it did not exist."""
        self.existed: bool | None = None
        """Before the session; None if that is not known."""
        self.exists = True
        self.calls: list[int] = []
        """The `seq` of each call that changed it."""
        self._reads: list[Step] = []
        self._content: Content | None = None
        self._is_stated = True
        """All of its changes."""
        self._omitted: str | None = None

    def read(self, step: Step) -> int:
        """Returns how much is remembered of it, in code points."""
        text = step.text or ""
        self.existed = True if self.existed is None else self.existed
        if _unfit(text) or self._omitted:
            return 0
        if self._content is not None:
            if self.exists:
                _learn(self._content, step)
            return 0
        if step.first is None:
            self._reads = []
        if len(self._reads) >= MAX_READS:
            return 0
        self._reads.append(step)
        return len(text)

    def take(self, step: Step, seq: int) -> None:
        """A change."""
        if len(self.calls) < MAX_CALLS and seq not in self.calls[-1:]:
            self.calls.append(seq)
        texts = (step.text, step.before, step.old, step.new)
        self._omitted = self._omitted or next((why for text in texts if text and (why := _unfit(text))), None)
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
        """None if the file is unchanged. `shown` makes a path readable."""
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
        """Its text now; None if it is gone, or if not all of it is known."""
        is_known = self.exists and self._is_stated and not self._omitted and self._content is not None
        return self._content.text if is_known and self._content is not None else None

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
    """The header of the diff, as git writes it."""
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


def _unfit(text: str) -> str | None:
    if len(text) > MAX_TEXT:
        return "large"
    return "binary" if "\0" in text else None
