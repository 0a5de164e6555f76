"""What a test needs is found by reading it, and what it starts is noticed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import here, serving, tooltap
from tests.conftest import PROCESSES
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import running
from tests.markers import needs
from tests.slow import slow_tests
from tests.test_layout import ROOT


def through_a_class(daemon: DaemonProcess) -> int:
    return DaemonProcess.wait(daemon)


def through_an_inner_function() -> None:
    def run() -> object:
        return tooltap("tail")

    run()


@pytest.mark.parametrize(
    ("function", "needed"),
    [
        (here, set()),
        (running, set()),
        (tooltap, {"process"}),
        (serving, {"process"}),
        (through_a_class, {"process"}),
        (through_an_inner_function, {"process"}),
    ],
)
def test_what_a_function_needs(function: object, needed: set[str]) -> None:
    assert needs(function) == needed


@pytest.mark.process
def test_process_is_noticed() -> None:
    assert PROCESSES.started() is None
    subprocess.run([sys.executable, "-c", ""], check=True)

    assert PROCESSES.started() is not None
    assert PROCESSES.started() is None


def test_slow_tests_are_there() -> None:
    for one in slow_tests():
        path, _, name = one.partition("::")
        text = (ROOT / path).read_text() if (ROOT / path).exists() else ""
        assert f"def {name}(" in text, f"{one} is listed in tests/slow.txt and not there"


def of_test(path: Path, text: str, **variables: str) -> str:
    """Return what pytest says of a module of tests."""
    (path / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-p", "tests.conftest"]
    environment = {**{name: value for name, value in os.environ.items() if name != "TOOLTAP_NO_SKIP"}, **variables}
    finished = subprocess.run(
        [*command, f"--rootdir={ROOT}", "-c", str(ROOT / "pyproject.toml"), str(path)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return finished.stdout


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with a program."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "rare").write_text("#!/bin/sh\n")
    (folder / "rare").chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("command", "name"), [('["rare"]', "rare"), ('["sh", "-c", "PATH=/ true; cat /dev/null | jq ."]', "jq")]
)
def test_program_that_is_not_named_fails(programs: Path, tmp_path: Path, command: str, name: str) -> None:
    text = f"import pytest, subprocess\n@pytest.mark.process\ndef test_it(): subprocess.run({command})\n"

    said = of_test(tmp_path, text, PATH=f"{programs}{os.pathsep}{os.environ['PATH']}")

    assert f"it starts {name}: mark it" in said


@pytest.mark.parametrize("named", ["marker", "call"])
def test_program_that_is_named_is_run_or_skipped(programs: Path, tmp_path: Path, named: str) -> None:
    marker, call = ('@pytest.mark.programs("other|rare")', "") if named == "marker" else ("", 'require("rare"); ')
    text = f"""
import pytest, subprocess
from tests.programs import require
{marker}
@pytest.mark.process
def test_it(): {call}subprocess.run(["rare"], check=True)
"""
    usual = os.environ["PATH"]

    assert "1 passed" in of_test(tmp_path, text, PATH=f"{programs}{os.pathsep}{usual}")
    assert f"not installed: {'other or ' if marker else ''}rare" in of_test(tmp_path, text, PATH=usual)
    assert "skipped although TOOLTAP_NO_SKIP is set" in of_test(tmp_path, text, PATH=usual, TOOLTAP_NO_SKIP="1")
