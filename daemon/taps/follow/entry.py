"""What the follower knows of a file that has been reported."""

from __future__ import annotations

from dataclasses import dataclass

from tooltap.daemon.taps.follow.file import FollowedFile, Seen
from tooltap.daemon.taps.follow.places import Found, Root
from tooltap.daemon.taps.follow.portions import Portion, Request

__all__ = ["Entry"]


@dataclass(slots=True)
class Entry:
    root: Root
    found: Found
    """Its state in the last report."""
    seen: Seen
    changed: bool = False
    """Whether it has changed since it was last read."""
    queued: bool = False
    """Whether it waits for a turn, or has turns."""
    is_old: bool = False
    """Whether it waits in the backlog."""
    file: FollowedFile | None = None
    result: tuple[Request, Portion | None] | None = None
    """What another process returned for the open file, and for which request."""
    touched: float = 0.0
    """When it was last read; monotonic seconds."""
