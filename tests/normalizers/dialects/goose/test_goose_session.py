"""The `goose-session` dialect, and following Goose's database while it grows and is written anew."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.taps.following import Follower
from tests.normalizers.reading import FIXTURES, of, read, recording, said
from tooltap.protocol.events import Notice, SessionEvent, ToolResult, Turn, Unparsed, Usage
from tooltap.testing import normalize

VERSION = "goose-1.51-written"
COUNT = recording("goose-session", "count", VERSION)
LINES = [json.loads(line) for line in (FIXTURES / "goose-session" / VERSION / "count.jsonl").read_bytes().splitlines()]
FACTS, MESSAGES = [LINES[0], LINES[-1]], LINES[1:-1]
TABLES = """
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, name TEXT, description TEXT, working_dir TEXT, created_at TIMESTAMP, updated_at TIMESTAMP,
    accumulated_total_tokens INTEGER, accumulated_input_tokens INTEGER, accumulated_output_tokens INTEGER
);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, role TEXT, content_json TEXT, created_timestamp INTEGER
);
"""


def message(role: str, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": role, "created": 1795692000, "content": list(parts), **more}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def test_recording_is_a_session_with_one_turn() -> None:
    found = normalize("auto", COUNT)

    assert {(one.dialect, one.provider, one.session) for one in found} == {("goose-session", "goose", "20261126_1")}
    assert [(one.cwd, one.title) for one in of(SessionEvent, found)] == [("/ws", "New session"), (None, "Count lines")]
    assert said(found) == [
        ("user", "Count the lines of notes.txt."),
        ("assistant", "Counting them."),
        ("assistant", "It has 12 lines."),
    ]
    assert [(one.name, one.status) for one in of(ToolResult, found)] == [("Bash", "completed")]
    assert [(one.input_tokens, one.output_tokens, one.counter) for one in of(Usage, found)] == [(1200, 90, "session")]
    assert [(one.state, one.ended_by) for one in of(Turn, found)] == [("started", None), ("completed", "answer")]


def test_what_was_read_does_not_come_again() -> None:
    assert len(read("goose-session", *LINES, *LINES[1:])) == len(read("goose-session", *LINES))


def test_what_only_the_model_sees_is_no_prompt() -> None:
    hidden = message("user", text("So far: counted."), metadata={"userVisible": False, "agentVisible": True})
    found = read("goose-session", hidden)

    assert [(one.code, one.text) for one in of(Notice, found)] == [("summary", "So far: counted.")]
    assert said(found) == []


def test_prompt_ends_the_turn_before_it() -> None:
    call = {"type": "toolRequest", "id": "c", "toolCall": {"value": {"name": "developer__shell", "arguments": {}}}}
    lines = message("user", text("Go")), message("assistant", call), message("user", text("Stop"))
    found = read("goose-session", *lines)

    assert [one.state for one in of(Turn, found)][:3] == ["started", "cancelled", "started"]


def test_what_has_no_known_shape_is_kept() -> None:
    odd = message("assistant", {"type": "hologram"}), {"role": "user", "created": 1, "content": "x"}

    assert [one.reason for one in of(Unparsed, read("goose-session", *odd))] == ["unknown-type"] * 2


def write(agent: sqlite3.Connection, one: dict[str, Any]) -> None:
    agent.execute(
        "INSERT INTO messages (session_id, role, content_json, created_timestamp) VALUES (?, ?, ?, ?)",
        ("20261126_1", one["role"], json.dumps(one["content"]), one["created"]),
    )
    touch(agent)


def touch(agent: sqlite3.Connection) -> None:
    """Goose notes each change of a session."""
    agent.execute("UPDATE sessions SET updated_at = datetime(coalesce(updated_at, '2026-11-26 11:20:00'), '+1 second')")


@pytest.mark.process
def test_database_is_followed(tmp_path: Path) -> None:
    follower, folder = following(tmp_path)

    def wait_for_messages(number: int) -> None:
        follower.wait_stats(lambda stats: [one["kinds"].get("message") for one in stats["perStream"]] == [number])

    with closing(sqlite3.connect(folder / "sessions.db", isolation_level=None)) as agent, follower:
        agent.executescript(TABLES)
        first, last = FACTS
        columns = ", ".join(first)
        agent.execute(f"INSERT INTO sessions ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", tuple(first.values()))
        for one, messages in zip(MESSAGES, (1, 2, 2, 3), strict=True):
            write(agent, one)
            wait_for_messages(messages)
            follower.restart(follower.kill)
        agent.execute("BEGIN")
        agent.execute("DELETE FROM messages")
        for one in MESSAGES:
            write(agent, one)
        used = tuple(last[key] for key in ("name", "accumulated_input_tokens", "accumulated_output_tokens"))
        agent.execute("UPDATE sessions SET name = ?, accumulated_input_tokens = ?, accumulated_output_tokens = ?", used)
        agent.execute("COMMIT")
        events = follower.events_when(lambda events: any(event["kind"] == "usage" for event in events))

    texts = [event["text"] for event in events if event["kind"] == "message"]
    assert texts == ["Count the lines of notes.txt.", "Counting them.", "It has 12 lines."]
    stated = [event["status"] for event in events if event["kind"] == "tool-result" and not event.get("synthetic")]
    assert stated == ["completed"]
    assert {(event["session"], event["provider"]) for event in events} == {("20261126_1", "goose")}


def store(agent: sqlite3.Connection, session: str, *messages: dict[str, Any]) -> None:
    """Store a session as a version with a database does, or copies one of an older version."""
    agent.execute("INSERT OR IGNORE INTO sessions (id, working_dir) VALUES (?, '/ws')", (session,))
    for one in messages:
        agent.execute(
            "INSERT INTO messages (session_id, role, content_json, created_timestamp) VALUES (?, ?, ?, ?)",
            (session, one["role"], json.dumps(one["content"]), one["created"]),
        )
    touch(agent)


def exchange(*words: str) -> list[dict[str, Any]]:
    return [message(role, text(one)) for role, one in zip(("user", "assistant") * 2, words, strict=False)]


def file_of(folder: Path, session: str, *messages: dict[str, Any]) -> None:
    """Store a session as a version before 1.10 does: a line that describes it, and one for each message."""
    described = {"working_dir": "/ws", "description": "", "schedule_id": None, "accumulated_total_tokens": None}
    path = folder / f"{session}.jsonl"
    path.write_text("".join(f"{json.dumps(one)}\n" for one in (described, *messages)))
    os.utime(path, (1_795_000_000, 1_795_000_000))  # earlier than what the database has


def following(home: Path) -> tuple[Follower, Path]:
    """A daemon that follows all that Goose has stored, and the folder of its sessions."""
    follower = Follower(home, agents=["goose"], backfill="all")
    follower.environment["XDG_DATA_HOME"] = str(home)
    folder = home / "goose" / "sessions"
    folder.mkdir(parents=True)
    return follower, folder


def texts_of(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return sorted((event["session"], event["text"]) for event in events if event["kind"] == "message")


@pytest.mark.process
def test_files_of_older_versions_are_followed_beside_the_database_that_lacks_them(tmp_path: Path) -> None:
    follower, folder = following(tmp_path)
    file_of(folder, "old", *exchange("Ask old", "Say old"))
    file_of(folder, "copied", *exchange("Ask copied", "Say copied"))
    wanted = [(one, f"{verb} {one}") for one in ("copied", "new", "old") for verb in ("Ask", "Say")]
    with closing(sqlite3.connect(folder / "sessions.db", isolation_level=None)) as agent:
        agent.executescript(TABLES)
        store(agent, "copied", *exchange("Ask copied", "Say copied"))
        store(agent, "new", *exchange("Ask new", "Say new"))
        with follower:
            follower.events_when(lambda events: len(texts_of(events)) >= len(wanted))
            follower.restart(follower.kill)
            store(agent, "new", *exchange("Ask on", "Say on"))
            events = follower.events_when(lambda events: any(event.get("text") == "Say on" for event in events))

    assert texts_of(events) == sorted([*wanted, ("new", "Ask on"), ("new", "Say on")])


@pytest.mark.process
def test_session_that_a_newer_version_copies_to_its_database_goes_on_there(tmp_path: Path) -> None:
    follower, folder = following(tmp_path)
    file_of(folder, "old", *exchange("Ask", "Say"))
    with follower:
        follower.events_when(lambda events: len(texts_of(events)) == 2)
        with closing(sqlite3.connect(folder / "sessions.db", isolation_level=None)) as agent:
            agent.executescript(TABLES)
            store(agent, "old", *exchange("Ask", "Say", "Ask on", "Say on"))
            follower.events_when(lambda events: any(event.get("text") == "Say on" for event in events))
            follower.restart(follower.kill)
            agent.execute("UPDATE sessions SET name = 'Titled'")
            touch(agent)
            events = follower.events_when(lambda events: any(event.get("title") == "Titled" for event in events))

    assert texts_of(events) == [("old", one) for one in ("Ask", "Ask on", "Say", "Say on")]
