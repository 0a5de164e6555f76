"""What is remembered of tool calls: of those that are open, and of those that are done."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec

from tooltap.protocol.events import OutputRef

__all__ = ["Call", "CallsState", "Restore", "Tombstone", "Unfinished", "tombstone_of"]


class Known(msgspec.Struct, omit_defaults=True):
    """What is remembered after the call is done."""

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
    """Which kind of line opened it, where the dialect distinguishes them."""
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
    """What the dialect needs to understand later lines about this call; dropped, oldest call first, when all calls
    together remember more than the limit."""
    memory_bytes: int = 0
    denied: bool = False
    acknowledged: bool = False
    """It runs in the background: its first result only stated that."""


class Tombstone(Known, kw_only=True, omit_defaults=True, gc=False):
    """A finished call."""

    synthetic_result: str | None = None
    """Event id of the synthetic result, while no real one has come."""


def tombstone_of(call: Call, synthetic_result: str | None) -> Tombstone:
    """What is remembered of a call that is done. To name the fields is three times as fast as `shared`."""
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
"""What is known of the output of a call that ends without a result: (value, output bodies by JSON pointer)."""

Restore: TypeAlias = Callable[[str, dict[str, Any], Call], dict[str, Any]]
"""Replaces a payload by the one that a store holds of it: ("input" or "output", the payload as it was made, its call).
May rename the call."""


class CallsState(msgspec.Struct, omit_defaults=True):
    open: dict[str, Call] = {}
    done: dict[str, Tombstone] = {}
    renamed: dict[str, str] = {}
    """`<session>/<id on the wire>` -> id of the newest call, where the wire used the id again."""
    reused: int = 0
    """How often that happened."""
    children: dict[str, dict[str, None]] = {}
    """Call id -> ids of the open calls of the subagent it spawned."""
    remembered: dict[str, None] = {}
    """Ids of the open calls that have a memory, oldest first."""
    memory_bytes: int = 0
