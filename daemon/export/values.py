"""Values of events as other programs get them: whole texts, inputs and outputs of calls without our own keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tooltap.daemon.export.source import ExportedBody
from tooltap.protocol.events import AnyEvent, ToolCall, ToolResult, ToolUpdate, encode
from tooltap.protocol.model_view import model_text


def whole_text(event: AnyEvent, pointer: str, text: str, bodies: Mapping[str, ExportedBody]) -> str:
    """Return a text, whole if it was cut and its body is at hand."""
    ref = (event.outputs or {}).get(pointer)
    body = None if ref is None else bodies.get(ref.output_id)
    return text if body is None else body.data.decode(errors="replace")


def payload_of(event: ToolCall | ToolUpdate | ToolResult, field: str, bodies: Mapping[str, ExportedBody]) -> Any:
    """Return the input or the output of a call without our own keys, its cut strings whole if they are at hand."""

    def whole(value: Any, pointer: str) -> Any:
        if isinstance(value, str):
            return whole_text(event, pointer, value, bodies)
        if isinstance(value, list):
            return [whole(one, f"{pointer}/{index}") for index, one in enumerate(value)]
        if isinstance(value, dict):
            escaped = {key: key.replace("~", "~0").replace("/", "~1") for key in value}
            return {key: whole(one, f"{pointer}/{escaped[key]}") for key, one in value.items()}
        return value

    payload = getattr(event, field) or {}
    return whole({key: one for key, one in payload.items() if key not in ("_happy", "_raw")}, f"/{field}")


def content_of(event: ToolResult, bodies: Mapping[str, ExportedBody]) -> str:
    """Return what the model saw of a result, else its output as JSON."""

    def read(output_id: str) -> bytes | None:
        body = bodies.get(output_id)
        return None if body is None else body.data

    if event.model_view is not None and (seen := model_text(msgspec.json.decode(encode(event)), read)):
        return seen
    return msgspec.json.encode(payload_of(event, "output", bodies)).decode()
