"""The advice of a daemon, of its web gateway, and of what is beside it is followed: `tests/cli/test_advised.py` has the
table.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.cli.command import COMMAND, Child, environment, here, start
from tests.cli.manage.test_advice import commands, home
from tests.cli.tap.gateways import answers, gateway
from tests.cli.tap.test_answers import AGENT
from tests.daemon.answering import OPENING, Tap, question
from tests.daemon.events import call, commit, event, message
from tests.daemon.ingest.test_drift import SHELL
from tests.daemon.running import Running
from tests.daemon.test_files_in_use import until
from tests.daemon.web.browsing import Browser, browsed
from tests.daemon.web.page.reading import shown
from tests.http_server import HttpServer
from tests.traces.drift.altering import altered, rename
from tooltap.cli.manage.up import _drifted
from tooltap.protocol.events import Turn

__all__ = ["home"]


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Running, Browser]]:
    with capture_logs(), browsed(tmp_path) as (daemon, browser):
        monkeypatch.setenv("TOOLTAP_SOCKET", str(daemon.path))
        yield daemon, browser


def enters(browser: Browser, link: str) -> bool:
    """Whether a link logs a browser in."""
    return browser.get("/api/stats", browser.log_in(link.strip())).status == 200


# -- the page ---------------------------------------------------------------------------------------------------------


def test_link_and_header_that_a_refusal_names_let_in(served: tuple[Running, Browser]) -> None:
    _, browser = served
    used = browser.link()
    browser.log_in(used)
    refusals = {
        "no entry": browser.get("/api/stats", {"Authorization": ""}),
        "in the address": browser.get(f"/api/stats?token={browser.token}", {"Authorization": ""}),
        "used": browser.get("/login", {"Authorization": ""}, method="POST", body=used.partition("#login=")[2].encode()),
    }
    for why, refusal in refusals.items():
        _, _, said = refusal.error
        [command] = commands(said)
        assert enters(browser, here(*command).stdout.decode()), why
        for header in re.findall(r"`(Authorization: .+?)`", said):
            name, _, value = header.replace("TOKEN", browser.token).partition(": ")
            assert browser.get("/api/stats", {name: value}).status == 200, why


@pytest.mark.process
def test_command_that_open_names_prints_a_link(
    served: tuple[Running, Browser], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSER", "true")
    monkeypatch.setenv("DISPLAY", ":0")
    [command] = commands(here("open").stderr.decode())

    assert enters(served[1], here(*command).stdout.decode())


def test_session_that_is_cut_is_exported_whole(
    served: tuple[Running, Browser], monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon, browser = served
    daemon.commit(commit(*(message(f"this is text {one} {'x' * 400}", index=one) for one in range(30))))
    with monkeypatch.context() as short:
        short.setattr("tooltap.daemon.export.source.READ", 1)
        short.setattr("tooltap.daemon.export.source.MAX_BYTES", 2_000)
        page = shown(browser, "/sessions/session-1/share")
    [command] = [["export"]] if "`tooltap export` writes all of it" in page.text else [[]]
    written = here(*command, "--html", "session-1").stdout.decode()

    assert "this is text 29 " in written


def test_output_that_is_new_is_shown(served: tuple[Running, Browser], tmp_path: Path) -> None:
    """That of which `up` says so."""
    changed = altered(tmp_path / "changed.jsonl", SHELL, rename("aggregated_output", "output"))
    assert here("ingest", changed).returncode == 0
    [command] = commands(_drifted(served[0].stats()))

    assert b"aggregated_output" in here(*command).stdout


# -- the gateway ------------------------------------------------------------------------------------------------------


@pytest.mark.process
def test_key_and_host_that_the_gateway_names_let_in(home: Path, served: tuple[Running, Browser]) -> None:
    daemon, _ = served

    def said(host: str, key: str = "") -> str:
        answer = client.get(f"{key}/v1/models", headers={"Host": host})
        return str(answer.json()["error"]["message"]) if answer.status_code != 200 else ""

    with HttpServer(answers(b"{}")) as server:
        with gateway(server.url, daemon.path) as (_, client):
            [option] = re.findall(r"a name given with (--\w+)", said("gateway.lan"))
        with gateway(server.url, daemon.path, option, "gateway.lan") as (_, client):
            for refusal in (said("gateway.lan"), said("gateway.lan", f"/key-{'w' * 43}")):
                [command] = commands(refusal)
            key = here(*command).stdout.decode().strip()
            assert said("gateway.lan", f"/key-{key}") == ""


# -- what waits cannot be answered from here --------------------------------------------------------------------------

HOOK: dict[str, Any] = {
    "session_id": "s-1",
    "transcript_path": "/home/me/.claude/projects/w/s-1.jsonl",
    "cwd": "/w",
    "permission_mode": "default",
    "hook_event_name": "PermissionRequest",
    "tool_name": "Bash",
    "tool_input": {"command": "rm -rf build"},
}


def why_not() -> str:
    [one] = json.loads(here("waiting", "--json").stdout)["waiting"]
    return str(one.get("whyNot", ""))


@pytest.mark.process
def test_session_of_a_file_is_answered_once_hooks_are_installed(home: Path, served: tuple[Running, Browser]) -> None:
    """With the command that is then in the agent's settings."""
    claude: dict[str, Any] = {"session": "s-1", "provider": "claude"}
    daemon = served[0]
    asks = call("c1", name="AskUserQuestion", input={"questions": []}, dialect="claude-transcript", **claude)
    daemon.commit(commit(event(Turn, state="started", **claude), asks, followed=True))
    [command] = commands(why_not())
    (home / ".claude").mkdir()
    assert here(*command, "claude", "--yes").returncode == 0
    settings = json.loads((home / ".claude" / "settings.json").read_text())
    [handler] = settings["hooks"]["PermissionRequest"][0]["hooks"]
    assert shlex.split(handler["command"])[:3] == COMMAND
    with start(*shlex.split(handler["command"])[3:], env=environment_of(daemon)) as agent:
        answer_hook(agent, HOOK)


def environment_of(daemon: Running) -> dict[str, str]:
    return environment(TOOLTAP_SOCKET=str(daemon.path))


def answerable() -> list[str]:
    """Ids of the questions that can be answered from here."""
    waiting = json.loads(here("waiting", "--json").stdout)["waiting"]
    return [one["permissionId"] for one in waiting if one.get("answerable")]


def answer_hook(agent: Child, given: dict[str, Any]) -> None:
    """Ask as an agent does with its hook, answer from elsewhere, and see that the agent gets it."""
    agent.write(json.dumps(given).encode())
    assert agent.process.stdin is not None
    agent.process.stdin.close()
    until(lambda: len(answerable()) == 1)
    assert here("answer", *answerable(), "--allow").returncode == 0
    assert json.loads(agent.line())["hookSpecificOutput"]["decision"]["behavior"] == "allow"


@pytest.mark.process
def test_hook_waits_for_an_answer_once_one_is_away(home: Path, served: tuple[Running, Browser]) -> None:
    """With Codex, which shows no dialog while its hook runs."""
    hook = ("hook", "codex")
    with start(*hook, env=environment_of(served[0])) as child:
        child.write(json.dumps(HOOK).encode())
        assert child.end()[0] == 0
    [command] = commands(why_not())
    assert here(*command).returncode == 0
    with start(*hook, env=environment_of(served[0])) as child:
        answer_hook(child, {**HOOK, "tool_input": {"command": "make"}})


@pytest.mark.process
def test_agent_is_answered_once_its_tap_can_send(served: tuple[Running, Browser], tmp_path: Path) -> None:
    daemon = served[0]
    tap = Tap("silent").connect(daemon.connect(), toAgent=False).tap(*OPENING, ("out", question(1)))
    [[*command, separator, given]] = commands(why_not())
    assert (separator, given) == ("--", "COMMAND")
    tap.wire.close()
    got = tmp_path / "got"
    agent = (sys.executable, "-c", AGENT, got)
    with start(*command, "--dialect", "acp", "--", *agent, env=environment_of(daemon)) as proxy:
        for direction, line in (*OPENING, ("out", question(2))):
            text = json.dumps({"jsonrpc": "2.0", **line})
            proxy.write((text if direction == "in" else json.dumps({"print": f"{text}\n"})).encode() + b"\n")
        until(lambda: len(answerable()) == 1)
        assert here("answer", *answerable(), "--allow").returncode == 0
        until(lambda: b'"optionId":"yes"' in got.read_bytes().replace(b" ", b""))
