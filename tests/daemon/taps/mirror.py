"""A file system without reports, as one on another machine: `python -m tests.daemon.taps.mirror FOLDER POINT` mounts
FOLDER, to be read, at POINT. It speaks the kernel's protocol (fuse(4)), so that a test needs no further program."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from pathlib import Path

LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = (
    *(1, 2, 3, 14, 15, 18, 26, 27, 28, 29, 36, 42),
)
UNANSWERED = (FORGET, INTERRUPT, BATCH_FORGET)
REQUEST, REPLY = struct.Struct("=IIQQ16x"), struct.Struct("=IiQ")
READ_BYTES = 1024 * 1024


class Mirror:
    def __init__(self, folder: Path) -> None:
        self._nodes = [folder, folder]
        """The kernel begins with number 1."""

    def answer(self, kind: int, node: int, data: bytes) -> bytes:
        """Raises `OSError`."""
        path = self._nodes[node] if node < len(self._nodes) else self._nodes[1]
        if kind == INIT:
            return struct.pack("=IIIIHHIIHHI28x", 7, 31, 65_536, 0, 12, 10, 65_536, 1, 0, 0, 0)
        if kind == LOOKUP:
            found = path / os.fsdecode(data.rstrip(b"\0"))
            attributes = self._attributes(found)
            if found not in self._nodes:
                self._nodes.append(found)
            return struct.pack("=QQQQII", self._nodes.index(found, 1), 0, 0, 0, 0, 0) + attributes
        if kind == GETATTR:
            return struct.pack("=QII", 0, 0, 0) + self._attributes(path)
        if kind in (OPEN, OPENDIR):
            return struct.pack("=QII", 0, 0, 0)
        if kind in (RELEASE, RELEASEDIR):
            return b""
        if kind in (READ, READDIR):
            offset, size = struct.unpack_from("=QI", data, 8)
            if kind == READ:
                return path.read_bytes()[offset : offset + size]
            return self._entries(path, offset, size)
        raise OSError(errno.ENOSYS, "not implemented")

    def _attributes(self, path: Path) -> bytes:
        one = path.stat()
        seconds, rest = divmod(one.st_mtime_ns, 10**9)
        times = (seconds, seconds, seconds, rest, rest, rest)
        modes = (one.st_mode, one.st_nlink, one.st_uid, one.st_gid, 0, 4_096, 0)
        return struct.pack("=QQQ3Q3I7I", one.st_ino, one.st_size, one.st_blocks, *times, *modes)

    def _entries(self, path: Path, offset: int, size: int) -> bytes:
        packed = b""
        for number, name in enumerate(sorted(os.listdir(path))):
            encoded = os.fsencode(name)
            one = struct.pack("=QQII", 1_000 + number, number + 1, len(encoded), 0) + encoded
            one += bytes(-len(one) % 8)
            if number >= offset and len(packed) + len(one) <= size:
                packed += one
        return packed


def main(folder: str, point: str) -> None:
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id={os.geteuid()},group_id={os.getegid()}"
    library = ctypes.CDLL(None, use_errno=True)
    if library.mount(b"mirror", os.fsencode(point), b"fuse.mirror", 0, options.encode()):
        sys.exit(f"it cannot be mounted: {os.strerror(ctypes.get_errno())}")
    print("mounted", flush=True)
    mirror = Mirror(Path(folder))
    while True:
        try:
            request = os.read(device, READ_BYTES)
        except OSError as error:
            if error.errno == errno.ENODEV:  # it was unmounted
                return
            continue
        _, kind, unique, node = REQUEST.unpack_from(request)
        if kind in UNANSWERED:
            continue
        try:
            body, code = mirror.answer(kind, node, request[REQUEST.size :]), 0
        except OSError as error:
            body, code = b"", -(error.errno or errno.EIO)
        os.write(device, REPLY.pack(REPLY.size + len(body), code, unique) + body)


if __name__ == "__main__":
    main(*sys.argv[1:])
