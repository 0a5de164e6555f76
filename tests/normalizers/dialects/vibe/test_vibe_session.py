"""The `vibe-session` dialect: totals, forks, and sessions that another one started."""

from __future__ import annotations

from typing import Any

from tests.normalizers.reading import of, read
from tooltap.protocol.events import Message, SessionEvent, Turn, Usage


def entry(name: str, role: str, session: str = "one", turn: str = "t1") -> dict[str, Any]:
    return {
        "id": name,
        "sessionId": session,
        "turnId": turn,
        "createdAt": 1_000,
        "updatedAt": 1_000,
        "type": "message",
        "generationStatus": "completed",
        "role": role,
        "content": [{"type": "text", "text": name}],
    }


def stored(*history: dict[str, Any], tokens: int = 0, turn: str = "t1", **meta: Any) -> dict[str, Any]:
    ended = {"id": turn, "status": "completed", "completedAt": 2_000}
    usage = {"inputTokens": tokens, "outputTokens": 0, "cachedInputTokens": 0}
    snapshot = {"session": {"id": "one", "tokenUsage": usage}, "latestTurn": ended}
    return {"meta": meta, "snapshot": snapshot, "history": list(history), "changes": []}


FIRST = (entry("a", "user"), entry("b", "assistant"))
SECOND = (entry("c", "user", turn="t2"), entry("d", "assistant", turn="t2"))


def test_total_is_the_sessions() -> None:
    found = read("vibe-session", stored(*FIRST, tokens=1200), stored(*FIRST, *SECOND, tokens=2400, turn="t2"))

    assert [(one.scope, one.counter, one.input_tokens) for one in of(Usage, found)] == [
        ("session", "session", 1200),
        ("session", "session", 2400),
    ]


def test_copied_entries_are_history() -> None:
    copied = (entry("a", "user", "parent"), entry("b", "assistant", "parent"))
    found = read("vibe-session", stored(*copied, *SECOND, tokens=1200, turn="t2"))

    assert [one.forked_from for one in of(SessionEvent, found) if one.forked_from] == ["parent"]
    assert {one.session for one in found} == {"one"}
    assert [(one.text, one.replay, one.turn) for one in of(Message, found)] == [
        ("a", True, None),
        ("b", True, None),
        ("c", False, "t2"),
        ("d", False, "t2"),
    ]
    assert [(one.turn, one.state) for one in of(Turn, found)] == [("t2", "started"), ("t2", "completed")]


def test_session_that_another_one_started_names_it() -> None:
    found = read("vibe-session", stored(*FIRST, parent_session_id="parent"))

    assert [one.parent_session for one in of(SessionEvent, found) if one.parent_session] == ["parent"]
