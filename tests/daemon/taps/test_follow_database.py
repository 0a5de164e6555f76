"""Following OpenCode's database: rows that the real agent wrote, in a real database that grows meanwhile."""

from __future__ import annotations

import json
import os
import random
import re
import sqlite3
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from functools import partial
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


MESSAGES = """
CREATE TABLE session_v2 (
    id text PRIMARY KEY, parent_id text, fork_session_id text, slug text NOT NULL, directory text NOT NULL, title text,
    version text NOT NULL, cost real NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL
);
CREATE TABLE session_message (
    id text PRIMARY KEY, session_id text NOT NULL, type text NOT NULL, seq integer NOT NULL,
    time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL
);
CREATE UNIQUE INDEX session_message_session_seq_idx ON session_message (session_id, seq);
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


class SecondAgent(Agent):
    """Writes messages as OpenCode 2 does: in place, until they are complete."""

    SESSION = "ses_2"
    BEGIN = 1_795_000_000_000

    def create(self) -> None:
        self.connection.executescript(MESSAGES)
        self.connection.execute(
            "INSERT INTO session_v2 VALUES (?, NULL, NULL, 'fox', '/w/app', 'List', '2.0.12', 0, ?, ?)",
            (self.SESSION, self.BEGIN, self.BEGIN),
        )

    def put(self, seq: int, kind: str, at: int, **data: Any) -> None:
        """Write a state of a message. `at`: when, in ms since the beginning."""
        message = f"msg_{seq}"
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.execute(
            "INSERT INTO session_message VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO UPDATE SET data = excluded.data, time_updated = excluded.time_updated",
            (message, self.SESSION, kind, seq, self.BEGIN + seq, self.BEGIN + at, json.dumps(data)),
        )
        self.connection.execute("COMMIT")

    def answer(self, seq: int) -> Iterator[None]:
        """Write an answer of two texts and a call, step by step."""
        output = {"content": [{"type": "text", "text": f"out {seq}"}]}
        call = {"type": "tool", "id": f"call_{seq}", "name": "shell"}
        given = {"input": {"command": f"make {seq}"}}
        texts = [{"type": "text", "text": f"{words} {seq}"} for words in ("First", "Last")]
        running = {**call, "state": {"status": "running", **given}}
        done = {**call, "state": {"status": "completed", **given, **output}}
        for step, content in enumerate(
            ([], texts[:1], [texts[0], running], [texts[0], done], [texts[0], done, texts[1]])
        ):
            self.put(seq, "assistant", 10_000 * seq + step, content=content, time={"created": self.BEGIN + seq})
            yield
        tokens = {"input": 100, "output": 10, "reasoning": 0, "cache": {"read": 0, "write": 0}}
        times = {"created": self.BEGIN + seq, "completed": self.BEGIN + 10_000 * seq + 9}
        self.put(seq, "assistant", 10_000 * seq + 9, content=content, tokens=tokens, finish="stop", time=times)
        yield


class Reader(OpencodeStore):
    """Reads a database whose rows have no times."""

    def rows(self, query: Query, session: str, taken: Mapping[str, int], changed: int) -> Generator[Row, None, None]:
        for row in super().rows(query, session, taken, changed):
            yield row._replace(time=changed)


def database_of(agent: Agent, reader: OpencodeStore | None = None) -> Database:
    return Database(str(agent.path.parent), (), re.compile(r"opencode(-\w+)?\.db"), reader or OpencodeStore())


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


def test_database_of_a_fork_is_the_forks(tmp_path: Path, follower: Follower) -> None:
    """Kilo Code's is OpenCode's under another name, and its rows do not say whose they are."""
    follower.settings["follow"]["agents"] = ["kilo", "opencode"]
    kilo = Agent(tmp_path / "data" / "kilo" / "kilo.db")
    with closing(kilo.connection):
        kilo.create()
        for row in rows_of("edit"):
            kilo.write(row)
        with follower:
            expected = len(rows_of("edit"))
            follower.wait_stats(lambda stats: sum(one["lines"] for one in stats["perStream"]) == expected)
            events = follower.events_when(lambda events: len(told(events, "edit")) > 0)
            streams = follower.stats()["perStream"]

    assert {one["dialect"] for one in streams} == {"opencode-db"}
    assert {event["provider"] for event in events} == {"kilo"}


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
    database = database_of(agent)
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
    database = database_of(agent, Reader())

    chunk = database.read_from(f"{agent.path}/{session_of('edit')}", Position(), 1)

    assert chunk.mtime == 1_795_000_000_000


def test_session_that_is_deleted_or_replaced(agent: Agent) -> None:
    agent.create()
    for row in rows_of("edit"):
        agent.write(row)
    database = database_of(agent)
    troubles: list[OSError] = []
    [found] = database.list_sessions(troubles.append)
    database.position_after(found.path, 5, None)
    with pytest.raises(ReplacedError):
        database.position_after(found.path, 5, 12345)
    with pytest.raises(ReplacedError):
        database.position_after(found.path, len(rows_of("edit")) + 1, None)
    agent.connection.executescript("DELETE FROM event; DELETE FROM event_sequence;")
    with pytest.raises(FileNotFoundError):
        database.read_from(found.path, Position(), 1_000)

    assert database.list_sessions(troubles.append) == []
    os.unlink(agent.path)
    assert database.list_sessions(troubles.append) == []
    assert troubles == []


def facts(events: list[dict[str, Any]], kind: str, key: str) -> list[Any]:
    """A fact of each event of a kind."""
    return [event.get(key) for event in events if event["kind"] == kind]


def has_said(text: str, events: list[dict[str, Any]]) -> bool:
    return text in facts(events, "message", "text")


def test_messages_that_change_in_place_are_ingested_once(follower: Follower, tmp_path: Path) -> None:
    """The daemon is killed again and again, and a message is read in any of its states. The database is a channel's."""
    agent = SecondAgent(tmp_path / "data" / "opencode" / "opencode-nightly.db")
    numbers = (2, 4, 6, 8)
    with closing(agent.connection), follower:
        agent.create()
        for seq in numbers:
            agent.put(seq - 1, "user", 10_000 * seq - 1, text=f"Prompt {seq}")
            for step, _ in enumerate(agent.answer(seq)):
                follower.events_when(partial(has_said, f"Prompt {seq}"))
                if step == seq // 2:
                    follower.restart(follower.kill)
        events = follower.events_when(lambda events: facts(events, "turn", "state").count("completed") == len(numbers))

    texts = [[f"Prompt {seq}", f"First {seq}", f"Last {seq}"] for seq in numbers]
    assert facts(events, "message", "text") == [text for one in texts for text in one]
    assert facts(events, "tool-call", "callId") == [f"call_{seq}" for seq in numbers]
    assert facts(events, "tool-result", "status") == ["completed"] * len(numbers)
    assert facts(events, "usage", "request") == [f"msg_{seq}" for seq in numbers]
    assert facts(events, "turn", "state") == ["started", "completed"] * len(numbers)
    assert {event["session"] for event in events} == {agent.SESSION}


def test_finished_messages_are_not_read_again_after_a_restart(follower: Follower, tmp_path: Path) -> None:
    agent = SecondAgent(tmp_path / "data" / "opencode" / "opencode.db")
    agent.create()
    agent.put(1, "user", 19_999, text="Prompt")
    for _ in agent.answer(2):
        pass
    agent.connection.close()
    with follower:
        follower.events_when(lambda events: "usage" in [event["kind"] for event in events])
        before = follower.stats()["perStream"]
        follower.restart(follower.stop)
        follower.wait_stats(lambda stats: stats["following"]["backfill"]["complete"])
        after = follower.stats()

    assert [one["lines"] for one in before] == [4]
    assert [one["lines"] for one in after["perStream"]] == [4]
    assert after["following"]["backfill"]["filesDone"] == 0


def test_session_that_a_new_version_takes_over_is_told_once(follower: Follower, agent: Agent) -> None:
    """OpenCode 2 copies the sessions of OpenCode 1 into its own tables, with their ids and times."""
    agent.create()
    for row in rows_of("edit"):
        agent.write(row)
    session = session_of("edit")
    with follower:
        before = follower.events_when(lambda events: len(told(events, "edit")) >= len(expected(agent, "edit")))
        said = facts(before, "message", "text")
        last = max(event["ts"] for event in before)
        agent.connection.executescript(MESSAGES)
        agent.connection.execute(
            "INSERT INTO session_v2 VALUES (?, NULL, NULL, 'fox', '/w/app', 'List', '2.0.12', 0, ?, ?)",
            (session, before[0]["ts"], last),
        )
        for seq, (text, at) in enumerate([*((text, last - 10_000) for text in said), ("New.", last + 60_000)]):
            data = json.dumps({"text": text, "time": {"created": at}})
            agent.connection.execute(
                "INSERT INTO session_message VALUES (?, ?, ?, ?, ?, ?, ?)",
                (f"msg_{seq}", session, "user", seq, at, at, data),
            )
        after = follower.events_when(partial(has_said, "New."))

    assert facts(after, "message", "text") == [*said, "New."]
