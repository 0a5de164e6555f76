"""The root folders are importable as `tooltap.<name>` through committed links."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = sorted(path.parent.name for path in ROOT.glob("*/__init__.py") if path.parent.name != "tests")


def test_the_promised_folders_exist() -> None:
    assert FOLDERS == ["cli", "daemon", "normalizers", "protocol", "traces"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_root_package_is_linked(folder: str) -> None:
    link = ROOT / "src" / "tooltap" / folder

    assert link.is_symlink()
    assert link.resolve() == ROOT / folder
