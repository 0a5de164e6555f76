"""Repository that a session works in: the folder above its `cwd` that has `.git`, on the machine of the daemon.

Agents state the folder in which they were started, or their tap does, seldom the repository. So it is looked for before
the events of a session are committed: in a thread, with a limit of time and of folders, and once for each folder. A
folder that is not on this machine has none; nor has one below the home folder that only the home folder's own
repository holds.

A worktree belongs to the repository whose `.git` folder it names. Where that is not on this machine, the path of the
worktree says it (`worktrees.py`).
"""

from __future__ import annotations

import os
import re
import stat
from functools import partial

import anyio
import msgspec
from anyio import to_thread

from tooltap.daemon.sessions.joining import NextCommit
from tooltap.normalizers.core.items import Produced
from tooltap.normalizers.core.state import make_room

MOST_KNOWN = 4_096
DEPTH = 64
"""Maximum folders that are searched, from the `cwd` upwards."""
PATIENCE = 1.0
"""Time limit of a search, in seconds: a file system may hang."""


class Repositories:
    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}

    async def learn(self, live: NextCommit) -> None:
        """Look up the repositories for the next commit, and remember them. Sessions whose stream states no folder get
        that of their publisher before."""
        if live.info.cwd is not None:
            for event in live.pending:
                if event.kind == "session" and event.fields.state == "started" and event.fields.cwd is None:
                    started = msgspec.structs.replace(event.event, cwd=live.info.cwd)
                    live.exchange(event, Produced.of(started))
        for event in _placed(live):
            if (cwd := event.fields.cwd) not in self._known:
                found = None
                with anyio.move_on_after(PATIENCE):
                    found = await to_thread.run_sync(partial(root_of, cwd), abandon_on_cancel=True)
                make_room(self._known, MOST_KNOWN)
                self._known[cwd] = found

    def place(self, live: NextCommit) -> None:
        """Add the remembered repositories to the events of the next commit."""
        for event in _placed(live):
            if (root := self._known.get(event.fields.cwd)) is not None:
                live.exchange(event, Produced.of(msgspec.structs.replace(event.event, root=root)))


def root_of(cwd: str) -> str | None:
    """Return the folder, at `cwd` or above, that has `.git`: a folder that git takes for a repository, or a file that
    names one; of a worktree, the folder of its repository. Links are not followed. It may block: call it in a
    thread."""
    if not os.path.isabs(cwd) or not os.path.isdir(cwd):
        return None
    home = os.path.expanduser("~")
    folder = os.path.normpath(cwd)
    for _ in range(DEPTH):
        if folder != home or cwd == home:
            try:
                mode = os.lstat(os.path.join(folder, ".git")).st_mode
            except OSError:
                pass
            else:
                if stat.S_ISDIR(mode) and _is_git_folder(os.path.join(folder, ".git")):
                    return folder
                if stat.S_ISREG(mode) and (found := _repository_of(folder)) is not None:
                    return found
        if (above := os.path.dirname(folder)) == folder:
            break
        folder = above
    return None


def _is_git_folder(path: str) -> bool:
    """Return whether git takes a folder for that of a repository. Sandboxes leave empty folders of this name."""
    return os.path.lexists(os.path.join(path, "HEAD")) and os.path.isdir(os.path.join(path, "objects"))


_GITDIR = re.compile(r"gitdir:[ ]*(?:(.+?)[/\\]worktrees[/\\][^/\\]+[/\\]?|\S.*)")
"""Content of a file `.git` without space at its end. The group is None unless it names a worktree."""
_HIDDEN = frozenset({".git", ".bare"})


def _repository_of(folder: str) -> str | None:
    """Return the repository of a folder with a file `.git`: of a worktree, the folder of the repository that it names;
    else the folder itself. None if git takes the file for nothing."""
    try:
        with open(os.path.join(folder, ".git"), encoding="utf-8", errors="replace") as file:
            found = _GITDIR.fullmatch(file.read(4_096).rstrip())
    except OSError:
        return None
    if found is None:
        return None
    if found[1] is None:
        return folder
    common = os.path.normpath(os.path.join(folder, found[1]))
    return os.path.dirname(common) if os.path.basename(common) in _HIDDEN else common


def _placed(live: NextCommit) -> list[Produced]:
    """Return the `session` events that state a folder and no repository."""
    sessions = (event for event in live.pending if event.kind == "session")
    return [event for event in sessions if event.fields.cwd and event.fields.root is None]
