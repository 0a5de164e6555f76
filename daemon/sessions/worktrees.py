"""Worktrees of a repository, by their paths alone: the folder may be gone, or on another machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from tooltap.normalizers.catalog.registry import worktrees
from tooltap.normalizers.tools.paths import WINDOWS

_NAME, _NAME_ON_WINDOWS = re.compile(r"[^/]+"), re.compile(r"[^/\\]+")
_INSIDE = re.compile(r"/(?:\.worktrees|\.[^/]+/worktrees)/[^/]+")
_HOMES = frozenset({"home", "users"})


@lru_cache(maxsize=4_096)
def project_of_path(path: str, *, is_repository: bool = False) -> str:
    """Return the folder of the repository that the path of a worktree names; the path itself if it names none.

    `.worktrees/NAME` and `worktrees/NAME` lie in the repository, `.claude/worktrees/NAME` and the like in a hidden
    folder of it, and some agents have a folder for worktrees of all repositories (`Agent.worktrees`).
    `is_repository`: the path is known to be a repository, so a plain folder `worktrees` above it says nothing."""
    names = list((_NAME_ON_WINDOWS if WINDOWS.match(path) else _NAME).finditer(path))
    words = [one[0] for one in names]
    for at in range(len(names)):
        for pattern in worktrees():
            if _fits(words[at : at + len(pattern)], pattern):
                return path[: names[at + max(pattern.index("+"), 0)].end()]
        if words[at] not in ("worktrees", ".worktrees") or at + 1 == len(names) or not at:
            continue
        above = at - 1
        if words[at] == "worktrees" and words[above].startswith(".") and above:
            return path[: names[above - 1].end()]
        if words[at] == ".worktrees" or not (is_repository or _is_home(words[:at])):
            return path[: names[above].end()]
    return path


def worktree_in(repository: str, path: str) -> str | None:
    """Return the folder of the worktree in which a path lies, if that is in a hidden folder of the repository:
    `.worktrees/NAME`, `.claude/worktrees/NAME` and the like."""
    inside = _INSIDE.match(path, len(repository)) if path.startswith(f"{repository}/") else None
    return None if inside is None else path[: inside.end()]


def _fits(words: Sequence[str], pattern: Sequence[str]) -> bool:
    return len(words) == len(pattern) and all(
        part in ("*", "+") or word == part for word, part in zip(words, pattern, strict=True)
    )


def _is_home(words: Sequence[str]) -> bool:
    """Return whether a folder is a user's home, or too high to be a repository."""
    return len(words) < 2 or words in (["root"],) or (words[-2].lower() in _HOMES and len(words) <= 3)
