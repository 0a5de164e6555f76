"""Keys and payloads of events, for baselines and drift.

The payload of a call or a permission request is its `input`, that of a result its `output`, both without the fields
that tooltap adds. Other events have no payload. The payload of a canonical tool must fit the tool's struct.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from tooltap.protocol.events import Event, PermissionRequest, ToolCall, ToolResult, ToolUpdate
from tooltap.protocol.payloads import OpenStruct
from tooltap.protocol.tools import TOOLS
from tooltap.traces.drift.shapes import OBJECT, Shape, shape_of
from tooltap.traces.fixtures.keys import RawNames

ADDED = frozenset({"_happy", "_raw", "_acp"})


def key_of(event: Event, names: RawNames) -> str:
    """The event's key. `names` must see all events of the stream in order."""
    parts = {
        "kind": str(type(event).__struct_config__.tag),
        "callId": getattr(event, "call_id", None),
        **{name: getattr(event, name, None) for name in ("protocol", "provider", "name", "input", "output")},
    }
    return names.key(parts)


def payload_of(event: Event) -> dict[str, Any] | None:
    """The payload without added fields; None if the event has none."""
    payload: dict[str, Any] | None = None
    if isinstance(event, ToolCall | ToolUpdate | PermissionRequest):
        payload = event.input
    elif isinstance(event, ToolResult):
        payload = event.output
    return None if payload is None else {key: value for key, value in payload.items() if key not in ADDED}


def payload_shape(event: Event) -> Shape:
    """The shape of the payload. The payload of a tool that is not canonical is just an object, because only that tool
    knows its fields."""
    payload = payload_of(event)
    if payload is None:
        return Shape()
    return shape_of(payload) if getattr(event, "name", None) in TOOLS else Shape({OBJECT})


def fields_of(event: Event) -> frozenset[str]:
    """The keys for which the canonical tool has a field."""
    struct = _struct_of(event)
    return frozenset(field.encode_name for field in _fields(struct)) if struct else frozenset()


def misfits(event: Event) -> list[str]:
    """The paths at which the payload does not fit the struct of its canonical tool: `$.todos[].status`."""
    payload, struct = payload_of(event), _struct_of(event)
    if payload is None or struct is None:
        return []
    return list(dict.fromkeys(_misfits(struct.from_payload(payload), "$")))


def _struct_of(event: Event) -> type[OpenStruct] | None:
    types = TOOLS.get(getattr(event, "name", None) or "")
    if types is None:
        return None
    return types.result if isinstance(event, ToolResult) else types.input


@cache
def _fields(struct: type[OpenStruct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(struct)


def _misfits(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, OpenStruct):
        for field in _fields(type(value)):
            if field.name != "extra":
                if value.extra.get(field.encode_name) is not None:
                    yield f"{path}.{field.encode_name}"
                yield from _misfits(getattr(value, field.name), f"{path}.{field.encode_name}")
    elif isinstance(value, list):
        for item in value:
            yield from _misfits(item, f"{path}[]")
