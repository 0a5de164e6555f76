"""What a stream knows of the agents that its calls have started."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Spawned"]


class Spawned(NamedTuple):
    """A call has started an agent."""

    session: str
    agent: str
    call_id: str
    is_kept: bool = True
    """Whether the stream itself reports the call. If another one does, it may call it by another id."""
