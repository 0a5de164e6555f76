"""Real agents find with `tooltap mcp --history` how they solved something before, and do it again.

`make live` runs this.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.browser.serving import Site
from tests.live.agents import Place, missing
from tests.live.clients import PATIENCE, end_processes
from tests.live.matrix import PRINTERS, Printer
from tests.live.model import Call, Found, Model, Script, Step
from tests.live.test_matrix import TOOLTAP, events_of, settled

pytestmark = [pytest.mark.lab, pytest.mark.process, pytest.mark.timeout(600)]

FIXED = "fixed.txt"
FIX = f"echo retries=3 | tee {FIXED}"


class Agent(NamedTuple):
    search: str
    """Its name of `search_sessions`."""
    permissions: tuple[str, ...]
    """Options with which it may call all that it needs."""


AGENTS = {
    "claude": Agent("mcp__tooltap__search_sessions", ("--allowedTools", "Bash,mcp__tooltap__search_sessions")),
    "gemini": Agent("mcp_tooltap_search_sessions", ()),
    "opencode": Agent("tooltap_search_sessions", ()),
}


def run(
    printer: Printer,
    place: Place,
    variables: dict[str, str],
    prompt: str,
    permissions: tuple[str, ...],
    tap: list[str],
) -> None:
    command = printer.command(prompt, (), permissions)
    try:
        finished = subprocess.run(
            [*tap, *command],
            cwd=place.workspace,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
        )
    finally:
        end_processes(place.home)
    assert finished.returncode == 0, finished.stderr[-2_000:].decode()


@pytest.mark.parametrize("name", AGENTS)
def test_agent_finds_its_own_past_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    printer, agent = PRINTERS[name], AGENTS[name]
    if (build := missing(printer.agent)) is not None:
        pytest.fail(f"{build.package} {build.version} is not installed: `make live` installs it")
    monkeypatch.setenv("TOOLTAP_SPOOL", str(tmp_path / "spool"))
    variable, store = printer.store
    if variable != "XDG_DATA_HOME":  # which a site sets
        monkeypatch.setenv(variable, str(tmp_path / "home" / store))
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    home.mkdir()
    workspace.mkdir()
    shell = printer.agent.shell(FIX)
    assert isinstance(shell.arguments, dict)
    found = {
        key: Found(r"echo retries=\d+ \| tee [\w.]+") if value == FIX else value
        for key, value in shell.arguments.items()
    }
    follow = ("[follow]", f'agents = ["{name}"]', 'backfill = "all"')  # some say in their files alone where they run
    again: list[Step] = [Call(agent.search, {"query": "retries tee"}), Call(shell.tool, found), "Done as before."]
    script: Script = {"first": [shell, "It is fixed."], "again": again}
    with Model(script) as model, Site(tmp_path, *follow) as site:
        socket = str(site.daemon.path)
        tap = [*TOOLTAP, "run", "--socket", socket, "--"]
        place = Place(home, workspace, model.url)
        variables = {**printer.variables_in("text", place), "XDG_DATA_HOME": str(tmp_path)}
        run(printer, place, variables, "[[first]] Fix the upload.", printer.permissions, tap)
        settled(site, 1)
        assert (workspace / FIXED).read_text() == "retries=3\n"
        (workspace / FIXED).unlink()
        with site.daemon.connect() as wire:
            while wire.ask("search", query="retries")["behind"]:
                pass

        permissions = (*printer.serve(place, [*TOOLTAP, "mcp", "--history", "--socket", socket]), *agent.permissions)
        run(printer, place, variables, "[[again]] The upload is broken again.", permissions, tap)
        settled(site, 2)
        [answer] = [
            one for one in events_of(site) if one["kind"] == "tool-result" and one["name"].endswith("search_sessions")
        ]
    assert answer["status"] == "completed", answer["output"]
    assert (workspace / FIXED).read_text() == "retries=3\n", answer["output"]
