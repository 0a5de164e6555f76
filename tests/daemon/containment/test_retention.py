"""A stream or session that cannot be deleted keeps no other in the journal; it is stated, and tried again."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.cli.command import here
from tests.daemon.events import commit, message
from tests.daemon.running import Running, running
from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.journal.nats.place import NatsPlace
from tooltap.daemon.journal.nats.retention import Retention
from tooltap.daemon.journal.nats.state import OwnRow, Row
from tooltap.daemon.journal.sqlite import retention
from tooltap.daemon.journal.sqlite import retention as deletion
from tooltap.daemon.system.logs import faults
from tooltap.normalizers.core.items import OutputChunk

STREAMS = ("a", "b", "c")


def fail(monkeypatch: pytest.MonkeyPatch, name: str, concerns: Callable[..., bool], error: Exception) -> None:
    usual = getattr(retention, name)

    def failing(*arguments: Any) -> Any:
        if concerns(*arguments):
            raise error
        return usual(*arguments)

    monkeypatch.setattr(retention, name, failing)


def corrupt() -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError("database disk image is malformed")
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def fill(daemon: Running) -> None:
    for number, stream in enumerate(STREAMS):
        one = commit(message(stream, stream, session=stream), stream=stream, state="ended", updated=number + 1)
        daemon.commit(one)


def left(daemon: Running) -> set[str]:
    with daemon.subscribe(after="start", follow=False) as wire:
        return {one["stream"] for one in wire.rest() if "op" not in one}


@pytest.mark.parametrize("error", [TypeError("put in by the test"), corrupt()], ids=["mistake", "damage"])
def test_stream_that_cannot_be_deleted_keeps_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    with running(tmp_path, retention_days=0) as daemon:
        fill(daemon)
        with monkeypatch.context() as patch, capture_logs() as logs:
            fail(patch, "_next_events", lambda connection, column, name, limit: name == "a", error)
            assert [daemon.expire(100), daemon.expire(100)] == [2, 0]
            assert left(daemon) == {"a"}
            assert [one["stream"] for one in logs if one["event"].startswith("a stream could not be deleted")] == ["a"]
        assert sum(daemon.stats()["errors"].values()) == faults.counts.total() == 1
        daemon.commit(commit(message("d", "d", session="d"), stream="d", state="ended", updated=4))
        assert daemon.expire(100) == 2
        assert left(daemon) == set()
    with closing(sqlite3.connect(tmp_path / "journal.db")) as database:
        assert database.execute("SELECT count(*) FROM streams WHERE expired=0").fetchone() == (0,)


def test_trouble_of_the_file_is_not_that_of_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    fail(monkeypatch, "_next_events", lambda *arguments: True, error)
    with running(tmp_path, retention_days=0) as daemon:
        fill(daemon)
        with pytest.raises(JournalError, match="the journal cannot be written: database or disk is full"):
            daemon.expire(100)


def test_number_of_streams_that_fail_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion, "MOST_NEW", 1)
    with running(tmp_path, retention_days=0) as daemon:
        fill(daemon)
        with monkeypatch.context() as patch:
            fail(patch, "_shrink", lambda connection, stream, budget: stream != "c", TypeError("put in by the test"))
            with pytest.raises(JournalError, match="more than 1 streams could not be deleted, the last one"):
                daemon.expire(100)
            assert daemon.expire(100) == 1  # those two are left for last
            assert left(daemon) == {"a", "b"}
        assert daemon.expire(100) == 2


def test_session_that_cannot_be_removed_keeps_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path, retention_days=0) as daemon, daemon.connect() as wire:
        fill(daemon)
        with monkeypatch.context() as patch:
            fail(patch, "_shrink", lambda connection, stream, budget: stream == "a", TypeError("put in by the test"))
            wire.send("remove", id=1, session="a")
            reply = wire.until("reply")[-1]
            assert (reply["ok"], reply["error"]["code"]) == (False, "journal")
            assert wire.ask("remove", session="b") == {"events": 1}
        assert left(daemon) == {"a", "c"}
        assert faults.counts.total() == 1
        assert wire.ask("remove", session="a") == {"events": 1}


def test_what_retention_has_removed_is_in_the_statistics(tmp_path: Path) -> None:
    """For good, whichever daemon has removed it."""
    with running(tmp_path, retention_days=0) as daemon:
        body = OutputChunk("old:1:o0", 0, b"x" * 1_000, "text/plain")
        said = message("old", "old", session="old", ts=86_400_000)
        daemon.commit(commit(body, said, stream="old", lines=1, state="ended", updated=1))
        assert daemon.stats()["journal"]["retention"]["age"]["events"] == 0
        assert b"retention_days" not in here("stats", "--socket", daemon.path).stdout
        assert daemon.expire(2 * 86_400_000) == 1
    with running(tmp_path, retention_days=0) as daemon:
        removed = daemon.stats()["journal"]["retention"]
        figures = {"sessions": 1, "events": 1, "bodies": 1, "bytes": 1_000 + len(said.body)}
        assert removed["age"].items() >= {**figures, "oldest": 86_400_000, "newest": 86_400_000}.items()
        assert removed["size"]["events"] == 0
        text = " ".join(here("stats", "--socket", daemon.path).stdout.decode().split())
        assert "retention_days has removed 1 session, 1 event, 1 output body" in text
        assert "from 1970-01-02T00:00:00Z to 1970-01-02T00:00:00Z; the last of it at 20" in text


def test_stream_that_cannot_be_deleted_on_nats_keeps_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nats_place: NatsPlace
) -> None:
    usual = Retention._examine

    async def examine(self: Retention, row: Row) -> OwnRow | None:
        if row.info.stream == "a":
            raise TypeError("put in by the test")
        return await usual(self, row)

    with running(tmp_path, journal=str(nats_place), retention_days=0) as daemon:
        fill(daemon)
        with monkeypatch.context() as patch:
            patch.setattr(Retention, "_examine", examine)
            assert daemon.expire(100) == 2
            assert left(daemon) == {"a"}
        assert faults.counts.total() == 1
        assert daemon.expire(100) == 1
        assert left(daemon) == set()
