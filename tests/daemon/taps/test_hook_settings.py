"""Hooks in the settings of agents: what is there stays as it is."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tooltap.daemon.taps.hooks.json_edit import NotJsonError, add, parse, remove
from tooltap.daemon.taps.hooks.settings import HookSettings, SettingsError, write

AGENTS = ("claude", "codex", "copilot", "gemini", "qwen")
FILES = {
    "claude": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "copilot": ".copilot/hooks/tooltap.json",
    "gemini": ".gemini/settings.json",
    "qwen": ".qwen/settings.json",
}
FOLDERS = {"claude": ".claude", "codex": ".codex", "copilot": ".copilot", "gemini": ".gemini", "qwen": ".qwen"}

PLAIN = '{"model":"opus","n":1.0e5}'
COMMENTED = """\
// my settings
{
\t"permissions": { "allow": ["Bash(npm test)"], "deny": [] }, /* both */
\t"hooks": {
\t\t// tells me
\t\t"Stop": [
\t\t\t{ "hooks": [ { "type": "command", "command": "say \\"done\\"" } ] } // here
\t\t]
\t},
\t"unknown": { "nested": [1, 2.50, "\\u00e9é"] }
}
"""
ODD = ["{}", "{\n}\n", "", " \n", PLAIN, COMMENTED, COMMENTED.replace("\n", "\r\n"), "\ufeff{}", '{"hooks": {}}\n']
ODD += ['{\n    "hooks": {"Stop": [], "PermissionRequest": [{"matcher": "Bash", "hooks": []}],},\n}\n']


def settings(agent: str, home: Path, program: str = "/opt/bin/tooltap", **environment: str) -> HookSettings:
    return HookSettings(agent, (program,), {"PATH": "", **environment}, home)


def file_of(agent: str, home: Path, text: str | None = None) -> Path:
    (home / FOLDERS[agent]).mkdir()
    path = home / FILES[agent]
    if text is not None:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode())
    return path


def commands(value: Any) -> list[str]:
    """Return the commands of all hooks in settings."""
    if isinstance(value, dict):
        own = [value[key] for key in ("command", "bash") if isinstance(value.get(key), str)]
        return own + [one for item in value.values() for one in commands(item)]
    return [one for item in value for one in commands(item)] if isinstance(value, list) else []


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("text", ODD)
def test_uninstall_restores_the_file(agent: str, text: str, tmp_path: Path) -> None:
    path = file_of(agent, tmp_path, text)
    one = settings(agent, tmp_path)
    assert one.state() == "not installed"
    backup = write(one.install())
    assert one.state() == "installed"
    assert one.install().is_none
    assert backup is not None
    assert backup.read_bytes() == text.encode()

    write(one.uninstall())
    assert path.read_bytes() == text.encode()
    assert sorted(path.parent.glob("*tooltap*")) == ([path] if agent == "copilot" else [])


@pytest.mark.parametrize("agent", AGENTS)
def test_file_that_was_not_there_is_gone_again(agent: str, tmp_path: Path) -> None:
    path = file_of(agent, tmp_path)
    one = settings(agent, tmp_path)
    assert write(one.install()) is None
    assert {command.split()[:3][-1] for command in commands(json.loads(path.read_text()))} == {agent}

    write(one.uninstall())
    assert not path.exists()


@pytest.mark.parametrize("agent", AGENTS)
def test_only_our_hooks_are_removed_from_a_file_that_has_changed(agent: str, tmp_path: Path) -> None:
    path = file_of(agent, tmp_path, COMMENTED)
    one = settings(agent, tmp_path)
    write(one.install())
    path.write_text(add(path.read_text(), key="later", value=[1]))
    write(one.uninstall())

    wanted = {**parse(COMMENTED).value, "later": [1]} | ({"version": 1} if agent == "copilot" else {})
    assert parse(path.read_text()).value == wanted
    for comment in ("// my settings", "/* both */", "// tells me", "// here"):
        assert comment in path.read_text()


def test_lines_of_others_stay_in_order(tmp_path: Path) -> None:
    file_of("claude", tmp_path, COMMENTED)
    change = settings("claude", tmp_path).install()
    assert change.after is not None
    after = iter(change.after.splitlines())

    for line in COMMENTED.splitlines():
        assert any(line.removesuffix(" // here") in other for other in after), line


def test_other_hooks_of_the_event_stay(tmp_path: Path) -> None:
    text = '{"hooks": {"PermissionRequest": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "mine"}]}]}}'
    path = file_of("claude", tmp_path, text)
    write(settings("claude", tmp_path).install())
    groups = json.loads(path.read_text())["hooks"]["PermissionRequest"]

    assert groups[0] == {"matcher": "Bash", "hooks": [{"type": "command", "command": "mine"}]}
    assert commands(groups[1]) == ["/opt/bin/tooltap hook claude"]


def test_hooks_of_another_installation_are_replaced(tmp_path: Path) -> None:
    path = file_of("claude", tmp_path, PLAIN)
    write(settings("claude", tmp_path, "/old/my tools/tooltap").install())
    one = settings("claude", tmp_path)
    assert one.state() == "partly"
    write(one.install())

    assert set(commands(json.loads(path.read_text()))) == {"/opt/bin/tooltap hook claude"}
    assert one.state() == "installed"


def test_hook_that_the_user_has_removed_is_missing(tmp_path: Path) -> None:
    path = file_of("claude", tmp_path)
    one = settings("claude", tmp_path)
    write(one.install())
    path.write_text(remove(path.read_text(), "hooks", "Stop"))

    assert one.state() == "partly"


def test_hooks_of_codex_stay_in_one_file(tmp_path: Path) -> None:
    """Codex warns if both of its files have hooks."""
    text = '# mine\n[features]\nhooks = true # yes\n\n[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ncommand = "x"'
    (tmp_path / ".codex").mkdir()
    config = tmp_path / ".codex/config.toml"
    config.write_text(text)
    one = settings("codex", tmp_path)
    write(one.install())

    assert config.read_text().startswith(text)
    assert [commands(one) for one in tomllib.loads(config.read_text())["hooks"]["Stop"]] == [
        ["x"],
        ["/opt/bin/tooltap hook codex"],
    ]
    assert not (tmp_path / FILES["codex"]).exists()
    assert one.state() == "installed"
    write(one.uninstall())
    assert config.read_text() == text


def test_what_the_agent_demands_is_said(tmp_path: Path) -> None:
    file_of("claude", tmp_path, '{"disableAllHooks": true}')
    file_of("gemini", tmp_path, '{"hooksConfig": {"enabled": false}}')
    file_of("codex", tmp_path)
    (tmp_path / ".codex/config.toml").write_text("[features]\nhooks = false\n")

    [claude] = settings("claude", tmp_path).remarks()
    [gemini] = settings("gemini", tmp_path).remarks()
    off, review = settings("codex", tmp_path).remarks()
    assert claude.endswith("turns all hooks off (disableAllHooks)")
    assert gemini.endswith("turns all hooks off (hooksConfig.enabled)")
    assert off.endswith("turns all hooks off (features.hooks)")
    assert review == "Codex runs them once you have trusted them: it asks when it starts, and /hooks shows them"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[]", "is not a JSON object"),
        ('{"a": }', "line 1 is not JSON"),
        ('{\n"a": 1\n"b": 2}', "line 3 is not JSON"),
        ('{"a": 1, "a": 2}', "line 1 has the key 'a' again"),
        ('{"hooks": []}', "hooks is not an object"),
        ('{"hooks": {"Stop": {}}}', "hooks.Stop is not a list"),
        ("{" * 300, "line 1 is not JSON"),
    ],
)
def test_file_that_is_not_understood_is_refused(text: str, sentence: str, tmp_path: Path) -> None:
    path = file_of("claude", tmp_path, text)
    with pytest.raises(SettingsError, match=sentence) as error:
        settings("claude", tmp_path).install()

    assert str(error.value).startswith(str(path))
    assert str(error.value).endswith("nothing was changed")
    assert path.read_text() == text


def test_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file_of("qwen", tmp_path).write_bytes(b"\xff")
    with pytest.raises(SettingsError, match="is not UTF-8"):
        settings("qwen", tmp_path).state()


def test_file_that_changes_meanwhile_is_not_written(tmp_path: Path) -> None:
    path = file_of("claude", tmp_path, PLAIN)
    change = settings("claude", tmp_path).install()
    path.write_text(COMMENTED)
    with pytest.raises(SettingsError, match="has changed meanwhile"):
        write(change)

    assert path.read_text() == COMMENTED


def test_mode_and_link_of_the_file_stay(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    real = tmp_path / "dotfiles" / "claude.json"
    real.write_text(PLAIN)
    real.chmod(0o600)
    path = file_of("claude", tmp_path)
    path.symlink_to(real)
    backup = write(settings("claude", tmp_path).install())

    assert path.is_symlink()
    assert backup is not None
    assert (real.stat().st_mode & 0o777, backup.stat().st_mode & 0o777) == (0o600, 0o600)
    assert commands(json.loads(real.read_text()))


def test_folder_of_the_variable_is_used(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    one = settings("claude", tmp_path, CLAUDE_CONFIG_DIR=str(tmp_path / "work"))
    write(one.install())

    assert (tmp_path / "work" / "settings.json").exists()
    assert settings("claude", tmp_path).state() == "agent not found"


@pytest.mark.parametrize("text", ['{"a": 1}, ', '{"a" 1}', "{a: 1}", '["x"', '"\\x"', "nul", '{"a": 1,,}'])
def test_text_that_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(NotJsonError):
        parse(text)
