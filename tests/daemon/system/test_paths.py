"""The user's data directory is found without the imports that an agent would have to wait for."""

from __future__ import annotations

from pathlib import Path

import platformdirs
import pytest

from tooltap.daemon.system.paths import data_folder, spool_folder, spool_path


@pytest.mark.parametrize("home", [None, "", " ", "/somewhere/data", "~/data"])
def test_data_folder_is_that_of_platformdirs(home: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("XDG_DATA_HOME", home)
    assert data_folder() == platformdirs.user_data_dir("tooltap")


def test_spool_is_in_the_named_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLTAP_SPOOL", "/tmp/spools")
    assert spool_folder() == "/tmp/spools"
    assert spool_path() == Path("/tmp/spools")
