"""Which call an id on the wire means, where a provider reuses ids: the newest call that has it.

The first call keeps the wire's id. A later one is `<turn>/<id>`, or `<turn>/<id>-<n>` where the turn has that one too,
and `<id>-<n>` outside of turns.
"""

from __future__ import annotations

from typing import Protocol

from tooltap.normalizers.core.calls_state import CallsState, Tombstone

__all__ = ["CallIds"]


class _Scope(Protocol):
    """What decides which call is meant: the session and turn of the line being read."""

    session: str

    @property
    def turn(self) -> str | None: ...

    def is_taken(self, call_id: str) -> bool: ...


class CallIds:
    def __init__(self, scope: _Scope, state: CallsState) -> None:
        self._scope = scope
        self._state = state

    def of(self, wire_id: str) -> str:
        """The id, in events, of the newest call with this id on the wire."""
        renamed = self._state.renamed
        return renamed.get(self._key(wire_id), wire_id) if renamed else wire_id

    def another(self, wire_id: str) -> str:
        """A new id for another call under an id that is taken."""
        state = self._state
        state.reused += 1
        turn = self._scope.turn
        newest = self.of(wire_id)
        known = state.open.get(newest) or state.done.get(newest)
        # At least as many calls have such an id, so few are tried however often the id is reused.
        number = max(2, state.reused)
        first = call_id = f"{turn}/{wire_id}" if turn is not None else wire_id
        if turn is None or (known is not None and known.turn == turn and known.wire_id is not None):
            call_id = f"{first}-{number}"
        while call_id in state.open or call_id in state.done or self._scope.is_taken(call_id):
            number += 1
            call_id = f"{first}-{number}"
        state.renamed[self._key(wire_id)] = call_id
        return call_id

    def forget(self, call_id: str, tomb: Tombstone) -> None:
        """Drop the id of a call of which nothing else is remembered."""
        key = f"{tomb.session}/{tomb.wire_id}"
        if tomb.wire_id is not None and self._state.renamed.get(key) == call_id:
            del self._state.renamed[key]

    def rename_session(self, before: str, after: str) -> None:
        renamed = self._state.renamed
        for key in [key for key in renamed if key.startswith(f"{before}/")]:
            renamed[after + key.removeprefix(before)] = renamed.pop(key)

    def _key(self, wire_id: str) -> str:
        return f"{self._scope.session}/{wire_id}"
