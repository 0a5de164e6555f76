"""Compiled templates are kept beside compiled modules, and follow their sources."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tooltap.daemon.show.markup import environment


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with one template, imported from a folder that is written to."""
    folder = tmp_path / "kept_templates"
    (folder / "templates").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "templates" / "one.html").write_text("{{ 1 }} and {{ '<'|visible }}")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    yield folder
    sys.modules.pop("kept_templates", None)


def shown() -> str:
    return environment("kept_templates").get_template("one.html").render()


def compiled(package: Path) -> list[Path]:
    return list(package.rglob("*.html.*.pyc"))


def test_compiled_template_is_used_again_until_its_source_changes(package: Path) -> None:
    first = shown()
    [kept] = compiled(package)
    inode = kept.stat().st_ino
    again = shown()
    assert first == again == "1 and &lt;"
    assert kept.parent.name == "__pycache__"
    assert kept.stat().st_ino == inode

    (package / "templates" / "one.html").write_text("another")

    assert shown() == "another"
    assert kept.stat().st_ino != inode


@pytest.mark.parametrize("left", [0, 5, -5])
def test_damaged_file_is_compiled_again(package: Path, left: int) -> None:
    shown()
    [kept] = compiled(package)
    kept.write_bytes(kept.read_bytes()[:left])

    assert shown() == "1 and &lt;"


def test_nothing_is_written_where_python_writes_no_bytecode(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    assert shown() == "1 and &lt;"
    assert compiled(package) == []


def test_package_that_cannot_be_written_to_works(package: Path) -> None:
    (package / "templates" / "__pycache__").touch()

    assert shown() == "1 and &lt;"
