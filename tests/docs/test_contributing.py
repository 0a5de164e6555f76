"""The walk to a new dialect works to the letter, and touches nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, blocks_of, prose_of, tagged
from tests.test_layout import ROOT
from tooltap.daemon.system.processes import users_environment

PAGE = DOCS / "contributing" / "dialect.md"
FOLDER = Path("normalizers/dialects/quill")
LONGEST = 80
"""Lines that a dialect of seven types of lines may take."""
TESTS = [
    "tests/docs/test_dialect_pages.py",
    "tests/docs/test_providers_page.py",
    "tests/docs/test_reference.py",
    "tests/docs/test_readme.py",
    "tests/test_layout.py",
    "tests/traces/fixtures/test_fixtures.py",
]
"""Tests that know the dialects without naming each in their ids."""
NO_DIALECTS = (
    *("attacks", "bench", "browser", "daemon", "faults"),
    *("cli/hostile", "cli/manage", "cli/read", "cli/tap"),
    "docs/test_contributing.py",
)
"""In `tests`: what a dialect cannot change, and this module."""


WORDS = 600


def test_contributing_is_short() -> None:
    """Words outside of blocks of code; the walks have pages of their own."""
    assert len(prose_of(ROOT / "CONTRIBUTING.md").split()) <= WORDS


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree, with the files of the walk."""
    folder = tmp_path_factory.mktemp("copy") / "tooltap"
    left_out = shutil.ignore_patterns(".git", ".venv", "build", "dist", "node_modules", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT, folder, symlinks=True, ignore=left_out)
    for block in blocks_of(PAGE):
        if "/" in block.tag:
            (folder / block.tag).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.tag).write_text(block.text)
    return folder


def run(copy: Path, *command: str) -> None:
    environment = {**users_environment(), "PYTHONPATH": f"{copy}/src"}
    environment["PYTEST_ADDOPTS"] = " ".join(f"--ignore tests/{name}" for name in NO_DIALECTS)
    finished = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, f"{' '.join(command)}:\n{finished.stdout[-30_000:]}\n{finished.stderr[-4000:]}"


def make(copy: Path, target: str) -> None:
    """With the environment that runs this test, in place of `.venv`."""
    run(copy, "make", "-o", ".venv/.dev", target, f"BIN={Path(sys.executable).parent}")


@pytest.mark.timeout(3600)
def test_a_dialect_is_added_as_written(copy: Path) -> None:
    targets = [line.removeprefix("make ") for line in tagged(PAGE, "dialect").splitlines()]
    assert targets == ["dialects", "check"]
    assert sum(len(path.read_text().splitlines()) for path in (copy / FOLDER).glob("*.py")) <= LONGEST

    make(copy, "dialects")
    if os.environ.get("TOOLTAP_WHOLE_WALK"):
        make(copy, "check")
    else:
        make(copy, "lint")
        run(copy, sys.executable, "-m", "pytest", "-q", "-k", "quill", "tests/normalizers", "tests/docs", "tests/cli")
        run(copy, sys.executable, "-m", "pytest", "-q", *TESTS)

    assert "Quill" in (copy / "README.md").read_text()
    assert "| `quill-json` | `quill --json` |" in (copy / "docs/reference/dialects.md").read_text()
    assert "## quill-json" in (copy / "docs/coverage.md").read_text()
