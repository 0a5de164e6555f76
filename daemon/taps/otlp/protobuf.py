"""Reads the Protobuf messages `ExportLogsServiceRequest` and `ExportTraceServiceRequest` of OTLP into what they are in
JSON, and encodes the answers.

The numbers of the fields are those of `opentelemetry/proto` 1.10; fields that are not known are passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

from tooltap.normalizers.wire.protobuf import (
    BYTES,
    FIXED64,
    VARINT,
    ProtobufError,
    Value,
    bytes_field,
    fields,
    varint_field,
)

DEPTH = 32
"""Deepest nesting of values that is read."""
SIGN, WRAP = 1 << 63, 1 << 64


def read_logs(body: bytes) -> dict[str, Any]:
    """Return a request in the form of OTLP's JSON. Raises `ProtobufError`."""
    return {"resourceLogs": [_group(one, "scopeLogs", "logRecords", _record) for one in _messages(body, 1)]}


def read_spans(body: bytes) -> dict[str, Any]:
    """Return a request in the form of OTLP's JSON, of each span its ids, name, end, attributes and events. Raises
    `ProtobufError`."""
    return {"resourceSpans": [_group(one, "scopeSpans", "spans", _span) for one in _messages(body, 1)]}


def status(code: int, message: str) -> bytes:
    """Return the message `google.rpc.Status`."""
    return varint_field(1, code) + bytes_field(2, message.encode())


def _group(body: bytes, scopes: str, items: str, read: Callable[[bytes], dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {scopes: []}
    for number, kind, value in fields(body):
        if number == 1:
            found["resource"] = {"attributes": [_attribute(one) for one in _messages(_bytes(kind, value), 1)]}
        elif number == 2:
            found[scopes].append({items: [read(one) for one in _messages(_bytes(kind, value), 2)]})
    return found


def _record(body: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {"attributes": []}
    for number, kind, value in fields(body):
        if number in (1, 11):
            found["timeUnixNano" if number == 1 else "observedTimeUnixNano"] = _time(kind, value)
        elif number == 5:
            found["body"] = _any(_bytes(kind, value), DEPTH)
        elif number == 6:
            found["attributes"].append(_attribute(_bytes(kind, value)))
        elif number == 12:
            found["eventName"] = _text(_bytes(kind, value))
    return found


def _span(body: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {"attributes": [], "events": []}
    for number, kind, value in fields(body):
        if number in (1, 2):
            found["traceId" if number == 1 else "spanId"] = _bytes(kind, value).hex()
        elif number == 5:
            found["name"] = _text(_bytes(kind, value))
        elif number == 8:
            found["endTimeUnixNano"] = _time(kind, value)
        elif number == 9:
            found["attributes"].append(_attribute(_bytes(kind, value)))
        elif number == 11:
            found["events"].append(_event(_bytes(kind, value)))
    return found


def _event(body: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {"attributes": []}
    for number, kind, value in fields(body):
        if number == 2:
            found["name"] = _text(_bytes(kind, value))
        elif number == 3:
            found["attributes"].append(_attribute(_bytes(kind, value)))
    return found


def _time(kind: int, value: Value) -> int:
    if kind != FIXED64 or isinstance(value, bytes):
        raise ProtobufError("a time has another type than it must have")
    return value


def _attribute(body: bytes, depth: int = DEPTH) -> dict[str, Any]:
    found: dict[str, Any] = {"key": "", "value": None}
    for number, kind, value in fields(body):
        if number == 1:
            found["key"] = _text(_bytes(kind, value))
        elif number == 2:
            found["value"] = _any(_bytes(kind, value), depth)
    return found


def _any(body: bytes, depth: int) -> dict[str, Any]:
    """Return an `AnyValue`. The last of its fields counts, as in any `oneof`."""
    if depth <= 0:
        raise ProtobufError(f"its values are nested deeper than {DEPTH}")
    found: dict[str, Any] = {}
    for number, kind, value in fields(body):
        if number in _READ:
            key, read = _READ[number]
            found = {key: read(kind, value, depth)}
    return found


def _number(kind: int, value: Value, depth: int) -> int:
    if kind != VARINT or isinstance(value, bytes):
        raise ProtobufError("a number has another type than it must have")
    return value - WRAP if value >= SIGN else value


def _double(kind: int, value: Value, depth: int) -> float:
    if kind != FIXED64 or isinstance(value, bytes):
        raise ProtobufError("a number has another type than it must have")
    found: float = struct.unpack("<d", struct.pack("<Q", value))[0]
    return found


def _list(kind: int, value: Value, depth: int) -> dict[str, Any]:
    return {"values": [_any(one, depth - 1) for one in _messages(_bytes(kind, value), 1)]}


def _pairs(kind: int, value: Value, depth: int) -> dict[str, Any]:
    return {"values": [_attribute(one, depth - 1) for one in _messages(_bytes(kind, value), 1)]}


_READ: dict[int, tuple[str, Callable[[int, Value, int], Any]]] = {
    1: ("stringValue", lambda kind, value, depth: _text(_bytes(kind, value))),
    2: ("boolValue", lambda kind, value, depth: _number(kind, value, depth) != 0),
    3: ("intValue", _number),
    4: ("doubleValue", _double),
    5: ("arrayValue", _list),
    6: ("kvlistValue", _pairs),
    7: ("bytesValue", lambda kind, value, depth: _bytes(kind, value).hex()),
}


def _messages(body: bytes, wanted: int) -> Iterator[bytes]:
    for number, kind, value in fields(body):
        if number == wanted:
            yield _bytes(kind, value)


def _bytes(kind: int, value: Value) -> bytes:
    if kind != BYTES or not isinstance(value, bytes):
        raise ProtobufError("a message has another type than it must have")
    return value


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
