"""`--compare REF`: measures two trees alternately, this one and that of a git reference, and divides their figures.

The other tree is exported into a temporary folder, and uses the same interpreter and dependencies. Each measurement is
a process of its own. It runs the row of each tree's own benchmark, and compares the figures that have the same name and
unit. Where the other tree has no such row, or none of its figures, both trees' commands and sockets are measured with
the row of this tree, if the row can do that (`PROGRAM`).
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec

from tests.bench.harness import ROOT, Figure, Note, Options, alternate, number

__all__ = ["Comparison", "RefError", "compare", "comparison_table", "exported"]

OWN_RUNS = 2
"""Runs of a row in one process. With more than one, a first run is not counted, so that imports are not measured."""
DERIVED = ("µs/event", "MB/s out", "lines/s")
"""Units left out because microseconds per line say the same."""
PROBE = 0.01
"""The scale at which a row is tried, to learn which figures it has."""

Figures: TypeAlias = dict[tuple[str, str], Figure]
"""(name, unit) -> figure."""


class RefError(Exception):
    """Raised for an unknown git reference; the message is git's."""


class Comparison(msgspec.Struct):
    name: str
    unit: str
    old: float
    """The median of the other tree."""
    new: float
    """The median of this tree."""
    ratios: list[float]
    """new / old, of each pair of runs."""
    how: str
    """What was measured: the trees' own rows, or their commands."""

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)


class _Result(msgspec.Struct):
    rows: dict[str, list[dict[str, Any]]]


class Tree(NamedTuple):
    path: Path
    compiled: Path
    """The folder for compiled modules."""

    def own(self, row: str, options: Options, runs: int, scale: float) -> Figures:
        """Return the figures of the tree's own row; none if it has no such row, or if that fails."""
        if not (self.path / "tests" / "bench" / f"row_{row}.py").exists():
            return {}
        known = self._run(["--help"], self.path).stdout
        given = [part for name, path in _files(options) if name in known for part in (name, path)]
        return self._figures([row, *given], runs, scale, self.path)

    def program(self, row: str, options: Options, runs: int, scale: float) -> Figures:
        """Return the figures of the tree's commands and socket, measured by this tree's row."""
        given = [part for option in _files(options) for part in option]
        return self._figures([row, "--tree", self.path, *given], runs, scale, ROOT)

    def _figures(self, arguments: Sequence[object], runs: int, scale: float, bench: Path) -> Figures:
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            done = self._run([*arguments, "--runs", runs, "--scale", scale, "--json", file.name], bench)
            if done.returncode:
                sys.stderr.write(done.stderr)
                return {}
            results = msgspec.json.decode(Path(file.name).read_bytes(), type=_Result).rows
        figures = [msgspec.convert(one, Figure) for row in results.values() for one in row if "samples" in one]
        return {(one.name, one.unit): one for one in figures}

    def _run(self, arguments: Sequence[object], bench: Path) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "PYTHONPATH": str(bench / "src"),
            "PYTHONPYCACHEPREFIX": str(self.compiled),
            "PYTHONDONTWRITEBYTECODE": "",
        }
        command = [sys.executable, "-m", "tests.bench", *map(str, arguments)]
        return subprocess.run(command, cwd=bench, env=environment, capture_output=True, text=True)


def _files(options: Options) -> list[tuple[str, Path]]:
    files = [("--captures", path) for path in options.captures] + [("--goldens", options.goldens)]
    return [(name, path.resolve()) for name, path in files if path is not None]


@contextmanager
def exported(ref: str) -> Iterator[Path]:
    """Export the tree of a git reference into a temporary folder. Raises `RefError`."""
    archive = subprocess.run(["git", "archive", "--format=tar", ref], cwd=ROOT, capture_output=True)
    if archive.returncode:
        raise RefError(archive.stderr.decode().strip())
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        yield Path(folder)


def compare(other: Path, row: str, options: Options) -> list[Comparison | Note]:
    """Measure one row in both trees."""
    with tempfile.TemporaryDirectory() as compiled:
        old, new = Tree(other, Path(compiled)), Tree(ROOT, Path(compiled))
        own = {"old": old.own, "new": new.own}
        program = {"old": old.program, "new": new.program}
        ways = [("the trees' own rows", own, OWN_RUNS)]
        if getattr(import_module(f"tests.bench.row_{row}"), "PROGRAM", False):
            ways.append(("the trees' commands, by this tree's row", program, 1))
        for how, sides, child_runs in ways:
            if not _common([side(row, options, 1, PROBE) for side in sides.values()]):
                continue
            timed = {name: partial(side, row, options, child_runs, options.scale) for name, side in sides.items()}
            return _compared(alternate(timed, options.runs), how)
    return [Note("not compared: the other tree does not have this row, or none of its figures")]


def _common(sides: Iterable[Figures]) -> set[tuple[str, str]]:
    return set.intersection(*map(set, sides))


def _compared(runs: Mapping[str, Sequence[Figures]], how: str) -> list[Comparison | Note]:
    common = _common([*runs["old"], *runs["new"]])
    results: list[Comparison | Note] = []
    for name, unit in [key for key in runs["new"][0] if key in common]:
        old, new = ([one[name, unit].value for one in runs[side]] for side in ("old", "new"))
        ratios = [after / before for before, after in zip(old, new, strict=True) if before]
        if ratios:
            results.append(Comparison(name, unit, statistics.median(old), statistics.median(new), ratios, how))
    return results


def comparison_table(title: str, results: Sequence[Comparison | Note]) -> Iterable[str]:
    """Render a row as lines of text."""
    compared = [one for one in results if isinstance(one, Comparison)]
    yield f"{title}{f' ({compared[0].how})' if compared else ''}"
    width = max((len(one.name) for one in compared), default=0) + 2
    lines = {one.name for one in compared if one.unit == "µs/line"}
    for one in results:
        if isinstance(one, Note):
            yield f"  {one.note}"
            continue
        if one.unit in DERIVED and one.name in lines:
            continue
        spread = f"{number(min(one.ratios))} … {number(max(one.ratios))}"
        medians = f"old {number(one.old):>8}   new {number(one.new):>8} {one.unit:18}"
        yield f"  {one.name:{width}}{medians}new/old {number(one.ratio):>6}   {spread}"
