"""Look-ups of tool calls, open or done, by their ids on the wire. Nothing here changes a call."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import msgspec

from tooltap.normalizers.core.calls_state import Call, CallsState, Tombstone
from tooltap.normalizers.core.writer import Writer
from tooltap.normalizers.tools import tool_input
from tooltap.normalizers.tools.names import canonical_name

__all__ = ["KnownCalls", "digests"]

_encode = msgspec.json.Encoder().encode


class KnownCalls:
    def __init__(self, writer: Writer, state: CallsState) -> None:
        self._writer = writer
        self._state = state
        self._ids = writer.call_ids

    def id_of(self, call_id: str) -> str:
        """The id, in events, of the call that an id on the wire means."""
        return self._ids.of(call_id) if self._state.renamed else call_id

    def get(self, call_id: str) -> Call | None:
        """The open call of this id."""
        return self._state.open.get(self.id_of(call_id))

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
