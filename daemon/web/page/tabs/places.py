"""Where in a session something happened: in which turn, when, by which call; and the link there."""

from __future__ import annotations

from typing import NamedTuple

from tooltap.daemon.web.page.addresses import session_url

__all__ = ["Place", "TurnCount", "place_url"]


class Place(NamedTuple):
    seq: int
    ts: int | None
    turn: int
    """Number of the main agent's turn; 0 before the first."""
    name: str = ""
    """The tool, or what else it was."""


class TurnCount:
    """Numbers the turns of the main agent, from 1."""

    def __init__(self) -> None:
        self.number = 0

    def note(self, state: str, agent: str | None) -> bool:
        """Count a `turn` event; whether a turn of the main agent starts."""
        starts = state == "started" and agent is None
        self.number += starts
        return starts


def place_url(session: str, seq: int) -> str:
    """Return the address of an event in its session."""
    return f"{session_url(session, at=seq)}#e{seq}"
