"""Status of sessions: which of them run, and what each is doing.

Sessions and open calls are the JSON objects of the replies to `sessions` and `calls`, so commands and pages share this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

STATUSES = {
    "running": "Running",
    "waiting": "Waiting for you",
    "failed": "Failed",
    "completed": "Done",
    "interrupted": "Interrupted",
}
"""The status of a session -> its words."""


class RunningSession(NamedTuple):
    session: dict[str, Any]
    status: Literal["running", "waiting"]
    asked: list[dict[str, Any]]
    """Its pending permissions and questions, oldest first."""
    calls: list[dict[str, Any]]
    """Its open calls, oldest first."""

    @property
    def since(self) -> int | None:
        """When what it does now began, in milliseconds since the epoch."""
        latest = self.asked[:1] or self.calls[-1:]
        since: int | None = latest[0].get("ts") if latest else self.session.get("lastTs")
        return since


def find_running(sessions: Sequence[dict[str, Any]], opened: dict[str, Any]) -> list[RunningSession]:
    """Return those of the sessions that run or wait for the user, in their order. `opened`: the open calls and
    permissions (the result of `calls`)."""
    asked, calls = _by_session(opened["permissions"]), _by_session(opened["calls"])
    found = []
    for session in sessions:
        name = session["session"]
        if session.get("state") != "open":
            continue
        if name in asked:
            found.append(RunningSession(session, "waiting", asked[name], calls.get(name, [])))
        elif status_of(session) == "running":
            found.append(RunningSession(session, "running", [], calls.get(name, [])))
    return found


def status_of(row: dict[str, Any]) -> str:
    """Return the status of a session's work: `running`, `waiting`, …"""
    return str(row["status"])


def is_live(row: dict[str, Any]) -> bool:
    """Return whether a session is running: its agent works, or waits for a person."""
    return status_of(row) in ("running", "waiting")


def _by_session(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["session"], []).append(row)
    return found
