"""Real agents whose model is behind `tooltap gateway`: they run as without it, and the events say what happened.

`make live` runs this.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.browser.serving import Site
from tests.cli.tap.gateways import gateway
from tests.live.agents import Place, environment, missing
from tests.live.clients import PATIENCE, end_processes, until
from tests.live.matrix import MODEL_SAYS, PRINTERS
from tests.live.model import Model
from tests.live.test_matrix import ends_of, settled, statuses_of, texts_of

pytestmark = [pytest.mark.lab, pytest.mark.process, pytest.mark.timeout(600)]


@pytest.mark.parametrize("killed", [False, True], ids=["there", "killed"])
@pytest.mark.parametrize(
    ("agent", "dialect"), [("claude", "anthropic-messages"), ("gemini", "gemini-api"), ("codex", "openai-responses")]
)
def test_agent_is_tapped_between_it_and_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str, dialect: str, killed: bool
) -> None:
    """`killed`: the daemon is killed in mid-command, and started again when the agent has ended."""
    printer = PRINTERS[agent]
    if (build := missing(printer.agent)) is not None:
        pytest.fail(f"{build.package} {build.version} is not installed: `make live` installs it")
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    for folder in (home, workspace):
        folder.mkdir()
    monkeypatch.setenv("TOOLTAP_SPOOL", str(tmp_path / "spool"))
    command = printer.agent.shell("touch runs; until test -e go; do sleep 0.05; done; echo some; exit 3")
    with (
        Model({"script": (command, MODEL_SAYS)}) as model,
        Site(tmp_path) as site,
        gateway(model.url, site.daemon.path, TOOLTAP_SPOOL=str(tmp_path / "spool")) as (_, client),
    ):
        variables = environment(printer.agent, Place(home, workspace, str(client.base_url).rstrip("/")))
        with subprocess.Popen(
            printer.command("[[script]] Do it."),
            cwd=workspace,
            env={**variables, **dict(printer.variables)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            try:
                until(lambda: (workspace / "runs").exists() or process.poll() is not None, "the command")
                if killed:
                    site.kill()
                (workspace / "go").touch()
                output, errors = process.communicate(timeout=PATIENCE)
            finally:
                end_processes(home)
        if killed:
            site.start()
        events = settled(site, 1)

    assert process.returncode == 0, errors[-2_000:].decode()
    assert MODEL_SAYS.encode() in output
    assert b"Reconnecting" not in output + errors  # Codex, whose WebSocket is refused
    assert _told(events) == (["failed"], [MODEL_SAYS], ["completed"])
    assert any("Do it." in text for text in texts_of(events, "user"))
    assert {(one["dialect"], one["provider"]) for one in events} == {(dialect, agent)}
    assert len({one["session"] for one in events if one["kind"] == "turn"}) == 1
    assert [one for one in events if one["kind"] == "unparsed"] == []


def _told(events: list[dict[str, Any]]) -> tuple[list[str], list[str], list[str]]:
    return statuses_of(events), texts_of(events, "assistant"), ends_of(events)
