"""What every parser remembers from line to line; dialects add fields of their own."""

from __future__ import annotations

import msgspec

from tooltap.normalizers.core.calls_state import CallsState
from tooltap.normalizers.core.permissions import PermissionsState
from tooltap.normalizers.core.texts import TextsState
from tooltap.normalizers.wire.documents import Documents

__all__ = ["OpenTurn", "State"]


class OpenTurn(msgspec.Struct, omit_defaults=True):
    id: str
    session: str
    agent: str | None = None
    origin: tuple[str, str] | None = None
    """(protocol, provider), where it is not the stream's."""


class State(msgspec.Struct, kw_only=True):
    line: int = 0
    session: str | None = None
    """The provider's own id of the root session, once seen."""
    named: bool = False
    """Events went out under the publisher's name for the session, before the provider's id was seen."""
    provider: str | None = None
    """What the stream says of itself."""
    turns: list[OpenTurn] = []
    """Oldest first; turns may overlap."""
    turn_count: int = 0
    cwd: str | None = None
    """The session's working directory, where the stream says it; previews show paths relative to it."""
    calls: CallsState = msgspec.field(default_factory=CallsState)
    permissions: PermissionsState = msgspec.field(default_factory=PermissionsState)
    texts: TextsState = msgspec.field(default_factory=TextsState)
    documents: Documents = msgspec.field(default_factory=Documents)
