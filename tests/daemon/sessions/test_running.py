"""Which sessions are running, and what each does: one derivation for `tooltap top` and the board."""

from __future__ import annotations

from typing import Any

from tooltap.daemon.sessions.listing import find_running


def session(name: str, **fields: Any) -> dict[str, Any]:
    return {"session": name, "state": "open", "lastTs": 5, **fields}


def test_sessions_that_run_or_wait() -> None:
    sessions = [
        session("runs", status="running"),
        session("done", status="completed"),
        session("asks", status="waiting"),
        session("idle", status="running"),
        session("left", status="interrupted", state="suspended"),
    ]
    opened = {
        "calls": [{"session": "runs", "callId": "1", "ts": 7}, {"session": "runs", "callId": "2", "ts": 8}],
        "permissions": [{"session": "asks", "permissionId": "p", "ts": 9}, {"session": "asks", "permissionId": "q"}],
    }

    found = {one.session["session"]: one for one in find_running(sessions, opened)}

    assert {name: one.status for name, one in found.items()} == {
        "runs": "running",
        "asks": "waiting",
        "idle": "running",
    }
    assert [one["callId"] for one in found["runs"].calls] == ["1", "2"]
    assert [one["permissionId"] for one in found["asks"].asked] == ["p", "q"]
    assert {name: one.since for name, one in found.items()} == {"runs": 8, "asks": 9, "idle": 5}


def test_what_a_lost_publisher_asked_is_not_waited_for() -> None:
    lost = [session("lost", state="suspended", status="interrupted")]

    assert find_running(lost, {"calls": [], "permissions": [{"session": "lost", "permissionId": "p"}]}) == []
