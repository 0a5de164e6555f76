"""What the model saw of a result, put together for a reader of the assistant view."""

from __future__ import annotations

from typing import Any

from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.journal.slices import MAX_SLICE
from tooltap.protocol.model_view import bodies_of, model_blocks

__all__ = ["put_together", "whole_body"]


async def put_together(event: dict[str, Any], journal: Journal, limit: int) -> dict[str, Any]:
    """Return the event with the text of each block of `modelView` in place of the parts that make it.

    An event whose texts have more than `limit` bytes remains as it is: `protocol.model_view` puts it together. Raises
    `JournalError`."""
    view = event.get("modelView")
    if not isinstance(view, dict):
        return event
    sizes = {ref["outputId"]: ref["bytes"] for ref in (event.get("outputs") or {}).values()}
    needed = bodies_of(event)
    if sum(sizes[output_id] for output_id in needed) > limit:
        return event
    bodies = {output_id: await whole_body(journal, output_id) for output_id in needed}
    return {**event, "modelView": {**view, "blocks": model_blocks(event, bodies.get)}}


async def whole_body(journal: Journal, output_id: str) -> bytes | None:
    """Return all of an output body; None if it is gone. Raises `JournalError`."""
    parts: list[bytes] = []
    size, total = 0, 1
    while size < total:
        part = await journal.output(output_id, size, MAX_SLICE, "bytes")
        if part is None:
            return None
        if not part.data:
            break
        parts.append(part.data)
        size, total = size + len(part.data), part.total
    return b"".join(parts)
