"""The walks to a new dialect, printed or stored, work to the letter, and touch nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import DOCS, blocks_of, prose_of, tagged
from tests.test_layout import ROOT
from tooltap.daemon.export.source import Bodies, MissingRange
from tooltap.daemon.show.blocks import RenderContext
from tooltap.daemon.system.processes import users_environment
from tooltap.protocol import tools
from tooltap.protocol.events import Message
from tooltap.protocol.payloads import ToolInput, ToolResultPayload

PAGES = {"quill": DOCS / "contributing" / "dialect.md", "sepia": DOCS / "contributing" / "stored-dialect.md"}
"""Agent -> the walk that adds it."""
FOLDER = Path("normalizers/dialects")
LONGEST = {"quill": 80, "sepia": 120}
"""Lines that a dialect may take: of seven types of lines, of four and a reader of the database."""
TESTS = [
    "tests/docs/test_dialect_pages.py",
    "tests/docs/test_providers_page.py",
    "tests/docs/test_reference.py",
    "tests/docs/test_readme.py",
    "tests/test_layout.py",
    "tests/traces/fixtures/test_fixtures.py",
]
"""Tests that know the dialects without naming each in their ids; `make quick` leaves out some of them."""
FOLDERS = ("tests/normalizers", "tests/docs", "tests/cli")
"""Where tests name a dialect in their ids."""
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
    for page in PAGES.values():
        for block in blocks_of(page):
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


@pytest.mark.parametrize("agent", PAGES)
def test_a_dialect_is_its_folder_and_its_recordings(agent: str) -> None:
    page = PAGES[agent]
    files = [Path(block.tag) for block in blocks_of(page) if "/" in block.tag]
    own = (FOLDER / agent, Path("tests/fixtures"), Path("tests/normalizers/dialects"))

    assert all(any(path.is_relative_to(folder) for folder in own) for path in files)
    assert not any((ROOT / path).exists() for path in files)
    lines = [block.text.splitlines() for block in blocks_of(page) if block.tag.startswith(str(FOLDER))]
    assert sum(map(len, lines)) <= LONGEST[agent]


@pytest.mark.lab
@pytest.mark.timeout(3600)
def test_dialects_are_added_as_written(copy: Path) -> None:
    """Among the tests that are run in the copy is that of the stored walk, which follows the agent's database."""
    for page in PAGES.values():
        baseline, *targets = tagged(page, "dialect").splitlines()
        assert targets == ["make dialects", "make check"]
        run(copy, sys.executable, "-m", "tooltap.cli", *baseline.removeprefix("tooltap ").split())

    make(copy, "dialects")
    make(copy, "quick")
    run(copy, str(Path(sys.executable).parent / "lint-imports"))
    run(copy, sys.executable, "-m", "pytest", "-q", *TESTS)
    run(copy, sys.executable, "-m", "pytest", "-q", "-n", "auto", "-k", "quill or sepia", *FOLDERS)

    readme, table, coverage = (
        (copy / name).read_text() for name in ("README.md", "docs/reference/dialects.md", "docs/coverage.md")
    )
    assert "Quill" in readme
    assert "Sepia" in readme
    assert "| `quill-json` | `quill --json` |" in table
    assert "| `sepia-db` | Sepia's database |" in table
    assert "## quill-json" in coverage
    assert "## sepia-db" in coverage


def module_of(page: str) -> dict[str, Any]:
    """The names of the first module that the page has."""
    block = next(one for one in blocks_of(DOCS / "contributing" / page) if one.language == "python")
    names: dict[str, Any] = {}
    exec(compile(block.text, page, "exec", dont_inherit=True), names)
    return names


def test_exporter_of_the_walk_writes_texts() -> None:
    written = module_of("exporter.md")["Texts"]("title", bodies=Bodies(0, 0))
    said = Message(
        v=2,
        id="s:1:0",
        stream="s",
        line=1,
        session="s",
        protocol="p",
        provider="p",
        dialect="d",
        role="user",
        text="Hello",
    )

    assert json.loads(written.add(said, {})) == {"role": "user", "text": "Hello"}
    assert written.add_gap(MissingRange(1, 2)) + "".join(written.end()) == ""


def test_card_of_the_walk_shows_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    class RunTestsInput(ToolInput):
        path: str | None = None

    class RunTestsResult(ToolResultPayload):
        passed: int | None = None
        failures: list[dict[str, Any]] | None = None

    for struct in (RunTestsInput, RunTestsResult):
        monkeypatch.setattr(tools, struct.__name__, struct, raising=False)
    card = module_of("card.md")["CARDS"]["RunTests"]
    result = RunTestsResult(passed=3, failures=[{"name": "test_a", "message": "1 != 2"}])

    _, table = card.output(result, RenderContext("full", lambda output_id: None))
    assert [[one.text for one in row] for row in table.values["rows"]] == [["test_a", "1 != 2"]]
