"""`tooltap journal import` as its user sees it: what it says, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import CLAUDE, here
from tests.daemon.processes import DaemonProcess


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal with one session, whose daemon is gone."""
    folder = tmp_path_factory.mktemp("source")
    with DaemonProcess(folder) as daemon:
        daemon.wait_ready()
        ingested = here("ingest", CLAUDE, "--stream", "s", "--socket", daemon.path)
        assert ingested.returncode == 0, ingested
    return folder / "journal.db"


def test_archive_of_one_journal_restores_its_session_in_another(source: Path, tmp_path: Path) -> None:
    archive = tmp_path / "archive.jsonl"
    archive.write_bytes(here("journal", "export", "--archive", "--journal", source).stdout)
    plain = here("journal", "export", "--bodies", "--journal", source).stdout
    journal = tmp_path / "new" / "journal.db"

    restored = here("journal", "import", archive, "--journal", journal)
    assert restored.stdout == b"%d events of 1 stream restored\n" % plain.count(b'{"seq":')
    assert (restored.stderr, restored.returncode) == (b"", 0)
    assert here("journal", "export", "--bodies", "--journal", journal).stdout == plain
    assert here("journal", "check", "--journal", journal).returncode == 0

    again = here("journal", "import", archive, "--journal", journal)
    assert again.stdout == b"0 events of 0 streams restored\n1 stream left out: already in the journal\n"


def test_line_that_was_damaged_is_named(source: Path, tmp_path: Path) -> None:
    lines = here("journal", "export", "--archive", "--journal", source).stdout.splitlines(keepends=True)
    restored = here(
        "journal", "import", "-", "--journal", tmp_path / "j.db", stdin=b"".join([*lines[:4], b"{", *lines[4:]])
    )
    assert restored.returncode == 1
    assert restored.stderr.startswith(b"tooltap: -: line 5 is left out: ")
    assert restored.stderr.count(b"\n") == 1


@pytest.mark.parametrize("options", [(), ("--bodies",)])
def test_export_that_is_no_archive(source: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    exported = here("journal", "export", *options, "--journal", source).stdout
    refused = here("journal", "import", "-", "--journal", tmp_path / "journal.db", stdin=exported)
    sentence = b"tooltap: - does not begin as an archive does: write it with `tooltap journal export --archive`\n"
    assert (refused.returncode, refused.stdout, refused.stderr) == (1, b"", sentence)
    assert list(tmp_path.iterdir()) == []


def test_daemon_that_runs(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path) as daemon:
        daemon.wait_ready()
        archive = b'{"op":"pinned","sessions":[]}\n'
        refused = here("journal", "import", "-", "--journal", tmp_path / "journal.db", stdin=archive)
    assert refused.returncode == 1
    assert b"journal.db is used by another daemon" in refused.stderr
