"""What a test leaves open is an error of that test, and of no other: see `leaks.py`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.test_layout import ROOT

TESTS = """
import asyncio, gc, socket, pytest

gc.disable()  # it could run in any test

class Cycle:
    def __init__(self, value):
        self.value, self.itself = value, self

async def nothing():
    pass

@pytest.fixture
def fixture():
    return socket.socket()

@pytest.fixture
def fixture_in_a_cycle():
    return Cycle(socket.socket())

@pytest.fixture(scope="module")
def of_the_module():
    yield
    Cycle(socket.socket())

def test_socket(): Cycle(socket.socket())
def test_after_socket(): pass
def test_file(): Cycle(open(__file__))
def test_after_file(): pass
def test_loop(): Cycle(asyncio.new_event_loop())
def test_after_loop(): pass
def test_coroutine(): Cycle(nothing())
def test_after_coroutine(): pass
def test_fixture(fixture): pass
def test_after_fixture(): pass
def test_fixture_in_a_cycle(fixture_in_a_cycle): pass
def test_after_fixture_in_a_cycle(): pass
def test_that_fails():
    left = socket.socket()
    assert left is None
def test_that_raises():
    left = socket.socket()
    raise ValueError
def test_after_one_that_raises(): pass
def test_last_of_the_module(of_the_module): pass
"""


def test_leak_is_an_error_of_its_own_test(tmp_path: Path) -> None:
    file = tmp_path / "test_of_leaks.py"
    file.write_text(TESTS)
    options = ("-q", "-p", "tests.leaks", "-p", "no:cacheprovider", "-W", "error", "-c", "/dev/null", "-rA", "--tb=no")
    command = [sys.executable, "-m", "pytest", *options, str(file)]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout

    outcomes: dict[str, set[str]] = {}
    for outcome, name in re.findall(r"^(PASSED|FAILED|ERROR) \S*::test_(\w+)", printed, re.MULTILINE):
        outcomes.setdefault(outcome, set()).add(name)
    leaks = {"socket", "file", "loop", "coroutine", "fixture", "fixture_in_a_cycle", "last_of_the_module"}
    failed = {"that_fails", "that_raises"}
    assert outcomes["FAILED"] == failed, printed
    assert outcomes["ERROR"] == leaks | failed, printed
    assert {name for name in outcomes["PASSED"] if name.startswith("after_")} == {
        *(f"after_{leak}" for leak in leaks - {"last_of_the_module"}),
        "after_one_that_raises",
    }, printed
