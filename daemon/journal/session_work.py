"""How a session's work goes: its turns, how long it has worked, what has failed, and its status."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from tooltap.normalizers.core.items import Produced
from tooltap.protocol.replies import SessionStatus, TurnState

__all__ = ["Work"]

_OUTCOMES: dict[TurnState | None, SessionStatus] = {
    "started": "running",
    "failed": "failed",
    "cancelled": "interrupted",
    "completed": "completed",
    None: "completed",
}


class Work(msgspec.Struct, omit_defaults=True):
    """Turns are those of the main agent."""

    KINDS: ClassVar = ("turn", "tool-result")

    turn: TurnState | None = None
    """State of the last turn."""
    turns: int = 0
    errors: int = 0
    """Calls and turns that failed."""
    milliseconds: int | None = None
    """Of the turns that have ended; None if the time of none is known."""
    since: int | None = None
    """When the open turn started."""

    def note(self, seq: int, ts: int | None, entry: Produced) -> None:
        if entry.kind == "tool-result":
            self.errors += entry.fields.is_error
        elif entry.agent is None:
            self._note_turn(ts, entry)

    def _note_turn(self, ts: int | None, entry: Produced) -> None:
        self.turn = entry.fields.state
        if self.turn == "started":
            self.turns += 1
            self.since = ts
            return
        self.errors += self.turn == "failed"
        spent = entry.fields.duration_ms
        if spent is None and self.since is not None and ts is not None:
            spent = max(ts - self.since, 0)
        if spent is not None:
            self.milliseconds = (self.milliseconds or 0) + spent
        self.since = None

    def absorb(self, earlier: Work) -> None:
        if self.turn is None:
            self.turn, self.since = earlier.turn, earlier.since
        self.turns += earlier.turns
        self.errors += earlier.errors
        if earlier.milliseconds is not None:
            self.milliseconds = (self.milliseconds or 0) + earlier.milliseconds

    def duration(self, first: int | None, last: int | None) -> int | None:
        """Milliseconds of all turns, the open one until now: `last`. From `first` to `last` if no turn has a time."""
        if last is not None and self.since is not None:
            return (self.milliseconds or 0) + max(last - self.since, 0)
        if self.milliseconds is None and first is not None and last is not None:
            return last - first
        return self.milliseconds

    def outcome(self, *, ended: bool) -> SessionStatus:
        """The status as far as it follows from events: `running` if a stream of the session is open, else that is
        `interrupted`. `ended`: the agent has reported the end."""
        return "interrupted" if ended and self.turn == "started" else _OUTCOMES[self.turn]

    def status(self, *, ended: bool, is_open: bool, pending: bool) -> SessionStatus:
        """`is_open`: a stream of the session is. `pending`: a permission request has no response."""
        if pending:
            return "waiting" if is_open else "interrupted"
        outcome = self.outcome(ended=ended)
        return "interrupted" if outcome == "running" and not is_open else outcome
