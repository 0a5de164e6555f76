"""Tries mutations: makes each in a copy of the tree, and runs the tests that cover its line.

A failure counts only if the test fails again with the change and passes without it: tests that are flaky, or cannot run
in a copy, kill nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from tests.mutants.covering import Covering
from tests.mutants.explained import Key
from tests.mutants.mutations import Mutation, changed_lines, inside_functions, mutated

__all__ = ["Trial", "try_all"]

ROUND_SECONDS = (10.0, 60.0)
"""Limits of the rounds: tests that together take this long unchanged; the second round runs if all tests of the first
pass."""
PATIENCE = 5
"""Timeout of a test, or of a round of tests, as a multiple of the unchanged duration, plus `START_SECONDS`."""
START_SECONDS = 30.0
LEFT_OUT = (".git", ".venv", "build", "dist", "node_modules", "__pycache__", "*.egg-info")


class Trial(NamedTuple):
    mutation: Mutation
    killer: str | None
    """The test that failed; None if the mutation survived."""
    tests: int
    """Number of tests that were run, if none failed."""
    difference: str

    @property
    def key(self) -> Key:
        return self.mutation.path, self.difference


def try_all(root: Path, chosen: Sequence[Mutation], covering: Covering, workers: int) -> Iterator[Trial]:
    """Try all mutations, in any order; then again those that were killed by a test which fails without them, too."""
    with tempfile.TemporaryDirectory(prefix="tooltap-mutants-") as folder, ThreadPoolExecutor(workers) as pool:
        copies: queue.SimpleQueue[_Copy] = queue.SimpleQueue()
        for number in range(workers):
            copies.put(_Copy(root, Path(folder) / str(number) / "tooltap", covering))
        unsound: set[str] = set()

        def attempt(mutation: Mutation) -> Trial:
            copy = copies.get()
            try:
                return copy.attempt(mutation, unsound)
            finally:
                copies.put(copy)

        while chosen:
            killers: dict[Mutation, str] = {}
            attempts = [pool.submit(attempt, mutation) for mutation in chosen]
            try:
                for done in as_completed(attempts):
                    trial = done.result()
                    if trial.killer:
                        killers[trial.mutation] = trial.killer
                    yield trial
            finally:  # interrupted: those that have begun are the last
                for one in attempts:
                    one.cancel()
            copy = copies.get()
            unsound |= copy.failures(sorted(set(killers.values())))
            copies.put(copy)
            chosen = [mutation for mutation, killer in killers.items() if killer in unsound]


class _Copy:
    """A copy of the tree, in which one change at a time is made."""

    def __init__(self, root: Path, folder: Path, covering: Covering) -> None:
        shutil.copytree(root, folder, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
        # What is changed is recognised by its hash: two changes in the same second may have the same size.
        compiling = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash"]
        packages = ("cli", "daemon", "normalizers", "protocol", "traces")
        subprocess.run([*compiling, *packages], cwd=folder, check=True)
        self._folder = folder
        self._covering = covering

    def attempt(self, mutation: Mutation, unsound: Collection[str]) -> Trial:
        source = (self._folder / mutation.path).read_text()
        changed = mutated(source, mutation)
        line = mutation.line if mutation.line in inside_functions(source) else None
        tests = [one for one in self._covering.tests(mutation.path, line) if one not in unsound]
        killer, ran = None, 0
        for limit in ROUND_SECONDS:
            chosen = list(_within(tests[ran:], self._covering, limit))
            if killer or not chosen:
                break
            with self._changed(mutation.path, changed):
                killer = self._killer(chosen)
            ran += len(chosen)
        return Trial(mutation, killer, ran, changed_lines(source, changed))

    def failures(self, tests: Sequence[str]) -> set[str]:
        """Return the tests that fail without a change."""
        failed = set()
        while found := self._first_failure([one for one in tests if one not in failed]):
            failed.update(found)
        return failed

    def _killer(self, tests: Sequence[str]) -> str | None:
        """Return the first test that fails twice."""
        while failed := self._first_failure(tests):
            if repeated := self._first_failure(failed):
                return repeated[0]
            tests = [one for one in tests if one not in failed]
        return None

    @contextlib.contextmanager
    def _changed(self, path: str, changed: str) -> Iterator[None]:
        file = self._folder / path
        source = file.read_text()
        file.write_text(changed)
        try:
            yield
        finally:
            file.write_text(source)

    def _first_failure(self, tests: Sequence[str]) -> list[str]:
        """Return the test that failed or took too long; all tests, if the run as a whole failed; none, if all pass."""
        if not tests:
            return []
        beside = self._folder.parent
        names, cache = beside / "tests.txt", beside / "cache"
        shutil.rmtree(cache, ignore_errors=True)
        names.write_text("\n".join(tests))
        times = [self._covering.seconds[test] for test in tests]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=no", "-o", f"cache_dir={cache}"]
        command += ["--timeout", str(START_SECONDS + PATIENCE * max(times)), f"@{names}"]
        code = _run(command, self._folder, 2 * START_SECONDS + PATIENCE * sum(times))
        if code == 0:
            return []
        try:
            failed = json.loads((cache / "v" / "cache" / "lastfailed").read_text())
        except OSError:
            failed = {}
        return [test for test in tests if test in failed or test.split("::")[0] in failed] or list(tests)


def _within(tests: Sequence[str], covering: Covering, limit: float) -> Iterator[str]:
    total = 0.0
    for test in islice(tests, 2_000):
        total += covering.seconds[test]
        if total > limit:
            return
        yield test


def _run(command: Sequence[str], folder: Path, timeout: float) -> int | None:
    """Run a command, and return its exit code; None if it took too long. Kills all processes that it started."""
    environment = {**os.environ, "PYTHONPATH": f"{folder}/src"}
    null = subprocess.DEVNULL
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=null, stdout=null, stderr=null, start_new_session=True
    )
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
