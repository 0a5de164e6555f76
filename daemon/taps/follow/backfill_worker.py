"""Backfill worker: normalizes a portion of a session file in another process.

A worker is stateless: its request has the normalizer's state, the position to read from, and the time before which
lines are too old. It returns the outputs of the next lines, and the state after them. The daemon commits these like
lines that it reads itself. So a portion may be lost: the daemon resumes at the position in the journal. Files of which
another stream reports a part are not processed by workers.

`pool.py` starts the processes. A worker imports this module anew, so it imports little: nothing of the event loop.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
import zlib
from socket import MSG_WAITALL, socket
from struct import Struct
from typing import Final, NamedTuple

from tooltap.daemon.ingest.worker import Failure, drift_of_process, observed
from tooltap.daemon.system.processes import die_with_parent
from tooltap.daemon.taps.follow.overlap import OwnFiles, is_too_old
from tooltap.daemon.taps.follow.stores import MARK_BYTES, Position, read_from
from tooltap.normalizers.core.items import Context, Item, OutputChunk, Produced
from tooltap.normalizers.wire.framing import LongLine, Splitter
from tooltap.traces.drift.drift import NewFindings
from tooltap.traces.drift.watch import Watched

HEADER: Final = Struct("=Q")
"""What precedes each message: its size in bytes."""


class Request(NamedTuple):
    path: str
    position: Position
    """Position of the beginning of a line."""
    limit: int
    """Most bytes to read."""
    context: Context
    state: bytes
    """Dump of the normalizer at this position."""
    agent_version: str | None
    horizon: int
    agent: str | None
    """The subagent whose file it is."""
    own_files: tuple[str, ...]
    """See `OwnFiles`."""


class Portion(NamedTuple):
    """The outputs of a portion's lines, and the state after them."""

    after: Position
    is_last: bool
    """Whether it reaches to the end of the file."""
    mtime: int
    outputs: list[bytes | OutputChunk]
    """Events as bytes, and chunks of output bodies, in order."""
    state: bytes
    crc: tuple[int, int] | None
    """Number and CRC-32 of the last whole line."""
    found: NewFindings
    watched: Watched
    failures: list[Failure]


def serve_all() -> None:
    """Run the workers, one for each descriptor of a socket in the arguments: this process, and forks of it."""
    die_with_parent()
    descriptors = list(map(int, sys.argv[1:]))
    gc.freeze()
    while len(descriptors) > 1:
        own = descriptors.pop()
        if not os.fork():
            die_with_parent()
            for other in descriptors:
                os.close(other)
            descriptors = [own]
        else:
            os.close(own)
    with socket(fileno=descriptors[0]) as link:
        _serve(link)


def _serve(link: socket) -> None:
    """Answer requests until the other end is closed."""
    while header := link.recv(HEADER.size, MSG_WAITALL):
        request = pickle.loads(link.recv(HEADER.unpack(header)[0], MSG_WAITALL))
        result: Portion | Exception | None
        try:
            result = normalize(request)
        except Exception as error:
            result = error
        data = pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
        link.sendall(HEADER.pack(len(data)))
        link.sendall(data)


def normalize(request: Request) -> Portion | None:
    """Normalize the next lines; None if there is no whole line. Raises `OSError` and `ReplacedError`."""
    position = request.position
    data, after, mtime = read_from(request.path, position, request.limit)
    end = data.rfind(b"\n") + 1
    if not end:
        return None
    normalizer, watch, failures = observed(request.state, request.context, request.agent_version)

    own = OwnFiles(request.own_files)

    def keep(items: list[Item]) -> list[Item]:
        items = own.without_copies(items, request.agent)
        return [] if is_too_old(items, normalizer.statistics, request.horizon) else items

    outputs: list[bytes | OutputChunk] = []
    crc = None
    for line in Splitter(request.context.limits.line_bytes).feed(data[:end]):
        for output in normalizer.feed(line, mtime, None, keep):
            outputs.append(output.body if isinstance(output, Produced) else output)
        if not isinstance(line, LongLine):
            crc = normalizer.lines, line
    mark = (position.mark + data[:end])[-MARK_BYTES:]
    watched = watch.finish_part()
    return Portion(
        Position(position.offset + end, mark, after.inode),
        len(data) < request.limit,
        mtime,
        outputs,
        normalizer.dump(),
        None if crc is None else (crc[0], zlib.crc32(crc[1])),
        drift_of_process().take(),
        watched,
        failures,
    )
