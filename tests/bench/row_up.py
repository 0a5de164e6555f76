"""`tooltap up` on a fresh home until all stored sessions are read, against `tooltap normalize` of the same files.

The home has session files of Claude Code and Codex. Each is as long as a working session: it joins recordings, copies
with ids of their own, under one session's id. Processor time is that of all processes, from the start of `up` to its
end; its bytecode is compiled before, as that of an installed program is. Disk space is that of the journal, its bodies
and the search index, when `up` has ended.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, cycle
from pathlib import Path
from typing import NamedTuple

from tests.bench.harness import Figure, Note, Options, alternate, median, program
from tests.bench.lines.recorded import Recorded, recordings, renewed
from tooltap.daemon.client.blocking import ask
from tooltap.daemon.client.discovery import NoDaemonError

__all__ = ["PROGRAM", "TITLE", "measure"]

TITLE = "up: until all stored sessions are read, against tooltap normalize of the same files"
PROGRAM = True
HOME_BYTES, FILE_BYTES = 100_000_000, 450_000
AGE = 3_600
"""Seconds for which the files have not changed."""
PERIOD = 0.5
"""Seconds between two questions whether all is read."""
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
    disk: int
    """Bytes that `up` keeps; 0 for `normalize`."""


def measure(options: Options) -> list[Figure | Note]:
    recorded = [one for one in recordings(options.captures) if one.dialect in PLACES and _session_of(one)]
    if not recorded:
        return [Note("not measured: there are no recordings of session files")]
    with tempfile.TemporaryDirectory() as folder:
        files = list(_fill(Path(folder) / "home", recorded, round(HOME_BYTES * options.scale)))
        size = sum(file.stat().st_size for file in files)
        environment = _environment(Path(folder), options)
        numbers = count()
        runs = alternate(
            {
                "up": lambda: _up(Path(folder) / str(next(numbers)), environment),
                "normalize": lambda: _normalize(files, environment),
            },
            options.runs,
        )
    pairs = zip(runs["up"], runs["normalize"], strict=True)
    ratios = [up.cpu_seconds / normalize.cpu_seconds for up, normalize in pairs]
    read = f"{len(files):,} files, {size / 1e6:,.1f} MB"
    disk = [one.disk / size for one in runs["up"]]
    return [
        median("up, × the processor time of normalize", ratios, "×", read=read, target=2.5, better="less"),
        *(
            median(name, [one.cpu_seconds for one in samples], "s processor", better="less")
            for name, samples in runs.items()
        ),
        median("up, until all is read", [one.seconds for one in runs["up"]], "s", better="less"),
        median("up, disk space × the files", disk, "×", target=0.5, better="less"),
    ]


def _fill(home: Path, recorded: Sequence[Recorded], size: int) -> Iterator[Path]:
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


def _session_of(recorded: Recorded) -> bytes | None:
    match = SESSION[recorded.dialect].search(_data(recorded))
    return None if match is None else match[1]


def _of_session(recorded: Recorded, session: str) -> bytes:
    own = _session_of(recorded)
    assert own is not None
    return _data(recorded).replace(own, session.encode())


def _data(recorded: Recorded) -> bytes:
    return b"".join(line.data + b"\n" for line in recorded.lines if isinstance(line.data, bytes))


def _environment(folder: Path, options: Options) -> dict[str, str]:
    """The environment of a user whose home has the files."""
    foreign = ("XDG_", "CLAUDE", "CODEX", "TOOLTAP", "PYTHONDONTWRITEBYTECODE")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(foreign)},
        **program(options.tree),
        "HOME": str(folder / "home"),
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
    }


def _up(folder: Path, environment: Mapping[str, str]) -> Run:
    """Run `up` with its own files in a folder until it has read all."""
    folder.mkdir()
    socket = folder / "t.sock"
    kept = folder / "data"
    begun, before = time.perf_counter(), _cpu_seconds()
    process = subprocess.Popen(
        [*COMMAND, "up", "--no-open", "--socket", socket],
        env={**environment, "XDG_DATA_HOME": str(kept), "XDG_STATE_HOME": str(folder / "state")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not _has_read_all(socket):
            if process.poll() is not None:
                raise RuntimeError(f"tooltap up has ended with exit code {process.returncode}")
            time.sleep(PERIOD)
        seconds = time.perf_counter() - begun
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()
    disk = sum(path.stat().st_size for path in kept.rglob("*") if path.is_file())
    return Run(_cpu_seconds() - before, seconds, disk)


def _has_read_all(socket: Path) -> bool:
    try:
        backfill = ask("stats", path=socket, timeout=PATIENCE)["following"]["backfill"]
    except NoDaemonError:
        return False
    return bool(backfill["complete"] and backfill["files"])


def _normalize(files: Sequence[Path], environment: Mapping[str, str]) -> Run:
    begun, before = time.perf_counter(), _cpu_seconds()
    command: list[str | Path] = [*COMMAND, "normalize", "--jobs", "1", *files]
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return Run(_cpu_seconds() - before, time.perf_counter() - begun, 0)


def _cpu_seconds() -> float:
    """Processor time of all child processes that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
