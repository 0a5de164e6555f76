"""A package whose `__init__` runs late."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tooltap.daemon.system.late_init import initialize_late

PACKAGES = ("outer_package", "outer_package.inner")


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    inner = tmp_path / "outer_package" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "outer_package" / "__init__.py").write_text("import outer_package.heavy\nWHOLE = 'outer'\n")
    (tmp_path / "outer_package" / "heavy.py").touch()
    (inner / "__init__.py").write_text("from outer_package import WHOLE\nfrom .used import HERE\nWHOLE += '+'\n")
    (inner / "used.py").write_text("HERE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "outer_package"]:
        del sys.modules[name]


def test_modules_are_imported_without_it(packages: None) -> None:
    initialize_late(*PACKAGES)

    assert import_module("outer_package.inner.used").HERE == 1
    assert "outer_package.heavy" not in sys.modules


def test_it_runs_when_something_is_taken_from_it(packages: None) -> None:
    initialize_late(*PACKAGES)
    inner = import_module("outer_package.inner")

    assert (inner.WHOLE, inner.HERE) == ("outer+", 1)
    assert "outer_package.heavy" in sys.modules
    assert import_module("outer_package").inner is inner


def test_what_it_does_not_define_is_missing_as_usual(packages: None) -> None:
    initialize_late(*PACKAGES)

    for _ in range(2):
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            _ = import_module("outer_package").nothing


def test_loaded_and_missing_packages_stay_as_they_are(packages: None) -> None:
    loaded = import_module("outer_package")
    initialize_late("outer_package", "outer_package_that_is_missing")

    assert import_module("outer_package") is loaded
    with pytest.raises(ModuleNotFoundError):
        import_module("outer_package_that_is_missing")
