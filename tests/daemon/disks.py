"""Disks in files, each mounted for one program and what it starts, and the power failure of such a disk."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.daemon.taps.test_follow_machines import AS_ROOT, PRIVATE, require_machines
from tests.programs import require

MOUNT = 'mount -o loop,errors=remount-ro "$0" "$1" && chmod 700 "$1" && shift && exec "$@"'
MIB = 1024 * 1024
SHUTDOWN = 0x8004587D
"""`EXT4_IOC_SHUTDOWN`."""
WITHOUT_LOG = struct.pack("I", 2)
"""`EXT4_GOING_FLAGS_NOLOGFLUSH`: what is not on the disk yet stays away, the log of the file system included."""


def make_disk(image: Path, mib: int) -> None:
    """Make a file with an empty file system."""
    with image.open("wb") as file:
        file.truncate(mib * MIB)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)


def mounting(image: Path, place: Path) -> list[str]:
    """Begins the command line of a program that sees the file system of `image` at `place`."""
    return ["sh", "-c", MOUNT, str(image), str(place)]


def require_disks() -> None:
    """Skip a test where no file can be mounted as a disk."""
    require_machines()
    require("mkfs.ext4")
    if reason := _why_not():
        pytest.skip(reason)


@cache
def _why_not() -> str:
    if not AS_ROOT:
        return "only root may mount a file as a disk"
    with TemporaryDirectory() as folder:
        image, place = Path(folder, "image"), Path(folder, "place")
        make_disk(image, 16)
        place.mkdir()
        command = [*PRIVATE, *mounting(image, place), "true"]
        tried = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"the system mounts no file as a disk: {tried.stderr.strip()}" if tried.returncode else ""


class Disk:
    """A disk that has what was flushed to it, and nothing more, when its power fails. `place`: where a program that is
    run `within` it sees its file system.

    The disk is a file in another file system, whose page cache is the disk's write cache: what the kernel writes to the
    disk waits there until the kernel flushes the disk, which syncs the file. When the power fails, that other file
    system is shut down: nothing that waits in a page cache is written from then on. The disk's next life begins with a
    copy of what there is by then. So whatever was not flushed is lost, as with a disk that loses all of its cache.
    """

    def __init__(self, folder: Path) -> None:
        self.place = folder / "disk"
        self._image, self._cache = folder / "image", folder / "cache"
        self.place.mkdir()
        self._cache.mkdir()
        make_disk(self._image, 96)
        inner = self._cache / "disk"
        script = 'truncate -s 64M "$0" && mkfs.ext4 -q "$0"'
        command = [*PRIVATE, *mounting(self._image, self._cache), "sh", "-c", script, str(inner)]
        subprocess.run(command, check=True)
        self.within = [*PRIVATE, *mounting(self._image, self._cache), *mounting(inner, self.place)]

    def cut(self, pid: int) -> None:
        """Cut the power of the disk on which the process runs. What is run within the disk later has what is left."""
        medium = os.open(f"/proc/{pid}/root{self._cache}", os.O_RDONLY)
        try:
            fcntl.ioctl(medium, SHUTDOWN, WITHOUT_LOG)
        finally:
            os.close(medium)
        left = self._image.with_name("left")
        subprocess.run(["cp", "--sparse=always", self._image, left], check=True)
        left.replace(self._image)
