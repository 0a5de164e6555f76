"""Chats that Gemini CLI rewrites as one JSON document per message: each event is emitted once."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.daemon.taps.following import DOCUMENT, FIXTURES, NEVER, Follower, events_of, expected, ids, lines_of
from tooltap.daemon.taps.stream_ids import recording_id

CHAT = json.loads(DOCUMENT.read_bytes())
MESSAGES = len(CHAT["messages"])


def save(path: Path, messages: int) -> None:
    """Save like Gemini CLI: the whole document, in place, without a newline at the end."""
    path.write_bytes(document(messages))


def document(messages: int) -> bytes:
    return json.dumps({**CHAT, "messages": CHAT["messages"][:messages]}, indent=2).encode()


def contents(events: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the texts, calls and results of a chat."""
    keys = {"message": "text", "tool-call": "callId", "tool-result": "callId"}
    return [(event["kind"], event[keys[event["kind"]]]) for event in events if event["kind"] in keys]


@pytest.fixture
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """Return the content of the whole chat, ingested at once."""
    with Follower(tmp_path_factory.mktemp("whole")) as follower:
        save(follower.chats / "session-1.json", MESSAGES)
        return contents(follower.events_when(lambda events: any(event["kind"] == "tool-result" for event in events)))


DOCUMENTS = {
    "cline-session/cline-3.0.65/edit": ("cline", "CLINE_DIR", "data/sessions/one/one.messages.json"),
    "continue-session/continue-1.5.47/edit": ("cn", "CONTINUE_GLOBAL_DIR", "sessions/one.json"),
}
"""Recording, a version of the document on each line -> agent, variable, place."""


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_version_of_a_document_is_read(tmp_path: Path, name: str) -> None:
    agent, variable, place = DOCUMENTS[name]
    versions = lines_of(FIXTURES / f"{name}.jsonl")
    follower = Follower(tmp_path, agents=[agent])
    follower.settings |= NEVER
    follower.environment[variable] = str(tmp_path / agent)
    path = tmp_path / agent / place
    path.parent.mkdir(parents=True)
    (path.parent / "sessions.json").write_text("[]")
    with follower:
        for number, version in enumerate(versions, 1):
            path.write_bytes(version)
            follower.read(path, number)
            if number == len(versions) // 2:
                follower.restart(follower.kill)
        wanted = expected(path, name.partition("/")[0], versions)
        events = follower.events_when(lambda events: len(events) >= len(wanted))

    assert ids(events) == wanted
    assert {event["stream"] for event in events} == {recording_id(str(path))}


def test_subagents_of_cline_belong_to_the_session_that_names_its_folder(tmp_path: Path) -> None:
    def said(number: int, role: str, text: str) -> dict[str, Any]:
        return {"id": f"m{number}", "role": role, "content": [{"type": "text", "text": text}], "ts": number}

    lead: dict[str, Any] = {"sessionId": "one", "origin": {"mode": "user", "version": "3.0.65"}}
    origin = {"mode": "subagent", "parentThreadId": "one", "subagent": "agent_1"}
    helper = {"sessionId": "one__agent_1", "origin": origin, "messages": [said(1, "user", "Find it.")]}
    prompt = "<env>\n3. IDE: Terminal Shell\n4. Working Directory: /tmp/ws\n</env>"
    follower = Follower(tmp_path, agents=["cline"])
    follower.environment["CLINE_DIR"] = str(tmp_path / "cline")
    folder = tmp_path / "cline/data/sessions/one"
    folder.mkdir(parents=True)
    with follower:
        path = folder / "one.messages.json"
        path.write_text(json.dumps({**lead, "messages": []}))
        follower.read(path, 1)
        (folder / "agent_1.messages.json").write_text(json.dumps(helper))
        messages = [said(2, "user", "Where is it?"), said(3, "assistant", "There.")]
        path.write_text(json.dumps({**lead, "messages": messages, "system_prompt": prompt}))
        events = follower.events_when(lambda events: len(contents(events)) == 3)

    assert {event["session"] for event in events} == {"one"}
    assert {event["text"]: event.get("agent") for event in events if event["kind"] == "message"} == {
        "Find it.": "agent_1",
        "Where is it?": None,
        "There.": None,
    }
    assert [event["cwd"] for event in events if event.get("cwd")] == ["/tmp/ws"]


def chat(follower: Follower) -> Path:
    return follower.chats / "session-2025-11-08T10-00-0e8b5a1c.json"


def test_rewritten_document_emits_events_once(tmp_path: Path, whole: list[tuple[str, str]]) -> None:
    with Follower(tmp_path) as follower:
        path = chat(follower)
        for messages in range(1, MESSAGES + 1):
            save(path, messages)
            follower.read(path, messages)
        events = follower.events_when(lambda events: len(contents(events)) >= len(whole))

    assert contents(events) == whole
    assert len(whole) == len(set(whole))
    assert {event["session"] for event in events} == {CHAT["sessionId"]}


def test_restart_between_versions(tmp_path: Path, whole: list[tuple[str, str]]) -> None:
    with Follower(tmp_path) as follower:
        path = chat(follower)
        for messages in range(1, MESSAGES + 1):
            follower.restart(follower.kill)
            save(path, messages)
            follower.read(path, messages)
        follower.restart(follower.stop)
        follower.wait_stats(lambda stats: not stats["following"]["waiting"])
        events = follower.events_when(lambda events: len(contents(events)) >= len(whole))

    assert contents(events) == whole


def test_incomplete_document_waits(tmp_path: Path, whole: list[tuple[str, str]]) -> None:
    with Follower(tmp_path) as follower:
        path = chat(follower)
        save(path, 1)
        follower.read(path, 1)
        path.write_bytes(document(MESSAGES)[:-40])
        os.utime(path, (1_800_000_000, 1_800_000_000))
        save(path, 1)
        save(path, MESSAGES)
        follower.read(path, 2)
        events = follower.events_when(lambda events: len(contents(events)) >= len(whole))

    assert contents(events) == whole


def test_too_long_document_is_unparsed(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    follower.settings["stream"] = {"line_bytes": 2_000}
    with follower:
        save(chat(follower), 1)
        follower.read(chat(follower), 1)
        save(chat(follower), MESSAGES)
        events = follower.events_when(lambda events: any(event["kind"] == "unparsed" for event in events))

    assert [event["reason"] for event in events if event["kind"] == "unparsed"] == ["too-long"]


def test_document_that_is_too_long_at_first_counts_as_unparsed(tmp_path: Path) -> None:
    """It names no session, so there is none to report it in."""
    follower = Follower(tmp_path)
    follower.settings["stream"] = {"line_bytes": 200}
    with follower:
        save(chat(follower), 1)
        read = follower.read(chat(follower), 1)

    assert (read["unparsed"], read["events"]) == (1, 0)


def test_document_stream_has_a_line_per_version(tmp_path: Path) -> None:
    """A trace and a rebuilt parser see one line per version."""
    with Follower(tmp_path) as follower:
        path = chat(follower)
        save(path, MESSAGES)
        wanted = events_of(recording_id(str(path)), "gemini-chat", [document(MESSAGES)], CHAT["sessionId"])
        events = follower.events_when(lambda events: len(events) == len(wanted))

    assert [event["id"] for event in events] == wanted
    assert orjson.loads(document(MESSAGES)) == CHAT
