"""The output bodies of an exported session: which go into the file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tooltap.protocol.events import AnyEvent, Message, ToolResult, ToolUpdate

__all__ = ["Bodies", "Body", "body_ids"]


class Body(NamedTuple):
    data: bytes
    mime_type: str


class Bodies:
    """Decides which output bodies go into the file, within limits, and counts the others."""

    def __init__(self, max_each: int, max_all: int) -> None:
        self._max_each = max_each
        self._left = max_all
        self.left_out = 0
        self.left_out_bytes = 0

    def has_room(self, size: int) -> bool:
        """Say whether a body of this size goes into the file; if not, count it as left out."""
        if size <= min(self._max_each, self._left):
            self._left -= size
            return True
        self.left_out += 1
        self.left_out_bytes += size
        return False


def body_ids(event: AnyEvent) -> Iterator[tuple[str, int, str]]:
    """Yield `(output id, bytes, MIME type)` of each body that the event refers to; 0 bytes if it does not say."""
    for ref in (event.outputs or {}).values():
        yield ref.output_id, ref.bytes, ref.mime_type
    for one in (event.attachments or []) if isinstance(event, Message | ToolResult) else []:
        if one.output_id is not None:
            yield one.output_id, one.bytes or 0, one.mime_type
    display = event.display if isinstance(event, ToolResult | ToolUpdate) else None
    if display is not None and display.output_id is not None:
        yield display.output_id, display.bytes or 0, display.mime_type or "text/plain"
