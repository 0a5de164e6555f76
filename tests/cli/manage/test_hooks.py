"""`tooltap hooks` and `tooltap away`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.command import here, sentence, tooltap
from tooltap.cli.manage.hooks import AGENTS
from tooltap.normalizers.catalog.registry import agents

SETTINGS = '{\n    "model": "opus" // mine\n}\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which Claude Code is found, and no other agent."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "GEMINI_CLI_HOME", "QWEN_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("PATH", "")
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text(SETTINGS)
    return tmp_path


def status(home: Path) -> list[str]:
    finished = here("hooks", "status")
    assert finished.returncode == 0
    return finished.stdout.decode().replace(str(home), "~").splitlines()


def test_agents_of_the_catalog_that_have_hooks_are_choices() -> None:
    assert sorted(name for name, agent in agents().items() if agent.hooks is not None) == list(AGENTS)


def test_hooks_are_installed_and_removed(home: Path) -> None:
    path = home / ".claude" / "settings.json"
    assert status(home)[0] == "claude: not installed"
    installed = here("hooks", "install", "--yes")
    assert installed.returncode == 0
    assert b'+    "hooks": {' in installed.stdout
    assert b"the file as it was is " in installed.stdout
    assert "// mine" in path.read_text()
    assert status(home) == [
        "claude: installed in ~/.claude/settings.json",
        *(f"{agent}: agent not found" for agent in ("codex", "copilot", "gemini", "qwen")),
    ]
    assert here("hooks", "install", "--yes").stdout == b"the hooks are installed\n"

    assert here("hooks", "uninstall", "--yes", "claude").returncode == 0
    assert path.read_text() == SETTINGS
    assert here("hooks", "uninstall").stdout == b"no hooks are installed\n"


@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"n\n", 1), (b"", 130)])
def test_nothing_is_written_before_the_user_agrees(answer: bytes, code: int, home: Path) -> None:
    finished = tooltap("hooks", "install", stdin=answer)

    assert finished.returncode == code
    assert finished.stdout.startswith(b"--- ")
    assert ((home / ".claude" / "settings.json").read_text() == SETTINGS) == (code != 0)


def test_installed_command_runs_this_program(home: Path) -> None:
    tooltap("hooks", "install", "--yes")
    text = (home / ".claude" / "settings.json").read_text().replace(" // mine", "")
    [group] = json.loads(text)["hooks"]["PermissionRequest"]

    assert group["hooks"][0]["command"] == f"{sys.executable} -m tooltap.cli hook claude"


def test_agent_that_is_not_there_gets_no_settings(home: Path) -> None:
    finished = here("hooks", "install", "codex", "claude", "--yes")

    assert finished.returncode == 0
    assert sentence(finished) == "codex is not found"
    assert not (home / ".codex").exists()


@pytest.mark.parametrize(("words", "named"), [((), "claude, codex, copilot, gemini or qwen"), (("codex",), "codex")])
def test_nothing_is_called_installed_where_there_is_no_agent(
    words: tuple[str, ...], named: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("HOME", str(empty))
    finished = here("hooks", "install", *words, "--yes")

    assert (finished.returncode, finished.stdout) == (1, b"")
    assert sentence(finished) == f"found neither the program nor the settings of {named}"
    assert list(empty.iterdir()) == []


def test_file_that_cannot_be_read_is_refused_in_a_sentence(home: Path) -> None:
    path = home / ".claude" / "settings.json"
    path.write_text("{")
    finished = here("hooks", "install", "--yes")

    assert finished.returncode == 1
    assert sentence(finished) == f"{path}: line 1 is not JSON; nothing was changed"
    assert status(home)[0] == "claude: ~/.claude/settings.json: line 1 is not JSON; nothing was changed"


def test_what_codex_demands_is_said(home: Path) -> None:
    (home / ".codex").mkdir()
    installed = here("hooks", "install", "codex", "--yes").stdout.decode()

    demand = "Codex runs them once you have trusted them: it asks when it starts, and /hooks shows them"
    assert installed.splitlines()[-1] == demand
    assert status(home)[1:3] == [
        "codex: installed in ~/.codex/hooks.json",
        f"  {demand}",
    ]


def test_user_is_away_until_he_is_back(home: Path) -> None:
    away = b"you are away: hooks that hide a dialog wait 90 s for an answer\n"
    here_again = b"you are not away: hooks do not hide dialogs\n"

    assert here("away", "--status").stdout == here_again
    assert here("away", "--wait", "90").stdout == away
    assert here("away", "--status").stdout == away
    assert here("away", "--off").stdout == here_again
    assert here("away", "--off").returncode == 0
