"""A session file with an open question stays open while nobody answers; other silent files do not."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.taps.following import CLAUDE_SESSION, Follower, append, prompt_line

OTHER = "00000000-0000-4000-8000-000000000001"
HOUR = 3_600.0


def line(kind: str, uuid: str, content: list[dict[str, Any]], age: float, **message: Any) -> bytes:
    """Return a line of Claude Code's transcript that was written this many seconds ago."""
    value = {
        "type": kind,
        "uuid": uuid,
        "sessionId": CLAUDE_SESSION,
        "cwd": "/tmp/ws",
        "version": "2.1.330",
        "isSidechain": False,
        "userType": "external",
        "timestamp": datetime.fromtimestamp(time.time() - age, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "message": {"role": kind, "content": content, **message},
    }
    return json.dumps(value).encode() + b"\n"


def asking(age: float = 0.0) -> list[bytes]:
    questions = [{"question": "Which database?", "header": "DB", "options": [{"label": "Postgres"}]}]
    call = {"type": "tool_use", "id": "toolu_1", "name": "AskUserQuestion", "input": {"questions": questions}}
    return [
        prompt_line("Set the database up", -age),
        line("assistant", "u2", [call], age, id="msg_1", model="claude-x", stop_reason="tool_use"),
    ]


def answer() -> bytes:
    said = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Postgres"}
    return line("user", "u3", [said], 0.0)


def status(follower: Follower) -> str:
    with follower.connect() as wire:
        found = {one["session"]: one["status"] for one in wire.ask("sessions")["sessions"]}
    return str(found.get(CLAUDE_SESSION))


def test_file_with_a_question_stays_open(tmp_path: Path) -> None:
    """Another file is closed after the same silence."""
    with Follower(tmp_path, idle=0.05) as follower:
        append(follower.session, asking())
        append(
            follower.projects / f"{OTHER}.jsonl",
            [prompt_line("Hi", 0).replace(CLAUDE_SESSION.encode(), OTHER.encode())],
        )
        follower.wait_stats(lambda stats: len(stats["perStream"]) == 2 and stats["following"]["open"] == 1)
        assert status(follower) == "waiting"
        append(follower.session, [answer()])
        follower.wait_stats(lambda stats: stats["following"]["open"] == 0)
        assert status(follower) == "interrupted"


@pytest.mark.parametrize(("age", "expected"), [(2 * HOUR, "waiting"), (13 * HOUR, "interrupted")])
def test_question_is_asked_for_hours_but_not_for_ever(tmp_path: Path, age: float, expected: str) -> None:
    follower = Follower(tmp_path)
    append(follower.session, asking(age))
    os.utime(follower.session, (time.time() - age, time.time() - age))
    with follower:
        follower.wait_stats(lambda stats: stats["following"]["backfill"]["complete"] and bool(stats["perStream"]))
        assert status(follower) == expected


def test_turn_in_a_file_that_has_not_changed_for_long_is_not_running(tmp_path: Path) -> None:
    age = 600.0
    follower = Follower(tmp_path)
    append(follower.session, [prompt_line("Build it", -age)])
    os.utime(follower.session, (time.time() - age, time.time() - age))
    with follower:
        follower.wait_stats(lambda stats: stats["following"]["backfill"]["complete"] and bool(stats["perStream"]))
        assert status(follower) == "interrupted"
