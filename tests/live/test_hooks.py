"""Real agents in a terminal ask through the hooks that `tooltap hooks install` writes. `make live` runs this."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.running import Running, Wire, running
from tests.live.agents import AGENTS, KEY, Place, environment, missing
from tests.live.clients import PATIENCE, Terminal
from tests.live.model import Call, Found, Model, Script

pytestmark = [pytest.mark.lab, pytest.mark.process]

MADE = "made.txt"
PLAN = "# Make a file\n\n1. Touch it"
CLAUDE = AGENTS["claude"]
DONE = "All is done."
SCRIPT: Script = {
    "ask": [CLAUDE.shell(f"touch {MADE}"), DONE],
    "plan": [
        Call("Write", {"file_path": Found(r"/[^\s\"\\]+/plans/[^\s\"\\]+\.md"), "content": PLAN}),
        Call("ExitPlanMode", {}),
        DONE,
    ],
}


@contextmanager
def claude(tmp_path: Path, daemon: Running, mode: str) -> Iterator[Terminal]:
    """Claude Code in a terminal, with the hooks."""
    if (build := missing(CLAUDE)) is not None:
        pytest.fail(f"{build.package} {build.version} is not installed: `make live` installs it")
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    home.mkdir()
    workspace.mkdir()
    with Model(SCRIPT) as model:
        place = Place(home, workspace, model.url)
        known = {"hasCompletedOnboarding": True, "customApiKeyResponses": {"approved": [KEY], "rejected": []}}
        place.write(
            ".claude.json",
            json.dumps({**known, "projects": {str(workspace): {"hasTrustDialogAccepted": True}}}),
        )
        variables = {**environment(CLAUDE, place), "TOOLTAP_SOCKET": str(daemon.path)}
        install = [sys.executable, "-m", "tooltap.cli", "hooks", "install", "claude", "--yes"]
        (home / ".claude").mkdir(exist_ok=True)
        subprocess.run(install, env=variables, check=True, stdout=subprocess.DEVNULL)
        with Terminal([CLAUDE.command()[0], "--permission-mode", mode], workspace, variables) as terminal:
            yield terminal


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as one:
        yield one


@pytest.fixture
def events(daemon: Running) -> Iterator[Wire]:
    with daemon.subscribe(filter={"kind": ["permission-request", "permission-response"]}) as wire:
        wire.socket.settimeout(PATIENCE)
        wire.until("live")
        yield wire


def next_of(events: Wire) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE
    while "kind" not in (event := events.read()):
        assert time.monotonic() < deadline, "waited in vain for what is asked or answered"
    return event


def prompt(terminal: Terminal, mode: str, text: str) -> None:
    terminal.until(mode)
    terminal.type(text)
    terminal.until(text)
    terminal.type("\r")


def press_enter(terminal: Terminal, holds: Callable[[], bool]) -> None:
    """Press Enter until this holds, as a person does: a key that comes just when a dialog is drawn may be lost."""
    pressed = -math.inf

    def holds_or_pressed() -> bool:
        nonlocal pressed
        if holds():
            return True
        if time.monotonic() > pressed + 2:
            terminal.type("\r")
            pressed = time.monotonic()
        return False

    terminal.wait(holds_or_pressed, "what Enter begins")


def answer(daemon: Running, question: dict[str, Any], outcome: str) -> None:
    with daemon.connect() as client:
        assert client.ask("answer", permissionId=question["permissionId"], outcome=outcome)["delivered"]


def test_plan_is_approved_from_elsewhere(tmp_path: Path, daemon: Running, events: Wire) -> None:
    """The plan is in a file that Claude Code names; its dialog is open all the while."""
    with claude(tmp_path, daemon, "plan") as terminal:
        prompt(terminal, "plan mode on", "[[plan]] Plan it.")
        question = next_of(events)
        assert (question["name"], question["input"]["plan"]) == ("ExitPlanMode", PLAN)
        terminal.until("Would you like to proceed?")
        answer(daemon, question, "allowed")
        terminal.until(DONE)

    assert next_of(events)["outcome"] == "allowed"


def test_plan_is_sent_back_from_elsewhere(tmp_path: Path, daemon: Running, events: Wire) -> None:
    with claude(tmp_path, daemon, "plan") as terminal:
        prompt(terminal, "plan mode on", "[[plan]] Plan it.")
        answer(daemon, next_of(events), "denied")
        terminal.until(DONE)

    assert next_of(events)["outcome"] == "denied"


def test_answer_in_the_terminal_settles_the_question_before_the_turn_ends(
    tmp_path: Path, daemon: Running, events: Wire
) -> None:
    with claude(tmp_path, daemon, "default") as terminal:
        prompt(terminal, "manual mode on", "[[ask]] Make a file.")
        assert next_of(events)["name"] == "Bash"
        terminal.until("Do you want to proceed?")
        press_enter(terminal, lambda: (tmp_path / "workspace" / MADE).exists())
        response = next_of(events)
        terminal.until(DONE)

    assert response["outcome"] == "allowed", "the end of the turn would say that it expired"
    assert (tmp_path / "workspace" / MADE).exists()
