"""The running sessions, and what each is doing: combines what is known of sessions and of open calls.

Both come as JSON objects, so that a command can make it of the replies to `sessions` and `calls`, and the page of the
journal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

__all__ = ["GoingOn", "going_on"]


class GoingOn(NamedTuple):
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


def going_on(sessions: Sequence[dict[str, Any]], opened: dict[str, Any]) -> list[GoingOn]:
    """Return those of the sessions that run or wait for the user, in their order. `opened`: the open calls and
    permissions (the result of `calls`)."""
    asked, calls = _by_session(opened["permissions"]), _by_session(opened["calls"])
    found = []
    for session in sessions:
        name = session["session"]
        if session.get("state") != "open":
            continue
        if name in asked:
            found.append(GoingOn(session, "waiting", asked[name], calls.get(name, [])))
        elif _runs(session):
            found.append(GoingOn(session, "running", [], calls.get(name, [])))
    return found


def _runs(session: dict[str, Any]) -> bool:
    """An older daemon says no `status`."""
    status = session.get("status") or ("running" if session.get("turn") == "started" else "")
    return bool(status == "running")


def _by_session(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["session"], []).append(row)
    return found
