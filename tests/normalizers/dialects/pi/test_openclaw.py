"""OpenClaw, which writes Pi's session files, or their lines to databases: they are followed under its own name."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

from tests.daemon.taps.following import FIXTURES, Follower, append, lines_of
from tooltap.normalizers.catalog.registry import product_names, provider_of_fork
from tooltap.normalizers.dialects.pi.store import OpenClawStore
from tooltap.protocol.events import Unparsed
from tooltap.testing import Line, normalize

TABLE = """
CREATE TABLE transcript_events (
    session_id TEXT NOT NULL, seq INTEGER NOT NULL, event_json TEXT, created_at INTEGER NOT NULL,
    event_zstd BLOB, event_utf8_bytes INTEGER, PRIMARY KEY (session_id, seq)
) STRICT
"""
EDIT = FIXTURES / "pi-session" / "pi-0.73.1" / "edit.jsonl"


def test_openclaw_has_a_name_of_its_own() -> None:
    assert product_names()["openclaw"] == "OpenClaw"
    assert provider_of_fork("openclaw") == "openclaw"


@pytest.mark.process
def test_sessions_are_followed_under_its_name(tmp_path: Path) -> None:
    follower = Follower(tmp_path, agents=["openclaw"], backfill="all")
    follower.environment["OPENCLAW_STATE_DIR"] = str(tmp_path / "state")
    place = tmp_path / "state" / "agents" / "main" / "sessions" / "one.jsonl"
    place.parent.mkdir(parents=True)
    append(place, lines_of(EDIT))
    with follower:
        stats = follower.wait_stats(lambda stats: [one["lines"] for one in stats["perStream"]] == [len(lines_of(EDIT))])
        events = follower.events_when(lambda events: any(event["kind"] == "tool-result" for event in events))

    assert stats["following"]["agents"] == {"openclaw": 1}
    assert {(event["dialect"], event["provider"]) for event in events} == {("pi-session", "openclaw")}


def store(folder: Path, lines: list[bytes], first: int = 0) -> None:
    """Store the entries of a session as OpenClaw does: long ones are compressed."""
    folder.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(folder / "openclaw-agent.sqlite")) as database, database:
        database.execute(TABLE.replace("TABLE", "TABLE IF NOT EXISTS"))
        for number, line in enumerate(lines, first):
            text, is_long = line.rstrip(b"\n"), len(line) > 500
            values = (None, zstandard.compress(text)) if is_long else (text.decode(), None)
            row = ("one", number * 2, values[0], int(time.time() * 1000), values[1])
            database.execute("INSERT INTO transcript_events VALUES (?, ?, ?, ?, ?, NULL)", row)


def test_entry_that_cannot_be_decompressed_is_unparsed(tmp_path: Path) -> None:
    store(tmp_path, [])
    with closing(sqlite3.connect(tmp_path / "openclaw-agent.sqlite")) as database, database:
        database.execute("INSERT INTO transcript_events VALUES ('one', 0, NULL, 7, x'00', NULL)")
        [row] = OpenClawStore().rows(database.execute, "one", {}, 0)

    assert (row.number, row.time) == (0, 7)
    assert [type(one) for one in normalize("pi-session", [Line(row.line)])] == [Unparsed]


@pytest.mark.process
def test_databases_of_its_agents_are_followed(tmp_path: Path) -> None:
    """The daemon is killed, and continues after the rows that it has read."""
    follower = Follower(tmp_path, agents=["openclaw"], backfill="all")
    follower.environment["OPENCLAW_STATE_DIR"] = str(tmp_path / "state")
    lines = lines_of(EDIT)
    main, other = (tmp_path / "state" / "agents" / name / "agent" for name in ("main", "other"))
    store(main, lines[:3])
    with follower:
        follower.wait_stats(lambda stats: [one["lines"] for one in stats["perStream"]] == [3])
        store(other, [line.replace(b"0", b"1") for line in lines[:1]])
        follower.wait_stats(lambda stats: sorted(one["lines"] for one in stats["perStream"]) == [1, 3])
        follower.restart(follower.kill)
        store(main, lines[3:], 3)
        events = follower.events_when(lambda events: any(event["kind"] == "tool-result" for event in events))

    assert {(event["dialect"], event["provider"]) for event in events} == {("pi-session", "openclaw")}
    assert not [event for event in events if event["kind"] == "unparsed"]
    assert len({event["id"] for event in events}) == len(events)


@pytest.mark.process
def test_session_that_is_taken_over_from_a_file_is_read_once(tmp_path: Path) -> None:
    follower = Follower(tmp_path, agents=["openclaw"], backfill="all")
    follower.environment["OPENCLAW_STATE_DIR"] = str(tmp_path / "state")
    lines = lines_of(EDIT)
    place = tmp_path / "state" / "agents" / "main" / "sessions" / "one.jsonl"
    place.parent.mkdir(parents=True)
    append(place, lines[:4])
    with follower:
        follower.wait_stats(lambda stats: [one["lines"] for one in stats["perStream"]] == [4])
        place.unlink()
        store(place.parents[1] / "agent", lines)
        stats = follower.wait_stats(lambda stats: sum(one["lines"] for one in stats["perStream"]) >= len(lines))

    assert [one["lines"] for one in stats["perStream"]] == [len(lines)]
