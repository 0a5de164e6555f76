"""Where agents store their session files, and how to list these folders."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tooltap.normalizers.catalog.dialect import Store
from tooltap.normalizers.catalog.registry import agents

__all__ = ["AGENTS", "Found", "Root", "look_at", "look_at_session", "roots", "scan"]


AGENTS = {agent.command: agent.store for agent in agents().values() if agent.store is not None}
"""Agent -> where it stores its session files."""


class Root(NamedTuple):
    agent: str
    place: Store
    path: str
    """Resolved, without symbolic links. It need not exist."""

    def match(self, path: str) -> re.Match[str] | None:
        """Match the path of a session file below the root."""
        return self.place.files.fullmatch(path, len(self.path) + 1)

    def session_of(self, path: str) -> str:
        """Return the path of the session file for a part of a session; any other path as it is."""
        parts = self.place.parts
        part = parts.fullmatch(path, len(self.path) + 1) if parts is not None else None
        return path if part is None else os.path.join(self.path, part["session"], "meta.json")


class Found(NamedTuple):
    path: str
    size: int
    mtime: int
    """Nanoseconds since the epoch."""

    @property
    def mtime_ms(self) -> int:
        return self.mtime // 1_000_000


def roots(names: tuple[str, ...], environment: Mapping[str, str]) -> list[Root]:
    found = []
    for name, place in ((name, AGENTS[name]) for name in names):
        home = environment.get(place.variable) or Path.home() / place.home
        found.append(Root(name, place, os.path.realpath(Path(home) / place.below)))
    return found


def scan(root: Root, folder: str, trouble: Callable[[OSError], None]) -> Iterator[Found]:
    """List the session files in `folder` and below, without following symbolic links."""
    folders = [folder]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    try:
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(entry.path)
                        elif root.match(entry.path) and entry.is_file(follow_symlinks=False):
                            yield _look(root, entry.path)
                    except FileNotFoundError:  # it has just been deleted
                        continue
                    except OSError as error:  # the others are listed
                        trouble(error)
        except FileNotFoundError:
            continue
        except OSError as error:
            trouble(error)


def look_at(root: Root, path: str, trouble: Callable[[OSError], None]) -> Iterator[Found]:
    """List the session files that a change at this path may concern. A deleted file has size and time 0."""
    if os.path.realpath(path) != path:
        return
    path = root.session_of(path)
    if os.path.isdir(path):
        yield from scan(root, path, trouble)
    elif root.match(path):
        try:
            yield _look(root, path)
        except FileNotFoundError:
            yield Found(path, 0, 0)
        except OSError as error:
            trouble(error)


def _look(root: Root, path: str) -> Found:
    if root.place.parts is not None:
        return look_at_session(path)
    status = os.lstat(path)
    return Found(path, status.st_size, status.st_mtime_ns)


def look_at_session(path: str) -> Found:
    """Return the state of the session with this `meta.json`: what its files have together, and their last change.
    Raises `OSError`."""
    folder = os.path.dirname(path)
    files = [path, os.path.join(folder, "CURRENT")]
    try:
        with os.scandir(os.path.join(folder, "journal")) as entries:
            files += [entry.path for entry in entries]
    except FileNotFoundError:  # a new session
        pass
    status = [os.lstat(path), *_statuses(files[1:])]
    return Found(path, sum(one.st_size for one in status), max(one.st_mtime_ns for one in status))


def _statuses(paths: list[str]) -> Iterator[os.stat_result]:
    for path in paths:
        try:
            yield os.lstat(path)
        except FileNotFoundError:
            continue
