"""The `crush-db` dialect, and following a database of Crush, whose messages change until they are finished."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.taps.following import Follower
from tests.normalizers.reading import FIXTURES, of, read, recording, said
from tooltap.protocol.events import Message, Notice, SessionEvent, ToolResult, Turn, Unparsed, Usage
from tooltap.testing import normalize

VERSION = "crush-0.66-written"
LINES = [json.loads(line) for line in (FIXTURES / "crush-db" / VERSION / "greet.jsonl").read_bytes().splitlines()]
FACTS, MESSAGES = LINES[0], LINES[1:-1]
SESSION = FACTS["id"]
TABLES = """
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, parent_session_id TEXT, title TEXT NOT NULL, prompt_tokens INTEGER, completion_tokens INTEGER,
    cost REAL, updated_at INTEGER, created_at INTEGER
);
CREATE TABLE messages (
    id TEXT PRIMARY KEY, session_id TEXT, role TEXT, parts BLOB NOT NULL DEFAULT '[]', model TEXT, created_at INTEGER,
    updated_at INTEGER, finished_at INTEGER
);
"""


def row(role: str, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"session_id": "s", "role": role, "created_at": 1795692000, "finished_at": None, "parts": [*parts], **more}


def part(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data}


CALL = part("tool_call", id="c", name="bash", input='{"command": "make"}')


def result(content: str, *, metadata: Any = None, is_error: bool = False) -> dict[str, Any]:
    shown = "" if metadata is None else json.dumps(metadata)
    more = {"content": content, "metadata": shown, "is_error": is_error}
    return row("tool", part("tool_result", tool_call_id="c", name="bash", **more))


def test_recording_is_a_session_with_one_turn() -> None:
    found = normalize("auto", recording("crush-db", "greet", VERSION))

    assert {(one.dialect, one.provider, one.session) for one in found} == {("crush-db", "crush", SESSION)}
    assert said(found) == [
        ("user", "Make greet say Howdy, then run the tests."),
        ("assistant", "I change it."),
        ("assistant", "The greeting is changed, but one test fails."),
    ]
    assert [(one.name, one.status) for one in of(ToolResult, found)] == [("Edit", "completed"), ("Bash", "failed")]
    assert [(one.state, one.reason) for one in of(Turn, found)] == [("started", None), ("completed", "end_turn")]


def test_session_states_title_model_and_cost() -> None:
    found = normalize("auto", recording("crush-db", "greet", VERSION))

    assert [one.title for one in of(SessionEvent, found) if one.title] == ["New Session", "Change the greeting"]
    assert [one.model for one in of(SessionEvent, found) if one.model] == ["gpt-5.1"]
    assert [(one.cost_usd, one.counter) for one in of(Usage, found)] == [(0.0042, "session")]


def test_message_that_was_read_does_not_come_again() -> None:
    assert len(read("crush-db", *LINES, *LINES[1:])) == len(read("crush-db", *LINES))


@pytest.mark.parametrize(
    ("content", "metadata", "is_error", "status", "output"),
    [
        ("done\n\n<cwd>/ws</cwd>", {"working_directory": "/ws", "output": "done"}, False, "completed", "done"),
        ("no output", {"working_directory": "/ws", "output": ""}, False, "completed", ""),
        ("missing command", None, True, "failed", None),
        ("User denied permission", None, True, "denied", None),
    ],
)
def test_result_has_what_the_tool_returned(
    content: str, metadata: Any, is_error: bool, status: str, output: str | None
) -> None:
    answered = result(content, metadata=metadata, is_error=is_error)
    [found] = of(ToolResult, read("crush-db", row("assistant", CALL), answered))

    assert (found.status, found.output.get("stdout")) == (status, output)


@pytest.mark.parametrize(
    ("reason", "state"),
    [("canceled", "cancelled"), ("error", "failed"), ("content_filter", "failed"), ("max_tokens", "completed")],
)
def test_last_part_of_an_answer_states_how_the_turn_ended(reason: str, state: str) -> None:
    lines = row("user", part("text", text="Go")), row("assistant", part("finish", reason=reason, time=1))

    assert [one.state for one in of(Turn, read("crush-db", *lines))] == ["started", state]


def test_what_the_user_ran_is_a_notice() -> None:
    found = read("crush-db", row("user", part("shell_command", command="ls", output="a\n", exit_code=0)))

    assert [(one.code, one.text) for one in of(Notice, found)] == [("shell-command", "ls")]


def test_summary_is_no_answer() -> None:
    found = read("crush-db", row("assistant", part("text", text="So far"), is_summary_message=1))

    assert [(one.code, one.text) for one in of(Notice, found)] == [("summary", "So far")]
    assert of(Message, found) == []


def test_picture_of_a_prompt_is_attached() -> None:
    picture = part("binary", Path="a.png", MIMEType="image/png", Data="aGk=")
    [prompt] = of(Message, read("crush-db", row("user", part("text", text="Look"), picture)))

    assert [one.mime_type for one in prompt.attachments or []] == ["image/png"]


def test_only_a_result_with_a_picture_has_an_attachment() -> None:
    def attached(data: str, mime_type: str) -> list[str]:
        of_call = part("tool_result", tool_call_id="c", name="view", content="", data=data, mime_type=mime_type)
        [found] = of(ToolResult, read("crush-db", row("assistant", CALL), row("tool", of_call)))
        return [one.mime_type for one in found.attachments or []]

    assert attached("aGk=", "image/png") == ["image/png"]
    assert attached("", "") == []


def test_prompt_of_the_agent_itself_is_none() -> None:
    assert of(Message, read("crush-db", row("user", part("text", text="Continue", hidden=True)))) == []


def test_part_of_an_unknown_type_is_kept() -> None:
    found = read("crush-db", row("assistant", part("hologram")))

    assert [one.reason for one in of(Unparsed, found)] == ["unknown-type"]


def write(agent: sqlite3.Connection, one: dict[str, Any], finished: int | None, parts: list[Any]) -> None:
    agent.execute(
        "INSERT OR IGNORE INTO messages (id, session_id, role, model, created_at) VALUES (?, ?, ?, ?, ?)",
        tuple(one[key] for key in ("id", "session_id", "role", "model", "created_at")),
    )
    values = json.dumps(parts), finished, one["id"]
    agent.execute("UPDATE messages SET parts = ?, finished_at = ? WHERE id = ?", values)


@pytest.mark.process
def test_database_is_followed(tmp_path: Path) -> None:
    """Each message is stored in two steps. The daemon is killed after each."""
    folder = tmp_path / ".crush"
    folder.mkdir()
    follower = Follower(tmp_path, agents=["crush"], backfill="all")
    follower.environment["HOME"] = str(tmp_path)

    def wait_for_lines(number: int) -> None:
        follower.wait_stats(lambda stats: [one["lines"] for one in stats["perStream"]] == [number])

    with closing(sqlite3.connect(folder / "crush.db", isolation_level=None)) as agent, follower:
        agent.executescript(TABLES)
        began = FACTS["created_at"]
        agent.execute("INSERT INTO sessions VALUES (?, NULL, 'New Session', 0, 0, 0, ?, ?)", (SESSION, began, began))
        prompt, answer, *rest = MESSAGES
        write(agent, prompt, None, prompt["parts"])
        wait_for_lines(2)
        write(agent, answer, None, answer["parts"][:1])
        follower.restart(follower.kill)
        write(agent, answer, answer["finished_at"], answer["parts"])
        follower.wait_stats(lambda stats: stats["perStream"][0]["kinds"].get("tool-call") == 1)
        follower.restart(follower.kill)
        for one in rest:
            write(agent, one, one["finished_at"], one["parts"])
        agent.execute("UPDATE sessions SET title = 'Change the greeting', cost = 0.0042, updated_at = updated_at + 9")
        ends = {"usage", "completed"}
        events = follower.events_when(lambda events: ends <= {event.get("state", event["kind"]) for event in events})

    assert [event["text"] for event in events if event["kind"] == "reasoning"] == ["A small edit."]
    assert [event["name"] for event in events if event["kind"] == "tool-call"] == ["Edit", "Bash"]
    assert [event["text"] for event in events if event["kind"] == "message"][1:] == [
        "I change it.",
        "The greeting is changed, but one test fails.",
    ]
    assert {(event["session"], event["provider"]) for event in events} == {(SESSION, "crush")}
