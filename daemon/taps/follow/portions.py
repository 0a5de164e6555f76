"""Normalizes a portion of a session file in another process, for a backfill.

A worker knows nothing but its request: the normalizer's state, where to read, and what to leave out. It returns what
results from the next lines, and the state after them. The daemon commits that as it commits lines that it reads itself.
So any portion may be lost, and the daemon goes on at the position that the journal has.

Processes, and their pipes, are those of `anyio.to_process`: a worker ends when the daemon does, however it ends.
"""

from __future__ import annotations

import signal
import zlib
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from tooltap.daemon.taps.follow.coverage import Span, leaves_out
from tooltap.daemon.taps.follow.reading import MARK_BYTES, Position, read_from
from tooltap.normalizers.core.items import Context, OutputChunk, Produced
from tooltap.normalizers.stream.normalizer import Output, StreamNormalizer
from tooltap.normalizers.wire.framing import LongLine, Splitter
from tooltap.traces.drift.baselines import PACKAGED, load
from tooltap.traces.drift.drift import Drift, Found
from tooltap.traces.drift.watch import StreamWatch, Watched

__all__ = ["Portion", "Request", "normalize"]

IDLE = 10.0
"""Seconds after which a worker without work ends."""


class Request(NamedTuple):
    path: str
    position: Position
    """Where a line begins."""
    limit: int
    """Bytes to read."""
    context: Context
    state: bytes
    """The dump of the normalizer."""
    agent_version: str | None
    covered: list[Span]
    horizon: int


class Portion(NamedTuple):
    """What results from the lines of a portion."""

    after: Position
    mtime: int
    outputs: list[bytes | OutputChunk]
    """Events as bytes, and chunks of output bodies, in order."""
    state: bytes
    crc: tuple[int, int] | None
    """Number and CRC-32 of the last whole line."""
    found: Found
    watched: Watched


def normalize(request: Request) -> Portion | None:
    """In a worker: normalize the next lines; None if there is no whole line. Raises `OSError` and `ReplacedError`."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the daemon
    try:
        return _normalize(request)
    finally:
        signal.setitimer(signal.ITIMER_REAL, IDLE)


def _normalize(request: Request) -> Portion | None:
    position = request.position
    data, after, mtime = read_from(request.path, position, request.limit)
    end = data.rfind(b"\n") + 1
    if not end:
        return None
    normalizer = StreamNormalizer.load(request.state, request.context)
    watch = StreamWatch(_drift(), normalizer, request.agent_version)

    def observe(outputs: Sequence[Output]) -> None:
        if outputs or watch.has_pending:
            watch.add(outputs)

    normalizer.on_line = observe
    leave_out = leaves_out(normalizer.statistics, request.horizon, request.covered)
    outputs: list[bytes | OutputChunk] = []
    crc = None
    for line in Splitter(request.context.limits.line_bytes).feed(data[:end]):
        for output in normalizer.feed(line, mtime, None, leave_out):
            outputs.append(output.body if isinstance(output, Produced) else output)
        if not isinstance(line, LongLine):
            crc = normalizer.lines, line
    mark = (position.mark + data[:end])[-MARK_BYTES:]
    return Portion(
        Position(position.offset + end, mark, after.inode),
        mtime,
        outputs,
        normalizer.dump(),
        None if crc is None else (crc[0], zlib.crc32(crc[1])),
        _drift().take(),
        watch.watched,
    )


@cache
def _drift() -> Drift:
    return Drift(lambda dialect: load(PACKAGED, dialect), thorough=False)
