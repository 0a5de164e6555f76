"""A session that has just ended: shown as done, with all that it used, within seconds."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.running import TIMEOUT
from tests.daemon.taps.following import CLAUDE_SESSION, Follower, append

NOW = time.time()
LINE = {
    "isSidechain": False,
    "userType": "external",
    "cwd": "/tmp/ws",
    "sessionId": CLAUDE_SESSION,
    "version": "2.1.25",
    "gitBranch": "main",
}


def line(uuid: str, kind: str, message: dict[str, Any], at: float, **more: Any) -> bytes:
    """Return a line that was written `at` this time, in seconds since the epoch."""
    stamp = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    value = {**LINE, "type": kind, "uuid": uuid, "message": message, "timestamp": stamp, **more}
    return json.dumps(value).encode() + b"\n"


def said(uuid: str, message: str, block: dict[str, Any], at: float) -> bytes:
    """Return a line of an answer, as Claude Code 2.1.25 writes it: it does not say why the model stopped."""
    usage = {
        "input_tokens": 10,
        "output_tokens": 100,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 1_000_000,
    }
    stated = {"id": message, "type": "message", "role": "assistant", "model": "claude-opus-4-5-20251101"}
    value = {**stated, "content": [block], "stop_reason": None, "stop_sequence": None, "usage": usage}
    return line(uuid, "assistant", value, at, requestId=f"req_{message}")


def session(at: float) -> list[bytes]:
    """Return a whole session whose last line was written `at` this time."""
    result = {"tool_use_id": "t1", "type": "tool_result", "content": "a.py"}
    return [
        line("u1", "user", {"role": "user", "content": "List the files."}, at - 3),
        said("a1", "msg_1", {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}, at - 2),
        line("u2", "user", {"role": "user", "content": [result]}, at - 1),
        said("a2", "msg_2", {"type": "text", "text": "There is one file, a.py."}, at),
    ]


@pytest.fixture
def follower(tmp_path: Path) -> Iterator[Follower]:
    follower = Follower(tmp_path, backfill="all")
    follower.settings["settle_timeout"] = 0.5
    with follower:
        yield follower


def row_when(follower: Follower, status: str, **wanted: Any) -> dict[str, Any]:
    """Return the session's row once it has this status."""
    deadline = time.monotonic() + 3 * TIMEOUT
    with follower.connect() as wire:
        while True:
            rows = wire.ask("sessions")["sessions"]
            if rows and rows[0]["status"] == status and wanted.items() <= rows[0].items():
                return dict(rows[0])
            assert time.monotonic() < deadline, rows
            time.sleep(0.01)  # between questions


def test_session_that_has_just_ended_is_completed_with_all_its_tokens(follower: Follower) -> None:
    for one in session(NOW):
        append(follower.session, [one])

    row = row_when(follower, "completed")

    assert (row["inputTokens"], row["cacheReadTokens"], row["outputTokens"]) == (2_000_020, 2_000_000, 200)
    assert round(row["costUsd"], 4) == 1.0051
    assert (row["turns"], row["durationMs"], row["turn"]) == (1, 3_000, "completed")


def test_session_that_goes_on_runs_again_and_counts_its_turn_once(follower: Follower) -> None:
    lines = session(NOW)
    append(follower.session, lines)
    row_when(follower, "completed")
    call = {"type": "tool_use", "id": "t2", "name": "Bash", "input": {"command": "cat a.py"}}
    append(follower.session, [said("a3", "msg_3", call, NOW + 2)])
    assert row_when(follower, "running")["turns"] == 1
    result = {"tool_use_id": "t2", "type": "tool_result", "content": ""}
    append(follower.session, [line("u3", "user", {"role": "user", "content": [result]}, NOW + 3)])
    append(follower.session, [said("a4", "msg_4", {"type": "text", "text": "It is empty."}, NOW + 4)])

    row = row_when(follower, "completed")
    assert (row["turns"], row["outputTokens"], row["errors"]) == (1, 400, 0)
    append(follower.session, [line("u4", "user", {"role": "user", "content": "Thanks."}, NOW + 10)])
    assert row_when(follower, "running")["turns"] == 2
    with follower.connect() as wire:
        events: list[tuple[str, str, bool]] = []
        wire.send("subscribe", after="start", filter={"kind": ["turn"]})
        while len(events) < 5:
            if "op" not in (event := wire.read()):
                events.append((event["turn"], event["state"], event.get("provisional", False)))
    assert events == [
        ("t1", "started", False),
        ("t1", "completed", True),
        ("t1", "completed", True),
        ("t1", "completed", False),
        ("t2", "started", False),
    ]


def test_old_file_that_was_copied_now_is_settled_at_once(tmp_path: Path) -> None:
    """The file is new, but its lines say when they were written."""
    follower = Follower(tmp_path, backfill="all")
    follower.settings["settle_timeout"] = 3600.0
    append(follower.session, session(NOW - 86_400))
    with follower:
        assert row_when(follower, "completed")["outputTokens"] == 200


def test_daemon_that_is_killed_before_it_settles_a_file(tmp_path: Path) -> None:
    follower = Follower(tmp_path, backfill="all")
    lines = session(NOW)
    append(follower.session, lines)
    with follower:
        follower.read(follower.session, len(lines))
        row_when(follower, "running")
        follower.settings["settle_timeout"] = 0.5
        follower.restart(follower.kill)

        row = row_when(follower, "completed")

        assert (row["turns"], row["outputTokens"]) == (1, 200)
        append(follower.session, [line("u4", "user", {"role": "user", "content": "Thanks."}, NOW + 10)])
        found = follower.events_when(lambda events: sum(one["kind"] == "turn" for one in events) == 4)
    assert [one["replaces"] for one in found if one["kind"] == "usage" and "replaces" in one] == []
    assert len({one["id"] for one in found}) == len(found)
    assert [one["code"] for one in found if one["kind"] == "notice"] == []
