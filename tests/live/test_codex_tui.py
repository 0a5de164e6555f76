"""Codex' own terminal waits for a permission, is answered from elsewhere while its dialog is open, and goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.browser.serving import Site
from tests.cli.screen import Screen, started
from tests.live.agents import AGENTS, Place, environment, missing
from tests.live.clients import CodexTerminal, until
from tests.live.model import Model, Script
from tooltap.daemon.client.blocking import ask
from tooltap.protocol.frames import AnswerRequest, InterruptRequest, SendRequest

pytestmark = [pytest.mark.lab, pytest.mark.process]

MADE = "made.txt"
PROMPT = "[[ask]] Make a file."
TOOLTAP = [sys.executable, "-m", "tooltap.cli"]
CODEX = AGENTS["codex-terminal"]
SCRIPT: Script = {
    "ask": [CODEX.shell(f"touch {MADE}"), "All is done."],
    "slow": [CODEX.shell("echo $$ > pid; while sleep 0.1; do :; done"), "It was slow."],
    "next": ["The next answer."],
}


class Tui:
    """Codex in a terminal."""

    def __init__(self, site: Site, screen: Screen, workspace: Path) -> None:
        self.site = site
        self.screen = screen
        self.workspace = workspace

    def events(self, kind: str) -> list[dict[str, Any]]:
        with self.site.daemon.connect() as wire:
            wire.send("subscribe", after="start", follow=False)
            return [one for one in wire.rest() if one.get("kind") == kind]

    def waiting(self) -> list[dict[str, Any]]:
        with self.site.daemon.connect() as wire:
            return [one for one in wire.ask("waiting")["waiting"] if one["answerable"]]

    def question(self) -> dict[str, Any]:
        until(self.waiting, "the question")
        [one] = self.waiting()
        until(lambda: b"Would you like to run" in self.screen.shown, "the dialog")
        return one

    def answer(self, outcome: Literal["allowed", "denied"]) -> None:
        asked = self.question()["permissionId"]
        assert ask(AnswerRequest(permission_id=asked, outcome=outcome), path=self.site.daemon.path).delivered

    def ended(self, number: int = 1) -> list[str]:
        """Wait until so many turns have ended, and return how."""
        until(lambda: len([one for one in self.events("turn") if one["state"] != "started"]) == number, "the end")
        return [one["state"] for one in self.events("turn") if one["state"] != "started"]


def read(screen: Screen) -> None:
    """Read what Codex shows, and answer what it asks the terminal."""
    replied = dict.fromkeys(CodexTerminal.replies, 0)
    while screen.read():
        for asked, said in CodexTerminal.replies.items():
            while replied[asked] < screen.shown.count(asked):
                screen.type(said)
                replied[asked] += 1


@contextmanager
def servers_of(home: Path) -> Iterator[None]:
    """End the servers that Codex leaves behind."""
    try:
        yield
    finally:
        for name in ("daemon.pid", "daemon-updater.pid"):
            with suppress(OSError, ValueError, LookupError):
                os.kill(json.loads((home / ".codex/app-server-daemon" / name).read_text())["pid"], signal.SIGKILL)


@pytest.fixture
def tui(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tui]:
    if (build := missing(CODEX)) is not None:
        pytest.fail(f"{build.package} {build.version} is not installed: `make live` installs it")
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    home.mkdir()
    workspace.mkdir()
    monkeypatch.setenv("CODEX_HOME", str(home / ".codex"))  # for the daemon, which follows what Codex stores
    follow = ("[follow]", 'agents = ["codex"]')
    with Model(SCRIPT) as model, Site(tmp_path, *follow) as site, servers_of(home):
        place = Place(home, workspace, model.url)
        variables = {**environment(CODEX, place), "TERM": "xterm-256color"}
        attach = [*TOOLTAP, "attach", "codex", "--socket", str(site.daemon.path)]
        attached = subprocess.Popen(attach, env=variables)
        options = ["-C", str(workspace), "-a", "on-request", "-s", "workspace-write", request.param]
        try:
            with started([CODEX.command()[0], *options], variables, size=(40, 120)) as screen:
                reader = threading.Thread(target=read, args=[screen])
                reader.start()
                yield Tui(site, screen, workspace)
                os.kill(screen.pid, signal.SIGKILL)
                os.waitpid(screen.pid, 0)
                reader.join()
        finally:
            attached.kill()
            attached.wait()


@pytest.mark.parametrize("tui", [PROMPT], indirect=True)
@pytest.mark.parametrize("outcome", ["allowed", "denied"])
def test_terminal_is_answered_from_elsewhere(tui: Tui, outcome: Literal["allowed", "denied"]) -> None:
    tui.answer(outcome)
    [end] = tui.ended()

    assert end == "completed"
    assert (tui.workspace / MADE).exists() == (outcome == "allowed")
    [response] = tui.events("permission-response")
    assert (response["outcome"], response["by"]) == (outcome, "user")
    until(lambda: b"done" in tui.screen.shown, "the answer in the terminal")
    assert len({one["session"] for one in tui.events("turn")}) == 1
    # The turn was running when the socket was joined, and the file, which may be read first, has its beginning, too.
    assert [one["text"] for one in tui.events("message") if one["role"] == "user"] == [PROMPT]
    assert [one["state"] for one in tui.events("turn")] == ["started", "completed"]
    assert [one["text"] for one in tui.events("message") if one["role"] == "assistant"] == ["All is done."]
    assert len(tui.events("tool-call")) == len(tui.events("tool-result")) == 1


@pytest.mark.parametrize("tui", [PROMPT], indirect=True)
def test_answer_in_the_terminal_settles_the_question(tui: Tui) -> None:
    tui.question()
    tui.screen.type(b"y")
    tui.ended()

    assert (tui.workspace / MADE).exists()
    assert not tui.waiting()
    [response] = tui.events("permission-response")
    assert (response["outcome"], response["by"]) == ("answered", "user")
    codes = [one["code"] for one in tui.events("notice")]
    assert not [code for code in codes if code.startswith("answer")]


@pytest.mark.parametrize("tui", ["[[slow]] Take your time."], indirect=True)
def test_turn_is_interrupted_and_the_next_is_begun(tui: Tui) -> None:
    session = tui.question()["session"]
    tui.answer("allowed")
    until((tui.workspace / "pid").exists, "the command")
    assert ask(InterruptRequest(session=session), path=tui.site.daemon.path).delivered
    assert tui.ended() == ["cancelled"]
    assert ask(SendRequest(session=session, text="[[next]] Go on."), path=tui.site.daemon.path).delivered
    assert tui.ended(2) == ["cancelled", "completed"]

    until(lambda: b"next" in tui.screen.shown, "the answer in the terminal")
    assert [one["text"] for one in tui.events("message") if one["role"] == "assistant"] == ["The next answer."]
