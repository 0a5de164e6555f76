"""Coverage by test: which tests run which line, and how long each takes. Measured once for a tree, and kept in
`build/mutants`."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from coverage import CoverageData

from tests.mutants.mutations import inside_functions

__all__ = ["TESTS", "Covering", "measure"]

TESTS = ("tests/daemon", "tests/normalizers", "tests/protocol", "tests/traces", "tests/scenarios", "tests/fuzz")
"""Folders of tests of the program's behavior. Tests of its form, documentation and speed would not show what is
wrong."""


class Covering(NamedTuple):
    by_line: dict[tuple[str, int], frozenset[str]]
    """(path of the module from the root, line) -> ids of the tests that run it."""
    by_module: dict[str, frozenset[str]]
    """Path of the module -> ids of the tests that run any line of it that imports alone do not run."""
    seconds: dict[str, float]
    """Id of each test that passed -> its duration."""

    def tests(self, path: str, line: int | None) -> list[str]:
        """Return the tests that run a line, the fastest first. `line` None: a line that only imports run.

        A line that is run by imports, or by no test in its own process, may matter to all tests that run anything of
        the module or, if there is none, to those in the module's test folder; of them, those in that folder come first.
        """
        if line is not None and (found := self.by_line.get((path, line))):
            return sorted(found, key=self._quick)
        folder = f"tests/{path.rpartition('/')[0]}/"
        near = frozenset(test for test in self.seconds if test.startswith(folder))
        found = self.by_module.get(path, near)
        return sorted(found, key=lambda test: (test not in near, *self._quick(test)))

    def _quick(self, test: str) -> tuple[float, str]:
        return self.seconds[test], test


def measure(root: Path, folder: Path, packages: Sequence[str]) -> Covering:
    """Run all tests, unless `folder` has their coverage of this tree."""
    folder.mkdir(parents=True, exist_ok=True)
    data, times = folder / "coverage", folder / "times.xml"
    if not (data.exists() and times.exists()):
        tests = [test for test in TESTS if (root / test).exists()]
        command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--timeout", "600", f"--junitxml={times}"]
        command += ["-p", "pytest_cov", "--cov-context=test", "--cov-report=", *(f"--cov={name}" for name in packages)]
        done = subprocess.run([*command, *tests], cwd=root, env={**os.environ, "COVERAGE_FILE": str(data)}, check=False)
        if done.returncode not in (0, 1):
            raise RuntimeError(f"the tests could not be run: exit code {done.returncode}")
    seconds = _seconds(root, times)
    by_line = _by_line(root, data, frozenset(seconds))
    return Covering(by_line, _by_module(root, by_line), seconds)


def _by_line(root: Path, path: Path, passed: frozenset[str]) -> dict[tuple[str, int], frozenset[str]]:
    data = CoverageData(basename=str(path))
    data.read()
    found: dict[tuple[str, int], frozenset[str]] = {}
    for file in data.measured_files():
        module = str(Path(file).resolve().relative_to(root.resolve()))
        if not module.endswith(".py"):  # coverage names what templates were compiled to, too
            continue
        for line, contexts in data.contexts_by_lineno(file).items():
            found[module, line] = passed.intersection(one.rpartition("|")[0] for one in contexts)
    return found


def _by_module(root: Path, by_line: dict[tuple[str, int], frozenset[str]]) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    inside = {path: inside_functions((root / path).read_text()) for path in {path for path, _ in by_line}}
    for (path, line), tests in by_line.items():
        if tests and line in inside[path]:
            found[path] = found.get(path, frozenset()) | tests
    return found


def _seconds(root: Path, path: Path) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for case in ElementTree.parse(path).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None or case.find("skipped") is not None:
            continue
        module = case.get("classname", "").replace(".", "/")
        if (root / f"{module}.py").exists():
            test = f"{module}.py::{case.get('name')}"
        else:  # a class in a module
            parent, _, name = module.rpartition("/")
            test = f"{parent}.py::{name}::{case.get('name')}"
        seconds[test] = float(case.get("time", "0"))
    return seconds
