"""docs/how-to/answer.md says which agents were seen to be answered: those that `make live` runs, in these versions."""

from __future__ import annotations

from tests.docs.pages import DOCS
from tests.live.agents import AGENTS, BUILDS

PAGE = (DOCS / "how-to/answer.md").read_text()


def test_agents_that_were_seen_are_those_that_are_run() -> None:
    _, table = PAGE.split("## What was seen, and with which version")
    rows = [[cell.strip() for cell in line.split("|")[1:3]] for line in table.splitlines() if line.startswith("| ")]

    assert sorted(rows[1:]) == sorted([agent.name, BUILDS[agent.build].version] for agent in AGENTS.values())
