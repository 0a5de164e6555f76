"""What every parser remembers from line to line; dialects derive from `State` and add fields of their own."""

from __future__ import annotations

import msgspec

from tooltap.normalizers.core.calls_state import CallsState
from tooltap.normalizers.core.text_buffer import TextBuffer
from tooltap.normalizers.wire.documents import Documents

__all__ = [
    "OpenText",
    "OpenTurn",
    "PendingPermission",
    "PermissionsState",
    "SessionState",
    "State",
    "TextsState",
]


class OpenTurn(msgspec.Struct, omit_defaults=True):
    id: str
    session: str
    agent: str | None = None
    origin: tuple[str, str] | None = None
    """(protocol, provider), where it is not the stream's."""
    answered: bool = False
    """The last thing in it is a whole message of the agent: if nothing follows, that was its answer."""


class PendingPermission(msgspec.Struct, omit_defaults=True):
    session: str
    call_id: str | None = None
    turn: str | None = None
    agent: str | None = None
    origin: tuple[str, str] | None = None
    allowing: list[str] = []
    """Ids of the options that allow."""


class PermissionsState(msgspec.Struct, omit_defaults=True):
    pending: dict[str, PendingPermission] = {}


class OpenText(msgspec.Struct, omit_defaults=True):
    """A block of text that is being received."""

    role: str
    """user, assistant, system, or `reasoning`."""
    session: str
    buffer: TextBuffer
    agent: str | None = None
    parent: str | None = None
    turn: str | None = None
    ts: int | None = None
    message_id: str | None = None
    block: int | None = None
    replay: bool = False
    preview: bool = False
    """The whole block was to come on a later line. If it is emitted from here instead, that is an inference."""


class TextsState(msgspec.Struct, omit_defaults=True):
    open: dict[str, OpenText] = {}
    """Key (session, agent and, where a dialect interleaves blocks, block) -> the block being received."""


class State(msgspec.Struct, kw_only=True):
    line: int = 0
    session: str | None = None
    """The provider's own id of the root session, once seen."""
    named: bool = False
    """Events were emitted under the publisher's name for the session, before the provider's id was seen."""
    provider: str | None = None
    """The provider that the stream states."""
    turns: list[OpenTurn] = []
    """Oldest first; turns may overlap."""
    turn_count: int = 0
    cwd: str | None = None
    """The session's working directory, where the stream states it; previews show paths relative to it."""
    calls: CallsState = msgspec.field(default_factory=CallsState)
    permissions: PermissionsState = msgspec.field(default_factory=PermissionsState)
    texts: TextsState = msgspec.field(default_factory=TextsState)
    documents: Documents = msgspec.field(default_factory=Documents)


class SessionState(State, kw_only=True):
    """For dialects whose lines state that a session begins: see `Emitter.begin_session`."""

    started: str | None = None
    """The session that was started last."""
