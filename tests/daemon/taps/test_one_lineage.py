"""A subagent's file, where `run` taps the agent: its parent is the call as the tap reports it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.taps.following import Follower, append, publish
from tests.daemon.taps.test_follow_agents import FAMILIES, Family, of_child, write


def exec_line(kind: str, **item: Any) -> bytes:
    spawn = {"id": "item_1", "type": "collab_tool_call", "tool": "spawn_agent", "prompt": "Find it.", **item}
    return json.dumps({"type": f"item.{kind}", "item": spawn}).encode()


def printed_by_codex(family: Family) -> list[bytes]:
    started = json.dumps({"type": "thread.started", "thread_id": family.session}).encode()
    states = {family.agent: {"status": "pending_init", "message": None}}
    return [
        started,
        b'{"type":"turn.started"}',
        exec_line("started", status="in_progress", receiver_thread_ids=[], agents_states={}),
        exec_line("completed", status="completed", receiver_thread_ids=[family.agent], agents_states=states),
    ]


def printed_by_gemini(family: Family) -> list[bytes]:
    stamp = "2026-10-07T08:30:00.000Z"
    call = {"tool_name": "codebase_investigator", "tool_id": family.call, "parameters": {"objective": "Find it."}}
    records: list[dict[str, Any]] = [
        {"type": "init", "timestamp": stamp, "session_id": family.session, "model": "m"},
        {"type": "message", "timestamp": stamp, "role": "user", "content": "Find it."},
        {"type": "tool_use", "timestamp": stamp, **call},
        {"type": "tool_result", "timestamp": stamp, "tool_id": family.call, "status": "success", "output": "Found."},
    ]
    return [json.dumps(one).encode() for one in records]


@pytest.mark.parametrize("family", ["codex-0.169", "gemini"])
def test_parent_is_the_call_that_the_tap_reports(family: str, tmp_path: Path) -> None:
    known = FAMILIES[family]
    is_codex = family.startswith("codex")
    with Follower(tmp_path) as follower, follower.connect() as wire:
        publish(wire, "run-1", printed_by_codex(known) if is_codex else printed_by_gemini(known))
        child = write(follower, known, known.child_file, known.child[:-1])
        parent = write(follower, known, known.parent_file, known.parent)
        follower.read(parent, len(known.parent))
        follower.read(child, len(known.child) - 1)
        append(child, known.child[-1:])
        follower.read(child, len(known.child))
        events = follower.events_when(lambda events: any("parent" in one for one in of_child(events, known)))

    parents = {one.get("parent") for one in of_child(events, known)} - {None}
    assert parents == {"item_1" if is_codex else known.call}
    calls = [one["callId"] for one in events if one["kind"] == "tool-call" and "agent" not in one]
    assert calls == list(parents)
