"""Agents that speak ACP run through `tooltap proxy` as without it, while the daemon is killed, away, and back again.

`make live` runs this.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.serving import Site
from tests.live.agents import AGENTS, Place, environment, missing
from tests.live.clients import AcpClient, until
from tests.live.matrix import MODEL_SAYS
from tests.live.model import Model
from tests.live.test_clients import TEE, lines_of
from tests.live.test_matrix import TOOLTAP, ends_of, events_of, settled, texts_of

pytestmark = [pytest.mark.lab, pytest.mark.process, pytest.mark.timeout(1_800)]


@pytest.mark.parametrize("name", sorted(name for name, agent in AGENTS.items() if agent.speaks == "acp"))
def test_agent_runs_as_alone_whatever_becomes_of_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    agent = AGENTS[name]
    if (build := missing(agent)) is not None:
        pytest.fail(f"{build.package} {build.version} is not installed: `make live` installs it")
    monkeypatch.setenv("TOOLTAP_SPOOL", str(tmp_path / "spool"))
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    home.mkdir()
    workspace.mkdir()
    real, *arguments = agent.command()
    tee = tmp_path / Path(real).name
    tee.write_text(TEE)
    tee.chmod(0o755)
    read, written = tmp_path / "read", tmp_path / "written"
    with Model({"script": [MODEL_SAYS]}) as model, Site(tmp_path) as site:
        variables = environment(agent, Place(home, workspace, model.url))
        variables |= {"REAL": real, "READ": str(read), "WRITTEN": str(written)}
        command = [*TOOLTAP, "proxy", "--socket", str(site.daemon.path), "--", str(tee), *arguments]
        prompts = ["[[script]] First.", "[[script]] Second.", "[[script]] Third."]
        with AcpClient(command, workspace, variables, agent.authentication) as client:
            client.open(workspace)
            client.prompt(prompts[0])
            client.wait_for_end()
            until(lambda: ends_of(events_of(site)), "the end of the first turn")
            site.kill()
            client.prompt(prompts[1])
            client.wait_for_end()
            site.start()
            client.prompt(prompts[2])
            client.wait_for_end()
            events = settled(site, 3)
            until(lambda: lines_of(read) == client.sent, "the same lines to the agent")
            until(lambda: lines_of(written) == client.seen, "the same lines from it")

    assert texts_of(events, "user") == prompts
    assert texts_of(events, "assistant") == [MODEL_SAYS] * 3
    assert ends_of(events) == ["completed"] * 3
    assert len({one["session"] for one in events if one["kind"] == "turn"}) == 1
    assert [one for one in events if one["kind"] == "unparsed"] == []
