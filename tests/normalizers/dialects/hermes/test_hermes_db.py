"""The `hermes-db` dialect: rows that no recording shows, and following the database, which grows meanwhile."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.taps.following import Follower
from tests.normalizers.reading import FIXTURES, of, read, recording
from tooltap.protocol.events import Message, Reasoning, SessionEvent, ToolResult, Turn
from tooltap.testing import normalize

VERSION = "hermes-0.19.0"
LINES = (FIXTURES / "hermes-db" / VERSION / "shell.jsonl").read_text().splitlines()
OWN = "id, source, model, cwd, git_branch, started_at"
KEYS = (
    *("id", "session_id", "role", "content", "tool_call_id", "tool_calls", "tool_name", "timestamp", "finish_reason"),
    *("reasoning", "reasoning_content", "observed"),
)
CALLS = json.dumps([{"id": "c1", "function": {"name": "terminal", "arguments": '{"command": "make"}'}}])


def row(role: str, content: str | None, **more: Any) -> dict[str, Any]:
    return {**dict.fromkeys(KEYS), "session_id": "s", "role": role, "content": content, "timestamp": 1.7e9, **more}


def test_recorded_session_has_all_facts() -> None:
    found = normalize("auto", recording("hermes-db", "shell", VERSION))

    assert {one.dialect for one in found} == {"hermes-db"}
    assert [(one.model, one.state) for one in of(SessionEvent, found)] == [("scripted", "started")]
    assert [(one.name, one.output["stdout"]) for one in of(ToolResult, found)] == [("Bash", "3 notes.txt")]
    assert [one.role for one in of(Message, found)] == ["user", "assistant"]
    assert [(one.state, one.ended_by) for one in of(Turn, found)] == [("started", None), ("completed", "answer")]


def test_exit_code_states_that_a_command_failed() -> None:
    [result] = of(ToolResult, normalize("auto", recording("hermes-db", "shell-fails", VERSION)))

    assert (result.status, result.output["exit_code"]) == ("failed", 3)


def test_content_of_a_file_has_no_line_numbers() -> None:
    [result] = of(ToolResult, normalize("auto", recording("hermes-db", "read", VERSION)))

    assert result.output["file"]["content"] == "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("content", "status", "error"),
    [
        ('{"error": "no such tool"}', "failed", "no such tool"),
        ('{"output": "", "exit_code": -1, "error": "timed out"}', "failed", "timed out"),
        ("plain", "completed", None),
    ],
)
def test_result_states_how_a_call_ended(content: str, status: str, error: str | None) -> None:
    asked = row("assistant", None, tool_calls=CALLS)
    [result] = of(ToolResult, read("hermes-db", asked, row("tool", content, tool_call_id="c1")))

    assert (result.status, result.output.get("errorMessage")) == (status, error)


def test_parts_of_a_prompt_are_decoded() -> None:
    parts = [{"type": "text", "text": "Look:"}]
    found = read("hermes-db", row("user", "\0json:" + json.dumps(parts)), row("assistant", "A cat.", reasoning="Hm."))

    assert [one.text for one in of(Message, found)] == ["Look:", "A cat."]
    assert [one.text for one in of(Reasoning, found)] == ["Hm."]


def wait_for_rows(follower: Follower, rows: int) -> None:
    follower.wait_stats(lambda stats: [one["lines"] for one in stats["perStream"]] == [rows])


@pytest.mark.process
def test_database_is_followed(tmp_path: Path) -> None:
    """The daemon is killed after each row."""
    follower = Follower(tmp_path, agents=["hermes"], backfill="all")
    follower.environment["HERMES_HOME"] = str(tmp_path)
    own, *messages = map(json.loads, LINES)
    with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as agent, follower:
        agent.execute(f"CREATE TABLE sessions ({OWN})")
        agent.execute(f"CREATE TABLE messages ({', '.join(KEYS)})")
        agent.execute(f"INSERT INTO sessions VALUES ({', '.join(f':{key}' for key in OWN.split(', '))})", own)
        for number, line in enumerate(messages):
            agent.execute(f"INSERT INTO messages VALUES ({', '.join(f':{key}' for key in KEYS)})", line)
            wait_for_rows(follower, number + 2)
            follower.restart(follower.kill)
        events = follower.events_when(lambda events: any(event.get("state") == "completed" for event in events))

    texts = [event["text"] for event in events if event["kind"] == "message"]
    assert texts == ["[[hermes]] How many lines has notes.txt?", "It has 3 lines."]
    assert {(event["session"], event["provider"]) for event in events} == {("20261129_183331_2ff30d", "hermes")}
