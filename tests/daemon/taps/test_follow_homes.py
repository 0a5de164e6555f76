"""Stores that no environment variable moves are found in the user's home, and followed from the first line on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.daemon.taps.following import FIXTURES, Follower

TEXT = "It has 12 lines."
HOMES = {
    "agy": (
        ".gemini/antigravity-cli/brain/5f1c/.system_generated/logs/transcript.jsonl",
        "antigravity-transcript/antigravity-written",
    ),
    "code": (".config/Code/User/workspaceStorage/1f/chatSessions/0c1d.jsonl", "vscode-chat/vscode-written"),
    "cursor-agent": (".cursor/projects/ws/agent-transcripts/s1/s1.jsonl", "cursor-transcript/cursor-written"),
    "grok": (".grok/sessions/%2Fws/s1/chat_history.jsonl", "grok-history/grok-1.0-written"),
    "kiro-cli": (".kiro/sessions/ws/sess_1/messages.jsonl", "kiro-messages/kiro-cli-written"),
    "kiro-cli, older": (".kiro/sessions/cli/s1.jsonl", "kiro-session/kiro-cli-2.14-written"),
}
"""Agent -> (session in the user's home, folder of a recording of it)."""
TASK = ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/tasks/1795692000000/ui_messages.json"


def follow(folder: Path, agent: str, session: str, content: bytes) -> list[dict[str, object]]:
    """Return what becomes of a session that an agent has stored, once it has this text at its end."""
    path = folder / "home" / session
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    follower = Follower(folder, agents=[agent], backfill="all")
    follower.environment |= {"HOME": str(folder / "home"), "KIRO_HOME": "", "GROK_HOME": ""}
    with follower:
        return follower.events_when(lambda events: any(event.get("text") == TEXT for event in events))


@pytest.mark.process
@pytest.mark.parametrize("name", HOMES)
def test_session_in_the_home_is_followed(tmp_path: Path, name: str) -> None:
    session, recorded = HOMES[name]
    content = (FIXTURES / recorded / "count.jsonl").read_bytes()
    events = follow(tmp_path, name.partition(",")[0], session, content)

    assert {event["dialect"] for event in events} == {recorded.partition("/")[0]}
    assert next(event["text"] for event in events if event["kind"] == "message") == "Count the lines of notes.txt."


@pytest.mark.process
def test_task_of_a_fork_is_that_of_the_fork(tmp_path: Path) -> None:
    versions = (FIXTURES / "cline-tasks" / "roo-code-written" / "count.jsonl").read_bytes().splitlines()
    events = follow(tmp_path, "roo", TASK, versions[-1])

    assert {(event["provider"], event["session"]) for event in events} == {("roo", "1795692000000")}
