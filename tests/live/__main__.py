"""Installs agents and runs them: `make live` all of them, or those that are named, in all cells of the matrix, or those
of `--cells`; `make live-quick` (`--quick`) a part of what people use most; with `--latest` the newest versions, about
which it writes a report.

With `--quick`, an agent that cannot be installed is no failure: the last line says which were not run, and why.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from datetime import date
from fnmatch import fnmatchcase

from tests.live.agents import AGENTS, BUILDS, SEEN, VERSIONS_VARIABLE, install, newest
from tests.live.matrix import KEPT_VARIABLE, WAYS, cells
from tests.live.report import BUILD, compare, record
from tests.live.test_answering import CLIENT, QUICK_VARIABLE

QUICK = ("claude-terminal", "claude", "codex", "gemini", "opencode", "claude-agent-acp")
INSTALLING, ENOUGH = 150.0, 240.0
"""Seconds of the quick set: for installing, and after which no further agent is started."""
TEST = "tests/live/test_answering.py::test_agent_waits_is_answered_and_goes_on"
MATRIX = (
    "tests/live/test_matrix.py::test_agent_runs_as_alone_and_is_understood",
    "tests/live/test_clients.py::test_agent_works_for_its_client_and_is_understood",
)
JUNIT = BUILD / "results.xml"
PYTEST = (sys.executable, "-m", "pytest", "-q", "-rfEs", "-n", "0", "-m", "lab")


def run_all(names: list[str], patterns: list[str]) -> int:
    """Run all tests, or those of these agents, or these cells; note what they show of each agent."""
    code = _run(names, chosen(names, patterns) if patterns else ["tests/live"])
    record(JUNIT, date.today().isoformat())
    return code


def chosen(names: list[str], patterns: list[str]) -> list[str]:
    """Return the tests of the cells that these patterns of `way/scenario` match, of these agents, or of all."""
    return [
        f"{MATRIX[bool(WAYS[way].clients)]}[{agent}-{way}-{scenario}]"
        for agent, way, scenario in cells()
        if _is_named(agent, names) and any(fnmatchcase(f"{way}/{scenario}", one) for one in patterns)
    ]


def _is_named(agent: str, names: list[str]) -> bool:
    return not names or any(name in agent for name in names)


def run_latest(names: list[str]) -> int:
    """Run the newest versions in a process of their own, and write a report. What is committed stays as it is."""
    versions = {name: newest(build) for name, build in BUILDS.items()}
    variables = {**os.environ, VERSIONS_VARIABLE: json.dumps(versions), KEPT_VARIABLE: str(BUILD / "recordings")}
    shutil.rmtree(BUILD, ignore_errors=True)
    return subprocess.call([sys.executable, "-m", "tests.live", "--report", *names], env=variables)


def run_report(names: list[str]) -> int:
    """Run the versions that the environment names, and write the report."""
    code = _run(names, [test.partition("::")[0] for test in MATRIX])
    report = compare(JUNIT, {name: build.version for name, build in BUILDS.items()})
    (BUILD / "report.md").write_text(report)
    print(report)
    return code


def _run(names: list[str], tests: list[str]) -> int:
    wanted = [agent for agent in AGENTS if _is_named(agent, names)]
    for agent, reason in install(wanted, None).items():
        print(f"{agent}: {reason}", flush=True)
    only = ("-k", " or ".join(names)) if names else ()
    BUILD.mkdir(parents=True, exist_ok=True)
    return subprocess.call([*PYTEST, f"--junitxml={JUNIT}", *only, *tests])


def run_quick() -> int:
    start = time.monotonic()
    missed = install(QUICK, INSTALLING)
    ran: list[str] = []
    failed: list[str] = []
    for agent in QUICK:
        if agent in missed:
            continue
        if time.monotonic() > start + ENOUGH:
            missed[agent] = f"{ENOUGH:.0f} s are over"
            continue
        print(f"== {agent}", flush=True)
        done = subprocess.call([*PYTEST, f"{TEST}[{agent}]"], env={**os.environ, QUICK_VARIABLE: "1"})
        (failed if done else ran).append(agent)
    parts = [f"answered: {', '.join(ran) or 'none'}"]
    if failed:
        parts.append(f"FAILED: {', '.join(failed)}")
    if not CLIENT.exists():
        parts.append("NOT RUN: the TypeScript client, which is not built")
    parts += [f"NOT RUN: {agent} ({reason})" for agent, reason in missed.items()]
    print(f"agents as of {SEEN}: {'; '.join(parts)}")
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.live")
    parser.add_argument("names", nargs="*", help="agents")
    parser.add_argument("--cells", default="", help="patterns of way/scenario")
    for option in ("--quick", "--latest", "--report"):
        parser.add_argument(option, action="store_true")
    given = parser.parse_args()
    if given.quick:
        return run_quick()
    if given.latest:
        return run_latest(given.names)
    return run_report(given.names) if given.report else run_all(given.names, given.cells.split())


if __name__ == "__main__":
    sys.exit(main())
