"""`make lab-mutants`: changes the product in small ways, one at a time, and counts the changes that no test notices.

    make lab-mutants                        200 changes, chosen by a new seed
    make lab-mutants SAMPLE=50 SEED=7
    make lab-mutants SINCE=main~3           every change to lines that differ from that commit
    make lab-mutants MODULES='daemon/hub'

A change is killed if a test fails or takes too long, does so again, and passes without the change. Those that survive
are printed; `explained.toml` says of some why they make no difference. Exits with 1 if fewer than 90 of 100 are killed.

Which lines run is measured in the tests' own processes only. So what nothing but a daemon that a test has started would
notice survives: run such tests by hand before you write another.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import subprocess
import sys
from collections.abc import Container, Iterable
from itertools import islice
from pathlib import Path

from tests.mutants.covering import measure
from tests.mutants.explained import Key, explanations
from tests.mutants.mutations import Mutation, is_change, mutations
from tests.mutants.trial import Trial, try_all

ROOT = Path(__file__).parents[2]
MODULES = (
    "normalizers/core",
    "normalizers/stream",
    "normalizers/tools",
    "normalizers/wire",
    "protocol",
    "daemon/journal",
    "daemon/ingest",
    "daemon/hub",
    "daemon/web/http/guard.py",
)
"""Modules that are changed by default: the most critical ones."""
WANTED = 0.9
"""Share of the changes that tests must notice."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make lab-mutants")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--sample", type=int, default=200, help="how many changes are tried; 0: all")
    parser.add_argument("--since", help="only lines that differ from this commit")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("modules", nargs="*", default=list(MODULES))
    options = parser.parse_args()

    paths = list(_paths(options.modules))
    found = [one for path in paths for one in mutations(ROOT, path)]
    if options.since:
        lines = _differing(options.since)
        found = [one for one in found if (one.path, one.line) in lines]
    size = len(found) if options.since or not options.sample else options.sample
    chosen = _sample(found, options.modules, size, random.Random(options.seed))
    print(f"seed {options.seed}: {len(chosen)} of {len(found)} changes in {len(paths)} modules", flush=True)

    covering = measure(ROOT, ROOT / "build" / "mutants" / _digest(), sorted({path.split("/")[0] for path in MODULES}))
    explained = explanations(ROOT)
    trials: dict[Mutation, Trial] = {}
    for one in try_all(ROOT, chosen, covering, options.workers):
        trials[one.mutation] = one
        word = f"killed by {one.killer}" if one.killer else f"survived {one.tests} tests ({one.mutation.operator})"
        print(f"{len(trials)}/{len(chosen)} {one.mutation.path}:{one.mutation.line} {word}", flush=True)
        if one.killer is None:
            print(f"explained: {explained[one.key]}" if one.key in explained else one.difference, flush=True)
    return _report(list(trials.values()), options.modules, explained)


def _sample(found: list[Mutation], modules: list[str], size: int, chance: random.Random) -> list[Mutation]:
    """Sample changes at random; of a quarter of them, each group of modules has an equal share."""
    chance.shuffle(found)
    chosen: dict[Mutation, None] = {}
    for name in modules:
        of_group = (one for one in found if one.path.startswith(name) and is_change(ROOT, one))
        chosen.update(dict.fromkeys(islice(of_group, size // (4 * len(modules)))))
    others = (one for one in found if one not in chosen and is_change(ROOT, one))
    chosen.update(dict.fromkeys(islice(others, size - len(chosen))))
    return chance.sample(list(chosen), len(chosen))


def _report(trials: list[Trial], modules: list[str], explained: Container[Key]) -> int:
    """Print how many changes of each group survived; returns the exit code."""
    share = 1.0
    for name in (*modules, ""):
        of_group = [one for one in trials if one.mutation.path.startswith(name)]
        killed = sum(one.killer is not None for one in of_group)
        harmless = sum(one.killer is None and one.key in explained for one in of_group)
        share = killed / max(len(of_group) - harmless, 1)
        print(
            f"{name or 'all'}: {len(of_group)} changes, {killed} killed, {harmless} explained, "
            f"{len(of_group) - killed - harmless} survived: {100 * share:.1f} %"
        )
    return 0 if share >= WANTED else 1


def _digest() -> str:
    """Return a hash of the program and its tests, without this package."""
    digest = hashlib.sha256()
    for folder in ("cli", "daemon", "normalizers", "protocol", "tests", "traces"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            if file.parent != Path(__file__).parent:
                digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _paths(modules: Iterable[str]) -> Iterable[str]:
    for name in modules:
        path = ROOT / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            if file.name != "__init__.py":
                yield str(file.relative_to(ROOT))


def _differing(commit: str) -> set[tuple[str, int]]:
    """Return the (path, line) that were added or changed since the commit."""
    command = ["git", "diff", "-U0", "--no-color", commit, "--", "*.py"]
    lines: set[tuple[str, int]] = set()
    path = ""
    for line in subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines():
        if line.startswith("+++ b/"):
            path = line.removeprefix("+++ b/")
        elif line.startswith("@@"):
            begin, _, count = line.split(" ")[2].removeprefix("+").partition(",")
            lines |= {(path, number) for number in range(int(begin), int(begin) + int(count or 1))}
    return lines


if __name__ == "__main__":
    sys.exit(main())
