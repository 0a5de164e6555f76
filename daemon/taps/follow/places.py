"""Where agents keep the files of their sessions, and how one looks through these folders."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

__all__ = ["AGENTS", "FILE_DIALECTS", "Found", "Place", "Root", "look_at", "roots", "scan"]


class Place(NamedTuple):
    dialect: str
    variable: str
    """Of the environment: the folder that holds `below`, where it is not `home`."""
    home: str
    """Seen from the user's home directory."""
    below: str
    files: re.Pattern[str]
    """Paths of session files, seen from `below`. Group `session`: the session, where the file does not say it."""


AGENTS = {
    "claude": Place("claude-transcript", "CLAUDE_CONFIG_DIR", ".claude", "projects", re.compile(r".+\.jsonl")),
    "codex": Place("codex-rollout", "CODEX_HOME", ".codex", "sessions", re.compile(r"(?:.+/)?rollout-[^/]+\.jsonl")),
    "gemini": Place(
        "gemini-chat",
        "GEMINI_CLI_HOME",
        "",
        ".gemini/tmp",
        # A subagent's chat names only itself, and lies in a folder named after its session.
        re.compile(r"[^/]+/chats/(?:(?P<session>[^/]+)/)?[^/]+\.jsonl?"),
    ),
}
FILE_DIALECTS = frozenset(place.dialect for place in AGENTS.values())


class Root(NamedTuple):
    place: Place
    path: str
    """Without symbolic links; it need not exist."""

    def match(self, path: str) -> re.Match[str] | None:
        """Whether a path below the root is that of a session file."""
        return self.place.files.fullmatch(path, len(self.path) + 1)


class Found(NamedTuple):
    path: str
    size: int
    mtime: int
    """Nanoseconds since the epoch."""

    @property
    def mtime_ms(self) -> int:
        return self.mtime // 1_000_000


def roots(agents: tuple[str, ...], environment: Mapping[str, str]) -> list[Root]:
    found = []
    for place in (AGENTS[agent] for agent in agents):
        home = environment.get(place.variable) or Path.home() / place.home
        found.append(Root(place, os.path.realpath(Path(home) / place.below)))
    return found


def scan(root: Root, folder: str, trouble: Callable[[OSError], None]) -> Iterator[Found]:
    """The session files in `folder` and below; symbolic links lead nowhere."""
    folders = [folder]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif root.match(entry.path) and entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        yield Found(entry.path, status.st_size, status.st_mtime_ns)
        except FileNotFoundError:  # gone meanwhile
            continue
        except OSError as error:
            trouble(error)


def look_at(root: Root, path: str, trouble: Callable[[OSError], None]) -> Iterator[Found]:
    """What a change at this path may have brought. A file that is gone has no size and no time."""
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
