"""`tooltap up` on a fresh home until all stored sessions are read, against `tooltap normalize` of the same files.

The home has session files of Claude Code and Codex. Each is as long as a working session: it joins recordings, copies
with ids of their own, under one session's id. Processor time is that of all processes, from the start of `up` to its
end; its bytecode is compiled before, as that of an installed program is. Disk space is that of the journal, its bodies
and the search index, when `up` has ended. Memory is that of the daemon's process when all is read; the processes that
read with it end ten seconds later. `agentsview`, a Go program from PyPI, is measured where it is installed.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count, cycle
from pathlib import Path
from typing import NamedTuple

from tests.bench.harness import Figure, Note, Options, alternate, median, program
from tests.bench.lines.recorded import Recorded, recordings, renewed
from tooltap.daemon.client.blocking import ask
from tooltap.daemon.client.discovery import NoDaemonError

__all__ = ["PLACES", "PROGRAM", "TITLE", "environment_of", "fill", "has_read_all", "measure", "session_of", "started"]

TITLE = "up: until all stored sessions are read, against tooltap normalize of the same files"
PROGRAM = True
HOME_BYTES, FILE_BYTES = 100_000_000, 450_000
AGE = 3_600
"""Seconds for which the files have not changed."""
PERIOD = 0.5
"""Seconds between two questions whether all is read."""
FIRST_PERIOD = 0.1
"""The same, whether a session is listed."""
PATIENCE = 60.0
COMMAND = (sys.executable, "-m", "tooltap.cli")
PLACES = {
    "claude-transcript": ".claude/projects/-work/{session}.jsonl",
    "codex-rollout": ".codex/sessions/2026/01/02/rollout-2026-01-02T03-04-05-{session}.jsonl",
}
SESSION = {
    "claude-transcript": re.compile(rb'"sessionId":\s*"([^"]+)"'),
    "codex-rollout": re.compile(rb'"type":\s*"session_meta".*?"id":\s*"([^"]+)"'),
}


class Run(NamedTuple):
    cpu_seconds: float
    seconds: float
    first: float = 0.0
    """Seconds until the first session can be listed."""
    disk: int = 0
    """Bytes that `up` keeps."""
    memory: float | None = None
    """MB of the daemon; None where the system does not say."""


def measure(options: Options) -> list[Figure | Note]:
    recorded = [one for one in recordings(options.captures) if one.dialect in PLACES and session_of(one)]
    if not recorded:
        return [Note("not measured: there are no recordings of session files")]
    with tempfile.TemporaryDirectory() as folder:
        files = list(fill(Path(folder) / "home", recorded, round(HOME_BYTES * options.scale)))
        size = sum(file.stat().st_size for file in files)
        environment = environment_of(Path(folder), options)
        numbers = count()
        sides = {
            "up": lambda: _up(Path(folder) / str(next(numbers)), environment),
            "normalize": lambda: _normalize(files, environment),
        }
        if (rival := shutil.which("agentsview")) is not None:
            sides["agentsview"] = lambda: _rival(rival, Path(folder) / str(next(numbers)), environment)
        runs = alternate(sides, options.runs)
    pairs = zip(runs["up"], runs["normalize"], strict=True)
    ratios = [up.cpu_seconds / normalize.cpu_seconds for up, normalize in pairs]
    read = f"{len(files):,} files, {size / 1e6:,.1f} MB"
    disk = [one.disk / size for one in runs["up"]]
    clock = [up.seconds / rival.seconds for up, rival in zip(runs["up"], runs.get("agentsview", ()), strict=False)]
    memory = [one.memory for one in runs["up"] if one.memory is not None]
    return [
        median("up, × the processor time of normalize", ratios, "×", read=read, target=2.5, better="less"),
        *(
            median(name, [one.cpu_seconds for one in samples], "s processor", better="less")
            for name, samples in runs.items()
        ),
        median("up, until all is read", [one.seconds for one in runs["up"]], "s", better="less"),
        median(
            "up, until the first session is listed", [one.first for one in runs["up"]], "s", target=3, better="less"
        ),
        median("up, disk space × the files", disk, "×", target=0.5, better="less"),
        *([median("up, until all is read, × agentsview sync", clock, "×", target=1, better="less")] if clock else []),
        *([median("up, memory of the daemon", memory, "MB", target=100, better="less")] if memory else []),
    ]


def fill(home: Path, recorded: Sequence[Recorded], size: int) -> Iterator[Path]:
    """Write session files of `size` bytes in total, each dialect in turn."""
    of_dialects = [[one for one in recorded if one.dialect == dialect] for dialect in PLACES]
    total = 0
    for chosen in cycle([cycle(some) for some in of_dialects if some]):
        session = str(uuid.uuid4())
        data = b""
        while len(data) < min(FILE_BYTES, size):
            one = next(chosen)
            data += _of_session(renewed(one), session)
        path = home / PLACES[one.dialect].format(session=session)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        changed = time.time() - AGE
        os.utime(path, (changed, changed))
        yield path
        total += len(data)
        if total >= size:
            return


def session_of(recorded: Recorded) -> bytes | None:
    match = SESSION[recorded.dialect].search(_data(recorded))
    return None if match is None else match[1]


def _of_session(recorded: Recorded, session: str) -> bytes:
    own = session_of(recorded)
    assert own is not None
    return _data(recorded).replace(own, session.encode())


def _data(recorded: Recorded) -> bytes:
    return b"".join(line.data + b"\n" for line in recorded.lines if isinstance(line.data, bytes))


def environment_of(folder: Path, options: Options) -> dict[str, str]:
    """The environment of a user whose home has the files."""
    foreign = ("XDG_", "CLAUDE", "CODEX", "TOOLTAP", "PYTHONDONTWRITEBYTECODE")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(foreign)},
        **program(options.tree),
        "HOME": str(folder / "home"),
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
    }


@contextmanager
def started(folder: Path, environment: Mapping[str, str]) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Run `up` with its own files in a folder, and interrupt it in the end. Yields the process and its socket."""
    folder.mkdir()
    socket = folder / "t.sock"
    process = subprocess.Popen(
        [*COMMAND, "up", "--no-open", "--socket", socket],
        env={**environment, "XDG_DATA_HOME": str(folder / "data"), "XDG_STATE_HOME": str(folder / "state")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process, socket
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()


def _up(folder: Path, environment: Mapping[str, str]) -> Run:
    """Run `up` until it has read all."""
    begun, before = time.perf_counter(), _cpu_seconds()
    with started(folder, environment) as (process, socket):
        first = until(process, lambda: _has_session(socket), FIRST_PERIOD) - begun
        seconds = until(process, lambda: has_read_all(socket), PERIOD) - begun
        memory = _memory(process.pid)
    disk = sum(path.stat().st_size for path in (folder / "data").rglob("*") if path.is_file())
    return Run(_cpu_seconds() - before, seconds, first, disk, memory)


def until(process: subprocess.Popen[bytes], condition: Callable[[], bool], period: float) -> float:
    """Ask until a condition holds, and return when that was."""
    while not condition():
        if process.poll() is not None:
            raise RuntimeError(f"tooltap up has ended with exit code {process.returncode}")
        time.sleep(period)
    return time.perf_counter()


def _has_session(socket: Path) -> bool:
    try:  # a page without sessions, for which no price is looked up
        facets = ask("sessions", path=socket, timeout=PATIENCE, limit=1, before=0, facets=True)["facets"]
    except NoDaemonError:
        return False
    return any(facets["status"].values())


def _memory(pid: int) -> float | None:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return None
    match = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    return None if match is None else int(match[1]) * 1_024 / 1e6


def has_read_all(socket: Path) -> bool:
    try:
        backfill = ask("stats", path=socket, timeout=PATIENCE, part="following")["following"]["backfill"]
    except NoDaemonError:
        return False
    return bool(backfill["complete"] and backfill["files"])


def _normalize(files: Sequence[Path], environment: Mapping[str, str]) -> Run:
    begun, before = time.perf_counter(), _cpu_seconds()
    command: list[str | Path] = [*COMMAND, "normalize", "--jobs", "1", *files]
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return Run(_cpu_seconds() - before, time.perf_counter() - begun)


def _rival(program: str, folder: Path, environment: Mapping[str, str]) -> Run:
    """Run `agentsview sync`, which reads the same files into a database of its own, without its server."""
    folder.mkdir()
    own = {"AGENTSVIEW_DATA_DIR": str(folder), "AGENTSVIEW_NO_DAEMON": "1", "AGENTSVIEW_TELEMETRY_ENABLED": "0"}
    begun, before = time.perf_counter(), _cpu_seconds()
    subprocess.run(
        [program, "sync"], env={**environment, **own}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True
    )
    return Run(_cpu_seconds() - before, time.perf_counter() - begun)


def _cpu_seconds() -> float:
    """Processor time of all child processes that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
