"""Each agent that has a client, or a person at its terminal, in each way and scenario: it runs as without tooltap, and
the events say what happened.

`make live` runs this.
"""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.browser.serving import Site
from tests.live.agents import AGENTS, Agent, Place, environment, missing
from tests.live.clients import AcpClient, Client, CodexClient, CodexTerminal, LineClient, OpenCodeClient, until
from tests.live.matrix import BY_THE_MINUTE, OWN_TURNS, SCRIPT_MODEL, STOPS_WHEN_DENIED, WAYS, Scenario, cells, meaning
from tests.live.model import Model
from tests.live.test_answering import started
from tests.live.test_matrix import TOOLTAP, ends_of, events_of, sessions_of, settled, statuses_of, texts_of
from tooltap.daemon.client.blocking import ask
from tooltap.protocol.frames import AnswerRequest, SendRequest

pytestmark = [pytest.mark.lab, pytest.mark.process, pytest.mark.timeout(1_800)]

TEE = """#!/bin/bash
exec "$REAL" "$@" < <(exec tee -i "$READ") > >(exec tee -i "$WRITTEN")
"""
"""Notes what the agent reads and writes."""
PROMPT = "[[script]] Do it."
STEER = "Use the other file."


class Work:
    """An agent in a folder, which a client runs once or more often. `mode`: of its permissions."""

    def __init__(
        self, folder: Path, agent: Agent, way: str, scenario: Scenario, model: str, site: Site, mode: str | None
    ) -> None:
        self.home, self.workspace = folder / "home", folder / "workspace"
        self.read, self.written = folder / "read", folder / "written"
        for one in (self.home, self.workspace):
            one.mkdir()
        self._tee = folder / "bin" / Path(agent.command()[0]).name
        self._tee.parent.mkdir()
        self._tee.write_text(TEE)
        self._tee.chmod(0o755)
        self._agent, self._way, self._scenario, self._site = agent, way, scenario, site
        self._mode = mode
        self._place = Place(self.home, self.workspace, model)

    def run(self, session: str | None = None) -> None:
        """Let the agent do its work. `session`: one that it goes on with."""
        turns = len(ends_of(events_of(self._site)))
        with self._started(session) as client:
            if isinstance(client, LineClient) and self._answers_itself():
                client.outcome = None if self._mode else self._scenario.outcome or "allowed"
            self._open(client, session)
            self._prompt(client)
            if self._scenario.rewinds:
                assert isinstance(client, CodexClient | OpenCodeClient | CodexTerminal)
                until(lambda: len(ends_of(events_of(self._site))) > turns, "the end of the turn")
                client.rewind()
                turns += 1
                self._prompt(client)
            if self._way == "stored":
                assert isinstance(client, LineClient)
                client.leave()
                return
            until(lambda: len(ends_of(events_of(self._site))) > turns or self._way == "hooks", "the end of the turn")
            if WAYS[self._way].daemon == "there" and self._way == "proxy":
                assert isinstance(client, LineClient)
                until(lambda: lines_of(self.read) == client.sent, "the same lines to the agent")
                until(lambda: lines_of(self.written) == client.seen, "the same lines from it")

    def _prompt(self, client: Client) -> None:
        for name in ("runs", "go"):
            (self.workspace / name).unlink(missing_ok=True)
        client.prompt(PROMPT)
        if self._scenario.command:
            self._accompany(client)
        if isinstance(client, LineClient):
            client.wait_for_end()

    def _answers_itself(self) -> bool:
        return self._way.startswith("proxy") or self._way == "stored"

    def _started(self, session: str | None) -> AbstractContextManager[Client]:
        agent, variables = self._agent, environment(self._agent, self._place)
        if agent.speaks == "codex-terminal":
            model = ("-m", SCRIPT_MODEL) if self._scenario.script else ()
            again = () if session is None else (self._scenario.again or "", session)
            agent = agent._replace(arguments=(*again, *model, *agent.arguments))
        if not self._answers_itself():
            return started(agent, self._place, self._site.daemon.path)
        real, *arguments = agent.command()
        command = [real, *arguments]
        if self._way != "stored":
            command = [*TOOLTAP, "proxy", "--socket", str(self._site.daemon.path), "--", str(self._tee), *arguments]
            variables |= {"REAL": real, "READ": str(self.read), "WRITTEN": str(self.written)}
        if agent.speaks == "codex":
            return CodexClient(command, self.workspace, variables)
        return AcpClient(command, self.workspace, variables, agent.authentication)

    def _open(self, client: Client, session: str | None) -> None:
        if isinstance(client, CodexClient) and self._scenario.script:
            client.model = SCRIPT_MODEL
        if session is None or isinstance(client, CodexTerminal):
            client.open(self.workspace)
        else:
            assert isinstance(client, AcpClient | CodexClient | OpenCodeClient)
            client.open(self.workspace, session, fork=self._scenario.again == "fork")
        if self._mode is not None:
            assert isinstance(client, AcpClient)
            client.choose_mode(self._mode)

    def _accompany(self, client: Client) -> None:
        """Answer the question, and do what the scenario does while the command runs."""
        meant, runs = self._scenario, self.workspace / "runs"
        question: dict[str, Any] = {}
        if not self._answers_itself():
            question = self._answer()
        if meant.outcome == "denied":
            return
        until(runs.exists, "the command")
        if WAYS[self._way].daemon == "killed":
            self._site.kill()
            self._site.start()
        if meant.steers:
            assert ask(SendRequest(session=question["session"], text=STEER), path=self._site.daemon.path).delivered
        if meant.interrupted:
            assert isinstance(client, AcpClient | CodexClient | CodexTerminal | OpenCodeClient)
            client.interrupt()
        else:
            (self.workspace / "go").touch()
        if meant.types and question:
            self._answer(question)

    def _answer(self, before: dict[str, Any] | None = None) -> dict[str, Any]:
        """Answer a question, and return it. `before`: the one that was answered before."""
        found: list[dict[str, Any]] = []

        def is_asked() -> bool:
            with self._site.daemon.connect() as wire:
                waiting = [one for one in wire.ask("waiting")["waiting"] if one["answerable"]]
            found[:] = [one for one in waiting if before is None or one["permissionId"] != before["permissionId"]]
            return bool(found)

        until(is_asked, "the question")
        asked = AnswerRequest(permission_id=found[0]["permissionId"], outcome=self._scenario.outcome or "allowed")
        assert ask(asked, path=self._site.daemon.path).delivered
        return found[0]


def lines_of(path: Path) -> list[object]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize(
    ("agent", "way", "scenario"),
    [pytest.param(*cell, id="-".join(cell)) for cell in cells() if WAYS[cell[1]].clients],
)
def test_agent_works_for_its_client_and_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str, way: str, scenario: str
) -> None:
    tapped, meant = WAYS[way], meaning(agent, scenario)
    if meant.outcome == "denied" and agent in STOPS_WHEN_DENIED:
        meant = meant._replace(says=())
    started_as = AGENTS[tapped.clients[agent]]
    if scenario == "default":
        started_as = started_as.unconfigured()
    if (build := missing(started_as)) is not None:
        pytest.fail(f"{build.package} {build.version} is not installed: `make live` installs it")
    monkeypatch.setenv("TOOLTAP_SPOOL", str(tmp_path / "spool"))
    with Model({"script": meant.steps(started_as)}) as model, Site(tmp_path) as site:
        mode = "auto" if scenario == "auto" else None
        work = Work(tmp_path, started_as, way, meant, model.url, site, mode)
        work.run()
        if way == "stored":
            ingest(site, started_as, work, model.url)
        if meant.again:
            if agent in BY_THE_MINUTE:
                ended = time.time() // 60
                until(lambda: time.time() // 60 > ended, "the next minute")
            work.run(next(one["session"] for one in events_of(site) if one["kind"] in ("turn", "session")))
            if way == "stored":
                ingest(site, started_as, work, model.url)
        if way == "hooks":
            until(lambda: outcomes_of(events_of(site)), "the receipt")
            events = events_of(site)
        else:
            events = settled(site, len(meant.ends))
        drift = subprocess.run(
            [*TOOLTAP, "drift", "--socket", str(site.daemon.path)], capture_output=True, text=True, check=False
        )

    turns = 1 + (meant.steers and agent in OWN_TURNS)
    check(events, way, meant, turns)
    if way == "stored":
        assert {one["cwd"] for one in events if "cwd" in one} == {str(work.workspace)}
    assert [one for one in events if one["kind"] == "unparsed"] == []
    assert drift.returncode == 0, drift.stdout


def check(events: list[dict[str, Any]], way: str, meant: Scenario, turns: int) -> None:
    """`turns`: for each that the scenario has."""
    if meant.outcome:
        assert outcomes_of(events) == [meant.outcome]
    if way == "hooks":
        return
    assert texts_of(events, "assistant") == list(meant.says)
    statuses = statuses_of(events)
    assert len(statuses) == (len(meant.ends) if meant.command else 0), statuses
    assert set(statuses) <= set(meant.status)
    assert ends_of(events) == list(meant.ends) * turns
    codes = {one.get("code") for one in events}  # OpenCode removes one message after the other
    assert ("rewound" in codes) == meant.rewinds
    prompts = texts_of(events, "user")
    assert len(prompts) == len(meant.ends) + meant.steers, prompts
    assert all("Do it." in one or one == STEER for one in prompts), prompts
    assert len(sessions_of(events)) == (2 if meant.again == "fork" else 1)


def outcomes_of(events: list[dict[str, Any]]) -> list[str]:
    """How each question was answered."""
    return [one["outcome"] for one in events if one["kind"] == "permission-response"]


def ingest(site: Site, agent: Agent, work: Work, model: str) -> None:
    """Read what the agent has stored, twice."""
    command = [*TOOLTAP, "ingest", "--acp", "--socket", str(site.daemon.path), "--", *agent.command()]
    variables = environment(agent, Place(work.home, work.workspace, model))
    for _ in range(2):
        subprocess.run(command, env=variables, cwd=work.workspace, check=True, timeout=120)
