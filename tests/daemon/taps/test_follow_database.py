"""Following OpenCode's database: rows that the real agent wrote, in a real database that grows meanwhile."""

from __future__ import annotations

import json
import os
import random
import sqlite3
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.taps.following import FIXTURES, Follower, events_of, ids
from tooltap.daemon.taps.follow.stores import Database, Position, ReplacedError
from tooltap.daemon.taps.stream_ids import recording_id
from tooltap.normalizers.catalog.dialect import Query, Row
from tooltap.normalizers.dialects.opencode.store import OpencodeStore

RECORDED = FIXTURES / "opencode-db" / "opencode-1.18.33"
NAMES = ("edit", "shell-fails", "subagent")
TABLES = """
CREATE TABLE event_sequence (aggregate_id text PRIMARY KEY, seq integer NOT NULL, owner_id text);
CREATE TABLE event (
    id text PRIMARY KEY, aggregate_id text NOT NULL, seq integer NOT NULL, type text NOT NULL, data text NOT NULL
);
CREATE UNIQUE INDEX event_aggregate_seq_idx ON event (aggregate_id, seq);
"""


class Agent:
    """Writes rows as OpenCode does, each in a transaction of its own."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.connection = sqlite3.connect(path, isolation_level=None, timeout=0)
        self.connection.execute("PRAGMA journal_mode = wal")

    def create(self) -> None:
        self.connection.executescript(TABLES)

    def write(self, row: dict[str, Any]) -> None:
        data = json.dumps(row["data"], separators=(",", ":"))
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.execute(
            "INSERT INTO event VALUES (?, ?, ?, ?, ?)", (row["id"], row["aggregate_id"], row["seq"], row["type"], data)
        )
        self.connection.execute(
            "INSERT INTO event_sequence VALUES (?, ?, NULL) ON CONFLICT DO UPDATE SET seq = excluded.seq",
            (row["aggregate_id"], row["seq"]),
        )
        self.connection.execute("COMMIT")


class Reader(OpencodeStore):
    """Reads a database whose rows have no times."""

    def rows(self, query: Query, session: str, taken: Mapping[str, int], changed: int) -> Generator[Row, None, None]:
        for row in super().rows(query, session, taken, changed):
            yield row._replace(time=changed)


def rows_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RECORDED / f"{name}.jsonl").read_bytes().splitlines()]


def session_of(name: str) -> str:
    return str(rows_of(name)[0]["aggregate_id"])


def woven(*names: str, seed: int = 1) -> Iterator[dict[str, Any]]:
    """The rows of several sessions that run at the same time."""
    chance = random.Random(seed)
    left = [rows_of(name) for name in names]
    while left := [rows for rows in left if rows]:
        yield chance.choice(left).pop(0)


def expected(agent: Agent, name: str) -> list[str]:
    path = f"{agent.path}/{session_of(name)}"
    lines = (RECORDED / f"{name}.jsonl").read_bytes().splitlines()
    return events_of(recording_id(path), "opencode-db", lines, session_of(name))


def wait_lines(follower: Follower, lines: int) -> None:
    follower.wait_stats(lambda stats: sum(one["lines"] for one in stats["perStream"]) == lines)


def told(events: list[dict[str, Any]], name: str) -> list[str]:
    return ids(event for event in events if event["session"] == session_of(name))


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    agent = Agent(tmp_path / "data" / "opencode" / "opencode.db")
    with closing(agent.connection):
        yield agent


@pytest.fixture
def follower(tmp_path: Path) -> Follower:
    follower = Follower(tmp_path, agents=["opencode"], backfill="all")  # the rows are old
    follower.settings["suspend_timeout"] = 1e9
    follower.environment["XDG_DATA_HOME"] = str(tmp_path / "data")
    return follower


def test_sessions_that_run_at_once_are_ingested_once(follower: Follower, agent: Agent) -> None:
    """The daemon is killed again and again; tables come after the database, and rows while nobody follows."""
    chance = random.Random(7)
    with follower:
        agent.create()
        for number, row in enumerate(woven(*NAMES)):
            agent.write(row)
            if number % 40 == 20:
                follower.restart(follower.kill)
            elif chance.random() < 0.1:
                wait_lines(follower, number + 1)
        events = follower.events_when(
            lambda events: all(len(told(events, name)) >= len(expected(agent, name)) for name in NAMES)
        )
        streams = follower.stats()["perStream"]

    assert {name: told(events, name) for name in NAMES} == {name: expected(agent, name) for name in NAMES}
    assert {one["dialect"] for one in streams} == {"opencode-db"}
    assert {event["session"] for event in events if "agent" in event} == {session_of("subagent")}


def test_finished_database_is_backfilled(follower: Follower, agent: Agent) -> None:
    """Nobody has it open; no file is created beside it, and it does not change."""
    agent.create()
    for row in woven(*NAMES):
        agent.write(row)
    agent.connection.close()
    before = {one.name: one.read_bytes() for one in agent.path.parent.iterdir()}
    follower.settings["follow"]["backfill"] = "all"
    with follower:
        backfill = follower.wait_stats(lambda stats: stats["following"]["backfill"]["complete"])["following"]
        events = follower.events_when(
            lambda events: all(len(told(events, name)) >= len(expected(agent, name)) for name in NAMES)
        )

    assert (backfill["agents"], backfill["backfill"]["filesDone"]) == ({"opencode": 3}, 3)
    assert {name: told(events, name) for name in NAMES} == {name: expected(agent, name) for name in NAMES}
    assert list(before) == ["opencode.db"]
    assert {one.name: one.read_bytes() for one in agent.path.parent.iterdir()} == before


def test_agent_is_never_locked_out(agent: Agent) -> None:
    """A writer that waits for nobody writes between any two reads, and a checkpoint completes."""
    agent.create()
    database = Database(str(agent.path), OpencodeStore())
    rows = list(woven(*NAMES))
    position = Position()
    lines: list[bytes] = []
    path = f"{agent.path}/{session_of('subagent')}"
    for row in rows:
        agent.write(row)
        if row["data"].get("sessionID") == session_of("subagent") or lines:
            chunk = database.read_from(path, position, 1)
            position = chunk.after
            lines += chunk.data.splitlines()
    [(busy, _, _)] = agent.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    while chunk := database.read_from(path, position, 1_000):
        if not chunk.data:
            break
        position = chunk.after
        lines += chunk.data.splitlines()

    assert busy == 0
    assert [json.loads(line) for line in lines] == rows_of("subagent")


def test_time_of_a_database_is_that_of_its_log(agent: Agent) -> None:
    """While the agent has the database open, SQLite writes to the log beside it, and the file stays as it was."""
    agent.create()
    for row in rows_of("edit"):
        agent.write(row)
    os.utime(agent.path, (1_000_000_000, 1_000_000_000))
    os.utime(f"{agent.path}-wal", (1_795_000_000, 1_795_000_000))
    database = Database(str(agent.path), Reader())

    chunk = database.read_from(f"{agent.path}/{session_of('edit')}", Position(), 1)

    assert chunk.mtime == 1_795_000_000_000


def test_session_that_is_deleted_or_replaced(agent: Agent) -> None:
    agent.create()
    for row in rows_of("edit"):
        agent.write(row)
    database = Database(str(agent.path), OpencodeStore())
    [found] = database.list_sessions()
    database.position_after(found.path, 5, None)
    with pytest.raises(ReplacedError):
        database.position_after(found.path, 5, 12345)
    with pytest.raises(ReplacedError):
        database.position_after(found.path, len(rows_of("edit")) + 1, None)
    agent.connection.executescript("DELETE FROM event; DELETE FROM event_sequence;")
    with pytest.raises(FileNotFoundError):
        database.read_from(found.path, Position(), 1_000)

    assert database.list_sessions() == []
    os.unlink(agent.path)
    with pytest.raises(FileNotFoundError):
        database.list_sessions()
