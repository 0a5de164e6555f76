"""What live runs have shown: the committed table, the page that is made of it, and the report on newest versions."""

from __future__ import annotations

import difflib
import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.live.agents import AGENTS, BUILDS
from tests.live.matrix import EXPLAINED, NAMES, PRINTERS, SCENARIOS, WAYS, cells, impossible, version

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("results.json")
PAGE = ROOT / "docs" / "reference" / "agents.md"
BUILD = ROOT / "build" / "live"
BASELINES = ROOT / "traces" / "static" / "baselines"
TOOLTAP = [sys.executable, "-m", "tooltap.cli"]
HEAD = """# Agents that were run

`make live` generates this page ([commands](../contributing/commands.md)) from what it sees.

Each of these builds was run with a model that plays a script, without keys and without a network. “yes” says that the
agent wrote the same bytes and ended with the same exit code as without tooltap, and that the events say what happened:
each prompt, text and call once, how each call and each turn ended, no line unread, no alarm of drift. “–” was not run,
and “none” means that there can be no such run.
[Answer](../how-to/answer.md#what-was-seen-and-with-which-version) has the agents that were answered.

"""

Results = dict[str, dict[str, Any]]
"""Agent -> `version`, `date`, and `cells`: `way/scenario` -> nothing, or what was wrong."""


def read() -> Results:
    results: Results = json.loads(TABLE.read_text())
    return results


def of_junit(path: Path) -> dict[tuple[str, str, str], str]:
    """Return (agent, way, scenario) -> nothing, or what was wrong, of a report of pytest."""
    named = {"-".join(cell): cell for cell in cells()}
    found = {}
    for case in ET.parse(path).iter("testcase"):
        cell = named.get(re.sub(r".*\[(.*)\]", r"\1", case.get("name", "")))
        if cell is not None:
            wrong = next((one for one in case if one.tag in ("failure", "error")), None)
            found[cell] = "" if wrong is None else wrong.get("message", "").split("\n")[0] or "it failed"
    return found


def record(path: Path, date: str) -> None:
    """Put the cells of a report of pytest into the table, and write the page."""
    results = read()
    for (agent, way, scenario), wrong in of_junit(path).items():
        if results.get(agent, {}).get("version") != version(agent):
            results[agent] = {"version": version(agent), "cells": {}}
        results[agent]["date"] = date
        results[agent]["cells"][f"{way}/{scenario}"] = wrong
    TABLE.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page(results))


def page(results: Results) -> str:
    """Return the page that the table makes."""
    parts = [HEAD, "| way | what it is |\n|---|---|\n"]
    parts += [f"| {name} | {way.what} |\n" for name, way in WAYS.items()]
    parts.append("\n| scenario | what happens |\n|---|---|\n")
    parts += [f"| {name} | {scenario.what} |\n" for name, scenario in SCENARIOS.items()]
    for agent, one in sorted(results.items()):
        parts.append(f"\n## {NAMES[agent]} {one['version']}\n\nRun on {one['date']}.\n\n")
        ways = [way for way in WAYS if _has(agent, way)]
        parts.append(f"| scenario | {' | '.join(ways)} |\n|---|{'---|' * len(ways)}\n")
        notes: list[str] = []
        for scenario in SCENARIOS:
            row = [_cell(agent, way, scenario, one["cells"], notes) for way in ways]
            parts.append(f"| {scenario} | {' | '.join(row)} |\n")
        if notes:
            parts.append("\n" + "".join(f"{number}. {note}\n" for number, note in enumerate(notes, 1)))
        parts += [f"\nNo {', '.join(lacking)}: {why}\n" for why, lacking in _lacking(agent).items()]
    return "".join(parts)


def _has(agent: str, way: str) -> bool:
    return not all(impossible(agent, way, scenario) for scenario in SCENARIOS)


def _lacking(agent: str) -> dict[str, list[str]]:
    """Return the ways that the agent has no cell of, by the reason."""
    lacking: dict[str, list[str]] = {}
    for way in WAYS:
        if not _has(agent, way):
            lacking.setdefault(impossible(agent, way, "text"), []).append(f"`{way}`")
    return lacking


def _cell(agent: str, way: str, scenario: str, cells: Mapping[str, str], notes: list[str]) -> str:
    wrong = cells.get(f"{way}/{scenario}")
    if wrong == "":
        return "yes"
    cannot = impossible(agent, way, scenario)
    if wrong is None and not cannot:
        return "–"
    why = cannot or explained(agent, way, scenario) or str(wrong)
    if why not in notes:
        notes.append(why)
    return f"{'none' if cannot else 'no'} ({notes.index(why) + 1})"


def explained(agent: str, way: str, scenario: str) -> str:
    """Return why this cell is red, or nothing."""
    cell = f"{agent}/{way}/{scenario}"
    return next((why for pattern, why in EXPLAINED.items() if re.fullmatch(pattern, cell)), "")


def compare(path: Path, versions: Mapping[str, str]) -> str:
    """Return a page about newest versions: what is red that was not, what is new and gone in their lines, and proposed
    baselines, which are in `build/live`. `versions`: key of `BUILDS` -> version."""
    known = read()
    lines = ["# Newest versions", ""]
    for agent, name in NAMES.items():
        build = AGENTS[agent].build
        if build in versions:
            lines.append(f"- {name}: {known.get(agent, {}).get('version', 'not run before')} → {versions[build]}")
    lines += ["", "## Cells that differ from the table", ""]
    for (agent, way, scenario), wrong in of_junit(path).items():
        before = known.get(agent, {}).get("cells", {}).get(f"{way}/{scenario}")
        if bool(wrong) != bool(before):
            lines.append(f"- {agent}, {way}, {scenario}: {f'now red: {wrong}' if wrong else 'no longer red'}")
    for agent in PRINTERS:
        recordings = BUILD / "recordings" / agent
        if not recordings.exists():
            continue
        lines += ["", f"## {PRINTERS[agent].name}: its lines against the baselines", "", "```text"]
        lines += [_tooltap("drift", "--all", str(recordings)).strip(), "```"]
        _propose(recordings, BUILDS[PRINTERS[agent].agent.build].version)
    (BUILD / "baselines.diff").write_text("".join(_proposed()))
    lines += ["", "Proposed baselines, against those before: build/live/baselines.diff."]
    return "\n".join(lines) + "\n"


def _propose(recordings: Path, version: str) -> None:
    """Write the baselines of this version: the newest ones that are committed, with the recordings added."""
    out = BUILD / "baselines"
    alone = BUILD / "alone"
    _tooltap("baseline", "record", "--out", str(alone), "--agent-version", version, str(recordings))
    for path in sorted(alone.glob("*/*.json")):
        new = out / path.parent.name / path.name
        new.parent.mkdir(parents=True, exist_ok=True)
        if (before := _newest_baseline(new)) is not None:
            old = json.loads(before.read_text())
            new.write_text(json.dumps({**old, "agentVersion": version}))
    _tooltap("baseline", "record", "--out", str(out), "--agent-version", version, str(recordings))
    shutil.rmtree(alone, ignore_errors=True)


def _newest_baseline(new: Path) -> Path | None:
    """Return the newest committed baseline of the same dialect and agent."""
    found = (BASELINES / new.parent.name).glob(f"{new.name.rpartition('-')[0]}-*.json")
    return max(found, key=lambda one: [int(part) for part in re.findall(r"\d+", one.stem)], default=None)


def _proposed() -> Iterator[str]:
    """Yield the differences of the baselines in `build/live` from the newest ones that are committed."""
    for new in sorted((BUILD / "baselines").glob("*/*.json")):
        before = _newest_baseline(new)
        old = "" if before is None else before.read_text()
        names = ("/dev/null" if before is None else str(before.relative_to(ROOT)), str(new.relative_to(ROOT)))
        yield from difflib.unified_diff(_pretty(old), _pretty(new.read_text()), *names)


def _pretty(text: str) -> list[str]:
    return json.dumps(json.loads(text or "{}"), indent=1, sort_keys=True).splitlines(keepends=True)


def _tooltap(*words: str) -> str:
    done = subprocess.run([*TOOLTAP, *words], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr
