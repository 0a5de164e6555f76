"""Calls of Chat Completions that arrive in deltas."""

from __future__ import annotations

import msgspec

from tooltap.normalizers.dialects.openai.messages import Msg, ToolUse
from tooltap.normalizers.wire.values import first_string, record

__all__ = ["PendingCall", "collect"]

PENDING = 128
"""Calls of one answer."""


class PendingCall(msgspec.Struct, omit_defaults=True):
    """A call whose arguments are still coming."""

    id: str | None = None
    index: int | None = None
    name: str | None = None
    arguments: str = ""

    def as_use(self) -> ToolUse:
        function = {"name": self.name, "arguments": self.arguments}
        raw = {"index": self.index, "id": self.id, "type": "function", "function": function}
        return ToolUse(self.id, self.name, self.arguments, {key: one for key, one in raw.items() if one is not None})


def collect(pending: list[PendingCall], entry: Msg, limit: int) -> None:
    """Add a delta to the call it continues: the one of its id, else of its index, else the last.

    A new id begins a call, even at an index that is taken; so does a name where no call can be continued. Arguments
    end before `limit` characters.
    """
    function = record(entry.get("function"))
    call_id, name, index = first_string(entry, "id"), first_string(function, "name"), entry.get("index")
    index = index if isinstance(index, int) else None
    call = _continued(pending, call_id, index, name)
    if call is None:
        call = PendingCall(index=index)
        pending.append(call)
        del pending[:-PENDING]
    call.id = call.id or call_id
    call.name = call.name or name
    arguments = function.get("arguments")
    if arguments is not None and not isinstance(arguments, str):
        arguments = msgspec.json.encode(arguments).decode()
    if arguments and len(call.arguments) + len(arguments) <= limit:
        call.arguments += arguments


def _continued(
    pending: list[PendingCall], call_id: str | None, index: int | None, name: str | None
) -> PendingCall | None:
    for call in pending if call_id is not None else ():
        if call.id == call_id:
            return call
    at_index = next((call for call in reversed(pending) if index is not None and call.index == index), None)
    if at_index is not None:
        return at_index if call_id is None or at_index.id is None else None
    if call_id is not None or not pending or (name is not None and pending[-1].name is not None):
        return None
    return pending[-1]
