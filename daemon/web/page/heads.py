"""As much of a stored event as says whose card it is, and at which level that is shown, read without the rest."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tooltap.daemon.journal.interface import StoredEvent

__all__ = ["CallKey", "Head", "head_of"]

CallKey: TypeAlias = tuple[str, str]
"""Stream and call id; that of an event which is about no call is no call's."""


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
