"""The mounted file systems: where they are, and which of them do not report what other machines change.

Only Linux has the table. Elsewhere, nothing is known of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

TABLE = "/proc/self/mountinfo"
REMOTE = frozenset(
    {
        *("9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "fuse", "gfs2", "glusterfs", "gpfs", "lustre", "nfs"),
        *("nfs4", "ocfs2", "orangefs", "panfs", "smb3", "smbfs"),
        *("drvfs", "fakeowner", "prl_fs", "vboxsf", "virtiofs", "vmhgfs"),  # of a virtual machine's host
    }
)
"""Types of file systems that others change: other machines, the host of a virtual machine, a program (FUSE)."""

_ESCAPED = re.compile(rb"\\([0-7]{3})")


class Mount(NamedTuple):
    number: int
    """Another one of the same place has another number."""
    point: str
    type: str

    @property
    def is_remote(self) -> bool:
        """Whether the system does not report all changes of its files. `fuse.sshfs` is a type of FUSE."""
        return self.type.partition(".")[0] in REMOTE


def read_mounts() -> list[Mount]:
    """Read the table of mounts, in which what was mounted later follows. It is empty if there is none."""
    try:
        with open(TABLE, "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        place, _, source = line.partition(b" - ")  # after optional fields: proc_pid_mountinfo(5)
        number, _, _, _, point, *_ = place.split(b" ")
        point = _ESCAPED.sub(lambda one: bytes([int(one[1], 8)]), point)
        found.append(Mount(int(number), os.fsdecode(point), os.fsdecode(source.split(b" ")[0])))
    return found


def concerning(mounts: Iterable[Mount], paths: Collection[str]) -> frozenset[Mount]:
    """Return the mounts on which the contents of these folders depend: those in them and those above them."""
    return frozenset(one for one in mounts if any(is_below(one.point, path) or _holds(one, path) for path in paths))


def remote_type(mounts: Iterable[Mount], paths: Collection[str]) -> str | None:
    """Return the type of a remote file system on which one of these folders is, or something in it; None if there is
    none. `mounts`: in the order of `read_mounts`."""
    known = list(mounts)
    for path in paths:
        at: dict[str, Mount] = {one.point: one for one in known if is_below(one.point, path)}
        above = [one for one in known if _holds(one, path)]
        if above:  # the deepest, and of several at one place the last
            one = max(reversed(above), key=lambda mount: len(mount.point))
            at.setdefault(one.point, one)
        for one in at.values():
            if one.is_remote:
                return one.type
    return None


def _holds(mount: Mount, path: str) -> bool:
    return mount.point == "/" or is_below(path, mount.point)


def is_below(path: str, folder: str) -> bool:
    """Return whether a path is that of the folder, or of something in it."""
    return path == folder or path.startswith(f"{folder}/")
