"""Calls of Chat Completions: put together from deltas, and kept apart where servers use an id again."""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.calls import UNKNOWN_TOOL
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.dialects.openai.messages import Msg, ToolUse, arguments_of

__all__ = ["CallsById", "PendingCall", "collect"]

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

    An id that is new begins a call, even at an index that is taken; so does a name where no call can be continued.
    """
    function = entry.get("function")
    function = function if isinstance(function, dict) else {}
    call_id, name = (one if isinstance(one, str) and one else None for one in (entry.get("id"), function.get("name")))
    index = entry.get("index")
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
    if call_id is not None:
        for call in pending:
            if call.id == call_id:
                return call
    at_index = next((call for call in reversed(pending) if index is not None and call.index == index), None)
    if at_index is not None:
        return at_index if call_id is None or at_index.id is None else None
    if call_id is not None or not pending or (name is not None and pending[-1].name is not None):
        return None
    return pending[-1]


class CallsById:
    """The calls of a conversation. Servers use ids again, and old ones give none: the newest call is meant."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser

    def open(self, use: ToolUse) -> None:
        """A call of an answer that was not told before."""
        parser = self._parser
        parser.state.call_count += 1
        if not use.id:
            parser.state.nameless = f"call-{parser.state.call_count}"
        parser.calls.open(
            use.id or parser.state.nameless, use.name or UNKNOWN_TOOL, arguments_of(use.arguments), raw=use.raw
        )

    def is_told(self, use: ToolUse) -> bool:
        """Whether a call that a request repeats came before."""
        return self._parser.calls.is_known(use.id or self._parser.state.nameless)

    def result(self, call_id: str, name: Any, value: Any, raw: Msg) -> bool:
        """What the client answers; gives whether that was news."""
        parser = self._parser
        call_id = call_id or parser.state.nameless or "unknown"
        if parser.calls.is_over(call_id):
            return False
        raw_name = name if isinstance(name, str) and name else UNKNOWN_TOOL
        parser.calls.result(call_id, value, raw=raw, raw_name=raw_name)
        return True
