"""Opens a file below an open folder, wherever others move folders and links meanwhile: no link is followed, and nothing
leads back up.

`openat2` (Linux 5.6) resolves the path in one step. Where there is none, each component is opened in the one before it.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

FOLDER = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""A pipe in the file's place does not block."""

_OPENAT2 = 437
_NUMBERED_SO = {"aarch64", "armv7l", "i686", "loongarch64", "ppc64le", "riscv64", "s390x", "x86_64"}
"""Others may number their system calls differently."""
_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08


class Unknown(Exception):
    """The system has no `openat2`, or a sandbox refuses what it does not know."""


def open_folder(path: str | os.PathLike[str]) -> int:
    """Open a folder, to open files below it. Raises `OSError`."""
    return os.open(path, FOLDER)


def open_beneath(folder: int, parts: Sequence[str]) -> int:
    """Open the file with this path below the folder, for reading. Raises `OSError`, `ELOOP` for a link."""
    try:
        return open_in_one_step(folder, parts)
    except Unknown:
        return open_step_by_step(folder, parts)


def open_in_one_step(folder: int, parts: Sequence[str]) -> int:
    """Raises `Unknown` and `OSError`."""
    if sys.platform != "linux" or os.uname().machine not in _NUMBERED_SO:
        raise Unknown
    import ctypes  # only when a file is opened

    class How(ctypes.Structure):
        _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))

    how = How(FILE, 0, _BENEATH | _NO_LINKS | _NO_MAGIC_LINKS)
    path = os.fsencode(os.path.join(*parts) if parts else ".")
    call = ctypes.CDLL(None, use_errno=True).syscall
    while True:
        descriptor = call(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(folder),
            ctypes.c_char_p(path),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if descriptor >= 0:
            return int(descriptor)
        if (code := ctypes.get_errno()) in (errno.ENOSYS, errno.EPERM):
            raise Unknown
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code))


def open_step_by_step(folder: int, parts: Sequence[str]) -> int:
    """Raises `OSError`."""
    held: list[int] = []
    try:
        for part in parts[:-1]:
            folder = os.open(part, FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            held.append(folder)
        return os.open(parts[-1] if parts else ".", FILE, dir_fd=folder)
    finally:
        for one in held:
            os.close(one)
