"""Commits of sessions that change files."""

from __future__ import annotations

from typing import Any

from tests.daemon.events import call, commit, event
from tooltap.daemon.journal.interface import Commit
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import SessionEvent, ToolResult

HOUR = 3_600_000


def edited(call_id: str, path: str, old: str, new: str, status: str = "completed", **names: Any) -> list[Produced]:
    """A call that replaces a text, and its result."""
    given = {"file_path": path, "old_string": old, "new_string": new}
    answer: dict[str, Any] = {"output": {}, "status": status, "is_error": status == "failed"}
    return [
        call(call_id, name="Edit", input=given, **names),
        event(ToolResult, call_id=call_id, name="Edit", **answer, **names),
    ]


def two_sessions(start: int = 0) -> list[Commit]:
    """Session `one` of Gemini in `/work` changes `a.py` and `b.py` an hour after `start`, and `a.py` again 29 hours
    later. Session `two` of Claude in `/work/sub` changes `a.py` 40 hours after `start`; another edit fails. Lines of
    `a.py`: +2 -1, +0 -1, +1 -1; of `b.py`: +5 -0."""
    one: dict[str, Any] = {"stream": "one", "session": "one", "ts": start + HOUR}
    later = {**one, "ts": start + 30 * HOUR}
    two: dict[str, Any] = {"stream": "two", "session": "two", "provider": "claude", "ts": start + 40 * HOUR}
    return [
        commit(
            event(SessionEvent, state="started", cwd="/work", title="First", **one),
            *edited("1", "a.py", "x\n", "y\nz\n", **one),
            *edited("2", "b.py", "", "1\n2\n3\n4\n5\n", **one),
            *edited("3", "a.py", "z\n", "", **later),
            stream="one",
        ),
        commit(
            event(SessionEvent, state="started", cwd="/work/sub", **two),
            *edited("1", "../a.py", "y\n", "w\n", **two),
            *edited("2", "never.py", "y\n", "w\n", status="failed", **two),
            stream="two",
        ),
    ]
