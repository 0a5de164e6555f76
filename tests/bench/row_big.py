"""A large home: until all is read, and how soon the list of sessions answers meanwhile. 200 MB of session files; 2 GB
with `--long`.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import NamedTuple

from tests.bench.harness import Figure, Note, Options, alternate, median
from tests.bench.lines.recorded import recordings
from tests.bench.row_up import PLACES, environment_of, fill, has_read_all, session_of, started
from tests.daemon.web.browsing import Browser
from tooltap.daemon.client.blocking import ask
from tooltap.daemon.client.discovery import NoDaemonError
from tooltap.daemon.web.http.token import read_token

__all__ = ["TITLE", "measure"]

TITLE = "big: until a large home is read, and the list of sessions meanwhile"
BYTES, LONG_BYTES = 200_000_000, 2_000_000_000
SECONDS, MILLISECONDS = 90, 100
"""Targets: until 2 GB are read on two idle cores, and for 99 of 100 answers."""
PERIOD = 0.1


class Run(NamedTuple):
    seconds: float
    answers: list[float]
    """Milliseconds of each answer of `/api/sessions`."""


def measure(options: Options) -> list[Figure | Note]:
    recorded = [one for one in recordings(options.captures) if one.dialect in PLACES and session_of(one)]
    if not recorded:
        return [Note("not measured: there are no recordings of session files")]
    size = round((LONG_BYTES if options.long else BYTES) * options.scale)
    with tempfile.TemporaryDirectory() as folder:
        files = len(list(fill(Path(folder) / "home", recorded, size)))
        environment = environment_of(Path(folder), options)
        numbers = count()
        runs = alternate({"up": lambda: _run(Path(folder) / str(next(numbers)), environment)}, options.runs)["up"]
    goal = {"target": SECONDS} if options.long else {}
    read = f"{files:,} files, {size / 1e6:,.0f} MB"
    slowest = [statistics.quantiles(one.answers, n=100, method="inclusive")[-1] for one in runs]
    return [
        median("until all is read", [one.seconds for one in runs], "s", better="less", read=read, **goal),
        median("/api/sessions, p99", slowest, "ms", better="less", target=MILLISECONDS),
    ]


def _run(folder: Path, environment: dict[str, str]) -> Run:
    begun = time.perf_counter()
    with started(folder, environment) as (process, socket):
        browser: Browser | None = None
        answers: list[float] = []
        while len(answers) < 2 or not has_read_all(socket):
            if process.poll() is not None:
                raise RuntimeError(f"tooltap up has ended with exit code {process.returncode}")
            time.sleep(PERIOD)
            browser = browser or _browser(socket)
            if browser is not None:
                asked = time.perf_counter()
                assert browser.get("/api/sessions").status == 200
                answers.append(1_000 * (time.perf_counter() - asked))
        seconds = time.perf_counter() - begun
    shutil.rmtree(folder)
    return Run(seconds, answers)


def _browser(socket: Path) -> Browser | None:
    try:
        web = ask("stats", path=socket, part="summary")["web"]
    except NoDaemonError:
        return None
    return Browser(web["url"], read_token(Path(web["tokenFile"])))
