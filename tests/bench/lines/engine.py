"""Normalizes recordings and measures it: by our own modules, or by the command of another tree."""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count, groupby
from pathlib import Path

from tests.bench.harness import CPU_TICK, Options, alternate, program
from tests.bench.lines.cost import Cost, bare, total
from tests.bench.lines.recorded import Recorded
from tooltap.normalizers.core.items import Context, OutputChunk
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.normalizers.wire.framing import LongLine
from tooltap.normalizers.wire.recording import Line
from tooltap.protocol.inputs import Direction, write_tapped

__all__ = ["Group", "costs", "enough_lines", "normalized", "recorded_file"]

COMMAND_LINES = 5
"""Factor for the number of lines given to a command, so that its start does not dominate."""
COMPILED = {
    "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / "tooltap-bench-modules"),
    "PYTHONDONTWRITEBYTECODE": "",
}
"""Environment variables by which all commands share one folder of compiled modules, whatever their tree."""
BLOCK = 64
"""Maximum number of lines in a block: about what one read of a pipe returns."""
Group = Callable[[], Sequence[Recorded]]
"""Function that makes the streams of one run, with ids of their own."""


def costs(groups: Mapping[str, Group], options: Options) -> dict[str, list[Cost]]:
    """Return the costs of each run of each group. The reference runs just before or just after each, in turn."""
    turns = count()
    sides = {name: _side(group, turns, options.tree) for name, group in groups.items()}
    return alternate(sides, options.runs)


def _side(group: Group, turns: count[int], tree: Path | None) -> Callable[[], Cost]:
    def run() -> Cost:
        recorded = group()
        first = next(turns) % 2
        gc.collect()
        reference = bare(recorded) if first else 0.0
        cost = normalized(recorded) if tree is None else commanded(recorded, tree)
        return cost._replace(bare=reference if first else bare(recorded))

    return run


def enough_lines(lines: int, options: Options) -> float:
    """Return the number of lines in one run of a row that has `lines` at scale 1."""
    return lines * options.scale * (1 if options.tree is None else COMMAND_LINES)


def normalized(recorded: Sequence[Recorded]) -> Cost:
    """Measure each recording with a normalizer of its own, from its first line to the bytes of its events."""
    return total([_normalized(one) for one in recorded])


def _blocks(lines: Iterable[Line]) -> Iterator[tuple[list[bytes | LongLine], int | None, Direction | None]]:
    """Yield lines in blocks of equal time and direction, as chunks of a pipe bring them."""
    for stamp, group in groupby(lines, lambda line: (line.t, line.direction)):
        same = [line.data for line in group]
        for first in range(0, len(same), BLOCK):
            yield same[first : first + BLOCK], *stamp


def _normalized(recorded: Recorded) -> Cost:
    before, blocks = list(_blocks(recorded.before)), list(_blocks(recorded.lines))
    start = time.thread_time()
    normalizer = StreamNormalizer(Context(stream="bench", provider=recorded.provider), recorded.dialect)
    bodies: list[bytes] = []
    if before:
        for block in before:
            normalizer.feed_block(*block)
        start = time.thread_time()
    for block in blocks:
        for output in normalizer.feed_block(*block):
            if not isinstance(output, OutputChunk):
                bodies.append(output.body)
    if not recorded.before:
        for output in normalizer.close("end"):
            if not isinstance(output, OutputChunk):
                bodies.append(output.body)
    seconds = time.thread_time() - start
    return Cost(seconds, len(recorded.lines), len(bodies), sum(map(len, bodies)), 0.0)


def commanded(recorded: Sequence[Recorded], tree: Path) -> Cost:
    """Measure `tooltap normalize` of this tree: its processor time minus that for an empty file."""
    made = []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "empty.jsonl").touch()
        for dialect in {one.dialect for one in recorded}:
            streams = [one for one in recorded if one.dialect == dialect]
            files = [Path(folder) / f"{dialect}-{number}.jsonl" for number in range(len(streams))]
            for file, one in zip(files, streams, strict=True):
                file.write_bytes(recorded_file(one))
            idle, _ = _command(dialect, [Path(folder) / "empty.jsonl"], tree)
            seconds, events = _command(dialect, files, tree)
            lines = sum(len(one.before) + len(one.lines) for one in streams)
            made.append(Cost(max(seconds - idle, CPU_TICK), lines, events.count(b"\n"), len(events), 0.0))
    return total(made)


def recorded_file(recorded: Recorded) -> bytes:
    """Encode the stream as a recording: tapped lines if it has directions or times."""
    lines = [*recorded.before, *recorded.lines]
    tapped = any(line.direction is not None or line.t is not None for line in lines)
    return b"".join(
        (write_tapped(line.data, line.t, line.direction) if tapped else line.data) + b"\n"
        for line in lines
        if isinstance(line.data, bytes)
    )


def _use_one_core() -> None:
    """Restrict the process to one core, so that no tree shares the work among processes, which would add their cost."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def _command(dialect: str, files: Sequence[Path], tree: Path) -> tuple[float, bytes]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    events = subprocess.run(
        [sys.executable, "-m", "tooltap.cli", "normalize", "--dialect", dialect, *files],
        stdout=subprocess.PIPE,
        env={**os.environ, **program(tree), **COMPILED},
        preexec_fn=_use_one_core,
        check=True,
    ).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, events
