"""Where agents store their session files, and how to list these folders."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tooltap.normalizers.catalog.dialect import Store
from tooltap.normalizers.catalog.registry import agents

__all__ = ["AGENTS", "Found", "Root", "look_at", "roots", "scan"]


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
                            status = entry.stat(follow_symlinks=False)
                            yield Found(entry.path, status.st_size, status.st_mtime_ns)
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
    if os.path.isdir(path):
        yield from scan(root, path, trouble)
    elif root.match(path):
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            yield Found(path, 0, 0)
        except OSError as error:
            trouble(error)
        else:
            yield Found(path, status.st_size, status.st_mtime_ns)
