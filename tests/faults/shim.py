"""The library that makes calls fail (`shim.c`): compiles it, and controls it by a file that all its processes map."""

from __future__ import annotations

import ctypes
import mmap
import subprocess
from collections import Counter
from pathlib import Path
from typing import NamedTuple, Self

from tests.programs import COMPILER, found

__all__ = ["ALWAYS", "CLASSES", "EFFECTS", "LASTING", "Control", "Fault", "build"]

CLASSES = (
    *("open", "read", "write", "sync", "truncate", "rename", "unlink", "mkdir", "stat", "chmod", "lock", "mmap"),
    *("socket", "bind", "listen", "accept", "connect", "recv", "send", "poll"),
)
"""Classes of calls, as in `shim.c`."""
ACTIONS = ("fail", "short", "kill", "kill-after", "torn")
"""Actions, as in `shim.c`. `short`: half of the bytes are transferred; `kill-after`: killed after the call; `torn`:
killed after half of it."""

EFFECTS: dict[str, tuple[str, ...]] = {
    "open": ("EMFILE", "EIO", "ENOSPC", "EACCES", "EINTR", "kill"),
    "read": ("EIO", "EINTR", "short", "kill"),
    "write": ("EIO", "ENOSPC", "EINTR", "short", "kill", "kill-after", "torn"),
    "sync": ("EIO", "ENOSPC", "kill", "kill-after"),
    "truncate": ("EIO", "ENOSPC", "kill", "kill-after"),
    "rename": ("EIO", "ENOSPC", "EACCES", "kill", "kill-after"),
    "unlink": ("EIO", "EACCES", "kill", "kill-after"),
    "mkdir": ("ENOSPC", "EACCES", "kill", "kill-after"),
    "stat": ("EIO", "EACCES"),
    "chmod": ("EPERM", "EIO", "kill"),
    "lock": ("EIO", "ENOLCK", "EINTR", "kill"),
    "mmap": ("ENOMEM", "kill"),
    "socket": ("EMFILE", "ENOBUFS"),
    "bind": ("EACCES", "EADDRINUSE", "kill", "kill-after"),
    "listen": ("EADDRINUSE", "kill"),
    "accept": ("EMFILE", "ECONNABORTED", "EINTR", "ENOBUFS", "kill", "kill-after"),
    "connect": ("ECONNREFUSED", "EAGAIN", "ENOENT", "kill"),
    "recv": ("ECONNRESET", "ETIMEDOUT", "EINTR", "short", "kill", "kill-after"),
    "send": ("ECONNRESET", "EPIPE", "ENOBUFS", "EINTR", "short", "kill", "kill-after", "torn"),
    "poll": ("ENOMEM", "ENOSPC"),
}
"""Class -> the effects of a fault: an error code, or an action."""

LASTING = frozenset({"open", "read", "write", "sync", "truncate", "rename", "unlink", "mkdir", "stat", "chmod", "mmap"})
"""Classes of which all calls may fail from one on, as on a full or lost disk. The other calls would be retried for ever
by clients or SQLite."""
ALWAYS = 10**6

OFF, COUNT, FIRE = range(3)
LOG = 16_384
TEXT = 124


class _Logged(ctypes.Structure):
    _fields_ = (("klass", ctypes.c_uint32), ("text", ctypes.c_char * TEXT))


class _Block(ctypes.Structure):
    _fields_ = (
        ("state", ctypes.c_uint32),
        ("klass", ctypes.c_uint32),
        ("nth", ctypes.c_uint32),
        ("times", ctypes.c_uint32),
        ("action", ctypes.c_uint32),
        ("error", ctypes.c_int32),
        ("fired", ctypes.c_uint32),
        ("counts", ctypes.c_uint32 * len(CLASSES)),
        ("root", ctypes.c_char * 256),
        ("place", ctypes.c_char * TEXT),
        ("logged", ctypes.c_uint32),
        ("log", _Logged * LOG),
    )


class Fault(NamedTuple):
    """A fault: the `nth` call of a class, from 1, and its effect. `str` and `parse` convert it to and from the form on
    command lines."""

    scenario: str
    klass: str
    nth: int
    effect: str
    times: int = 1
    """Number of calls that fail, from the `nth` on."""

    def __str__(self) -> str:
        return f"{self.scenario}/{self.klass}/{self.nth}/{self.effect}" + (f"/{self.times}" if self.times > 1 else "")

    @classmethod
    def parse(cls, text: str) -> Self:
        scenario, klass, nth, effect, *times = text.split("/")
        return cls(scenario, klass, int(nth), effect, *map(int, times))

    @property
    def kills(self) -> bool:
        return self.effect in ("kill", "kill-after", "torn")


class Control:
    """Control block of the shim, in a file of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(bytes(ctypes.sizeof(_Block)))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), ctypes.sizeof(_Block))
        self._block = _Block.from_buffer(self._map)

    def watch(self, root: Path) -> None:
        """Restrict counting and faults to files below a folder, and to sockets."""
        self._block.root = str(root).encode()

    def count(self) -> None:
        self._reset()
        self._block.logged = 0
        self._block.state = COUNT

    def arm(self, fault: Fault) -> None:
        import errno

        self._reset()
        block = self._block
        block.klass = CLASSES.index(fault.klass)
        block.nth, block.times = fault.nth, fault.times
        is_error = fault.effect not in ACTIONS
        block.action = ACTIONS.index("fail" if is_error else fault.effect)
        block.error = getattr(errno, fault.effect) if is_error else 0
        block.state = FIRE

    def disarm(self) -> None:
        self._block.state = OFF

    @property
    def fired(self) -> int:
        return int(self._block.fired)

    @property
    def place(self) -> str:
        """Return the call that failed, and its file."""
        text: bytes = self._block.place
        return text.decode("utf-8", "replace")

    def counts(self) -> Counter[str]:
        return Counter({name: number for name, number in zip(CLASSES, self._block.counts, strict=True) if number})

    def calls(self) -> list[tuple[str, str]]:
        """Return the counted calls in order: (class, call with its file)."""
        log = self._block.log
        return [
            (CLASSES[log[at].klass], log[at].text.decode("utf-8", "replace"))
            for at in range(min(self._block.logged, LOG))
        ]

    def _reset(self) -> None:
        block = self._block
        block.state = OFF
        block.fired = 0
        block.place = b""
        for at in range(len(CLASSES)):
            block.counts[at] = 0


def build(folder: Path) -> Path:
    """Compile the library into a folder."""
    library = folder / "shim.so"
    source = Path(__file__).with_name("shim.c")
    subprocess.run([found(COMPILER), "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library
