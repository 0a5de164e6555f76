"""Look-ups of tool calls, open or done, by their ids on the wire, and what is known of them beside their events."""

from __future__ import annotations

from typing import Any, TypeVar
from zlib import crc32

import msgspec

from tooltap.normalizers.core.calls_state import Call, CallsState, Tombstone
from tooltap.normalizers.core.writer import Writer
from tooltap.normalizers.tools import tool_input
from tooltap.normalizers.tools.names import canonical_name

__all__ = ["Index", "KnownCalls", "digests"]

K = TypeVar("K")
V = TypeVar("V")

_encode = msgspec.json.Encoder().encode
_pack = msgspec.msgpack.Encoder().encode


class Index(dict[K, V]):
    """Made of the state, and only looked up by key: the order of its keys, which a reload changes, means nothing."""

    __slots__ = ()


class KnownCalls:
    def __init__(self, writer: Writer, state: CallsState) -> None:
        self._writer = writer
        self._state = state
        self._ids = writer.call_ids
        self._of_turn: Index[str | None, dict[str, None]] = Index()
        """Turn -> ids of the open calls that end with it: many others may be open. Made of the state."""
        for call in state.open.values():
            self._put_in_turn(call)

    def id_of(self, call_id: str) -> str:
        """The id, in events, of the call that an id on the wire means."""
        return self._ids.of(call_id) if self._state.renamed else call_id

    def get(self, call_id: str) -> Call | None:
        """The open call of this id."""
        return self._state.open.get(self.id_of(call_id))

    def still_open(self, call: Call) -> tuple[Call | None, str | None]:
        """The call, if it may be answered, and the id of the synthetic result that the answer replaces. One that a
        dialect holds may have ended meanwhile: with its turn, or because there were too many."""
        if call.id in self._state.open:
            return call, None
        tomb = self._state.done.get(call.id)
        if tomb is None or tomb.synthetic_result is None:
            return None, None
        return call, tomb.synthetic_result

    def is_done(self, call_id: str) -> bool:
        """Whether the call was seen, and is done."""
        tomb = self._state.done.get(self.id_of(call_id))
        return tomb is not None and not tomb.made_up

    def is_over(self, call_id: str) -> bool:
        """Whether the call has its real result, so that another one is a duplicate."""
        tomb = self._state.done.get(self.id_of(call_id))
        return tomb is not None and tomb.synthetic_result is None

    def is_known(self, call_id: str) -> bool:
        return self._known(call_id) is not None

    def _descendants(self, call_id: str) -> list[Call]:
        """The open calls of a call's subagents, and of theirs: of each branch the innermost first. Those that run in
        the background continue, and so do theirs. No recursion, as agents nest as deep as they like; calls may name
        each other as parent."""
        opened, children = self._state.open, self._state.children
        found: list[Call] = []
        seen = {call_id}
        path: list[Call] = []
        levels = [iter(tuple(children.get(call_id, ())))]
        while levels:
            child = next(levels[-1], None)
            if child is None:
                levels.pop()
                if path:
                    found.append(path.pop())
                continue
            call = opened.get(child)
            if call is not None and not call.acknowledged and child not in seen:
                seen.add(child)
                path.append(call)
                levels.append(iter(tuple(children.get(child, ()))))
        return found

    def name_of(self, call_id: str) -> str | None:
        """Canonical name of a call that is open or done."""
        known = self._known(call_id)
        return known.name if known else None

    def tool_of(self, call_id: str, raw_name: str) -> str:
        """Canonical name of the call's tool; if the call was not seen, that of `raw_name`."""
        return self.name_of(call_id) or canonical_name(raw_name, {}, call_id)

    def session_of(self, call_id: str) -> str | None:
        """Session of a call that is open or done."""
        known = self._known(call_id)
        return known.session if known else None

    def source_of(self, call_id: str) -> str | None:
        """The `source` that `open` was given for a call that is open or done."""
        known = self._known(call_id)
        return known.source if known else None

    def repeats(
        self, call_id: str, raw_name: str, value: Any, *, name: str | None = None, retold: bool = False
    ) -> bool:
        """Whether a line that shows a call repeats one that is done: the same tool with the same input in the same turn
        (`retold`: or in a later one), or anything that is a replay. Otherwise it begins another call under the id.
        """
        tomb = self._state.done.get(self.id_of(call_id))
        if tomb is None or tomb.made_up:
            return False
        if self._writer.replay:
            return True
        if not retold and self._writer.turn not in (None, tomb.turn):
            return False
        name = name or canonical_name(raw_name, value, call_id)
        return name == tomb.name and digests(tool_input(name, value, raw_name))[1] in tomb.told

    def rename_session(self, before: str, after: str) -> None:
        """Move the calls of a session to its own id, which was learned late."""
        for known in (*self._state.open.values(), *self._state.done.values()):
            if known.session == before:
                known.session = after
        self._ids.rename_session(before, after)

    def remember(self, call: Call, memory: dict[str, Any]) -> None:
        """Replace what the dialect remembers of an open call. Nothing is remembered of one that is done: nobody would
        forget it."""
        state = self._state
        if state.open.get(call.id) is not call:
            return
        size = len(_pack(memory)) if memory else 0
        state.memory_bytes += size - call.memory_bytes
        call.memory, call.memory_bytes = memory, size
        if memory:
            state.remembered[call.id] = None
        while state.memory_bytes > self._writer.context.limits.call_bytes and state.remembered:
            oldest = next(iter(state.remembered))
            del state.remembered[oldest]
            if (other := state.open.get(oldest)) is not None:
                state.memory_bytes -= other.memory_bytes
                other.memory, other.memory_bytes = {}, 0

    def is_open(self, session: str, turn_id: str | None, agent: str | None) -> bool:
        """Whether a call of a turn is open, other than background calls and subagents' calls."""
        return bool(self._ending_with(session, turn_id, agent))

    def _ending_with(self, session: str, turn_id: str | None, agent: str | None) -> list[Call]:
        """The open calls that end with a turn."""
        calls = [self._state.open[one] for one in self._of_turn.get(turn_id, ())]
        return [call for call in calls if call.session == session and call.agent == agent]

    def _put_in_turn(self, call: Call) -> None:
        if not call.acknowledged:
            self._of_turn.setdefault(call.turn, {})[call.id] = None

    def _take_from_turn(self, call: Call) -> None:
        ids = self._of_turn.get(call.turn)
        if ids is not None and call.id in ids:
            del ids[call.id]
            if not ids:
                del self._of_turn[call.turn]

    def _known(self, call_id: str) -> Call | Tombstone | None:
        call_id = self.id_of(call_id)
        return self._state.open.get(call_id) or self._state.done.get(call_id)


def digests(payload: dict[str, Any]) -> tuple[int, int]:
    """The digests of an input: of all of it, and of what was called, without our notes."""
    encoded = _encode(payload)
    digest = crc32(encoded)
    for key in payload:
        if key[:1] == "_":
            return digest, crc32(_encode({key: item for key, item in payload.items() if key[:1] != "_"}))
    return digest, digest
