"""Real agents wait for a permission, are answered from elsewhere, and go on. Whoever started them never answers.

`make live` runs this. It installs the agents first: one that is missing is a failure.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import Tab, launched
from tests.browser.serving import Site
from tests.daemon.running import Wire
from tests.live.agents import AGENTS, NODE, Agent, Place, environment, missing
from tests.live.clients import (
    PATIENCE,
    AcpClient,
    ClaudeClient,
    ClaudeTerminal,
    Client,
    CodexClient,
    CodexTerminal,
    OpenCodeClient,
    until,
)
from tests.live.model import Model, Script

Outcome: TypeAlias = Literal["allowed", "denied"]
OUTCOMES: tuple[Outcome, Outcome] = ("allowed", "denied")
QUICK_VARIABLE = "TOOLTAP_LIVE_QUICK"
"""With this variable in the environment, an agent is answered once in each way."""
IS_QUICK = bool(os.environ.get(QUICK_VARIABLE))
CLIENT = Path(__file__).parents[2] / "clients/typescript/dist/src/index.js"
TOOLTAP = [sys.executable, "-m", "tooltap.cli"]
TAPPED = {"claude": ("run", "--answers"), "codex": ("run", "--answers"), "acp": ("proxy", "--answers")}

pytestmark = [pytest.mark.lab, pytest.mark.process, pytest.mark.timeout(600 if IS_QUICK else 3_600)]


class Run(NamedTuple):
    """An agent that works, and a daemon."""

    site: Site
    wire: Wire
    client: Client
    workspace: Path
    browser: Browser

    def waiting(self) -> list[dict[str, Any]]:
        return [one for one in self.wire.ask("waiting")["waiting"] if one.get("certain", True)]

    def question(self) -> dict[str, Any]:
        until(self.waiting, "the question")
        (one,) = self.waiting()
        return one

    def events(self, permission: str) -> list[dict[str, Any]]:
        """Return the events about a question."""
        with self.site.daemon.connect() as wire:
            wire.send("subscribe", after="start", follow=False)
            events = [one for one in wire.rest() if "op" not in one]
        return [one for one in events if (one.get("data") or one).get("permissionId") == permission]

    def told(self, permission: str) -> list[str]:
        """Return the codes of the notices about answers to a question, and the outcomes that the agent was given."""
        found = [one.get("code") or one.get("outcome") or "" for one in self.events(permission)]
        return [one for one in found if one in OUTCOMES or one.startswith("answer")]


def program(command: list[str], **variables: str) -> None:
    """Run a program that has to succeed."""
    env = {**os.environ, **variables}
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=env)
    assert done.returncode == 0, done.stderr


def started(agent: Agent, place: Place, socket: Path) -> Client:
    variables = environment(agent, place)
    if agent.speaks == "opencode":
        attach = [*TOOLTAP, "attach", "opencode", "--socket", str(socket)]
        return OpenCodeClient(agent.command(), attach, place.workspace, variables)
    if agent.speaks == "claude-terminal":
        program([*TOOLTAP, "hooks", "install", "claude", "--yes"], **variables)
        return ClaudeTerminal(agent.command(), place.workspace, {**variables, "TOOLTAP_SOCKET": str(socket)})
    if agent.speaks == "codex-terminal":
        attach = [*TOOLTAP, "attach", "codex", "--socket", str(socket)]
        return CodexTerminal(agent.command(), attach, place.workspace, variables)
    command = [*TOOLTAP, *TAPPED[agent.speaks], "--socket", str(socket), "--", *agent.command()]
    if agent.speaks == "acp":
        return AcpClient(command, place.workspace, variables, agent.authentication)
    if agent.speaks == "codex":
        return CodexClient(command, place.workspace, variables)
    return ClaudeClient(command, place.workspace, variables)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


# -- ways to answer ----------------------------------------------------------------------------------------------------


def by_terminal(run: Run, question: dict[str, Any], outcome: Outcome) -> None:
    flag = "--allow" if outcome == "allowed" else "--deny"
    program([*TOOLTAP, "answer", "--socket", str(run.site.daemon.path), question["permissionId"], flag])


PYTHON = """
import sys
from tooltap.client import ask
from tooltap.protocol.frames import AnswerRequest

path, permission, outcome = sys.argv[1:]
if not ask(AnswerRequest(permission_id=permission, outcome=outcome), path=path).delivered:
    sys.exit("not delivered")
"""


def by_python(run: Run, question: dict[str, Any], outcome: Outcome) -> None:
    program([sys.executable, "-c", PYTHON, str(run.site.daemon.path), question["permissionId"], outcome])


TYPESCRIPT = """
const [client, path, permissionId, outcome] = process.argv.slice(1);
const { request } = await import(client);
const answer = await request({ op: "answer", permissionId, outcome }, { path });
if (!answer.delivered) throw new Error("not delivered");
"""


def by_typescript(run: Run, question: dict[str, Any], outcome: Outcome) -> None:
    assert CLIENT.exists(), "`make typescript` builds the client"
    words = [str(CLIENT), str(run.site.daemon.path), question["permissionId"], outcome]
    program([str(NODE.path), "--input-type=module", "--eval", TYPESCRIPT, *words])


def by_http(run: Run, question: dict[str, Any], outcome: Outcome) -> None:
    body = json.dumps({"permissionId": question["permissionId"], "outcome": outcome}).encode()
    headers = {"Authorization": f"Bearer {run.site.token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{run.site.url}/api/answer", body, headers, method="POST")
    with urllib.request.urlopen(request, timeout=PATIENCE) as response:
        assert json.load(response)["delivered"] is True


def by_page(run: Run, question: dict[str, Any], outcome: Outcome, **device: Any) -> None:
    milliseconds = PATIENCE * 1_000
    with Tab(run.browser, **device) as tab:
        tab.context.set_default_timeout(milliseconds)
        run.site.enter(tab.page, f"/sessions/{question['session']}")
        ask = tab.page.locator(".ask")
        press(tab.page, "Allow" if outcome == "allowed" else "Deny")
        try:
            expect(ask).to_have_count(0, timeout=milliseconds)
        except AssertionError as error:
            error.add_note(f"the page says: {ask.first.inner_text()}")
            raise


MOVED = "choose again"
NOT_SENT = "document.querySelector('.ask:not([data-sent]) .said')?.textContent ?? ''"


def press(page: Page, name: str) -> None:
    """Press a button of the question, as a person does: if the page says that the question has moved meanwhile, by what
    the agent goes on writing above it, the person looks, and chooses again."""
    button = page.locator(".ask[data-ready]").get_by_role("button", name=re.compile(f"^{name}")).first
    button.click()
    while MOVED in page.evaluate(NOT_SENT):
        button.click()


def by_phone(run: Run, question: dict[str, Any], outcome: Outcome) -> None:
    by_page(run, question, outcome, viewport={"width": 390, "height": 780}, has_touch=True, is_mobile=True)


Way = Callable[[Run, dict[str, Any], Outcome], None]
WAYS: list[Way] = [by_terminal, by_python, by_typescript, by_http, by_page, by_phone]
Case: TypeAlias = tuple[Way, Outcome]


def cases(agent: str) -> list[Case]:
    """Return the questions of an agent: every way allows and denies, or with `QUICK_VARIABLE` does one of the two."""
    if not IS_QUICK:
        return [(way, outcome) for outcome in OUTCOMES for way in WAYS]
    first = sorted(AGENTS).index(agent)
    ways = [way for way in WAYS if way is not by_typescript or CLIENT.exists()]
    return [(way, OUTCOMES[number % 2]) for number, way in enumerate(ways, first)]


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_agent_waits_is_answered_and_goes_on(tmp_path: Path, browser: Browser, name: str) -> None:
    agent = AGENTS[name]
    if (build := missing(agent)) is not None:
        pytest.fail(f"{build.package} {build.version} is not installed: `make live` installs it")
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    home.mkdir()
    workspace.mkdir()
    questions = cases(name)
    files = [f"file-{number}" for number in range(len(questions))]
    script: Script = {f"turn{number}": [agent.shell(f"touch {file}"), "Done."] for number, file in enumerate(files)}
    with (
        Model(script) as model,
        Site(tmp_path) as site,
        started(agent, Place(home, workspace, model.url), site.daemon.path) as client,
        site.daemon.connect() as wire,
    ):
        client.open(workspace)
        run = Run(site, wire, client, workspace, browser)
        for number, (way, outcome) in enumerate(questions):
            try:
                check(run, f"[[turn{number}]]", files[number], way, outcome)
            except BaseException as error:
                error.add_note(f"{name}, {outcome} {way.__name__}")
                raise
    made = {file for file, (_, outcome) in zip(files, questions, strict=True) if outcome == "allowed"}
    assert {path.name for path in workspace.glob("file-*")} == made


def check(run: Run, prompt: str, file: str, way: Way, outcome: Outcome) -> None:
    """Let an agent ask whether it may make a file, and answer it."""
    run.client.prompt(prompt)
    question = run.question()
    assert question["answerable"], question.get("whyNot")
    permission = question["permissionId"]
    until(lambda: file in json.dumps(run.events(permission)), "the event that asks")  # what waits may be listed before
    assert not (run.workspace / file).exists()

    way(run, question, outcome)
    run.client.wait_for_end()

    assert (run.workspace / file).exists() == (outcome == "allowed")
    until(lambda: not run.waiting(), "the end of the question")
    until(lambda: {"answer-delivered", outcome} <= set(run.told(permission)), "the receipt")
    assert sorted(run.told(permission)) == sorted(["answer", "answer-delivered", outcome])
