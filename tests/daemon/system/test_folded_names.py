"""Where names are compared without their case, as on a Mac, no two files that tooltap names are one.

It is a comparison of names: no such file system can be mounted on every machine of the tests.
"""

from __future__ import annotations

import inspect
from itertools import product
from pathlib import Path

import pytest

from tooltap.daemon.journal.sqlite.file import SIDE_FILES, high_water_path, index_path, swap_path
from tooltap.daemon.system import paths
from tooltap.daemon.taps.delivery import announcement, spool
from tooltap.daemon.taps.stream_ids import real_path_id


def folded(names: list[str]) -> set[str]:
    return {name.casefold() for name in names}


def test_default_places_differ_by_more_than_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one folder for all of them, with what is beside a journal and a search index."""
    for name in ("XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in (paths.SOCKET_VARIABLE, paths.SPOOL_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    named = [
        one()
        for name, one in inspect.getmembers(paths, inspect.isfunction)
        if not name.startswith("_") and name not in ("spool_folder", "daemon_folders")
    ]
    journal = paths.journal_path()
    beside = [high_water_path(journal), swap_path(journal), Path(f"{journal}.lock"), Path(f"{journal}-wal.overwritten")]
    sides = [f"{one}{suffix}" for one, suffix in product((journal, index_path(journal)), ("", *SIDE_FILES))]
    places = [*map(str, named), *map(str, beside), *sides[1:], paths.daemon_folders()[0]]
    assert len(folded(places)) == len(places)


def test_files_that_differ_by_case_have_streams_and_spools_that_do_not() -> None:
    """As when a folder that tells them apart is followed, and the spools lie where names are folded."""
    files = [
        "/w/Project/session.jsonl",
        "/w/project/session.jsonl",
        "/w/project/Session.jsonl",
        "/w/PROJECT/session.jsonl",
    ]
    streams = [real_path_id(file) for file in files]
    assert len(folded(streams)) == len(files)
    assert len(folded([f"{one}{suffix}" for one in streams for suffix in (spool.SUFFIX, announcement.SUFFIX)])) == 8
