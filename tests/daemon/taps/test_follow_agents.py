"""Subagents' files: their events name the agent and the call that has started it, whichever file comes first."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.daemon.taps.following import FIXTURES, Follower, append, lines_of

CLAUDE = FIXTURES / "claude-transcript" / "claude-code-2.1.330"
CODEX = FIXTURES / "codex-rollout"
GEMINI = FIXTURES / "gemini-chat" / "gemini-written"


class Family(NamedTuple):
    """The files of a session and its subagent, relative to the folder of a `Follower`."""

    folder: Callable[[Follower], Path]
    session: str
    agent: str
    call: str
    parent_file: str
    parent: Sequence[bytes]
    child_file: str
    child: Sequence[bytes]


def encoded(*records: dict[str, Any]) -> list[bytes]:
    return [json.dumps(one).encode() + b"\n" for one in records]


def codex_parent(thread: str, *records: dict[str, Any]) -> list[bytes]:
    meta = {"type": "session_meta", "payload": {"id": thread, "cwd": "/w", "cli_version": "0.169.0"}}
    call = {"type": "function_call", "name": "spawn_agent", "arguments": '{"message": "Find it."}', "call_id": "call_1"}
    return encoded(meta, {"type": "response_item", "payload": call}, *records)


def codex(version: str, recording: str, session: str, agent: str, *records: dict[str, Any]) -> Family:
    return Family(
        lambda follower: follower.rollouts,
        session,
        agent,
        "call_1",
        f"rollout-2026-11-21T00-00-00-{session}.jsonl",
        codex_parent(session, *records),
        f"rollout-2026-11-21T00-00-01-{agent}.jsonl",
        lines_of(CODEX / version / f"{recording}.jsonl"),
    )


def item(**fields: Any) -> dict[str, Any]:
    return {"type": "event_msg", "payload": {"type": "item_completed", "item": {"id": "call_1", **fields}}}


def answered(text: str) -> dict[str, Any]:
    """What the model gets: the line after an item."""
    return {"type": "response_item", "payload": {"type": "function_call_output", "call_id": "call_1", "output": text}}


CLAUDE_SESSION, CLAUDE_AGENT = "2f40b229-18f4-43db-8092-c2cc387ac019", "ad0a7d162f9d16959"
OF_120, OF_169 = "01a1ffe4-71f6-7373-a66b-a4fe40263805", "01a1ffd9-711d-74f1-ac7e-b8f138bb7b5a"
WITH_HISTORY = "01a1ffd9-d06b-78e3-b04a-7feee4f54056"
FAMILIES = {
    "claude": Family(
        lambda follower: follower.projects,
        CLAUDE_SESSION,
        CLAUDE_AGENT,
        "toolu_01f4dfea411e7f4c22aef2c79d",
        f"{CLAUDE_SESSION}.jsonl",
        lines_of(CLAUDE / "subagent-async.jsonl"),
        f"{CLAUDE_SESSION}/subagents/agent-{CLAUDE_AGENT}.jsonl",
        lines_of(CLAUDE / "subagent-async.agent.jsonl"),
    ),
    "codex-0.120": codex(
        "codex-0.120",
        "subagent",
        OF_120,
        (agent := "01a1ffe4-7306-74d3-bc4d-c463731d1647"),
        {
            "type": "response_item",
            "payload": {"type": "function_call_output", "call_id": "call_1", "output": f'{{"agent_id":"{agent}"}}'},
        },
    ),
    "codex-0.169": codex(
        "codex-0.169",
        "subagent",
        OF_169,
        (agent := "01a1ffd9-71b0-7331-889c-f681de0a3225"),
        item(
            type="CollabAgentToolCall",
            tool="spawn_agent",
            status="completed",
            sender_thread_id=OF_169,
            receiver_thread_ids=[agent],
            agents_states={agent: "pending_init"},
        ),
        answered("Spawned."),
    ),
    "codex-path": codex(
        "codex-0.169",
        "subagent",
        OF_169,
        (agent := "01a1ffd9-71b0-7331-889c-f681de0a3225"),
        item(type="SubAgentActivity", kind="started", agent_path="/root/find", agent_thread_id=agent),
        answered('{"task_name":"/root/find"}'),
    ),
    "gemini": Family(
        lambda follower: follower.chats,
        (session := json.loads(lines_of(GEMINI / "subagent-call.jsonl")[0])["sessionId"]),
        (agent := "20000000-0000-4000-8000-000000000001"),
        next(
            call["id"]
            for line in lines_of(GEMINI / "subagent-call.jsonl")
            for call in json.loads(line).get("toolCalls", ())
            if call.get("agentId") == agent
        ),
        "session-1.jsonl",
        lines_of(GEMINI / "subagent-call.jsonl"),
        f"{session}/{agent}.jsonl",
        lines_of(GEMINI / "subagent-chat.jsonl"),
    ),
}


@pytest.fixture(params=sorted(FAMILIES))
def family(request: pytest.FixtureRequest) -> Family:
    return FAMILIES[request.param]


def write(follower: Follower, family: Family, file: str, lines: Sequence[bytes]) -> Path:
    path = family.folder(follower) / file
    path.parent.mkdir(parents=True, exist_ok=True)
    append(path, lines)
    return path


def of_child(events: Sequence[dict[str, Any]], family: Family) -> list[dict[str, Any]]:
    """The events of the subagent's file, without those that repeat its parent's history."""
    name = Path(family.child_file).stem
    return [one for one in events if one["stream"].startswith(name) and not one.get("replay")]


def check(events: Sequence[dict[str, Any]], family: Family) -> None:
    assert {one["session"] for one in events} == {family.session}
    assert {one.get("agent") for one in of_child(events, family)} == {family.agent}


def test_parent_comes_first(family: Family, tmp_path: Path) -> None:
    with Follower(tmp_path) as follower:
        path = write(follower, family, family.parent_file, family.parent)
        follower.read(path, len(family.parent))
        path = write(follower, family, family.child_file, family.child)
        follower.read(path, len(family.child))
        events = follower.events_when(lambda events: bool(of_child(events, family)))

    check(events, family)
    assert {one.get("parent") for one in of_child(events, family)} == {family.call}
    assert not [one for one in events if one.get("replay") and one.get("parent")]


def test_file_that_repeats_its_parents_history_names_the_call(tmp_path: Path) -> None:
    lines = lines_of(CODEX / "codex-0.169" / "subagent-with-history.jsonl")
    with Follower(tmp_path) as follower:
        path = follower.rollouts / "rollout-2026-11-21T00-00-01-01a1ffd9-d0fc-7611-91b7-66045ff16b31.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        append(path, lines)
        follower.read(path, len(lines))
        events = follower.events_when(lambda events: any("parent" in one for one in events))

    parents = [one.get("parent") for one in events if not one.get("replay")]
    assert parents[-1] == "call_64fe5755bea348268897a35d"
    assert set(parents) <= {None, parents[-1]}
    assert not [one for one in events if one.get("replay") and one.get("parent")]
    assert {one["session"] for one in events} == {WITH_HISTORY}


@pytest.mark.parametrize("between", ["nothing", "kill"])
def test_child_comes_first(between: str, family: Family, tmp_path: Path) -> None:
    """One event says it of all before, and those after have it, also those of a later daemon."""
    *first, last = family.child
    with Follower(tmp_path) as follower:
        child = write(follower, family, family.child_file, first)
        follower.read(child, len(first))
        if between == "kill":
            follower.restart(follower.kill)
        write(follower, family, family.parent_file, family.parent)
        follower.events_when(lambda events: any("parent" in one for one in of_child(events, family)))
        if between == "kill":
            follower.restart(follower.kill)
        append(child, [last])
        follower.read(child, len(family.child))
        follower.restart(follower.stop)
        events = follower.events_when(lambda events: any("parent" in one for one in of_child(events, family)))

    check(events, family)
    parents = [one.get("parent") for one in of_child(events, family)]
    at = parents.index(family.call)
    assert set(parents[:at]) <= {None}
    assert set(parents[at:]) == {family.call}
    [tie] = [one for one in of_child(events, family) if one["id"].rpartition(":")[0].endswith("d")]
    assert (tie["kind"], tie["state"], tie["synthetic"]) == ("session", "updated", True)
    assert "parser-reset" not in {one.get("code") for one in events}
    assert len({one["id"] for one in events}) == len(events)


def test_note_beside_the_file(tmp_path: Path) -> None:
    """Claude Code writes one: nothing needs to be known of the parent's file."""
    family = FAMILIES["claude"]
    with Follower(tmp_path) as follower:
        note = json.dumps({"agentType": "general-purpose", "toolUseId": family.call}).encode()
        write(follower, family, family.child_file.replace(".jsonl", ".meta.json"), [note])
        child = write(follower, family, family.child_file, family.child)
        follower.read(child, len(family.child))
        events = follower.events_when(lambda events: bool(of_child(events, family)))

    check(events, family)
    assert {one.get("parent") for one in of_child(events, family)} == {family.call}
    assert [one for one in events if ":1000" in one["id"]] == []


@pytest.mark.parametrize("note", [b"", b"{", b"[]", b'{"toolUseId": 1}', b'{"toolUseId": ""}'])
def test_note_that_says_nothing(note: bytes, tmp_path: Path) -> None:
    family = FAMILIES["claude"]
    with Follower(tmp_path) as follower:
        write(follower, family, family.child_file.replace(".jsonl", ".meta.json"), [note])
        child = write(follower, family, family.child_file, family.child)
        follower.read(child, len(family.child))
        events = follower.events_when(lambda events: bool(of_child(events, family)))

    check(events, family)
    assert {one.get("parent") for one in of_child(events, family)} == {None}


# -- a subagent in lines of the session's file, and in a file of its own ---------------------------------------------

IN_PROGRESS = lines_of(CLAUDE.parent / "claude-code-2.1.39-written" / "subagent-in-progress.jsonl")
IN_PROGRESS_SESSION = "11111111-0000-4000-8000-000000000039"


def own_lines() -> list[bytes]:
    """The lines of the subagent's own file: the messages in `progress` lines."""
    chain = {"isSidechain": True, "agentId": "a2898e3", "sessionId": IN_PROGRESS_SESSION, "parentUuid": None}
    progress = [json.loads(line) for line in IN_PROGRESS if b'"agent_progress"' in line]
    return encoded(*({**one["data"]["message"], **chain} for one in progress))


def calls_of_subagent(events: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(one["callId"] for one in events if one["kind"] == "tool-call" and one.get("agent") == "a2898e3")


def test_what_the_session_repeats_of_a_subagent_with_a_file_is_left_out(tmp_path: Path) -> None:
    """`Glob` and `Bash`, once each, by the subagent's file; and one call by the main agent."""
    with Follower(tmp_path) as follower:
        session = follower.projects / f"{IN_PROGRESS_SESSION}.jsonl"
        own = follower.projects / IN_PROGRESS_SESSION / "subagents" / "agent-a2898e3.jsonl"
        own.parent.mkdir(parents=True)
        append(own, own_lines())
        follower.read(own, len(own_lines()))
        append(session, IN_PROGRESS)
        follower.read(session, len(IN_PROGRESS))
        events = follower.events_when(lambda events: any(one.get("text") == "No views." for one in events))

    assert calls_of_subagent(events) == ["toolu_b1", "toolu_g1"]
    assert {one["stream"] for one in events if one.get("agent") == "a2898e3"} == {
        one["stream"] for one in events if one["stream"].startswith("agent-a2898e3")
    }
