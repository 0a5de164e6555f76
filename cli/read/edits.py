"""What the sessions of some hosts did to one file: its edits, read from the daemon's journal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import click

from tooltap.cli.common.connection import daemon_errors, request
from tooltap.cli.common.printing import warn
from tooltap.cli.read.changed_files import warn_of_uncounted
from tooltap.cli.read.sessions import list_sessions
from tooltap.daemon.sessions.listing import host_of, is_of
from tooltap.normalizers.changes.attribution import Edit, earlier_paths
from tooltap.normalizers.changes.file_calls import FileCalls
from tooltap.normalizers.changes.steps import FILE_TOOLS
from tooltap.normalizers.tools.paths import absolute

MOST_FILES = 1_000
"""Files in one reply."""
MOST_NAMES = 256
"""Sessions in one filter."""
MOST_PATHS = 100
"""Earlier paths of a file that are followed."""


class Call(NamedTuple):
    """A call that changed the file."""

    seq: int
    ts: int | None
    session: str
    name: str
    """The canonical tool."""


class Edits(NamedTuple):
    edits: list[Edit]
    """`Edit`s of the file under all of its paths; of each file that has had one of these paths."""
    path: str
    calls: dict[int, Call]
    """By `seq`."""
    sessions: dict[str, dict[str, Any]]
    """Row of each session that changed the file, by its id."""


def read_edits(socket: Path | None, file: str, hosts: Sequence[str]) -> Edits:
    """Read what sessions did to the file. `file`: its absolute path, in which there may be symbolic links. `hosts`: of
    the sessions, as filters name them."""
    resolve = _Resolver(file)
    path = resolve(file)
    paths = {path}
    sessions: dict[str, dict[str, Any]] = {}
    asked: set[str] = set()
    _warn_of_uncounted(request(socket, "changed-files", file=path, host=hosts, limit=MOST_FILES))
    while True:
        for one in sorted(paths - asked):
            resolve.add(one)
            for needle in dict.fromkeys((one, f"/{os.path.basename(one)}", *((file,) if one == path else ()))):
                sessions |= _sessions(socket, needle, hosts, lambda stated, wanted=one: resolve(stated) == wanted)  # type: ignore[misc]
        asked |= paths
        rows = _rows(socket, sessions)
        edits, calls = _read(socket, rows, resolve, paths)
        paths = earlier_paths(path, edits)
        if paths <= asked:
            its = [one for one in edits if one.step.path in paths or one.step.to in paths]
            return Edits(its, path, calls, rows)
        if len(paths) > MOST_PATHS:
            raise click.ClickException(f"the file has had more than {MOST_PATHS} names, so its edits are not replayed")


def other_hosts(socket: Path | None, path: str, hosts: Sequence[str]) -> list[str]:
    """Return the names of the other hosts on which a file with this path was changed, as filters name them."""
    reply = request(socket, "changed-files", file=path, limit=MOST_FILES)
    return sorted({host_of(one) for one in reply["files"] if one["path"] == path} - {*hosts})


class _Resolver:
    """Resolves the symbolic links in paths that may be one of some files, by the last parts of their names."""

    def __init__(self, path: str) -> None:
        self._names = {os.path.basename(path)}
        self._known: dict[str, str] = {}

    def add(self, path: str) -> None:
        self._names.add(os.path.basename(path))
        self._known.clear()

    def __call__(self, path: str) -> str:
        if os.path.basename(path) not in self._names or not os.path.isabs(path):
            return path
        if path not in self._known:
            try:
                self._known[path] = os.path.realpath(path)
            except (OSError, ValueError):  # an agent can state anything
                self._known[path] = path
        return self._known[path]


def _sessions(
    socket: Path | None, needle: str, hosts: Sequence[str], is_wanted: Callable[[str], bool]
) -> dict[str, dict[str, Any]]:
    """Return the sessions that changed a file, as replies describe them. `needle`: in the path of the file."""
    found: dict[str, dict[str, Any]] = {}
    until: int | None = None
    while True:
        given = {} if until is None else {"until": until}
        reply = request(socket, "changed-files", file=needle, host=hosts, limit=MOST_FILES, order="time", **given)
        rows = [one for one in reply["files"] if is_wanted(one["path"])]
        new = {one["session"]: one for row in rows for one in row["changedBy"] if one["session"] not in found}
        found |= new
        ends = [row["changedBy"][-1].get("lastTs") for row in rows if row["sessions"] > len(row["changedBy"])]
        if not ends or None in ends:
            return found
        oldest: int = min(ends)
        # Those that changed it in the same millisecond may not have been listed.
        until = oldest + 1 if new and (until is None or oldest + 1 < until) else oldest


def _warn_of_uncounted(found: dict[str, Any]) -> None:
    warn_of_uncounted(found)
    if not found["complete"] and not found.get("uncounted") and found["total"] <= len(found["files"]):
        warn("some sessions changed more files than are counted: lines that they wrote may be unknown")


def _rows(socket: Path | None, sessions: dict[str, Any]) -> dict[str, dict[str, Any]]:
    rows = (row for names in _chunks(sessions) for row in list_sessions(socket, MOST_NAMES, session=names, empty=True))
    return {row["session"]: row for row in rows}


def _chunks(sessions: dict[str, Any]) -> Iterator[list[str]]:
    names = list(sessions)
    return (names[start : start + MOST_NAMES] for start in range(0, len(names), MOST_NAMES))


def _read(
    socket: Path | None, rows: dict[str, dict[str, Any]], resolve: _Resolver, paths: set[str]
) -> tuple[list[Edit], dict[int, Call]]:
    """`rows`: of the sessions, by their present ids."""
    edits: list[Edit] = []
    calls: dict[int, Call] = {}
    for names in _chunks(rows):
        sessions = [rows[name] for name in names]
        folders: dict[str, str] = {}
        for session, event in _events(socket, sessions, ("session",), None):
            if event.get("cwd") and not event.get("replay"):
                folders.setdefault(session, event["cwd"])
        finished = FileCalls()
        last: dict[str, int] = {}
        """Stream -> the time of its latest event that has one."""
        kinds = ("tool-call", "tool-update", "tool-result")
        for session, event in _events(socket, sessions, kinds, tuple(FILE_TOOLS)):
            ts = event.get("ts")
            last[event["stream"]] = ts or last.get(event["stream"], 0)
            if (done := finished.note(event["seq"], event)) is None:
                continue
            folder = folders.get(session)
            for step in done.steps:
                source = resolve(absolute(step.path, folder))
                to = None if step.to is None else resolve(absolute(step.to, folder))
                if source in paths or to is not None:
                    edits.append(Edit(last[event["stream"]], done.seq, step._replace(path=source, to=to)))
                    calls[done.seq] = Call(done.seq, ts, session, event["name"])
    return edits, calls


def _events(
    socket: Path | None, sessions: list[dict[str, Any]], kinds: tuple[str, ...], tools: tuple[str, ...] | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the events of sessions, each with the present id of its session. `sessions`: their rows."""
    import orjson

    from tooltap.daemon.client.blocking import BlockingSubscription
    from tooltap.protocol.filters import Filter
    from tooltap.protocol.frames import Gap, Subscribe

    rows: dict[str, list[dict[str, Any]]] = {}
    """Id under which events are stored -> the sessions that may have some of them."""
    for row in sessions:
        for earlier in row.get("aliases", {}):
            rows.setdefault(earlier, []).append(row)
    for row in sessions:  # what another session had as its id before is that one's
        rows.setdefault(row["session"], []).append(row)
    wanted = Filter(session=tuple(row["session"] for row in sessions), kind=kinds, tool=tools)
    frame = Subscribe(after="start", filter=wanted, follow=False)
    with daemon_errors(), closing(BlockingSubscription(socket, frame, reconnect=False)) as subscription:
        for item in subscription:
            if isinstance(item, bytes):
                event = orjson.loads(item)
                for row in rows.get(event["session"], ()):
                    if is_of(row, event["session"], event["seq"]):
                        yield row["session"], event
                        break
            elif isinstance(item, Gap) and tools:
                warn(f"events {item.from_} to {item.to} are gone")
