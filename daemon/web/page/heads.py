"""The head of a stored event: the fields that decide its card and level, decoded without the rest."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tooltap.daemon.journal.interface import StoredEvent

__all__ = ["CallKey", "Head", "head_of"]

CallKey: TypeAlias = tuple[str, str]
"""Stream and call id; the call id is empty for an event without a call."""


class Head(msgspec.Struct, rename="camel"):
    kind: str
    stream: str
    dialect: str
    id: str = ""
    session: str = ""
    name: str | None = None
    call_id: str | None = None
    agent: str | None = None
    parent: str | None = None
    status: str | None = None
    """Of a call, an update, or a result."""
    turn_state: str | None = msgspec.field(default=None, name="state")
    """Of a turn: `started`, or how it ended; of a session something else."""
    scope: str | None = None
    """Of usage."""
    outcome: str | None = None
    """Of a response to a permission request."""
    async_: bool = msgspec.field(default=False, name="async")
    synthetic: bool = False
    replaces: str | None = None

    @property
    def key(self) -> CallKey:
        return self.stream, self.call_id or ""

    @property
    def is_end(self) -> bool:
        """Whether the call has ended: it has a result that is not only the acknowledgement of background work."""
        return self.kind == "tool-result" and not self.async_

    @property
    def state(self) -> str | None:
        """The state of the call after this event; None if it does not change."""
        if self.kind == "permission-request":
            return "awaiting-permission"
        if self.kind == "permission-response":
            return "running" if self.outcome in ("allowed", "answered") else None
        return self.status if self.kind != "tool-result" or self.is_end else None


_decoder = msgspec.json.Decoder(Head)


def head_of(stored: StoredEvent) -> Head:
    return _decoder.decode(stored.body)
