"""`tooltap service`: a valid unit whose command starts a daemon, and the calls of systemctl."""

from __future__ import annotations

import os
import plistlib
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import environment, here, sentence, tooltap
from tooltap.daemon.system.services import NAME
from tooltap.normalizers.catalog.registry import stores

pytestmark = pytest.mark.process

ESCAPES = {"n": "\n", "\\": "\\", '"': '"'}


PROGRAM = "tooltap.cli.manage.service._this_program"


@pytest.fixture(autouse=True)
def _namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service can be confined, whatever this machine grants."""
    monkeypatch.setattr("tooltap.daemon.system.services.grants_namespaces", lambda: True)


@pytest.fixture
def unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the unit; the systemd of this machine is not called."""
    monkeypatch.setattr("tooltap.daemon.system.services.BOOTED", tmp_path / "none")
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
    monkeypatch.setattr("tooltap.daemon.system.services.BOOTED", tmp_path)
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
    finished = here("service", "install", "--print", "--bare", "--", *options)
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


def test_unit_can_write_only_where_the_daemon_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folders of what is configured, and no others."""
    monkeypatch.setenv("XDG_DATA_HOME", "/home/me/data")
    monkeypatch.setenv("TOOLTAP_SPOOL", "/home/me/spool")
    monkeypatch.setenv("HAPPIER_STACK_TOOL_TRACE", "1")
    monkeypatch.setenv("HAPPIER_STACK_TOOL_TRACE_FILE", "/home/me/traces/t.jsonl")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    config = tmp_path / "tooltap" / "tooltap.toml"
    config.parent.mkdir()
    config.write_text('[web]\ntoken_file = "/home/me/tokens/token"\n')
    options = ("--socket", "/run/user/1000/t.sock", "--journal", "sqlite:/home/me/my journal/j.db")
    unit = printed("--config", config, *options)

    [folders] = unit["Service.ReadWritePaths"]
    assert words(f"x {folders}")[1:] == [
        "-/home/me/data/tooltap",
        "-/home/me/spool",
        "-/run/user/1000",
        "-/home/me/tokens",
        "-/home/me/my journal",
        "-/home/me/traces",
        "-/tmp",  # where the configuration is
        "-/var/tmp",
    ]
    assert unit["Service.ProtectHome"] == ["read-only"]  # session files are followed


@pytest.mark.parametrize(
    ("options", "private"),
    [
        (["--socket", "/run/user/1000/t.sock"], "yes"),
        (["--socket", "/tmp/mine/t.sock"], "no"),
        (["--journal=sqlite:/var/tmp/j.db"], "no"),
        (["--journal=sqlite:/tmpfs/home/tmp/j.db"], "yes"),
    ],
)
def test_unit_sees_what_is_in_a_temporary_folder(
    options: list[str], private: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PROGRAM, lambda: ["/usr/bin/tooltap"])
    for name in ("XDG_DATA_HOME", "TOOLTAP_SPOOL", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, "/home/me/folder")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # a unit has it, too
    unit = printed("--socket", "/run/user/1000/t.sock", *options)

    assert unit["Service.PrivateTmp"] == [private]
    assert ("-/tmp" in unit["Service.ReadWritePaths"][0].split()) == (private == "no")
    monkeypatch.setattr(PROGRAM, lambda: ["/tmp/tooltap/.venv/bin/tooltap"])
    assert printed("--socket", "/run/user/1000/t.sock", *options)["Service.PrivateTmp"] == ["no"]


def test_unit_without_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service with settings that its kernel does not grant would not start."""
    monkeypatch.setattr("tooltap.daemon.system.services.grants_namespaces", lambda: False)
    unit = printed()

    assert not {"Service.ReadWritePaths", "Service.PrivateUsers", "Service.CapabilityBoundingSet"} & unit.keys()
    assert unit["Service.NoNewPrivileges"] == ["yes"]


def test_unit_has_every_kind_of_socket_that_the_daemon_uses() -> None:
    """Those that are not named cannot be created."""
    daemon = Path(__file__).parents[3] / "daemon"
    used = {found for one in daemon.rglob("*.py") for found in re.findall(r"\bsocket\.(AF_\w+)", one.read_text())}

    assert {"AF_UNIX", "AF_NETLINK"} <= used
    assert used <= set(printed()["Service.RestrictAddressFamilies"][0].split())


def test_installing_creates_the_folders(unit: Path, tmp_path: Path) -> None:
    """A service cannot create them: their parents are read-only for it."""
    here("service", "install", "--", "--journal", f"sqlite:{tmp_path}/a/b/j.db")

    assert (tmp_path / "a" / "b").is_dir()


@pytest.mark.programs("systemd-analyze")
def test_documented_exposure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table in the documentation is what systemd says of the unit."""
    monkeypatch.setattr(PROGRAM, lambda: ["/usr/bin/tooltap"])
    for name in ("XDG_DATA_HOME", "TOOLTAP_SPOOL", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, "/home/me/folder")
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "install.md").read_text()
    for confined in (True, False):
        monkeypatch.setattr("tooltap.daemon.system.services.grants_namespaces", lambda confined=confined: confined)
        file = tmp_path / NAME
        file.write_bytes(here("service", "install", "--print", "--", "--socket", "/run/user/1000/t.sock").stdout)
        command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(file)]
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
        [result] = re.findall(rf"Overall exposure level for {NAME}: (\d\.\d \w+)", finished.stdout)
        [documented] = re.findall(r"^\| (?:as it|where) .* \| (\d\.\d \w+) \|$", page, re.MULTILINE)[not confined :][:1]

        if re.search(r"^systemd 252 ", subprocess.check_output(["systemd-analyze", "--version"], text=True)):
            assert result == documented
        else:  # others count a little differently
            assert float(result.split()[0]) <= float(documented.split()[0]) + 0.5


def test_unit_starts_the_installing_program(tmp_path: Path) -> None:
    script = tmp_path / "tooltap"
    script.write_text(f"#!{sys.executable}\nfrom tooltap.cli.main import main\nmain()\n")
    script.chmod(0o755)
    finished = subprocess.run(
        [script, "service", "install", "--print", "--bare"], capture_output=True, text=True, check=True
    )

    assert settings(finished.stdout)["Service.ExecStart"] == [f"{script} serve"]


@pytest.mark.programs("systemd-analyze")
def test_systemd_verifies_unit(unit: Path, tmp_path: Path) -> None:
    here("service", "install", "--", "--follow", "claude,codex", "--journal", f"sqlite:{tmp_path / 'a b%c$d.db'}")
    command = ["systemd-analyze", "verify", "--user", "--man=no", str(unit)]
    finished = subprocess.run(
        command, env=environment(XDG_RUNTIME_DIR=str(tmp_path)), capture_output=True, text=True, check=False
    )

    assert (finished.returncode, finished.stderr) == (0, "")


def test_install_enables_unit(unit: Path, systemd: Path) -> None:
    finished = here("service", "install", "--bare", "--", "--follow", "claude")

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
    here("service", "install", "--bare", "--", "--follow", "claude")
    here("service", "install", "--bare", "--", "--follow", "codex")

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


def test_foreign_unit_is_moved_away(unit: Path, systemd: Path) -> None:
    """As the refusal says."""
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nExecStart=/bin/true\n")
    assert "move it away first" in sentence(here("service", "install"))
    unit.rename(unit.parent / "elsewhere")

    assert here("service", "install").returncode == 0
    assert unit.exists()


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


@pytest.mark.parametrize(
    ("given", "configured", "added"),
    [
        ((), "", ["--follow", "all", "--backfill", "all", "--web"]),
        (("--backfill", "7d"), "", ["--follow", "all", "--web"]),
        (("--follow", "codex", "--web", "127.0.0.1:9"), "", []),
        ((), '[follow]\nagents = ["codex"]\n[web]\nenabled = true\n', []),
    ],
)
def test_service_follows_and_shows_what_nobody_has_decided(
    given: tuple[str, ...], configured: str, added: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "tooltap" / "tooltap.toml"
    file.parent.mkdir()
    file.write_text(configured)
    finished = here("service", "install", "--print", "--", *given)
    [command] = settings(finished.stdout.decode())["Service.ExecStart"]
    after = words(command)

    assert after[after.index("serve") + 1 :] == [*given, *added]


@pytest.fixture
def mac(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home on macOS, as far as the property list is concerned. Where that is written."""
    monkeypatch.setattr("tooltap.cli.manage.service.sys.platform", "darwin")
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / "Library" / "LaunchAgents" / "tooltap.plist"


def test_service_finds_the_sessions_of_every_agent(unit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a variable says that they are."""
    variables = sorted({store.variable for of_agent in stores().values() for store in of_agent if store.variable})
    for name in variables:
        monkeypatch.setenv(name, f"/home of {name}")
    printed = here("service", "install", "--print").stdout.decode()

    assert len(variables) > 5
    assert [name for name in variables if f'"{name}=/home of {name}"' not in printed] == []


def test_property_list_of_macos(mac: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", "/somewhere <else>")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    finished = here("service", "install")
    written = plistlib.loads(mac.read_bytes())

    assert finished.stdout.decode().splitlines() == [
        f"wrote {mac}; it starts at your next login",
        f"start it now: launchctl bootstrap gui/{os.getuid()} {mac}",
    ]
    assert written["Label"] == "tooltap"
    assert written["ProgramArguments"][-6:] == ["serve", "--follow", "all", "--backfill", "all", "--web"]
    assert os.path.isabs(written["ProgramArguments"][0])
    assert written["EnvironmentVariables"]["CODEX_HOME"] == "/somewhere <else>"
    assert "OPENAI_API_KEY" not in written["EnvironmentVariables"]
    assert (written["RunAtLoad"], written["KeepAlive"], written["Umask"]) == (True, {"SuccessfulExit": False}, 0o077)
    assert here("service", "install", "--print").stdout == mac.read_bytes()


def test_property_list_is_shown_and_removed(mac: Path) -> None:
    assert here("service", "status").returncode == 1
    here("service", "install")
    assert here("service", "status").stdout.decode().startswith(f"property list: {mac}\n")
    assert here("service", "uninstall").stdout.decode().startswith(f"removed {mac}\nstop it now: launchctl bootout ")
    assert not mac.exists()


def test_property_list_of_another_program_stays(mac: Path) -> None:
    mac.parent.mkdir(parents=True)
    mac.write_text("<plist/>")

    assert "was not written by tooltap" in sentence(here("service", "install"))
    assert "was not written by tooltap" in sentence(here("service", "uninstall"))
    assert mac.read_text() == "<plist/>"
