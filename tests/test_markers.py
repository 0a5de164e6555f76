"""What a test needs is found by reading it, and what it starts is noticed."""

from __future__ import annotations

import subprocess
import sys

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
