"""What an ACP agent has stored is read by `tooltap ingest --acp`, once, also after the session has grown.

`make live` runs this.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.browser.serving import Site
from tests.live.agents import AGENTS, Place, environment, missing
from tests.live.clients import AcpClient
from tests.live.matrix import MODEL_SAYS
from tests.live.model import Model
from tests.live.test_matrix import TOOLTAP, events_of, texts_of

pytestmark = [pytest.mark.lab, pytest.mark.process, pytest.mark.timeout(600)]


@pytest.mark.parametrize("name", ["claude-agent-acp", "opencode-acp"])
def test_stored_sessions_are_read_once(tmp_path: Path, name: str) -> None:
    agent = AGENTS[name]
    if (build := missing(agent)) is not None:
        pytest.fail(f"{build.package} {build.version} is not installed: `make live` installs it")
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    home.mkdir()
    workspace.mkdir()
    with Model({"script": [MODEL_SAYS]}) as model, Site(tmp_path) as site:
        variables = environment(agent, Place(home, workspace, model.url))
        ingest = [*TOOLTAP, "ingest", "--acp", "--socket", str(site.daemon.path), "--", *agent.command()]

        def read() -> None:
            subprocess.run(ingest, env=variables, cwd=workspace, check=True, timeout=120)

        with AcpClient(agent.command(), workspace, variables, agent.authentication) as client:
            client.open(workspace)
            client.prompt("[[script]] First.")
            client.wait_for_end()
        read()
        read()
        events = events_of(site)

    assert texts_of(events, "user") == ["[[script]] First."]
    assert texts_of(events, "assistant") == [MODEL_SAYS]
    assert {one["cwd"] for one in events if one["kind"] == "session" and "cwd" in one} == {str(workspace)}
    assert [one for one in events if one["kind"] == "unparsed"] == []
