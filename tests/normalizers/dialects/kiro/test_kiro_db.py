"""The `kiro-db` dialect, and following the database, which holds all conversations of Kiro's first engine."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.daemon.taps.following import Follower
from tests.normalizers.reading import FIXTURES, answer, of, read, recording, said
from tooltap.normalizers.dialects.kiro.store import KiroStore
from tooltap.protocol.events import SessionEvent, ToolResult, Turn, Unparsed
from tooltap.testing import normalize

VERSION = "kiro-cli-written"
LINES = (FIXTURES / "kiro-db" / VERSION / "branch.jsonl").read_text().splitlines()
SESSION = "0f8a1c52-kiro"


def test_recording_is_a_session_with_one_turn() -> None:
    found = normalize("auto", recording("kiro-db", "branch", VERSION))

    assert {(one.dialect, one.provider, one.session) for one in found} == {("kiro-db", "kiro", SESSION)}
    assert [one.cwd for one in of(SessionEvent, found) if one.state == "started"] == ["/ws"]
    assert said(found) == [
        ("user", "Which branch is this?"),
        ("assistant", "I'll look."),
        ("assistant", "It is main."),
    ]
    [shell] = of(ToolResult, found)
    assert answer(shell.output) == {"stdout": "main\n", "stderr": "", "exit_code": 0}
    assert [one.state for one in of(Turn, found)] == ["started", "completed"]


@pytest.mark.parametrize("conversation", [None, {"history": []}, {"conversation_id": "k"}])
def test_row_without_a_conversation_is_unparsed(conversation: object) -> None:
    found = read("kiro-db", {"key": "/ws", "updated_at": 1, "conversation": conversation})

    assert [one.reason for one in of(Unparsed, found)] == ["unknown-type"]


def test_database_of_before_kiro_stored_several_conversations_has_none() -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        assert list(KiroStore().sessions(database.execute, 0)) == []


@pytest.mark.process
def test_database_is_followed(tmp_path: Path) -> None:
    """Each state replaces the one before it. The daemon is killed between them."""
    folder = tmp_path / "kiro-cli"
    folder.mkdir()
    follower = Follower(tmp_path, agents=["kiro-cli"], backfill="all")
    follower.environment["XDG_DATA_HOME"] = str(tmp_path)

    def wait_for(lines: int) -> None:
        follower.wait_stats(lambda stats: [one["lines"] for one in stats["perStream"]] == [lines])

    columns = "key, conversation_id, value, created_at, updated_at"

    with closing(sqlite3.connect(folder / "data.sqlite3", isolation_level=None)) as agent, follower:
        agent.execute(f"CREATE TABLE conversations_v2 ({columns}, PRIMARY KEY (key, conversation_id))")
        for number, line in enumerate(map(json.loads, LINES), 1):
            row = line["key"], SESSION, json.dumps(line["conversation"]), line["created_at"], line["updated_at"]
            agent.execute("INSERT OR REPLACE INTO conversations_v2 VALUES (?, ?, ?, ?, ?)", row)
            wait_for(number)
            follower.restart(follower.kill)
        events = follower.events_when(lambda events: any(event.get("state") == "completed" for event in events))

    texts = [event["text"] for event in events if event["kind"] == "message"]
    assert texts == ["Which branch is this?", "I'll look.", "It is main."]
    assert {(event["session"], event["provider"]) for event in events} == {(SESSION, "kiro")}
