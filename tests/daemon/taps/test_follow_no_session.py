"""Files beside the sessions of an agent that are no sessions, and sessions in which nothing was done."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.taps.following import CLAUDE, CLAUDE_SESSION, Follower, append, lines_of
from tooltap.daemon.taps.stream_ids import recording_id

STUB = {"type": "bridge-session", "sessionId": CLAUDE_SESSION, "bridgeSessionId": "b", "lastSequenceNum": 0}
UNKNOWN = {"type": "next-years-line", "sessionId": CLAUDE_SESSION}
LEDGER: list[dict[str, Any]] = [
    {"type": "started", "runId": "wf", "ts": 1},
    {"type": "agent_finished", "agentId": "a1", "result": "Done."},
]


@pytest.fixture
def follower(tmp_path: Path) -> Iterator[Follower]:
    with Follower(tmp_path, backfill="all") as follower:
        yield follower


def json_lines(*values: dict[str, Any]) -> list[bytes]:
    return [json.dumps(value).encode() + b"\n" for value in values]


def listed(follower: Follower, **filters: Any) -> list[str]:
    with follower.connect() as wire:
        return [one["session"] for one in wire.ask("sessions", **filters)["sessions"]]


def test_file_in_which_nothing_is_understood_is_no_session(follower: Follower) -> None:
    ledger = follower.projects / "workflows" / "wf_abc" / "ledger.jsonl"
    ledger.parent.mkdir(parents=True)
    append(ledger, json_lines(*LEDGER))
    read = follower.read(ledger, 2)
    append(follower.session, lines_of(CLAUDE))
    follower.read(follower.session, len(lines_of(CLAUDE)))

    assert (read["unparsed"], read["events"]) == (2, 0)
    assert listed(follower, empty=True) == [CLAUDE_SESSION]


def test_file_is_resumed_though_nothing_in_it_was_understood(follower: Follower) -> None:
    ledger = follower.projects / "ledger.jsonl"
    append(ledger, json_lines(*LEDGER))
    follower.read(ledger, 2)
    follower.restart(follower.stop)
    append(ledger, json_lines(*LEDGER))
    read = follower.read(ledger, 4)

    assert (read["unparsed"], read["events"]) == (4, 0)
    assert listed(follower, empty=True) == []


def test_line_of_an_unknown_type_belongs_to_the_session_that_it_states(follower: Follower) -> None:
    append(follower.session, lines_of(CLAUDE))
    stub, other = follower.projects / "stub.jsonl", follower.projects / "other.jsonl"
    append(stub, json_lines(STUB))
    append(other, json_lines(UNKNOWN))
    found = follower.events_when(lambda events: any(one["kind"] == "unparsed" for one in events))
    follower.read(stub, 1)
    follower.read(follower.session, len(lines_of(CLAUDE)))

    assert [one["session"] for one in found if one["stream"] == recording_id(str(other))] == [CLAUDE_SESSION]
    assert listed(follower, empty=True) == [CLAUDE_SESSION]


def test_session_that_was_only_opened_is_listed_on_request(follower: Follower) -> None:
    """Gemini CLI leaves such a file when a client of its ACP mode starts and leaves."""
    session = "d32c4121-70a0-4d48-a319-67b6eb364f57"
    context = [{"text": "<session_context>\nThis is the Gemini CLI.\n</session_context>"}]
    time = "2026-11-22T10:25:07.250Z"
    opened: list[dict[str, Any]] = [
        {"sessionId": session, "projectHash": "f9", "startTime": time, "lastUpdated": time, "kind": "main"},
        {"$set": {"messages": [{"id": "d0", "timestamp": time, "type": "user", "content": context}]}},
    ]
    chat = follower.chats / "session-2026-11-22T10-25-d32c4121.jsonl"
    append(chat, json_lines(*opened))
    follower.read(chat, 2)

    assert listed(follower) == []
    assert listed(follower, empty=True) == [session]
    assert listed(follower, session=[session]) == [session]
    with follower.connect() as wire:
        page = wire.ask("sessions", facets=True)
        assert page["facets"] == {"status": {}, "provider": {}, "project": {}}
        assert wire.ask("sessions", facets=True, empty=True)["facets"]["status"] == {"completed": 1}
