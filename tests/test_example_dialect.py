"""A dialect in another package: built, installed, found by its entry point, and checked with the contract kit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import COMMAND, environment

PACKAGE = Path(__file__).parent / "example_dialect"
TIMEOUT = 100
LINES: tuple[dict[str, Any], ...] = (
    {"acme": "hello", "session": "s1"},
    {"acme": "prompt", "text": "Run the tests"},
    {"acme": "tool", "id": "1", "name": "shell", "with": {"command": "make test"}},
    {"acme": "ping"},
    {"acme": "answer", "id": "1", "value": {"stdout": "1 failed\n", "exit_code": 2}},
    {"acme": "says", "text": "One test fails."},
    {"acme": "done", "tokens": 7},
    {"acme": "hiccup"},
)
CHECK = """
import sys
from pathlib import Path
from tooltap.testing import check_recording, check_survives, read_recording

lines = read_recording(Path(sys.argv[1]).read_bytes())
check_recording("acme-json", lines)
check_survives("acme-json", lines[::-1] * 2)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as installed: an unpacked pure wheel."""
    folder = tmp_path_factory.mktemp("acme")
    source = shutil.copytree(PACKAGE, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check"]
    built = subprocess.run(
        [*build, "--outdir", folder, source], capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return path


def run(command: list[str], *packages: Path) -> str:
    """Run a command with `packages` installed, and return its output."""
    path = os.pathsep.join([*map(str, packages), *filter(None, [os.environ.get("PYTHONPATH")])])
    finished = subprocess.run(
        command, env=environment(PYTHONPATH=path), capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def normalized(recording: Path, dialect: str, *packages: Path) -> list[dict[str, Any]]:
    printed = run([*COMMAND, "normalize", "--dialect", dialect, str(recording)], *packages)
    return [json.loads(line) for line in printed.splitlines()]


@pytest.mark.parametrize("dialect", ["acme-json", "auto"])
def test_installed_dialect_is_found_by_name_and_recognised(dialect: str, installed: Path, recording: Path) -> None:
    events = normalized(recording, dialect, installed)

    assert {(event["dialect"], event["provider"], event["session"]) for event in events} == {
        ("acme-json", "acme", "s1")
    }
    assert [event["kind"] for event in events] == [
        "session",
        "turn",
        "message",
        "tool-call",
        "tool-result",
        "message",
        "usage",
        "turn",
        "unparsed",
    ]
    call, result = events[3:5]
    assert (call["name"], call["input"]["command"]) == ("Bash", "make test")
    assert (result["status"], result["output"]["exit_code"], result["output"]["stdout"]) == ("failed", 2, "1 failed\n")
    assert events[6]["outputTokens"] == 7


def test_dialect_keeps_the_contract(installed: Path, recording: Path) -> None:
    run([sys.executable, "-W", "error", "-c", CHECK, str(recording)], installed)


def test_lines_are_unparsed_without_the_package(recording: Path) -> None:
    assert {event["kind"] for event in normalized(recording, "auto")} == {"notice", "unparsed"}


def test_broken_package_affects_no_other_stream(recording: Path, installed: Path, tmp_path: Path) -> None:
    information = tmp_path / "tooltap_broken-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: tooltap-broken\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[tooltap.dialects]\nbroken = no_such_module:Broken\n")

    assert {event["dialect"] for event in normalized(recording, "auto", installed, tmp_path)} == {"acme-json"}


def test_example_is_small() -> None:
    assert len((PACKAGE / "tooltap_acme.py").read_text().splitlines()) < 80
