"""Normalizes long lines aside from the event loop, which meanwhile serves everybody else.

- Most lines are short, and the loop reads them in portions (`Turns`).
- A long line (`LONG_BYTES`) is read in a thread. The interpreter changes between the two every few milliseconds.
- A huge line (`HUGE_BYTES`) is read in another process, because single calls of libraries, which the interpreter
  cannot interrupt, take too long for it. The process gets the dump of the normalizer, and returns what results from the
  line, and the dump after it. It can be killed: when the daemon stops, when another connection takes the stream over,
  and when it takes too long (`LINE_SECONDS`). In the last case, and if it dies, the line is treated as one over the
  length limit, so that it stops nothing.

`anyio.to_process` provides the processes: they end when the daemon does, however that happens.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple, TypeAlias, TypeVar

import anyio
from anyio import to_process, to_thread

from tooltap.daemon.system.logs import get_logger
from tooltap.daemon.system.loop import beside
from tooltap.daemon.system.processes import import_nothing_from_here, usable_cores
from tooltap.normalizers.core.items import Context, OutputChunk, Produced
from tooltap.normalizers.stream.normalizer import Output, StreamNormalizer
from tooltap.normalizers.stream.reset import place_of
from tooltap.protocol.inputs import Direction
from tooltap.traces.drift.baselines import PACKAGED, load
from tooltap.traces.drift.drift import Drift, NewFindings
from tooltap.traces.drift.watch import StreamWatch, Watched

LONG_BYTES = 65_536
"""A longer line is normalized in a thread, so that the event loop serves others meanwhile, …"""
HUGE_BYTES = 1_048_576
"""… and one that is longer than this, in a process."""
LINE_SECONDS = 120.0
"""A huge line that takes longer to normalize is given up, as if it were over the length limit."""
IDLE = 10.0
"""Seconds after which a process without work ends."""
MOST_PROCESSES = 4
LONGEST_ERROR = 300
"""Characters of an error that a process returns."""

T = TypeVar("T")
_log = get_logger("ingest")


Failure: TypeAlias = tuple[str, str]
"""Where something was raised at a line in another process, and what it was."""


class Normalized(NamedTuple):
    """What another process has made of the next lines of a stream."""

    state: bytes
    """The dump of its normalizer."""
    outputs: Sequence[Output]
    t: int
    crc: tuple[int, int] | None
    """Number and CRC-32 of the last whole line."""
    found: NewFindings
    watched: Watched
    failures: Sequence[Failure]


class HugeLine(NamedTuple):
    line: bytes
    t: int
    direction: Direction | None
    context: Context
    partials: bool
    state: bytes
    """The dump of the normalizer."""
    agent_version: str | None


class ReadLine(NamedTuple):
    """What results from a huge line."""

    outputs: list[bytes | OutputChunk]
    """Events as bytes, and chunks of output bodies, in order."""
    state: bytes
    found: NewFindings
    watched: Watched
    failures: list[Failure]


class Offload:
    """Reads long lines in a thread, and huge ones in another process. `long_bytes`, `huge_bytes`: lines that have more
    are long, or huge. `seconds`: how long a huge line may take."""

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
        """Do work in the thread. `what`: its name, for the watchdog."""
        with beside(what):
            return await to_thread.run_sync(work, limiter=self._threads, abandon_on_cancel=True)

    async def in_process(self, huge: HugeLine) -> ReadLine | None:
        """Read a huge line in another process. Return None if it takes too long, or the process dies of it."""
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


def read_line(huge: HugeLine) -> ReadLine:
    """Read a huge line, in a worker."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the daemon
    try:
        normalizer, watch, failures = observed(huge.state, huge.context, huge.agent_version)
        normalizer.want_partials(huge.partials)
        outputs = normalizer.feed(huge.line, huge.t, huge.direction)
        return ReadLine(
            [one.body if isinstance(one, Produced) else one for one in outputs],
            normalizer.dump(),
            drift_of_process().take(),
            watch.watched,
            failures,
        )
    finally:
        signal.setitimer(signal.ITIMER_REAL, IDLE)


def observed(
    state: bytes, context: Context, agent_version: str | None
) -> tuple[StreamNormalizer, StreamWatch, list[Failure]]:
    """In a worker: the normalizer of a dump, watched for drift, and what is raised at its lines."""
    normalizer = StreamNormalizer.load(state, context)
    failures: list[Failure] = []
    normalizer.on_failure = lambda error: failures.append((place_of(error), repr(error)[:LONGEST_ERROR]))
    watch = StreamWatch(drift_of_process(), normalizer, agent_version)

    def observe(outputs: Sequence[Output]) -> None:
        if outputs or watch.has_pending:
            watch.add(outputs)

    normalizer.on_line = observe
    return normalizer, watch, failures


@cache
def drift_of_process() -> Drift:
    return Drift(partial(load, PACKAGED), thorough=False)
