"""Installs agents and runs them: `make live` all of them, `make live-quick` (`--quick`) a part of what people use most.

With `--quick`, an agent that cannot be installed is no failure: the last line says which were not run, and why.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from tests.live.agents import AGENTS, SEEN, install
from tests.live.test_answering import CLIENT, QUICK_VARIABLE

QUICK = ("claude-terminal", "claude", "codex", "gemini", "opencode", "claude-agent-acp")
INSTALLING, ENOUGH = 150.0, 240.0
"""Seconds of the quick set: for installing, and after which no further agent is started."""
TEST = "tests/live/test_answering.py::test_agent_waits_is_answered_and_goes_on"
PYTEST = (sys.executable, "-m", "pytest", "-q", "-rfEs", "-n", "0", "-m", "lab")


def run_all() -> int:
    for agent, reason in install(AGENTS, None).items():
        print(f"{agent}: {reason}", flush=True)
    return subprocess.call([*PYTEST, "tests/live"])


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


if __name__ == "__main__":
    sys.exit(run_quick() if "--quick" in sys.argv[1:] else run_all())
