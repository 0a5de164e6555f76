"""Opens files of this user safely in folders where other users may have planted links, pipes or files.

In a folder that others may write to, such as `/tmp`, a name may be a link to one of our files, a file that others read,
or a pipe. So a link that another user could have made is not followed, and an opened file is checked before it is
changed: it must belong to this user and have no other name (hard link). In a sticky folder, such as `/tmp`, it then
stays in place; in others, it can still be exchanged later.

`run` announces its agent with this module, so it imports little.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

MAX_LINKS = 40
MAX_PID = 20
_STEP = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)


class NotOursError(OSError):
    """Raised for a file or folder that is not safely ours; `strerror` says why: "it belongs to another user"."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(errno.EPERM, problem, path)


class LockedError(Exception):
    """Raised where another process holds the lock; the message is its process id, empty if unknown."""


def open_own(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file, or create it for this user only. Nothing is truncated. Raises `OSError`."""
    place = without_planted_links(path)
    descriptor = _open_without_links(place, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        problem = "it is not a file"
    elif status.st_uid != os.geteuid():
        problem = "it belongs to another user"
    elif status.st_nlink > 1 and flags & (os.O_WRONLY | os.O_RDWR):
        problem = "the file has another name (a hard link)"
    else:
        return descriptor
    os.close(descriptor)
    raise NotOursError(place, problem)


def lock_own(path: str | os.PathLike[str]) -> int:
    """Open a lock file, lock it, and write our process id into it. Raises `LockedError` and `OSError`."""
    lock = open_own(path, os.O_RDWR | os.O_CREAT)
    try:
        content = os.pread(lock, MAX_PID + 1, 0)
        if len(content) > MAX_PID or content.strip(b"0123456789\n\0"):
            raise NotOursError(os.fspath(path), "it is not a daemon's lock")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)
        os.pwrite(lock, b"%d" % os.getpid(), 0)
    except BaseException as error:
        os.close(lock)
        if isinstance(error, BlockingIOError):
            raise LockedError(content.strip(b"\n\0").decode()) from None
        raise
    return lock


LINKED = (
    "has another name (a hard link): what a program writes there is written here as well, so neither is a backup of"
    " the other"
)
"""What is said of such a file, after its path."""


def has_other_name(path: str | os.PathLike[str]) -> bool:
    """Whether a file has another name (a hard link), through which others may change it."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # a path that a daemon states may have a NUL
        return False
    return stat.S_ISREG(status.st_mode) and status.st_nlink > 1


def open_special(path: str | os.PathLike[str], flags: int) -> int | None:
    """Open a pipe, a terminal or another device, such as `/dev/stdout`; None if the path names nothing or something
    else. Raises `OSError`, also for a pipe of another user in a folder that others may write to."""
    place = without_planted_links(path)
    try:
        if stat.S_ISREG((named := os.stat(path)).st_mode) or stat.S_ISDIR(named.st_mode):
            return None
    except FileNotFoundError:
        return None
    folder = os.path.dirname(place)
    if _is_planted(named, folder):
        raise NotOursError(place, "it belongs to another user")
    descriptor = os.open(path, flags | os.O_CLOEXEC)  # not the place: some links can only be followed by the system
    opened = os.fstat(descriptor)
    if stat.S_ISREG(opened.st_mode) or _is_planted(opened, folder):
        os.close(descriptor)
        raise NotOursError(place, "it belongs to another user")
    return descriptor


def private_folder(path: str | os.PathLike[str]) -> None:
    """Create a folder if there is none, and check that nobody else may put anything into it. Raises `OSError`."""
    place, status = _folder(path)
    if status.st_uid != os.geteuid():
        raise NotOursError(place, "it belongs to another user")
    if _others_may_write(status):
        raise NotOursError(place, f"other users may write to it (mode {stat.S_IMODE(status.st_mode):04o})")


def steady_folder(path: str | os.PathLike[str]) -> str:
    """Create a folder if there is none, check that nobody else may exchange files of ours in it, and return its path
    without links. Raises `OSError`."""
    place, status = _folder(path)
    if problem := why_unsteady(status):
        raise NotOursError(place, problem)
    return place


def why_unsteady(folder: os.stat_result) -> str | None:
    """Why other users may exchange files of ours in a folder; None if they may not."""
    if folder.st_uid not in (0, os.geteuid()):
        return "it belongs to another user"
    if _others_may_write(folder) and not folder.st_mode & stat.S_ISVTX:
        return f"other users may write to it (mode {stat.S_IMODE(folder.st_mode):04o})"
    return None


def why_not_writable(folder: Path) -> str:
    """Say in one sentence why no file can be created in a folder, which need not exist yet; empty if one can be."""
    existing = next(one for one in (folder, *folder.parents) if one.exists())
    reason: str | None = None
    if not existing.is_dir():
        reason = f"{existing} is not a folder"
    elif existing == folder:
        from tempfile import TemporaryFile

        try:
            TemporaryFile(dir=folder).close()
        except OSError as error:
            reason = error.strerror
    elif os.statvfs(existing).f_flag & os.ST_RDONLY:
        reason = os.strerror(errno.EROFS)
    elif not os.access(existing, os.W_OK | os.X_OK):
        reason = f"{existing} is not writable"
    return "" if reason is None else f"cannot write to {folder}: {reason}"


def is_shared(path: str | os.PathLike[str]) -> bool:
    """Whether other users may create files in a folder. Raises `OSError`."""
    return _others_may_write(os.stat(path))


def _folder(path: str | os.PathLike[str]) -> tuple[str, os.stat_result]:
    os.makedirs(without_planted_links(path), mode=0o700, exist_ok=True)
    place = without_planted_links(path)  # again: what was missing may have been planted meanwhile
    return place, os.stat(place)


def _others_may_write(folder: os.stat_result) -> bool:
    return bool(folder.st_mode & stat.S_IWOTH or (folder.st_mode & stat.S_IWGRP and not _has_no_others(folder.st_gid)))


def _has_no_others(group: int) -> bool:
    """Whether our user is the only member of a group. Many systems give each user such a group, which may write to new
    folders."""
    import grp
    import pwd

    try:
        user, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return (user.pw_gid, user.pw_name) == (group, found.gr_name) and set(found.gr_mem) <= {user.pw_name}


def without_planted_links(path: str | os.PathLike[str]) -> str:
    """Resolve the symbolic links in a path; what follows a missing name is left as it is. Raises `OSError`, also for a
    link that another user could have made."""
    at, links = "/", 0
    rest = os.path.join(os.getcwd(), os.fspath(path)).split("/")[::-1]
    while rest:
        part = rest.pop()
        if part in ("", "."):
            continue
        if part == "..":
            at = os.path.dirname(at)
            continue
        place = os.path.join(at, part)
        try:
            status = os.lstat(place)
        except FileNotFoundError:
            return os.path.join(place, *reversed(rest))
        if not stat.S_ISLNK(status.st_mode):
            at = place
            continue
        target = os.readlink(place)
        if _is_planted(status, at) or not os.path.samestat(status, os.lstat(place)):
            raise NotOursError(place, f"{place} is a link of another user")
        links += 1
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), place)
        at = "/" if target.startswith("/") else at
        rest += target.split("/")[::-1]
    return at


def _open_without_links(place: str, flags: int) -> int:
    """Open a path whose links have been resolved. If other users may exchange a folder in it, the folders are opened
    one by one, so that no link is followed that was made since (TOCTOU)."""
    *above, name = place.split("/")
    if all(why_unsteady(os.stat("/".join(above[:depth]) or "/")) is None for depth in range(1, len(above) + 1)):
        return os.open(place, flags | os.O_NOFOLLOW, 0o600)
    at = os.open("/", _STEP)
    try:
        for part in above[1:]:
            outer, at = at, os.open(part, _STEP | os.O_NOFOLLOW, dir_fd=at)
            os.close(outer)
        return os.open(name, flags | os.O_NOFOLLOW, 0o600, dir_fd=at)
    finally:
        os.close(at)


def _is_planted(entry: os.stat_result, folder: str) -> bool:
    """Whether an entry was made by neither this user nor root, in a folder that others may write to."""
    if entry.st_uid in (0, os.geteuid()):
        return False
    try:
        return _others_may_write(os.stat(folder))
    except FileNotFoundError:  # what the system names for a pipe is no path
        return False
