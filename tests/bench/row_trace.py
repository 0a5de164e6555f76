"""The cost of a trace: recorded streams of many agents are published to a daemon with and without a trace.

The daemon is its own process; eight connections publish concurrently. Its processor time is read after the trace is
complete, so that the work of its threads counts too.
"""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.bench.harness import Figure, Options, alternate, cpu_seconds, cpu_seconds_since, median
from tests.bench.lines.cost import Cost, bare, figures
from tests.bench.lines.engine import normalized, recorded_file
from tests.bench.lines.recorded import FIXTURES, Recorded, amount, renewed
from tests.daemon.processes import DaemonProcess
from tooltap.protocol.inputs import looks_tapped
from tooltap.testing import read_recording

__all__ = ["TITLE", "measure"]

TITLE = "trace: recorded streams into a daemon with and without a trace of their raw lines"
DIALECTS = ("acp", "claude-stream", "codex-exec", "codex-mcp", "gemini-stream", "opencode-run")
CONNECTIONS = 8
ROUNDS = 8
"""Number of times that each stream is published in one run, each with a new name and other ids."""


class Stream(NamedTuple):
    data: bytes
    framing: str
    parsed: Recorded


class Run(NamedTuple):
    seconds: float
    cpu_seconds: float
    lines: int

    def cost(self, reference: Cost) -> Cost:
        """Return the measured processor time, with events and bytes extrapolated from `reference`, which has read some
        of the lines."""
        return reference.of(self.lines)._replace(seconds=self.cpu_seconds)


def measure(options: Options) -> list[Figure]:
    recordings = [_read(path) for dialect in DIALECTS for path in sorted((FIXTURES / dialect).glob("*/*.jsonl"))]
    rounds = max(1, round(ROUNDS * options.scale))
    recordings = recordings[: max(CONNECTIONS, round(len(recordings) * options.scale))]
    runs = alternate(
        {"without": lambda: _run(recordings, rounds, False), "with": lambda: _run(recordings, rounds, True)},
        options.runs,
    )
    pairs = list(zip(runs["without"], runs["with"], strict=True))
    lines = [one.parsed for one in recordings]
    reference = normalized(lines)._replace(bare=bare(lines))
    return [
        median("throughput, × that without a trace", (off.seconds / on.seconds for off, on in pairs), "×", target=0.9),
        median(
            "processor time, × that without a trace",
            (on.cpu_seconds / off.cpu_seconds for off, on in pairs),
            "×",
            target=1.1,
            better="less",
        ),
        median(
            "processor time per traced line",
            (1e6 * (on.cpu_seconds - off.cpu_seconds) / on.lines for off, on in pairs),
            "µs",
        ),
        *figures("without a trace", (one.cost(reference) for one in runs["without"]), amount(lines)),
        *figures("with a trace", (one.cost(reference) for one in runs["with"]), amount(lines)),
        median("throughput without a trace", (off.lines / off.seconds for off, _ in pairs), "lines/s"),
        median("throughput with a trace", (on.lines / on.seconds for _, on in pairs), "lines/s"),
    ]


def _read(path: Path) -> Stream:
    return _stream(Recorded(path.parent.parent.name, None, read_recording(path.read_bytes())))


def _stream(parsed: Recorded) -> Stream:
    data = recorded_file(parsed)
    return Stream(data, "tapped" if looks_tapped(data.split(b"\n", 1)[0]) else "raw", parsed)


def _run(recordings: list[Stream], rounds: int, traced: bool) -> Run:
    """Run a daemon: publish every recording once to warm it up, and then `rounds` times."""
    lines = sum(one.data.count(b"\n") for one in recordings)
    turns = [_named(recordings, turn) for turn in range(rounds + 1)]
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.jsonl"
        daemon = DaemonProcess(
            Path(folder),
            HAPPIER_STACK_TOOL_TRACE="1" if traced else "",
            HAPPIER_STACK_TOOL_TRACE_FILE=str(trace),
        )
        with daemon.wait_ready(), ThreadPoolExecutor(CONNECTIONS) as pool:
            for turn, streams in enumerate(turns):
                if turn == 1:
                    cpu, start = cpu_seconds(daemon.process.pid), time.perf_counter()
                list(pool.map(lambda one: _publish(daemon, *one), streams))
            seconds = time.perf_counter() - start
            while traced and _count(trace) < (rounds + 1) * lines:
                time.sleep(0.01)
            cpu = cpu_seconds_since(cpu, daemon.process.pid)
    return Run(seconds, cpu, rounds * lines)


def _named(recordings: list[Stream], turn: int) -> list[tuple[str, Stream]]:
    return [(f"s{turn}-{number}", _stream(renewed(one.parsed))) for number, one in enumerate(recordings)]


def _count(trace: Path) -> int:
    """The number of lines in the trace so far."""
    records = trace.read_bytes().splitlines() if trace.exists() else []
    return sum(b'"op":"close"' not in record[:400] for record in records)


def _publish(daemon: DaemonProcess, stream: str, recorded: Stream) -> None:
    with daemon.connect() as wire:
        wire.send("ingest", stream=stream, framing=recorded.framing)
        wire.write(recorded.data)
        if recorded.framing == "tapped":
            wire.send("end")
        wire.finish()
        wire.until("done")
