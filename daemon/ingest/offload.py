"""Offloading: normalizes long lines outside the event loop, which serves others meanwhile.

- Most lines are short, and the loop reads them in portions (`TimeSlices`).
- A long line (`LONG_BYTES`) is read in a thread. The interpreter switches between threads every few milliseconds.
- A huge line (`HUGE_BYTES`) is read in another process, because single calls of libraries, which hold the GIL, would
  take too long. The process gets the dump of the normalizer, and returns the outputs of the line and the new dump. It
  can be killed: when the daemon stops, when another connection takes the stream over, and when it takes too long
  (`LINE_SECONDS`). In the last case, and if it dies, the line is treated like one over the length limit, so that it
  does not block the stream.

`anyio.to_process` provides the worker processes: they end when the daemon does, even if it is killed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import anyio
from anyio import to_process, to_thread

from tooltap.daemon.ingest.worker import Failure, HugeLine, ReadLine, read_line
from tooltap.daemon.system.logs import get_logger
from tooltap.daemon.system.loop import beside
from tooltap.daemon.system.processes import import_nothing_from_here, usable_cores
from tooltap.normalizers.stream.normalizer import Output
from tooltap.traces.drift.drift import NewFindings
from tooltap.traces.drift.watch import Watched

LONG_BYTES = 65_536
"""Lines longer than this, in bytes, are normalized in a thread."""
HUGE_BYTES = 1_048_576
"""Lines longer than this, in bytes, are normalized in another process."""
LINE_SECONDS = 120.0
"""Timeout in seconds for a huge line; after that, it is treated as over the length limit."""
MOST_PROCESSES = 4

T = TypeVar("T")
_log = get_logger("ingest")


class Normalized(NamedTuple):
    """The next lines of a stream, normalized by another process."""

    state: bytes
    """Dump of the normalizer after these lines."""
    outputs: Sequence[Output]
    t: int
    crc: tuple[int, int] | None
    """Number and CRC-32 of the last whole line."""
    found: NewFindings
    watched: Watched
    failures: Sequence[Failure]


class Offload:
    """Reads long lines in a thread, and huge ones in another process. `long_bytes`, `huge_bytes`: lines with more bytes
    are long or huge. `seconds`: timeout for a huge line."""

    def __init__(
        self, long_bytes: int = LONG_BYTES, huge_bytes: int = HUGE_BYTES, seconds: float = LINE_SECONDS
    ) -> None:
        self.long_bytes = long_bytes
        self.huge_bytes = huge_bytes
        self._seconds = seconds
        # One at a time: the loop would wait for each of them in turn.
        self._threads = anyio.CapacityLimiter(1)
        self._processes = anyio.CapacityLimiter(min(max(usable_cores(), 2), MOST_PROCESSES))

    async def in_thread(self, what: str, work: Callable[[], T]) -> T:
        """Run `work` in a thread, one at a time. `what`: name of the work, for the watchdog."""
        with beside(what):
            return await to_thread.run_sync(work, limiter=self._threads, abandon_on_cancel=True)

    async def in_process(self, huge: HugeLine) -> ReadLine | None:
        """Read a huge line in a worker process. Returns None if it takes too long, or the process dies."""
        import_nothing_from_here()
        try:
            async with self._processes:
                with anyio.fail_after(self._seconds):
                    return await to_process.run_sync(
                        read_line, huge, cancellable=True, limiter=anyio.CapacityLimiter(1)
                    )
        except (TimeoutError, anyio.BrokenWorkerProcess) as error:
            reason = "takes too long" if isinstance(error, TimeoutError) else "has ended the process that read it"
            _log.warning(
                "a line is not read any further", reason=reason, stream=huge.context.stream, bytes=len(huge.line)
            )
            return None
