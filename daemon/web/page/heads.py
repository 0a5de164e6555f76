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
    name: str | None = None
    call_id: str | None = None

    @property
    def key(self) -> CallKey:
        return self.stream, self.call_id or ""


_decoder = msgspec.json.Decoder(Head)


def head_of(stored: StoredEvent) -> Head:
    return _decoder.decode(stored.body)
