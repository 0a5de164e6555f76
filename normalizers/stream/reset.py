"""A fresh parser in place of one whose state cannot be rebuilt, because of an upgrade or because it is gone.

Whatever the lost state had open is closed as at the end of a stream, so that nothing hangs: calls are interrupted, and
a real result that still comes names the synthetic one it replaces.
"""

from __future__ import annotations

import msgspec

from tooltap.normalizers.core.calls_state import Call
from tooltap.normalizers.core.items import Item
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import PendingPermission
from tooltap.protocol.events import Notice
from tooltap.protocol.stats import Statistics

__all__ = ["LeftOpen", "restart"]


class LeftOpen(msgspec.Struct, frozen=True):
    """What the journal knows about the lost state."""

    calls: dict[str, Call] = {}
    permissions: dict[str, PendingPermission] = {}
    session: str | None = None
    """Of the stream's last event."""


def restart(parser: Parser, lines: int, statistics: Statistics, left: LeftOpen, t: int | None) -> list[Item]:
    """Make a fresh parser continue after line `lines` of a stream with these statistics."""
    state = parser.state
    state.line = lines
    state.turn_count = statistics.kinds.get("turn", 0)  # at least as many as were started: no number comes twice
    state.calls.open = left.calls
    state.permissions.pending = left.permissions
    parser.begin_between_lines(statistics.events, t)  # a second reset at the same line must not repeat an id
    parser.permissions.expire_all()
    parser.calls.close_all()
    parser.emit(
        Notice,
        session=left.session or parser.session,
        level="warning",
        code="parser-reset",
        text=f"the parser's state after line {lines} could not be rebuilt; it goes on with a fresh one",
    )
    items, parser.items = parser.items, []
    return items
