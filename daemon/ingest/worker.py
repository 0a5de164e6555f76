"""What worker processes do with lines: they normalize them, and watch them for drift.

A worker imports this module anew, so it imports little: nothing of the event loop, and no logs.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from functools import cache, partial
from typing import NamedTuple, TypeAlias

from tooltap.normalizers.core.items import Context, OutputChunk, Produced
from tooltap.normalizers.stream.normalizer import Output, StreamNormalizer
from tooltap.normalizers.stream.reset import place_of
from tooltap.protocol.inputs import Direction
from tooltap.traces.drift.baselines import PACKAGED, load
from tooltap.traces.drift.drift import Drift, NewFindings
from tooltap.traces.drift.watch import StreamWatch, Watched

IDLE = 10.0
"""Seconds after which an idle worker process ends."""
LONGEST_ERROR = 300
"""Characters kept of an error that a worker process returns."""

Failure: TypeAlias = tuple[str, str]
"""An error raised at a line in a worker process: (place in the code, repr of the exception)."""


class HugeLine(NamedTuple):
    line: bytes
    t: int
    direction: Direction | None
    context: Context
    partials: bool
    state: bytes
    """Dump of the normalizer before the line."""
    agent_version: str | None


class ReadLine(NamedTuple):
    """The result of normalizing a huge line."""

    outputs: list[bytes | OutputChunk]
    """Events as bytes, and chunks of output bodies, in order."""
    state: bytes
    found: NewFindings
    watched: Watched
    failures: list[Failure]


def read_line(huge: HugeLine) -> ReadLine:
    """Read a huge line. Runs in a worker process."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the daemon
    try:
        normalizer, watch, failures = observed(huge.state, huge.context, huge.agent_version)
        normalizer.want_partials(huge.partials)
        outputs = normalizer.feed(huge.line, huge.t, huge.direction)
        watched = watch.finish_part()
        return ReadLine(
            [one.body if isinstance(one, Produced) else one for one in outputs],
            normalizer.dump(),
            drift_of_process().take(),
            watched,
            failures,
        )
    finally:
        signal.setitimer(signal.ITIMER_REAL, IDLE)


def observed(
    state: bytes, context: Context, agent_version: str | None
) -> tuple[StreamNormalizer, StreamWatch, list[Failure]]:
    """Load a normalizer from a dump and attach drift detection, in a worker process. The returned list collects errors
    at lines."""
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
    return Drift(partial(load, PACKAGED), thorough=False, redacts=False)
