"""`make docs` builds the site: `make lab-site`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import PAGES
from tests.test_layout import ROOT


@pytest.mark.lab
def test_make_docs_builds_every_page(tmp_path: Path) -> None:
    """With the environment that runs this test, in place of `.venv`."""
    programs = Path(sys.executable).parent
    command = ["make", "-o", ".venv/.dev", "docs", f"BIN={programs}", f"SITE={tmp_path}"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)

    assert finished.returncode == 0, finished.stderr
    assert (tmp_path / "index.html").is_file()
    for page in {page for page in PAGES if page.is_relative_to(ROOT / "docs")}:
        assert (tmp_path / page.relative_to(ROOT).with_suffix(".html")).is_file()
    assert "Keep a Changelog" in (tmp_path / "CHANGELOG.html").read_text()
