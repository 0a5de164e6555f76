"""Notices changes of files and folders, as the system reports them.

On Linux, the kernel wakes us, and nothing runs while nothing changes (`Inotify`). Elsewhere, `watchfiles` has to be
asked (`Asked`). A change has the name under which its folder was watched, so that a linked folder has those of the
links.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
import sys
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple, Protocol

from watchfiles._rust_notify import RustNotify  # documented: "Rust backend direct usage"

from tooltap.daemon.taps.follow.mounts import TABLE, is_below

GATHERING = 0.02
"""Seconds for which changes are gathered after the first one."""


class Changes(NamedTuple):
    paths: Collection[str] = ()
    """Paths of files and folders that were created, changed, renamed or deleted."""
    missed: bool = False
    """Whether the system has dropped changes, so that everything has to be listed."""
    mounted: bool = False
    """Whether a file system may have been mounted or unmounted."""


class Notifier(Protocol):
    """All methods but `wake` are called in one thread."""

    is_recursive: bool
    """Whether what is below a watched folder is watched as well."""

    def watch(self, path: str, name: str) -> None:
        """Watch a folder or a file, and report it as `name`. Watching it again changes nothing. Raises `OSError`, also
        at the system's limit."""

    def forget(self, name: str) -> None:
        """Watch nothing of this name, and nothing below it."""

    def wait(self, seconds: float) -> Changes:
        """Return the next changes, or none after these seconds or after `wake`. Raises `OSError`."""

    def wake(self) -> None:
        """End `wait`, once and for all. Called from another thread."""

    def close(self) -> None: ...


def notifier(most: int) -> Notifier:
    """`most`: folders and files to watch, 0: as many as the system allows. Raises `OSError`."""
    return Inotify(most) if sys.platform == "linux" else Asked()


# -- Linux ------------------------------------------------------------------------------------------------------------

MODIFY, ATTRIB, MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x2, 0x4, 0x40, 0x80, 0x100, 0x200
DELETE_SELF, MOVE_SELF = 0x400, 0x800
OVERFLOW, IGNORED, IS_FOLDER = 0x4000, 0x8000, 0x4000_0000
WATCHED = MODIFY | ATTRIB | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF
HEAD = struct.Struct("iIII")
READ_BYTES = 1024 * 1024
LIMITS = {
    errno.ENOSPC: "the limit of watches is reached (fs.inotify.max_user_watches)",
    errno.EMFILE: "the limit of watching programs is reached (fs.inotify.max_user_instances)",
}


class Inotify:
    """inotify(7). It numbers what is watched: two names of one folder have the same number."""

    is_recursive = False

    def __init__(self, most: int) -> None:
        self._most = most
        self._names: dict[int, set[str]] = {}
        self._library = ctypes.CDLL(None, use_errno=True)
        self._file = self._checked(self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "")
        self._waking = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll = select.poll()
        for descriptor in (self._file, self._waking):
            self._poll.register(descriptor, select.POLLIN)
        try:
            self._mounts = os.open(TABLE, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # what is mounted later is found when the folder is listed again
            self._mounts = -1
        else:
            self._poll.register(self._mounts, select.POLLPRI)

    def watch(self, path: str, name: str) -> None:
        number = self._checked(self._library.inotify_add_watch(self._file, os.fsencode(path), WATCHED), path)
        if self._most and number not in self._names and len(self._names) >= self._most:
            self._library.inotify_rm_watch(self._file, number)
            raise OSError(errno.ENOSPC, "the limit of watches is reached (follow.watches)", path)
        self._names.setdefault(number, set()).add(name)

    def forget(self, name: str) -> None:
        for number, names in list(self._names.items()):
            names -= {one for one in names if is_below(one, name)}
            if not names:
                del self._names[number]
                self._library.inotify_rm_watch(self._file, number)

    def wait(self, seconds: float) -> Changes:
        ready = {descriptor for descriptor, _ in self._poll.poll(1000 * seconds)}
        if not ready or self._waking in ready:
            return Changes()
        time.sleep(GATHERING)
        paths: dict[str, None] = {}
        missed = False
        for number, mask, within in self._read():
            missed = missed or bool(mask & OVERFLOW)
            names = self._names.get(number, ())
            changed = [os.path.join(name, within) if within else name for name in names]
            paths |= dict.fromkeys(changed)
            if mask & IGNORED:
                self._names.pop(number, None)
            elif mask & MOVED_FROM and mask & IS_FOLDER:
                for one in changed:
                    self.forget(one)
        return Changes(paths, missed, self._mounts in ready)

    def _read(self) -> Iterator[tuple[int, int, str]]:
        """Return number, mask and name of each change."""
        try:
            data = os.read(self._file, READ_BYTES)
        except BlockingIOError:
            return
        place = 0
        while place < len(data):
            number, mask, _, length = HEAD.unpack_from(data, place)
            place += HEAD.size + length
            yield number, mask, os.fsdecode(data[place - length : place].rstrip(b"\0"))

    def wake(self) -> None:
        os.eventfd_write(self._waking, 1)

    def close(self) -> None:
        for descriptor in (self._file, self._waking, self._mounts):
            if descriptor >= 0:
                os.close(descriptor)

    def _checked(self, result: int, path: str) -> int:
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, LIMITS.get(code) or os.strerror(code), path)
        return result


# -- other systems ----------------------------------------------------------------------------------------------------

DELETED = 3
STEP_MS = 100
"""Milliseconds between two questions; the answer comes when one brings nothing more."""


class Asked:
    """`watchfiles`, for all folders in one watch: it begins again with each that is not below another one, and what
    changed before counts as missed."""

    is_recursive = True

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = {}
        """What is watched -> its names."""
        self._watch: RustNotify | None = None
        self._woken = threading.Event()

    def watch(self, path: str, name: str) -> None:
        real = os.path.realpath(path, strict=True)
        above = [one for one, names in self._names.items() if is_below(real, one) and _named(real, one, names, name)]
        if not above:
            self._names.setdefault(real, set()).add(name)
            self._end()

    def forget(self, name: str) -> None:
        for path, names in list(self._names.items()):
            names -= {one for one in names if is_below(one, name)}
            if not names:
                del self._names[path]
                self._end()

    def wait(self, seconds: float) -> Changes:
        if self._watch is None:
            paths = [path for path in self._names if os.path.lexists(path)]
            try:
                self._watch = RustNotify(paths, False, False, 0, True, True)
            except RuntimeError as error:
                raise OSError(errno.EIO, str(error)) from error
            return Changes(missed=True)
        try:
            changes = self._watch.watch(STEP_MS, STEP_MS, max(1, int(1000 * seconds)), self._woken)
        except RuntimeError as error:
            self._end()
            raise OSError(errno.EIO, str(error)) from error
        if isinstance(changes, str):  # nothing, or `wake`
            return Changes()
        if any(kind == DELETED and path in self._names for kind, path in changes):  # there may be another one
            self._end()
        return Changes(dict.fromkeys(name for _, path in sorted(changes) for name in self._names_of(path)))

    def _names_of(self, path: str) -> Iterator[str]:
        for real, names in self._names.items():
            if is_below(path, real):
                yield from (name + path[len(real) :] for name in names)

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self._end()

    def _end(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None


def _named(path: str, watched: str, names: Iterable[str], name: str) -> bool:
    """Return whether what is reported of a path below a watched one has this name."""
    return any(one + path[len(watched) :] == name for one in names)
