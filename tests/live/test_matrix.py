"""Each agent that prints, in each way, in each scenario: it runs as without tooltap, and the events say what happened.

`make live` runs this.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest

from tests.browser.serving import Site
from tests.cli.tap.gateways import gateway
from tests.live.agents import Place, missing
from tests.live.clients import PATIENCE, end_processes, until
from tests.live.matrix import KEPT_VARIABLE, PRINTERS, SCENARIOS, SHOWN, WAYS, Printer, cells, meaning
from tests.live.model import ASIDE, Model

pytestmark = [pytest.mark.lab, pytest.mark.process, pytest.mark.timeout(1_800)]

TOOLTAP = [sys.executable, "-m", "tooltap.cli"]
TEE = """#!/bin/bash
exec "$REAL" "$@" > >(exec tee -i "$WRITTEN")
"""
"""Notes what an agent writes. It has the agent's name, and the agent takes its place: exit code and signals are the
agent's."""
LOOK = 2.0
"""Seconds for which a person looks at a command that runs, before it is interrupted."""
QUIET = 3.0
"""Seconds in which the events must not change any more, once what is waited for is there."""


class Ended(NamedTuple):
    code: int
    output: bytes


class Runs:
    """An agent that is run in a folder, once or more often."""

    def __init__(self, folder: Path, printer: Printer, name: str, model: str, socket: Path | None = None) -> None:
        """`name`: of the scenario; `socket`: for which display tools are served, where it needs them."""
        self.home, self.workspace = folder / "home", folder / "workspace"
        for one in (self.home, self.workspace):
            one.mkdir()
        self.written = folder / "written"
        self._printer, self._scenario = printer, SCENARIOS[name]
        self._tee = folder / "bin" / Path(printer.agent.command()[0]).name
        self._tee.parent.mkdir()
        self._tee.write_text(TEE)
        self._tee.chmod(0o755)
        (self.workspace / SHOWN).write_text("To be shown.\n")
        place = Place(self.home, self.workspace, model)
        self._variables = {
            **printer.variables_in(name, place),
            "XDG_DATA_HOME": str(folder),
            "REAL": printer.agent.command()[0],
            "WRITTEN": str(self.written),
        }
        self._permissions = printer.permissions_in(name)
        if self._scenario.shows:
            self._permissions = printer.serve(place, [*TOOLTAP, "mcp", "--socket", str(socket)])

    def run(self, tap: list[str], again: tuple[str, ...] = (), site: Site | None = None) -> Ended:
        """Run it to its end. `site`: whose daemon is killed in the middle, and started again."""
        for name in ("runs", "go"):
            (self.workspace / name).unlink(missing_ok=True)
        command = self._printer.command("[[script]] Do it.", again, self._permissions)
        process = subprocess.Popen(
            [*tap, str(self._tee), *command[1:]] if tap else command,
            cwd=self.workspace,
            env=self._variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            if self._scenario.command:
                until(lambda: (self.workspace / "runs").exists() or process.poll() is not None, "the command")
                if site is not None:
                    site.kill()
                    site.start()
                if self._scenario.interrupted:
                    until(self._has_run_a_while, "a person who loses patience")
                    os.killpg(process.pid, signal.SIGINT)
                    until(lambda: process.poll() is not None, "the end of the agent")
                (self.workspace / "go").touch()
            output, errors = process.communicate(timeout=PATIENCE)
            assert (self.workspace / "runs").exists() or not self._scenario.command, errors[-2_000:].decode()
        finally:
            end_processes(self.home)
            process.communicate()
        return Ended(process.returncode, output)

    def _has_run_a_while(self) -> bool:
        return time.time() - (self.workspace / "runs").stat().st_mtime > LOOK


@cache
def code_alone(agent: str, scenario: str) -> int:
    """The exit code without tooltap; minus the number of the signal that ended the agent."""
    printer, meant = PRINTERS[agent], SCENARIOS[scenario]
    with (
        TemporaryDirectory() as folder,
        Model({"script": meant.steps_of(printer)}) as model,
    ):
        return Runs(Path(folder), printer, scenario, model.url).run([]).code


def events_of(site: Site) -> list[dict[str, Any]]:
    with site.daemon.connect() as wire:
        wire.send("subscribe", after="start", follow=False)
        return [one for one in wire.rest() if "op" not in one and not one.get("partial") and not one.get("replay")]


def settled(site: Site, turns: int) -> list[dict[str, Any]]:
    """The events once this many turns have ended and nothing comes any more."""
    until(lambda: len(ends_of(events_of(site))) >= turns, f"the end of {turns} turns")
    seen, since = events_of(site), time.monotonic()

    def is_quiet() -> bool:
        nonlocal seen, since
        if len(events := events_of(site)) != len(seen):
            seen, since = events, time.monotonic()
        return time.monotonic() > since + QUIET

    until(is_quiet, "quiet")
    return seen


def ends_of(events: list[dict[str, Any]]) -> list[str]:
    """How each turn ended. A provisional end counts until the turn has another one."""
    ends = [one for one in events if one["kind"] == "turn" and one["state"] != "started"]
    final = {(one["stream"], one["turn"]) for one in ends if not one.get("provisional")}
    return [one["state"] for one in ends if not one.get("provisional") or (one["stream"], one["turn"]) not in final]


def sessions_of(events: list[dict[str, Any]]) -> set[str]:
    """The sessions that have turns. What an agent reads before it has named its session belongs to that one."""
    names = {one["alias"]: one["session"] for one in events if "alias" in one}
    return {names.get(one["session"], one["session"]) for one in events if one["kind"] == "turn"}


def session_in(output: bytes) -> str:
    """The session that an agent prints, which it need not tell its model."""
    found = re.search(rb'"(?:session_id|sessionID|thread_id)":\s*"([^"]+)"', output)
    assert found is not None, output[:2_000]
    return found[1].decode()


def texts_of(events: list[dict[str, Any]], role: str) -> list[str]:
    return [one["text"] for one in events if one["kind"] == "message" and one["role"] == role]


def statuses_of(events: list[dict[str, Any]]) -> list[str]:
    """The status of each call. A result that says that the command goes on counts for nothing."""
    results: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for one in events:
        if one["kind"] in ("tool-call", "tool-result"):
            is_end = one["kind"] == "tool-result" and not one.get("async")
            results[one["stream"], one["callId"]] += [one["status"]] if is_end else []
    return [" ".join(one) or "no result" for one in results.values()]


def without_asides(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events but those of streams in which the model was asked for a title or the like."""
    aside = {one["stream"] for one in events if one["kind"] == "message" and one.get("text") == ASIDE}
    return [one for one in events if one["stream"] not in aside]


@pytest.mark.parametrize(
    ("agent", "way", "scenario"),
    [pytest.param(*cell, id="-".join(cell)) for cell in cells() if not WAYS[cell[1]].clients],
)
def test_agent_runs_as_alone_and_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str, way: str, scenario: str
) -> None:
    printer, tapped, meant = PRINTERS[agent], WAYS[way], meaning(agent, scenario)
    if (build := missing(printer.agent)) is not None:
        pytest.fail(f"{build.package} {build.version} is not installed: `make live` installs it")
    variable, store = printer.store
    if variable != "XDG_DATA_HOME":  # which a site sets
        monkeypatch.setenv(variable, str(tmp_path / "home" / store))
    monkeypatch.setenv("TOOLTAP_SPOOL", str(tmp_path / "spool"))
    follow = ("[follow]", f'agents = ["{agent}"]', 'backfill = "all"') if tapped.follow else ()
    tap = [*TOOLTAP, "run", "--socket", str(tmp_path / "run" / "t.sock"), "--"] if tapped.run else []
    with Model({"script": meant.steps_of(printer)}) as model, Site(tmp_path, *follow) as site, ExitStack() as stack:
        address = model.url
        if tapped.gateway:
            spool = {"TOOLTAP_SPOOL": str(tmp_path / "spool")}
            _, client = stack.enter_context(gateway(model.url, site.daemon.path, **spool))
            address = str(client.base_url).rstrip("/")
        runs = Runs(tmp_path, printer, scenario, address, site.daemon.path)
        if tapped.daemon == "absent":
            site.kill()
        ended = [runs.run(tap, site=site if tapped.daemon == "killed" else None)]
        if tapped.run:
            until(lambda: runs.written.read_bytes() == ended[0].output, "the same bytes")
        if kept := os.environ.get(KEPT_VARIABLE):
            recording = Path(kept) / agent / f"{way}-{scenario}.jsonl"
            recording.parent.mkdir(parents=True, exist_ok=True)
            recording.write_bytes(ended[0].output)
        if tapped.daemon == "absent":
            site.start()
        events = settled(site, 1)
        if meant.again:
            session = session_in(ended[0].output)
            words = printer.resume if meant.again == "resume" else printer.fork
            ended.append(runs.run(tap, tuple(session if word == "SESSION" else word for word in words)))
            events = settled(site, 2)
        drift = subprocess.run(
            [*TOOLTAP, "drift", "--socket", str(site.daemon.path)], capture_output=True, text=True, check=False
        )

    expected = 0 if meant.shows else code_alone(agent, "shell" if meant.again else scenario)
    expected_codes = [expected] * len(ended)
    assert [one.code for one in ended] == expected_codes
    if tapped.gateway:
        events = without_asides(events)
        assert b"Reconnecting" not in b"".join(one.output for one in ended)  # Codex, whose WebSocket is refused
        assert {one["provider"] for one in events} == {agent}
    assert texts_of(events, "assistant") == list(meant.says)
    sees_calls = tapped.follow or tapped.gateway
    shown = [sees_calls or b"touch runs" in one.output for one in ended]  # OpenCode prints a call with its result
    statuses = statuses_of(events)
    inside = [one for one in events if one["kind"] == "tool-call" and "parent" in one]
    assert len(inside) == (meant.script and tapped.follow and not tapped.run)  # Codex prints no scripts
    calls = sum(shown) if meant.command else meant.shows
    calls += meant.types and sees_calls and not tapped.run  # typing is a call, of which Codex prints nothing
    assert len(statuses) == calls + len(inside), statuses
    assert set(statuses) <= set(meant.status)
    assert ends_of(events) == list(meant.ends)
    prompts = texts_of(events, "user")
    if tapped.gateway:  # the request has what the agent adds, too
        prompts = [one for one in prompts if "Do it." in one]
    assert len(prompts) == len(ended), prompts
    assert all("Do it." in one for one in prompts), prompts
    assert len(sessions_of(events)) == (2 if meant.again == "fork" else 1)
    shown_paths = [one["display"]["path"] for one in events if "display" in one]
    assert [Path(one).name for one in shown_paths] == [SHOWN] * meant.shows
    assert [one for one in events if one["kind"] == "unparsed"] == []
    assert drift.returncode == 0, drift.stdout
