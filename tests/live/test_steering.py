"""A prompt that is sent while a tool of Claude Code runs reaches the model within the turn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.browser.serving import Site
from tests.live.agents import AGENTS, Place, missing
from tests.live.clients import until
from tests.live.model import Model
from tests.live.test_answering import started
from tooltap.daemon.client.blocking import ask
from tooltap.protocol.frames import AnswerRequest, SendRequest

pytestmark = [pytest.mark.lab, pytest.mark.process]

CLAUDE = AGENTS["claude"]
COMMAND = "touch runs; until test -e go; do sleep 0.05; done"
STEER = "Use the other database."


def stored(home: Path) -> list[str]:
    """The lines of the session's transcript."""
    [path] = (home / ".claude/projects").rglob("*.jsonl")
    return path.read_text().splitlines()


def events_of(site: Site) -> list[dict[str, Any]]:
    with site.daemon.connect() as wire:
        wire.send("subscribe", after="start", follow=False)
        return [one for one in wire.rest() if "op" not in one]


def states_of_turns(events: list[dict[str, Any]]) -> list[str]:
    return [one["state"] for one in events if one["kind"] == "turn"]


def test_prompt_in_mid_turn_reaches_the_model_within_the_turn(tmp_path: Path) -> None:
    if (build := missing(CLAUDE)) is not None:
        pytest.fail(f"{build.package} {build.version} is not installed: `make live` installs it")
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    home.mkdir()
    workspace.mkdir()
    with (
        Model({"ask": [CLAUDE.shell(COMMAND), "All is done."]}) as model,
        Site(tmp_path) as site,
        started(CLAUDE, Place(home, workspace, model.url), site.daemon.path) as client,
        site.daemon.connect() as wire,
    ):
        client.open(workspace)
        client.prompt("[[ask]] Wait for me.")
        until(lambda: wire.ask("waiting")["waiting"], "the question")
        [question] = wire.ask("waiting")["waiting"]
        ask(AnswerRequest(permission_id=question["permissionId"], outcome="allowed"), path=site.daemon.path)
        until((workspace / "runs").exists, "the command")
        receipt = ask(SendRequest(session=question["session"], text=STEER), path=site.daemon.path)
        (workspace / "go").touch()
        client.wait_for_end()
        until(lambda: "completed" in states_of_turns(events_of(site)), "the end")
        events = events_of(site)
        lines = stored(home)

    assert receipt.delivered
    [accepted] = [one for one in events if one.get("code") == "send-accepted"]
    assert accepted["data"] == {"sendId": receipt.id}
    [given] = [number for number, line in enumerate(lines) if json.loads(line).get("attachment", {}).get("prompt")]
    [done] = [number for number, line in enumerate(lines) if "All is done." in line]
    assert STEER in lines[given]
    assert given < done
    assert states_of_turns(events) == ["started", "completed"]
    assert [one["text"] for one in events if one["kind"] == "message" and one["role"] == "user"][-1] == STEER
    assert [one["text"] for one in events if one["kind"] == "message" and one["role"] == "assistant"] == [
        "All is done."
    ]
