"""The tab *Files*: what a session changed, file by file; of an open file its diff, with the calls that made each hunk.

Everything is bounded: the files of the list, those that are open, and the lines of their diffs. What is left out is
counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import msgspec

from tooltap.daemon.show import diff as diffs
from tooltap.daemon.show.tools.files import TAGS
from tooltap.daemon.web.page.tabs.digests import Place, TurnCount
from tooltap.normalizers.changes.session_files import KINDS, SessionFiles
from tooltap.normalizers.changes.steps import FILE_TOOLS
from tooltap.protocol.replies import FileChange, FileDiff, Hunk

CALLS = 100_000
"""Maximum calls of a session that a hunk can name with turn and time."""
LINKS = 6
"""Maximum calls that a hunk links to; the latest ones."""
CHARACTERS = 2_000
"""Maximum characters of a line in a diff."""
CHANGING = frozenset(FILE_TOOLS) - {"Read"}
OMITTED = {
    "binary": "This is a binary file, so there is no diff.",
    "large": "This file is too large to be compared.",
}


class Limits(NamedTuple):
    files: int
    """Files in the list."""
    opened: int
    """Files whose diff is shown."""
    lines: int
    """Lines of one diff."""
    all_lines: int
    """Lines of all diffs."""


NARROW = Limits(files=200, opened=20, lines=400, all_lines=2_000)
WIDE = Limits(files=1_000, opened=20, lines=2_000, all_lines=4_000)


class ChangedFiles:
    """Digest of a session: the files that it changed, and the place of each call that changed one."""

    KINDS: ClassVar[tuple[str, ...]] = (*KINDS, "turn")

    def __init__(self) -> None:
        self._files = SessionFiles()
        self._turns = TurnCount()
        self._places: dict[int, Place] = {}
        self._changes: list[FileChange] | None = []

    @property
    def complete(self) -> bool:
        return self._files.complete

    def note(self, seq: int, body: bytes) -> None:
        event: dict[str, Any] = msgspec.json.decode(body)
        if event["kind"] == "turn":
            if not event.get("replay"):
                self._turns.note(event["state"], event.get("agent"))
            return
        if event["kind"] == "tool-call" and event["name"] in CHANGING and len(self._places) < CALLS:
            self._places[seq] = Place(seq, event.get("ts"), self._turns.number, event["name"])
        self._files.note(seq, event)
        self._changes = None

    def changes(self) -> list[FileChange]:
        """Return each changed file, by path."""
        if self._changes is None:
            self._changes = self._files.changes()
        return self._changes

    def shown(self, path: str) -> str:
        """Return a path, absolute or not, as it is in the list."""
        return self._files.shown(path)

    def diff(self, path: str) -> FileDiff | None:
        return self._files.diff(path)

    def places(self, seqs: Iterable[int]) -> list[Place]:
        return [self._places.get(seq) or Place(seq, None, 0) for seq in seqs]


class ShownHunk(NamedTuple):
    where: str
    made_by: list[Place]
    more: int
    """Number of earlier calls that are not linked."""
    changes: list[diffs.FileDiff]


class ShownFile(NamedTuple):
    change: FileChange
    folder: str
    name: str
    note: str
    """Explanation if the diff is missing or may be incomplete; else empty."""
    hunks: list[ShownHunk] | None
    """None if the file is not open."""
    hidden: int
    """Number of lines of the diff that are not shown."""


def files_values(known: ChangedFiles, opened: Sequence[str], limits: Limits, *, open_first: bool) -> dict[str, Any]:
    """Return the values for the template. It may take a second: call it in a thread. `open_first`: if no file is
    `opened`, the first ones are, as many as the limits allow."""
    changes = known.changes()
    opened = [known.shown(path) for path in opened]
    shown = _chosen(changes, opened, limits.files)
    by_path = {one.path: one for one in shown}
    wanted = list(by_path) if open_first and not opened else [path for path in opened if path in by_path]
    files = {path: _closed(change) for path, change in by_path.items()}
    left = limits.all_lines
    for path in wanted[: limits.opened]:
        if left > 0:
            files[path], lines = _open(known, by_path[path], min(limits.lines, left))
            left -= lines
    return {
        "files": [files[one.path] for one in shown],
        "count": len(changes),
        "hidden_files": len(changes) - len(shown),
        "complete": known.complete,
        "added": sum(one.added or 0 for one in changes),
        "removed": sum(one.removed or 0 for one in changes),
        "unknown": sum(one.added is None for one in changes),
        "tags": TAGS,
    }


def _chosen(changes: list[FileChange], opened: Sequence[str], limit: int) -> list[FileChange]:
    """Return the first files, and opened ones wherever they are in the list."""
    return [*changes[:limit], *(one for one in changes[limit:] if one.path in opened)]


def _closed(change: FileChange) -> ShownFile:
    folder, slash, name = change.path.rpartition("/")
    return ShownFile(change, folder + slash, name, "", None, 0)


def _open(known: ChangedFiles, change: FileChange, limit: int) -> tuple[ShownFile, int]:
    """Return a file with its diff, and how many lines of that are shown."""
    diff = known.diff(change.path)
    hunks: list[ShownHunk] = []
    left = limit
    for hunk in diff.hunks if diff else ():
        if taken := hunk.lines[:left]:
            hunks.append(_shown_hunk(known, hunk, taken))
            left -= len(taken)
    hidden = sum(len(hunk.lines) for hunk in (diff.hunks if diff else ())) - (limit - left)
    return _closed(change)._replace(note=_note(change), hunks=hunks, hidden=hidden), limit - left


def _note(change: FileChange) -> str:
    if change.omitted:
        return OMITTED[change.omitted]
    if change.complete:
        return ""
    if change.added is None:
        return "The agent did not say how it changed this file, so the diff may be incomplete."
    return (
        "This may not be the whole change: the agent did not state all of it, or something that no event shows, such as"
        " a shell command, has changed the file too."
    )


def _shown_hunk(known: ChangedFiles, hunk: Hunk, taken: list[str]) -> ShownHunk:
    places = known.places(hunk.seqs[-LINKS:])
    part = diffs.FileDiff("", "", [diffs.DiffHunk("", list(_lines(hunk, taken)))])
    return ShownHunk(_where(hunk), places, len(hunk.seqs) - len(places), diffs.cut([part], len(taken)))


def _lines(hunk: Hunk, taken: list[str]) -> Iterable[diffs.DiffLine]:
    old, new = hunk.old_start, hunk.new_start
    for line in taken:
        sign, text = line[:1], line[1:]
        if len(text) > CHARACTERS:
            text = f"{text[:CHARACTERS]}…"
        yield diffs.DiffLine(sign, text, None if sign == "\\" else old if sign == "-" else new)
        old = None if old is None else old + (sign in "- ")
        new = None if new is None else new + (sign in "+ ")


def _where(hunk: Hunk) -> str:
    if hunk.new_start is None:
        return "Somewhere in the file"
    if hunk.new_lines > 1:
        return f"Lines {hunk.new_start:,}–{hunk.new_start + hunk.new_lines - 1:,}"
    return f"Line {max(hunk.new_start, 1):,}"
