"""Lists the sessions in the folders where agents store them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tooltap.daemon.taps.follow.database import Database
from tooltap.daemon.taps.follow.folders import SessionFolders
from tooltap.daemon.taps.follow.reading import Files, Found
from tooltap.normalizers.catalog.dialect import Store
from tooltap.normalizers.catalog.registry import load, stores


@dataclass(frozen=True)
class Root:
    """A folder in which an agent stores its sessions."""

    agent: str
    place: Store
    path: str
    """Resolved, without symbolic links. It need not exist."""

    @cached_property
    def reader(self) -> Files | Database | SessionFolders:
        if self.place.reader is None:
            return Files()
        reader = load(self.place.reader)()
        if self.place.database is not None:
            return Database(os.path.join(self.path, self.place.database), reader)
        return SessionFolders(reader)

    def match(self, path: str) -> re.Match[str] | None:
        """Match the path of a session file below the root."""
        return self.place.files.fullmatch(path, len(self.path) + 1)

    def session_of(self, path: str) -> str:
        """Return the path of the session file for a part of a session; any other path as it is."""
        session = self.reader.session_of(path) if isinstance(self.reader, SessionFolders) else None
        return session if session is not None and self.match(session) else path


def roots(names: tuple[str, ...], environment: Mapping[str, str]) -> list[Root]:
    """Return where these agents store their sessions."""
    found = []
    for name, place in ((name, stores()[name]) for name in names):
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
    if isinstance(root.reader, SessionFolders):
        return root.reader.look_at(path)
    status = os.lstat(path)
    return Found(path, status.st_size, status.st_mtime_ns)
