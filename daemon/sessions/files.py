"""Which files the sessions changed: what a session's row has of them, and the reply to a `changed-files` request.

`FileParts`, which is stored in the session's row, sums up the changes of a file by quarters of an hour, at which days
begin in every time zone. `report_files` adds up the parts of all sessions by file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from tooltap.daemon.sessions.listing import THIS_MACHINE
from tooltap.protocol.frames import ChangedFilesRequest
from tooltap.protocol.replies import ChangedFile, ChangedFilesResult, ChangingSession

QUARTER_MS = 900_000
MAX_PARTS = 1_000
"""Maximum parts of one session. With more, a change is added to the latest part of its file."""
MAX_CHARACTERS = 65_536
"""Maximum code points of the paths of one session. Files beyond that are left out."""
MOST_SESSIONS = 20
"""Maximum sessions that a reply names for one file: the latest to change it."""


class FilePart(msgspec.Struct, array_like=True):
    """What the calls of one session changed in one file, within a quarter of an hour."""

    ts: int | None
    """Time of the latest change, in milliseconds since the epoch."""
    seq: int
    """`seq` of the call that made it."""
    changes: int
    """Number of calls."""
    added: int
    """Number of lines."""
    removed: int

    def add(self, other: FilePart) -> None:
        if (other.ts or 0, other.seq) >= (self.ts or 0, self.seq):
            self.ts, self.seq = other.ts, other.seq
        self.changes += other.changes
        self.added += other.added
        self.removed += other.removed

    @property
    def _quarter(self) -> int | None:
        return None if self.ts is None else self.ts // QUARTER_MS

    def is_beside(self, other: FilePart) -> bool:
        """Return whether the other part is of the same quarter of an hour."""
        return self._quarter == other._quarter


class FileParts(msgspec.Struct, omit_defaults=True):
    """The changes of one session, by file."""

    of_path: dict[str, list[FilePart]] = {}
    """Path, absolute if the session's directory is known -> its parts."""
    is_full: bool = False
    """Whether a file was left out because of `MAX_CHARACTERS`."""

    def add(self, path: str, part: FilePart) -> None:
        known = self.of_path.get(path)
        if known is None:
            if sum(map(len, self.of_path)) + len(path) > MAX_CHARACTERS:
                self.is_full = True
                return
            known = self.of_path[path] = []
        same = next((one for one in reversed(known) if one.is_beside(part)), None)
        if same is None and known and sum(map(len, self.of_path.values())) >= MAX_PARTS:
            same = known[-1]
        if same is None:
            known.append(part)
        else:
            same.add(part)

    def absorb(self, earlier: FileParts) -> None:
        """Add the parts of an earlier row of the same session."""
        self.is_full = self.is_full or earlier.is_full
        for path, parts in earlier.of_path.items():
            for part in parts:
                self.add(path, msgspec.structs.replace(part))


class SessionChanges(NamedTuple):
    """The changes of one session, and the facts by which `report_files` chooses and names it."""

    session: str
    provider: str
    project: str | None
    worktree: str | None
    title: str | None
    files: FileParts
    is_whole: bool
    """False if the session changed more files than `files` has."""
    is_uncounted: bool
    """Whether that is because an older version has ingested some of it."""
    host: str
    """As filters name it."""


@dataclass
class _Changed:
    """A file, as far as it was read."""

    project: str | None
    worktree: str | None
    host: str
    """As filters name it."""
    total: FilePart
    agents: Counter[str] = field(default_factory=Counter)
    sessions: list[tuple[SessionChanges, FilePart]] = field(default_factory=list)


def report_files(sessions: Iterable[SessionChanges], request: ChangedFilesRequest) -> ChangedFilesResult:
    """Return the reply to a `changed-files` request. It may take a second: call it in a thread."""
    needle = None if request.file is None else request.file.casefold()
    found: dict[tuple[str, str | None, str], _Changed] = {}
    is_whole = True
    uncounted = 0
    for session in sessions:
        if not _is_wanted(session, request):
            continue
        is_whole = is_whole and session.is_whole
        uncounted += session.is_uncounted
        for path, parts in session.files.of_path.items():
            if needle is not None and needle not in path.casefold():
                continue
            total = _sum_within(parts, request.since, request.until)
            if total is not None:
                _add(found, session, path, total)
    files = sorted(found.items(), key=lambda one: _rank(one[1].total, request), reverse=True)
    return ChangedFilesResult(
        files=[_described(path, file) for (*_, path), file in files[: request.limit]],
        total=len(files),
        complete=is_whole and len(files) <= request.limit,
        uncounted=uncounted or None,
    )


def _is_wanted(session: SessionChanges, request: ChangedFilesRequest) -> bool:
    return (
        (request.session is None or session.session in request.session)
        and (request.provider is None or session.provider in request.provider)
        and (request.project is None or session.project in request.project)
        and (request.host is None or session.host in request.host)
    )


def _sum_within(parts: list[FilePart], since: int | None, until: int | None) -> FilePart | None:
    total: FilePart | None = None
    for part in parts:
        if since is not None and (part.ts is None or part.ts < since):
            continue
        if until is not None and (part.ts is None or part.ts >= until):
            continue
        if total is None:
            total = msgspec.structs.replace(part)
        else:
            total.add(part)
    return total


def _add(
    found: dict[tuple[str, str | None, str], _Changed], session: SessionChanges, path: str, total: FilePart
) -> None:
    # Without the session's directory a path is relative, and the same one is another file in another project.
    key = session.host, (None if _is_absolute(path) else session.project or session.session), path
    file = found.get(key)
    if file is None:
        is_there = session.worktree is not None and path.startswith(f"{session.worktree}/")
        worktree = session.worktree if is_there else None
        file = found[key] = _Changed(session.project, worktree, session.host, msgspec.structs.replace(total))
    else:
        file.total.add(total)
    file.agents[session.provider] += total.changes
    file.sessions.append((session, total))


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or path[1:3] == ":/"


def _rank(total: FilePart, request: ChangedFilesRequest) -> tuple[int, ...]:
    lines, ts = total.added + total.removed, total.ts or 0
    if request.order == "time":
        return ts, total.seq
    return (lines, total.changes, ts) if request.order == "lines" else (total.changes, lines, ts)


def _described(path: str, file: _Changed) -> ChangedFile:
    file.sessions.sort(key=lambda one: (one[1].ts or 0, one[1].seq), reverse=True)
    return ChangedFile(
        path=path,
        project=file.project,
        worktree=file.worktree,
        host=None if file.host == THIS_MACHINE else file.host,
        sessions=len(file.sessions),
        agents=[agent for agent, _ in file.agents.most_common()],
        changes=file.total.changes,
        added=file.total.added,
        removed=file.total.removed,
        last_ts=file.total.ts,
        last_seq=file.total.seq,
        changed_by=[
            ChangingSession(
                session=session.session,
                provider=session.provider,
                title=session.title,
                changes=part.changes,
                added=part.added,
                removed=part.removed,
                last_ts=part.ts,
                last_seq=part.seq,
            )
            for session, part in file.sessions[:MOST_SESSIONS]
        ],
    )
