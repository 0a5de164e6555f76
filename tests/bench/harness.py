"""Figures, alternating runs and a description of the machine, for all rows of the benchmark.

A row is a module `row_<name>.py` with `TITLE` and `measure(options)`, which returns figures and notes. It measures its
sides alternately, so that other load on the machine affects all sides alike, and returns medians. Figures that follow
each other and have the same name are one measurement in several units. A benchmark is not a test: a figure that misses
its target is marked, but fails nothing.

A row whose module has `PROGRAM = True` can measure another tree as well, by its commands and its socket (`compare.py`).
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

import msgspec

from tooltap import __version__

__all__ = [
    "CPU_TICK",
    "ROOT",
    "Figure",
    "Note",
    "Options",
    "alternate",
    "cpu_seconds",
    "cpu_seconds_since",
    "machine",
    "main_thread_seconds",
    "median",
    "number",
    "program",
    "table",
]

K = TypeVar("K")
T = TypeVar("T")

ROOT = Path(__file__).parent.parent.parent


class Options(NamedTuple):
    runs: int
    """Number of runs of each side."""
    scale: float
    """Factor for the work of one run; the targets are for 1."""
    captures: tuple[Path, ...] = ()
    """Folders of recordings with a manifest.json, read instead of the fixtures."""
    goldens: Path | None = None
    """File with records of the ancestor, in the format of `tests/kit/goldens.py`."""
    long: bool = False
    """Also measure what takes minutes."""
    tree: Path | None = None
    """Root of the tree whose commands and socket are measured. None: this tree, and its modules directly where that is
    more precise."""


class Figure(msgspec.Struct, omit_defaults=True):
    name: str
    value: float
    """The median of `samples`."""
    unit: str
    target: float | None = None
    """None for a figure that is only informative."""
    better: Literal["more", "less"] = "more"
    samples: list[float] = []
    read: str = ""
    """What was read in one run, for the first of several units."""

    @property
    def on_target(self) -> bool:
        if self.target is None:
            return True
        return self.value >= self.target if self.better == "more" else self.value <= self.target


class Note(msgspec.Struct):
    note: str
    """Why something was not measured."""


def alternate(sides: Mapping[K, Callable[[], T]], runs: int) -> dict[K, list[T]]:
    """Run the sides alternately, in alternating order, and return the results of each. With several runs, a first round
    of all sides is not counted."""
    results: dict[K, list[T]] = {name: [] for name in sides}
    for turn in range(-1 if runs > 1 else 0, runs):
        for name in list(sides) if turn % 2 else reversed(list(sides)):
            result = sides[name]()
            if turn >= 0:
                results[name].append(result)
    return results


def median(name: str, samples: Iterable[float], unit: str, **details: float | str) -> Figure:
    listed = list(samples)
    return msgspec.convert(
        {"name": name, "value": statistics.median(listed), "unit": unit, "samples": listed, **details}, Figure
    )


CPU_TICK = 0.01
"""Seconds; the resolution of the system's processor time."""


def cpu_seconds_since(before: float, pid: int) -> float:
    """Processor time since `before`, at least one tick, so that it can be a divisor."""
    return max(cpu_seconds(pid) - before, CPU_TICK)


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used so far, in hundredths of a second."""
    try:
        return _proc_seconds(f"/proc/{pid}/stat")
    except FileNotFoundError:  # macOS: minutes:seconds
        minutes, seconds = _output("ps", "-o", "cputime=", "-p", str(pid)).split(":")[-2:]
        return 60 * int(minutes) + float(seconds)


def main_thread_seconds(pid: int) -> float | None:
    """The processor time of a process's first thread; None where the system does not say."""
    try:
        return _proc_seconds(f"/proc/{pid}/task/{pid}/stat")
    except FileNotFoundError:
        return None


def _proc_seconds(path: str) -> float:
    with open(path) as file:
        user, system = file.read().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def machine() -> dict[str, str | int | float]:
    return {
        "tooltap": __version__,
        "commit": _output("git", "rev-parse", "--short", "HEAD"),
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count() or 0,
        "load": round(os.getloadavg()[0], 2),
    }


def program(tree: Path | None) -> dict[str, str]:
    """The environment variables with which a Python process imports the `tooltap` of this tree."""
    return {} if tree is None else {"PYTHONPATH": str(tree / "src")}


def table(rows: Mapping[str, Sequence[Figure | Note]]) -> Iterable[str]:
    """Render the rows as lines of text."""
    names = [one.name for results in rows.values() for one in results if isinstance(one, Figure)]
    width = max(map(len, [*names, *rows]), default=0) + 2
    for title, results in rows.items():
        yield title
        for name, group in groupby(results, key=lambda one: one.name if isinstance(one, Figure) else None):
            if name is None:
                yield from (f"  {one.note}" for one in group if isinstance(one, Note))
                continue
            figures = [one for one in group if isinstance(one, Figure)]
            cells = "".join(f"{number(one.value):>10} {one.unit:9}" for one in figures)
            spread = f"{number(min(figures[0].samples))} … {number(max(figures[0].samples))}"
            targets = "   ".join(_target(one, named=len(figures) > 1) for one in figures if one.target is not None)
            yield "   ".join(filter(None, [f"  {name:{width}}{cells}{spread:>20}", targets, figures[0].read]))


def _target(figure: Figure, *, named: bool) -> str:
    assert figure.target is not None
    sign = {"more": "≥", "less": "≤"}[figure.better]
    unit = f" {figure.unit}" if named else ""
    return f"{sign} {number(figure.target)}{unit}{'' if figure.on_target else '   missed'}"


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
