"""A home that is read-only, as in some containers: what needs to write says so in the doctor's words."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import COMMAND, environment
from tests.daemon.processes import DaemonProcess
from tests.daemon.taps.test_follow_machines import PRIVATE, require_machines

READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro,nosuid,nodev "$0" && exec "$@"'


@pytest.fixture(params=["fresh", "used"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    require_machines()
    home = tmp_path / "home"
    (home / "data" / "tooltap").mkdir(parents=True, mode=0o700)
    (tmp_path / "run").mkdir(mode=0o700)
    if request.param == "used":
        with DaemonProcess(tmp_path, journal=home / "data" / "tooltap" / "journal.db") as daemon:
            daemon.wait_ready()
    return home


def within(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command for which the home folder is read-only."""
    variables = environment(
        HOME=str(home),
        XDG_CONFIG_HOME=str(home / "config"),
        XDG_DATA_HOME=str(home / "data"),
        XDG_RUNTIME_DIR=str(home.parent / "run"),
        TOOLTAP_SPOOL=str(home / "data" / "spool"),
    )
    command = [*PRIVATE, "sh", "-c", READ_ONLY, str(home), *COMMAND, *arguments]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("command", [["serve"], ["serve", "--web", "127.0.0.1:0"], ["up", "--no-open"]], ids=" ".join)
def test_read_only_home_is_named_as_the_doctor_does(home: Path, command: list[str]) -> None:
    found = json.loads(within(home, "doctor", "--json").stdout)["findings"]
    [said] = [one["text"] for one in found if one["area"] == "journal" and one["level"] == "problem"]

    finished = within(home, *command)

    assert said == f"cannot write to {home / 'data' / 'tooltap'}: Read-only file system"
    assert finished.returncode == 1
    [sentence] = finished.stderr.splitlines()
    assert sentence.startswith(f"tooltap: {said}; make it writable, or ")


def test_commands_that_write_nothing_work(home: Path) -> None:
    assert within(home, "normalize", "/dev/null").returncode == 0
    assert within(home, "--version").returncode == 0
