"""`--jobs`: several processes write what one would, byte for byte, and however they end, nothing is left behind."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path

import pytest

from tests.cli.command import COMMAND, Child, environment, here, sentence, start, tooltap
from tests.cli.screen import started
from tests.programs import require
from tooltap.daemon.system import workers

RECORDINGS = Path(__file__).parents[2] / "fixtures"
"""Enough of them that the work is shared."""


def same_for_any_jobs(*arguments: object) -> subprocess.CompletedProcess[bytes]:
    one, three = (tooltap(*arguments, "--jobs", jobs) for jobs in (1, 3))
    assert (three.returncode, three.stdout, three.stderr) == (one.returncode, one.stdout, one.stderr)
    return three


def test_normalize_gives_the_same(tmp_path: Path) -> None:
    finished = same_for_any_jobs("normalize", "--stats-json", "--partials", RECORDINGS)
    assert (finished.returncode, finished.stderr.count(b'"total":true')) == (0, 1)

    bodies = []
    for jobs in (1, 3):
        folder = tmp_path / str(jobs)
        tooltap("normalize", "--outputs", folder, RECORDINGS, "--jobs", jobs)
        bodies.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert bodies[0] == bodies[1] != {}


def test_normalize_reports_each_unreadable_file_and_reads_the_others(tmp_path: Path) -> None:
    gone = tmp_path / "gone.jsonl"
    finished = same_for_any_jobs("normalize", gone, RECORDINGS, gone, RECORDINGS / "acp")

    assert (finished.returncode, finished.stderr.decode()) == (1, f"tooltap: {gone}: No such file or directory\n" * 2)
    assert finished.stdout == here("normalize", RECORDINGS, RECORDINGS / "acp").stdout


def test_drift_reports_the_same() -> None:
    """Over recordings, and traces whose streams are in several files."""
    recordings = sorted(RECORDINGS.glob("*/*/*.jsonl"))
    assert json.loads(same_for_any_jobs("drift", "--json", RECORDINGS / "acp", RECORDINGS / "gemini-chat").stdout)[
        "agents"
    ]
    assert same_for_any_jobs("drift", *recordings[::4]).stdout


def test_fixtures_are_the_same(tmp_path: Path) -> None:
    keys = same_for_any_jobs("fixtures", "keys", RECORDINGS)
    (tmp_path / "keys.txt").write_bytes(keys.stdout)
    folders = []
    for jobs in (1, 3):
        folder = tmp_path / str(jobs)
        options = ("--allowlist", tmp_path / "keys.txt", "--out", folder, "--jobs", jobs)
        assert tooltap("fixtures", "extract", RECORDINGS / "claude-stream", *options).returncode == 0
        folders.append({path.name: path.read_bytes() for path in folder.rglob("*.json")})
    assert folders[0] == folders[1] != {}


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recordings as a trace of two files, line by line in turn; some streams continue in the second. One restarts,
    and one record is torn."""
    folder = tmp_path_factory.mktemp("traces")
    streams = []
    for number, path in enumerate(sorted(RECORDINGS.glob("*/*/*.jsonl"))):
        name = f"{path.stem}-{number}"
        records = [
            json.dumps({"v": 1, "t": 1_795_293_555_000 + n, "stream": name, "n": n, "line": line.decode()})
            for n, line in enumerate(path.read_bytes().splitlines(), 1)
        ]
        streams.append([*records, *records[:3]] if number == 7 else records)
    lines = [line for turn in zip_longest(*streams) for line in turn if line is not None]
    lines.insert(1000, lines[1000][:50])
    half = len(lines) // 2
    for name, part in (("a.jsonl", lines[:half]), ("b.jsonl", lines[half:])):
        (folder / name).write_text("\n".join([*part, ""]))
    return folder


def test_replay_prints_the_same(traces: Path) -> None:
    finished = same_for_any_jobs("replay", "--stats-json", traces)
    assert (finished.returncode, finished.stderr.splitlines()[0]) == (
        0,
        f"tooltap: {traces / 'a.jsonl'}: 1 damaged record(s) skipped".encode(),
    )


def test_replay_stops_at_the_same_line(traces: Path, tmp_path: Path) -> None:
    lines = (traces / "a.jsonl").read_bytes().splitlines(keepends=True)
    lines.insert(len(lines) - 300, b'{"v":1,"stream":"odd","dialect":"babel","n":1,"line":"x"}\n')
    (tmp_path / "odd.jsonl").write_bytes(b"".join(lines))
    finished = same_for_any_jobs("replay", tmp_path)

    assert (finished.returncode, finished.stderr[:39]) == (2, b"tooltap: there is no dialect 'babel'; k")
    assert finished.stdout


# -- how it ends ------------------------------------------------------------------------------------------------------


class Blocked:
    """`tooltap normalize` with two workers, one of which waits for the lines of a pipe."""

    def __init__(self, child: Child, pipe: Path) -> None:
        self.child = child
        self.lines = os.open(pipe, os.O_WRONLY)  # waits until the worker reads
        self.workers = [pid for pid, parent, _ in _processes() if parent == child.process.pid]
        assert len(self.workers) == 2
        self._pipe = pipe

    @property
    def reader(self) -> int:
        """The worker that reads the pipe. It may have any of the numbers: they begin again at some time."""
        [reader] = [pid for pid in self.workers if self._pipe in _open_files(pid)]
        return reader

    def wait_for_workers(self) -> None:
        """Wait until they have ended."""
        while [pid for pid, _, state in _processes() if pid in self.workers and not state.startswith("Z")]:
            pass


def _processes() -> list[tuple[int, int, str]]:
    """`(pid, parent, state)` of each."""
    require("ps")
    found = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,state="], capture_output=True, text=True, check=True).stdout
    fields = [line.split() for line in found.splitlines()]
    return [(int(pid), int(parent), state) for pid, parent, state in fields]


def _open_files(pid: int) -> list[Path]:
    return [path.readlink() for path in Path(f"/proc/{pid}/fd").iterdir()]


@contextmanager
def blocked(folder: Path) -> Iterator[Blocked]:
    pipe = folder / "pipe.jsonl"
    os.mkfifo(pipe)
    with start("normalize", "--jobs", 2, pipe, RECORDINGS, start_new_session=True) as child:
        one = Blocked(child, pipe)
        try:
            yield one
        finally:
            os.close(one.lines)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
@pytest.mark.parametrize("to_all", [False, True])
def test_signal_ends_everything_quietly(tmp_path: Path, number: signal.Signals, code: int, to_all: bool) -> None:
    """`to_all`: as a terminal sends it."""
    with blocked(tmp_path) as one:
        (os.killpg if to_all else os.kill)(one.child.process.pid, number)
        assert one.child.process.wait(60) == code
        one.wait_for_workers()
        assert one.child.end()[1:] == (b"", b"")


def test_workers_end_with_a_killed_command(tmp_path: Path) -> None:
    with blocked(tmp_path) as one:
        one.child.kill()
        one.wait_for_workers()


def test_killed_worker_ends_the_command_with_one_sentence(tmp_path: Path) -> None:
    with blocked(tmp_path) as one:
        os.kill(one.reader, signal.SIGKILL)
        code, output, errors = one.child.end()
        assert (code, output) == (1, b"")
        assert errors == (
            b"tooltap: a worker process was ended by signal 9 before its work was done; is there enough memory?\n"
        )
        one.wait_for_workers()


def test_workers_end_when_the_reader_does(tmp_path: Path) -> None:
    with start("normalize", "--jobs", 2, *[RECORDINGS] * 20) as child:
        assert child.line()
        workers = [pid for pid, parent, _ in _processes() if parent == child.process.pid]
        child.leave()
        assert child.process.wait(60) == 0
        assert workers
        assert not [pid for pid, _, state in _processes() if pid in workers and not state.startswith("Z")]


@pytest.mark.parametrize("command", ["normalize", "drift", "fixtures keys", "replay"])
def test_progress_at_a_terminal(tmp_path: Path, traces: Path, command: str) -> None:
    source = traces if command == "replay" else RECORDINGS
    line = f"{shlex.join(COMMAND)} {command} --jobs 2 {source} >{tmp_path / 'out'}"
    with started(["sh", "-c", line], environment()) as screen:
        assert screen.end() in (0, 1)
    assert b"100%" in screen.shown


@pytest.mark.parametrize("jobs", ["0", "-1", "many"])
def test_wrong_number_is_a_usage_error(jobs: str) -> None:
    finished = here("normalize", "--jobs", jobs, RECORDINGS)

    assert (finished.returncode, finished.stdout) == (2, b"")
    assert "Invalid value for '--jobs'" in sentence(finished)
    assert jobs in sentence(finished)


def test_the_documented_limits() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "commands.md").read_text()
    section = " ".join(page[page.index("## Many recordings") : page.index("## Exit codes")].split())
    assert f"Less than {workers.WORTH >> 20} MiB of recordings" in section
    assert f"in memory up to {workers.MAX_MEMORY >> 20} MiB" in section
    assert f"a temporary file up to {workers.MAX_FILE >> 30} GiB" in section
    [sharing] = re.findall("((?:`[^`]+`,? (?:and )?)+)share", section)
    names = re.findall("`([^`]+)`", sharing)
    assert len(names) == 6
    for name in names:
        assert "--jobs" in here(*name.split(), "--help").stdout.decode()
