"""State of a parser between two lines: turns, calls, permissions, texts. Dialects derive from `State`."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec

from tooltap.normalizers.core.text_buffer import TextBuffer
from tooltap.normalizers.wire.documents import Documents
from tooltap.protocol.events import OutputRef


class Known(msgspec.Struct, omit_defaults=True):
    """Fields of a call that are remembered after it is done."""

    raw_name: str
    name: str
    session: str
    agent: str | None = None
    parent: str | None = None
    turn: str | None = None
    origin: tuple[str, str] | None = None
    """(protocol, provider), where it is not the stream's."""
    wire_id: str | None = None
    """The id on the wire, where another call had it before."""
    source: str = ""
    """The kind of line that opened it, where the dialect distinguishes them."""
    told: tuple[int, ...] = ()
    """CRC of the canonical input as it was emitted first, and last."""
    made_up: bool = False
    """Only its result was seen."""

    def shared(self) -> tuple[Any, ...]:
        """The values a call shares with its tombstone, in the order of the fields."""
        return _shared(self)


_shared: Callable[[Known], tuple[Any, ...]] = attrgetter(*Known.__struct_fields__)


# `gc=False`: there are many calls and tombstones, and they hold only strings and JSON, so they are in no cycle.
class Call(Known, kw_only=True, omit_defaults=True, gc=False):
    """An open call."""

    id: str
    status: str
    title: str | None = None
    preview: str | None = None
    digest: int = 0
    """CRC of the canonical input last emitted, notes included."""
    memory: dict[str, Any] = {}
    """Memory of the dialect, to understand later lines about this call; dropped, oldest call first, when all calls
    together remember more than the limit."""
    memory_bytes: int = 0
    denied: bool = False
    acknowledged: bool = False
    """Runs in the background: the first result only stated that."""


class Tombstone(Known, kw_only=True, omit_defaults=True, gc=False):
    """A finished call."""

    synthetic_result: str | None = None
    """Event id of the synthetic result, while no real one has come."""


def tombstone_of(call: Call, synthetic_result: str | None) -> Tombstone:
    """The tombstone of a call that is done. Naming the fields is three times as fast as `shared`."""
    return Tombstone(
        call.raw_name,
        call.name,
        call.session,
        call.agent,
        call.parent,
        call.turn,
        call.origin,
        call.wire_id,
        call.source,
        call.told,
        call.made_up,
        synthetic_result=synthetic_result,
    )


Unfinished: TypeAlias = Callable[[Call], tuple[Any, dict[str, OutputRef] | None]]
"""Returns the known output of a call that ends without a result: (value, output bodies by JSON pointer)."""

Restore: TypeAlias = Callable[[str, dict[str, Any], Call], dict[str, Any]]
"""Replaces a payload by the one that a store holds of it: ("input" or "output", the payload as it was made, its call).
May rename the call."""


class CallsState(msgspec.Struct, omit_defaults=True):
    open: dict[str, Call] = {}
    done: dict[str, Tombstone] = {}
    renamed: dict[str, str] = {}
    """`<session>/<id on the wire>` -> id of the newest call, where the wire used the id again."""
    reused: int = 0
    """Number of times an id was used again."""
    children: dict[str, dict[str, None]] = {}
    """Call id -> ids of the open calls of the subagent it spawned."""
    remembered: dict[str, None] = {}
    """Ids of the open calls that have a memory, oldest first."""
    memory_bytes: int = 0


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
    """For dialects whose lines state that a session begins: see `Parser.begin_session`."""

    started: str | None = None
    """The session that was started last."""
