"""Which call an id on the wire means, where a provider uses its ids again: the newest that has it.

The first call keeps the wire's id, others are `<turn>/<id>`, or `<turn>/<id>-<n>` where the turn has that, too, and
`<id>-<n>` outside of turns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tooltap.normalizers.core.calls_state import CallsState, Tombstone

if TYPE_CHECKING:
    from tooltap.normalizers.core.parser import Parser

__all__ = ["CallIds"]


class CallIds:
    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._state: CallsState = parser.state.calls

    def of(self, wire_id: str) -> str:
        """The id, in events, of the newest call with this id on the wire."""
        return self._state.renamed.get(self._key(wire_id), wire_id)

    def another(self, wire_id: str) -> str:
        """A new id for another call under an id that one has."""
        state = self._state
        state.reused += 1
        turn = self._parser.turn
        newest = self.of(wire_id)
        known = state.open.get(newest) or state.done[newest]
        number = max(2, state.reused)  # no fewer have that id: few are tried, however often it comes
        first = call_id = f"{turn}/{wire_id}" if turn is not None else wire_id
        if turn is None or (known.turn == turn and known.wire_id is not None):
            call_id = f"{first}-{number}"
        while call_id in state.open or call_id in state.done:
            number += 1
            call_id = f"{first}-{number}"
        state.renamed[self._key(wire_id)] = call_id
        return call_id

    def forget(self, call_id: str, tomb: Tombstone) -> None:
        """Nothing is remembered of a call any longer."""
        key = f"{tomb.session}/{tomb.wire_id}"
        if tomb.wire_id is not None and self._state.renamed.get(key) == call_id:
            del self._state.renamed[key]

    def rename_session(self, before: str, after: str) -> None:
        renamed = self._state.renamed
        for key in [key for key in renamed if key.startswith(f"{before}/")]:
            renamed[after + key.removeprefix(before)] = renamed.pop(key)

    def _key(self, wire_id: str) -> str:
        return f"{self._parser.session}/{wire_id}"
