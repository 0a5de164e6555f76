"""The files of two sessions against each other, as the sessions left them.

Where all of a file is known on both sides, its two texts are compared. Where it is not, each side has the changes that
its session made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import anyio
import msgspec
from markupsafe import Markup

from tooltap.daemon.journal.interface import Journal, StoredEvent
from tooltap.daemon.show.diff import Change, Hunk, cut, hunks_of_diff
from tooltap.daemon.show.tools.edits import TAGS
from tooltap.daemon.web.templating import template
from tooltap.normalizers.changes.content import Content
from tooltap.normalizers.changes.hunks import hunks_of, unified
from tooltap.normalizers.changes.session_files import SessionFiles
from tooltap.normalizers.changes.steps import TOOLS
from tooltap.protocol.filters import Filter

__all__ = ["ComparedFile", "Files", "SideOfFile", "compared_files", "files_of"]

KINDS = ("tool-call", "tool-update", "tool-result")
MOST_BYTES = 67_108_864
MOST_FILES = 60
MOST_LINES = 400
"""Lines of one diff."""
ALL_LINES = 6_000
"""Lines of all diffs."""
CHUNK = 1_048_576


Outcome: TypeAlias = Literal["same", "differs", "left", "right", "unknown"]


class Files(NamedTuple):
    known: SessionFiles
    complete: bool
    """Whether all events of the session were read."""


class SideOfFile(NamedTuple):
    """What became of a file in one session."""

    kind: str
    """added, modified, deleted or renamed; empty if the session has not changed it."""
    diff: Markup | None


class ComparedFile(NamedTuple):
    path: str
    outcome: Outcome
    """`left`, `right`: only this session has changed it; `unknown`: both have, and not all of it is known."""
    left: SideOfFile
    right: SideOfFile
    diff: Markup | None = None
    """From the file as the left session left it to that of the right one."""


async def files_of(journal: Journal, row: dict[str, Any]) -> Files:
    """`row`: of the session. Raises `JournalError`."""
    found = SessionFiles(row.get("project") or row.get("cwd"))
    wanted = Filter(session=(row["session"],), kind=KINDS, tool=tuple(TOOLS))
    after, last, left = journal.oldest - 1, journal.latest, MOST_BYTES
    while after < last and left > 0:
        events, after = await journal.read(after, wanted, up_to=last, max_bytes=min(CHUNK, left))
        left -= sum(len(one.body) for one in events)
        await anyio.to_thread.run_sync(_note, found, events)
    return Files(found, after >= last and found.complete)


def _note(files: SessionFiles, events: Sequence[StoredEvent]) -> None:
    for stored in events:
        files.note(stored.seq, msgspec.json.decode(stored.body))


def compared_files(left: SessionFiles, right: SessionFiles) -> tuple[list[ComparedFile], int]:
    """Return the files that either session has changed, by path, and how many more there are."""
    return _Comparison(left, right).files()


class _Comparison:
    def __init__(self, left: SessionFiles, right: SessionFiles) -> None:
        self._sides = left, right
        self._changes = [{one.path: one for one in side.changes()} for side in self._sides]
        self._room = ALL_LINES

    def files(self) -> tuple[list[ComparedFile], int]:
        paths = sorted({path for changes in self._changes for path in changes})
        return [self._file(path) for path in paths[:MOST_FILES]], max(len(paths) - MOST_FILES, 0)

    def _file(self, path: str) -> ComparedFile:
        left, right = (changes.get(path) for changes in self._changes)
        if left is None or right is None:
            return ComparedFile(path, "right" if left is None else "left", self._side(0, path), self._side(1, path))
        ours, theirs = (side.text(path) for side in self._sides)
        kinds = SideOfFile(left.kind, None), SideOfFile(right.kind, None)
        if left.kind == right.kind == "deleted" or (ours is not None and ours == theirs):
            return ComparedFile(path, "same", *kinds)
        if ours is not None and theirs is not None:
            return ComparedFile(path, "differs", *kinds, self._rendered(_between(ours, theirs), path))
        return ComparedFile(path, "unknown", self._side(0, path), self._side(1, path))

    def _side(self, at: int, path: str) -> SideOfFile:
        """Return what one session has changed."""
        change = self._changes[at].get(path)
        known = None if change is None else self._sides[at].diff(path)
        if change is None or known is None or not known.hunks:
            return SideOfFile("" if change is None else change.kind, None)
        return SideOfFile(change.kind, self._rendered(hunks_of_diff(known.diff), path))

    def _rendered(self, hunks: list[Hunk], path: str) -> Markup:
        shown = cut([Change.of(path, "", hunks)], max(min(MOST_LINES, self._room), 0))
        self._room -= sum(len(hunk.lines) for change in shown for hunk in change.hunks)
        return template("diff.html", changes=shown, hidden_files=0, parts=[], tags=TAGS)


def _between(old: str, new: str) -> list[Hunk]:
    content = Content.of(old)
    content.become(new, None)
    return hunks_of_diff("\n".join(unified(hunks_of(content)[0])))
