"""The `amazon-q-db` dialect, and following the database, which holds one conversation for each folder."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.taps.following import Follower
from tests.normalizers.reading import FIXTURES, answer, of, read, recording, said
from tooltap.protocol.events import Notice, SessionEvent, ToolResult, Turn, Unparsed
from tooltap.testing import normalize

VERSION = "amazon-q-1.19-written"
LINES = (FIXTURES / "amazon-q-db" / VERSION / "count.jsonl").read_text().splitlines()
CALL = {"ToolUse": {"content": "", "tool_uses": [{"id": "c", "name": "execute_bash", "args": {"command": "make"}}]}}


def prompt(text: str) -> dict[str, Any]:
    return {"content": {"Prompt": {"prompt": text}}}


def result(kind: str = "ToolUseResults", status: str = "Success", text: str = "ok", **more: Any) -> dict[str, Any]:
    one = {"tool_use_id": "c", "content": [{"Text": text}], "status": status}
    return {"content": {kind: {"tool_use_results": [one], **more}}}


def conversation(*history: Any, **more: Any) -> dict[str, Any]:
    return {"conversation_id": "q", "next_message": None, "history": [*history], "valid_history_range": [0, 1], **more}


def said_back(text: str) -> dict[str, Any]:
    return {"Response": {"content": text}}


def test_recording_is_a_session_with_one_turn() -> None:
    found = normalize("auto", recording("amazon-q-db", "count", VERSION))

    assert {(one.dialect, one.provider) for one in found} == {("amazon-q-db", "amazon-q")}
    assert [one.cwd for one in of(SessionEvent, found) if one.state == "started"] == ["/ws"]
    assert said(found) == [
        ("user", "Count the lines of notes.txt."),
        ("assistant", "Counting them."),
        ("assistant", "It has 12 lines."),
    ]
    [shell] = of(ToolResult, found)
    assert answer(shell.output) == {"stdout": "12 notes.txt\n", "stderr": "", "exit_code": 0}
    assert [(one.state, one.ended_by) for one in of(Turn, found)] == [("started", None), ("completed", "answer")]


def test_entries_of_older_versions_are_pairs() -> None:
    found = read("amazon-q-db", conversation([prompt("Go"), said_back("Done")]))

    assert said(found) == [("user", "Go"), ("assistant", "Done")]


@pytest.mark.parametrize(
    ("user", "status", "error"),
    [
        (result(), "completed", None),
        (result(status="Error", text="no such file"), "failed", "no such file"),
        (result("CancelledToolUses", "Error", "declined", prompt="Stop"), "cancelled", "declined"),
    ],
)
def test_result_states_how_a_call_ended(user: dict[str, Any], status: str, error: str | None) -> None:
    history = [prompt("Go"), CALL], [user, said_back("Well")]
    [found] = of(ToolResult, read("amazon-q-db", conversation(*history)))

    assert (found.status, found.output.get("errorMessage")) == (status, error)


def test_prompt_in_the_place_of_a_declined_call_begins_a_turn() -> None:
    history = [prompt("Go"), CALL], [result("CancelledToolUses", "Error", "declined", prompt="Stop"), said_back("Yes")]

    assert said(read("amazon-q-db", conversation(*history))) == [("user", "Go"), ("user", "Stop"), ("assistant", "Yes")]


def test_other_conversation_in_the_folder_is_another_session() -> None:
    other = {**conversation([prompt("Again"), said_back("Hello")]), "conversation_id": "r"}
    found = read("amazon-q-db", conversation([prompt("Go"), said_back("Hi")]), other)

    assert [one.session for one in of(SessionEvent, found) if one.state == "started"] == ["q", "r"]
    assert said(found) == [("user", "Go"), ("assistant", "Hi"), ("user", "Again"), ("assistant", "Hello")]


def test_summary_comes_once() -> None:
    one = conversation(latest_summary=["So far", None])

    assert [(found.code, found.text) for found in of(Notice, read("amazon-q-db", one, one))] == [("summary", "So far")]


@pytest.mark.parametrize("user", [{"content": {"Hologram": {}}}, {"content": None}, {**prompt("Go"), "images": [1]}])
def test_what_has_no_known_shape_is_kept(user: dict[str, Any]) -> None:
    found = read("amazon-q-db", conversation([user, said_back("Hi")]))

    assert [one.reason for one in of(Unparsed, found)] == ["unknown-type"]


@pytest.mark.process
def test_database_is_followed(tmp_path: Path) -> None:
    """Each state replaces the one before it. The daemon is killed between them."""
    folder = tmp_path / "amazon-q"
    folder.mkdir()
    follower = Follower(tmp_path, agents=["q"], backfill="all")
    follower.environment["XDG_DATA_HOME"] = str(tmp_path)
    with closing(sqlite3.connect(folder / "data.sqlite3", isolation_level=None)) as agent, follower:
        agent.execute("CREATE TABLE conversations (key TEXT PRIMARY KEY, value TEXT)")
        agent.execute("INSERT OR REPLACE INTO conversations VALUES ('/ws', ?)", (LINES[0],))
        follower.wait_stats(lambda stats: [one["lines"] for one in stats["perStream"]] == [1])
        follower.restart(follower.kill)
        agent.execute("INSERT OR REPLACE INTO conversations VALUES ('/ws', ?)", (LINES[1],))
        events = follower.events_when(lambda events: any(event.get("state") == "completed" for event in events))

    texts = [event["text"] for event in events if event["kind"] == "message"]
    assert texts == ["Count the lines of notes.txt.", "Counting them.", "It has 12 lines."]
    assert {event["session"] for event in events} == {json.loads(LINES[0])["conversation_id"]}
