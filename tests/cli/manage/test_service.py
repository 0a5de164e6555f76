"""`tooltap service`: a valid unit whose command starts a daemon, and the calls of systemctl."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import environment, here, sentence, tooltap
from tooltap.daemon.system.systemd import NAME

ESCAPES = {"n": "\n", "\\": "\\", '"': '"'}


@pytest.fixture
def unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the unit; the systemd of this machine is not called."""
    monkeypatch.setattr("tooltap.daemon.system.systemd.BOOTED", tmp_path / "none")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "systemd" / "user" / NAME


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The log of a fake `systemctl`, which runs the script in the file `answer`."""
    programs = tmp_path / "bin"
    programs.mkdir()
    calls, answer = tmp_path / "calls", tmp_path / "answer"
    answer.touch()
    (programs / "systemctl").write_text(f'#!/bin/sh\necho "$*" >> {calls}\n. {answer}\n')
    (programs / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("tooltap.daemon.system.systemd.BOOTED", tmp_path)
    return calls


def words(value: str) -> list[str]:
    """Split a command and replace escapes like systemd (systemd.service(5))."""
    found: list[str] = []
    characters = iter(value)
    word, quoted = "", False
    for one in characters:
        if one == '"':
            quoted = not quoted
        elif one == " " and not quoted:
            found.append(word)
            word = ""
        else:
            word += ESCAPES[next(characters)] if one == "\\" else one
    assert not quoted
    program, *arguments = [one.replace("%%", "%") for one in [*found, word]]
    return [program, *(one.replace("$$", "$") for one in arguments)]


def settings(unit: str) -> dict[str, list[str]]:
    """`Section.Key` -> its values."""
    found: dict[str, list[str]] = {}
    section = ""
    for line in unit.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, equals, value = line.partition("=")
            assert equals, line
            found.setdefault(f"{section}.{key}", []).append(value)
    return found


def printed(*options: object) -> dict[str, list[str]]:
    finished = here("service", "install", "--print", "--", *options)
    assert (finished.returncode, finished.stderr) == (0, b"")
    return settings(finished.stdout.decode())


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket on which systemd waits for the readiness of a service."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as waiting:
        waiting.bind(str(tmp_path / "notify"))
        waiting.settimeout(60)
        yield waiting


def test_unit_starts_a_daemon_that_notifies_readiness(tmp_path: Path, manager: socket.socket) -> None:
    """The path of its journal contains all special characters of systemd and shells."""
    journal = tmp_path / 'a b%c$HOME"d\\e.db'
    place = tmp_path / "s.sock"
    unit = printed("--follow", "claude", "--journal", f"sqlite:{journal}", "--socket", place)
    [command] = unit["Service.ExecStart"]
    started = environment(NOTIFY_SOCKET=str(tmp_path / "notify"), CLAUDE_CONFIG_DIR=str(tmp_path))
    with subprocess.Popen(words(command), env=started, cwd="/", stderr=subprocess.DEVNULL) as daemon:
        try:
            assert manager.recv(100) == b"READY=1"
            assert tooltap("serve", "status", "--socket", place).stdout.decode().count("following: 0 files") == 1
            assert journal.exists()
            daemon.send_signal(signal.SIGTERM)
            assert daemon.wait(60) == 0
        finally:
            daemon.kill()


def test_unit_settings_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", "/somewhere else/100%")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    unit = printed()

    assert unit["Service.Type"] == ["notify"]
    assert unit["Service.Restart"] == ["on-failure"]
    assert unit["Service.RestartPreventExitStatus"] == ["2"]  # wrong configuration stays wrong
    assert unit["Service.UMask"] == ["0077"]
    assert unit["Install.WantedBy"] == ["default.target"]
    assert '"CODEX_HOME=/somewhere else/100%%"' in unit["Service.Environment"]
    assert "secret" not in str(unit)


def test_unit_starts_the_installing_program(tmp_path: Path) -> None:
    script = tmp_path / "tooltap"
    script.write_text(f"#!{sys.executable}\nfrom tooltap.cli.main import main\nmain()\n")
    script.chmod(0o755)
    finished = subprocess.run([script, "service", "install", "--print"], capture_output=True, text=True, check=True)

    assert settings(finished.stdout)["Service.ExecStart"] == [f"{script} serve"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_verifies_unit(unit: Path, tmp_path: Path) -> None:
    here("service", "install", "--", "--follow", "claude,codex", "--journal", f"sqlite:{tmp_path / 'a b%c$d.db'}")
    command = ["systemd-analyze", "verify", "--user", "--man=no", str(unit)]
    finished = subprocess.run(
        command, env=environment(XDG_RUNTIME_DIR=str(tmp_path)), capture_output=True, text=True, check=False
    )

    assert (finished.returncode, finished.stderr) == (0, "")


def test_install_enables_unit(unit: Path, systemd: Path) -> None:
    finished = here("service", "install", "--", "--follow", "claude")

    assert finished.returncode == 0
    assert finished.stderr == b""
    assert finished.stdout.decode().splitlines() == [
        f"wrote {unit}",
        "ran systemctl --user daemon-reload",
        f"ran systemctl --user enable {NAME}",
        f"start it now: systemctl --user restart {NAME}",
        "to run it without a login: loginctl enable-linger",
    ]
    assert systemd.read_text().splitlines() == ["--user --no-pager daemon-reload", f"--user --no-pager enable {NAME}"]
    assert words(settings(unit.read_text())["Service.ExecStart"][0])[-3:] == ["serve", "--follow", "claude"]


def test_reinstalling_replaces_options(unit: Path) -> None:
    here("service", "install", "--", "--follow", "claude")
    here("service", "install", "--", "--follow", "codex")

    assert words(settings(unit.read_text())["Service.ExecStart"][0])[-2:] == ["--follow", "codex"]


def test_without_systemd_commands_are_printed(unit: Path) -> None:
    finished = here("service", "install")

    assert (finished.returncode, finished.stdout.decode()) == (0, f"wrote {unit}\n")
    assert sentence(finished) == (
        "systemctl failed (systemd is not running); run it yourself:"
        f" systemctl --user daemon-reload && systemctl --user enable {NAME}"
    )


def test_systemd_error_is_quoted(unit: Path, systemd: Path) -> None:
    (systemd.parent / "answer").write_text("echo 'Failed to connect to bus: No medium found' >&2; exit 1\n")
    finished = here("service", "install")

    assert finished.returncode == 0
    assert "(Failed to connect to bus: No medium found); run it yourself: systemctl" in sentence(finished)
    assert unit.exists()


@pytest.mark.parametrize(("answer", "code"), [("echo active", 0), ("echo inactive; exit 3", 1)])
def test_status_shows_systemd_state(answer: str, code: int, unit: Path, systemd: Path) -> None:
    (systemd.parent / "answer").write_text(f"{answer}\n")
    before = here("service", "status").stdout.decode().splitlines()
    here("service", "install")
    after = here("service", "status")

    assert before[0] == "unit: none; install it with `tooltap service install`"
    assert after.returncode == code
    assert after.stdout.decode().splitlines() == [
        f"unit: {unit}",
        f"now: {answer.split()[1].rstrip(';')}",
        f"at login: {answer.split()[1].rstrip(';')}",
    ]


def test_uninstall_stops_and_removes_unit(unit: Path, systemd: Path) -> None:
    here("service", "install")
    finished = here("service", "uninstall")
    again = here("service", "uninstall")

    assert (finished.returncode, finished.stderr) == (0, b"")
    assert f"removed {unit}" in finished.stdout.decode().splitlines()
    assert systemd.read_text().splitlines()[2:] == [
        f"--user --no-pager disable --now {NAME}",
        "--user --no-pager daemon-reload",
    ]
    assert not unit.exists()
    assert (again.returncode, again.stdout.decode()) == (0, f"nothing to remove: {unit} does not exist\n")


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_foreign_unit_is_not_touched(command: str, unit: Path) -> None:
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nExecStart=/bin/true\n")
    finished = here("service", command)

    assert finished.returncode == 1
    assert sentence(finished).startswith(f"{unit} was not written by tooltap")
    assert unit.read_text() == "[Service]\nExecStart=/bin/true\n"


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--bogus"], "No such option '--bogus' (see tooltap serve --help)"),
        (["--durability", "much"], "'much' is not one of 'process', 'power'"),
        (["status"], "'status' is not an option of `tooltap serve`"),
        (["--config", "tooltap.toml"], "--config tooltap.toml is a relative path"),
        (["--journal", "sqlite:journal.db"], "--journal sqlite:journal.db is a relative path"),
    ],
)
def test_invalid_options_are_not_installed(options: list[str], wanted: str, unit: Path) -> None:
    finished = here("service", "install", "--", *options)

    assert (finished.returncode, finished.stdout) == (2, b"")
    assert wanted in sentence(finished)
    assert not unit.exists()


def test_journal_url_needs_no_absolute_path(unit: Path) -> None:
    assert words(printed("--journal", "nats://127.0.0.1:4222/team")["Service.ExecStart"][0])[-1].startswith("nats://")
