"""`tooltap normalize` of a folder of 500 recordings: with `--jobs 1`, and with as many jobs as it chooses itself.

The recordings are those of the row normalize, most of them short; and, because of these a second process costs as much
as it saves, generated ones of the length of a working session. Time includes the start of the command.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import NamedTuple

from tests.bench.harness import Figure, Note, Options, alternate, median, program
from tests.bench.lines.engine import recorded_file
from tests.bench.lines.generated import DIALECTS, conversation
from tests.bench.lines.recorded import Recorded, amount, recordings, renewed

__all__ = ["PROGRAM", "TITLE", "measure"]

TITLE = "folder: tooltap normalize of 500 recordings, with one job and by default"
PROGRAM = True
RECORDINGS = 500
LINES = 400
"""Lines of a generated recording."""
COMMAND = (sys.executable, "-m", "tooltap.cli", "normalize")


class Run(NamedTuple):
    seconds: float
    cpu_seconds: float


def measure(options: Options) -> list[Figure | Note]:
    environment = {**os.environ, **program(options.tree)}
    described = subprocess.run([*COMMAND, "--help"], env=environment, capture_output=True, text=True, check=True).stdout
    if "--jobs" not in described:
        return [Note("not measured: tooltap normalize has no option --jobs")]
    count = max(2, round(RECORDINGS * options.scale))
    recorded = list(recordings(options.captures))
    results: list[Figure | Note] = []
    for name, streams, target in (
        ("recordings", [renewed(one) for one in islice(cycle(recorded), count)], {}),
        ("working sessions", [conversation(one, LINES) for one in islice(cycle(DIALECTS), count)], {"target": 1.8}),
    ):
        runs = _compare(streams, environment, options)
        pairs = list(zip(runs["one job"], runs["default"], strict=True))
        speed = (one.seconds / default.seconds for one, default in pairs)
        results.append(median(f"{name}, × as fast as one job", speed, "×", read=amount(streams), **target))
        for side, samples in runs.items():
            results.append(median(f"{name}, {side}", (one.seconds for one in samples), "s", better="less"))
            cpu = (one.cpu_seconds for one in samples)
            results.append(median(f"{name}, {side}", cpu, "s processor", better="less"))
    return results


def _compare(streams: list[Recorded], environment: dict[str, str], options: Options) -> dict[str, list[Run]]:
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{number:03}-{one.dialect}.jsonl" for number, one in enumerate(streams)]
        for file, one in zip(files, streams, strict=True):
            file.write_bytes(recorded_file(one))
        sides = {"one job": ("--jobs", "1"), "default": ()}
        return alternate(
            {name: partial(_run, (*more, *files), environment) for name, more in sides.items()}, options.runs
        )


def _run(arguments: tuple[str | Path, ...], environment: dict[str, str]) -> Run:
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*COMMAND, *arguments], env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(time.perf_counter() - start, cpu)
