"""The Makefile builds the TypeScript client when its sources have changed, and not otherwise."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLIENT = Path("clients/typescript")
INSTALLED, BUILT = "node_modules/.package-lock.json", "dist/.built"
INSTALL, BUILD = "npm ci", "npm run build"

pytestmark = pytest.mark.process


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the Makefile and the client, which is built."""
    for name in ("Makefile", "tests/Makefile"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / CLIENT, tmp_path / CLIENT, ignore=shutil.ignore_patterns("node_modules", "dist"))
    for path in (tmp_path / CLIENT).rglob("*"):
        os.utime(path, (1_000, 1_000))
    for time, name in ((2_000, INSTALLED), (3_000, BUILT)):
        path = tmp_path / CLIENT / name
        path.parent.mkdir()
        path.touch()
        os.utime(path, (time, time))
    return tmp_path


def steps(tree: Path) -> list[str]:
    """What is done to build the client."""
    command = ("make", "--dry-run", "PYTHON=python3", str(CLIENT / BUILT))
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True)
    return [step for step in (INSTALL, BUILD) if step in done.stdout]


def test_client_that_is_built_is_not_built_again(tree: Path) -> None:
    assert steps(tree) == []


@pytest.mark.parametrize("source", ["src/index.ts", "test/daemon.ts", "examples/web.ts", "tsconfig.json"])
def test_client_is_built_when_a_source_has_changed(tree: Path, source: str) -> None:
    (tree / CLIENT / source).touch()

    assert steps(tree) == [BUILD]


@pytest.mark.parametrize("name", ["package.json", "package-lock.json"])
def test_packages_are_installed_when_other_ones_are_wanted(tree: Path, name: str) -> None:
    (tree / CLIENT / name).touch()

    assert steps(tree) == [INSTALL, BUILD]
