"""What a trace costs: recorded streams of many agents go into a daemon that writes a trace, and into one that does not.

The daemon is a process of its own, as are its journal and trace; streams come over eight connections at once. Its
processor time is taken when it has ended, so that what its threads did late counts, too.
"""

from __future__ import annotations

import resource
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.bench.harness import Figure, Options, alternate, median
from tests.daemon.processes import DaemonProcess
from tooltap.protocol.tapped import looks_tapped

__all__ = ["TITLE", "measure"]

TITLE = "trace: recorded streams into a daemon with and without a trace of their raw lines"
FIXTURES = Path(__file__).parent.parent / "fixtures"
DIALECTS = ("acp", "claude-stream", "codex-exec", "codex-mcp", "gemini-stream", "opencode-run")
CONNECTIONS = 8
ROUNDS = 8
"""How often each stream is published in one turn, under a new name each time."""
RATE = 10_000
"""Lines per second at which the cost is told."""


class Recorded(NamedTuple):
    data: bytes
    framing: str
    lines: int


class Run(NamedTuple):
    seconds: float
    cpu_seconds: float
    lines: int


def measure(options: Options) -> list[Figure]:
    recordings = [_read(path) for dialect in DIALECTS for path in sorted((FIXTURES / dialect).glob("*/*.jsonl"))]
    rounds = max(1, round(ROUNDS * options.scale))
    recordings = recordings[: max(CONNECTIONS, round(len(recordings) * options.scale))]
    runs = alternate(
        {"without": lambda: _run(recordings, rounds, False), "with": lambda: _run(recordings, rounds, True)},
        options.runs,
    )
    pairs = list(zip(runs["without"], runs["with"], strict=True))
    return [
        median("throughput kept", (off.seconds / on.seconds for off, on in pairs), "×", reach=0.9),
        median(
            f"processor time at {RATE:,} lines/s",
            (100 * RATE * (on.cpu_seconds - off.cpu_seconds) / on.lines for off, on in pairs),
            "% of one",
            reach=10,
            better="less",
        ),
        median("without a trace", (off.lines / off.seconds for off, _ in pairs), "lines/s"),
        median("with a trace", (on.lines / on.seconds for _, on in pairs), "lines/s"),
    ]


def _read(path: Path) -> Recorded:
    data = path.read_bytes().removesuffix(b"\n") + b"\n"
    tapped = looks_tapped(data.split(b"\n", 1)[0])
    return Recorded(data, "tapped" if tapped else "raw", data.count(b"\n"))


def _run(recordings: list[Recorded], rounds: int, traced: bool) -> Run:
    """One life of a daemon that takes in every recording `rounds` times."""
    jobs = [(f"s{turn}-{number}", one) for turn in range(rounds) for number, one in enumerate(recordings)]
    lines = rounds * sum(one.lines for one in recordings)
    cpu = _cpu_of_children()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.jsonl"
        daemon = DaemonProcess(
            Path(folder),
            HAPPIER_STACK_TOOL_TRACE="1" if traced else "",
            HAPPIER_STACK_TOOL_TRACE_FILE=str(trace),
        )
        with daemon.wait_ready(), ThreadPoolExecutor(CONNECTIONS) as pool:
            start = time.perf_counter()
            for _ in pool.map(lambda job: _publish(daemon, *job), jobs):
                pass
            seconds = time.perf_counter() - start
            daemon.process.terminate()
            daemon.wait()
        if traced:
            written = sum(b'"op":"close"' not in line[:400] for line in trace.read_bytes().splitlines())
            assert written == lines, f"{lines} lines were published, {written} traced"
    return Run(seconds, _cpu_of_children() - cpu, lines)


def _publish(daemon: DaemonProcess, stream: str, recorded: Recorded) -> None:
    with daemon.connect() as wire:
        wire.send("ingest", stream=stream, framing=recorded.framing)
        wire.write(recorded.data)
        if recorded.framing == "tapped":
            wire.send("end")
        wire.finish()
        wire.until("done")


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
