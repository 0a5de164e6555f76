"""Reads the Protobuf message `ExportLogsServiceRequest` of OTLP into what it is in JSON, and encodes the answers.

The few messages of logs are read here, so that no package for Protobuf has to be installed. The numbers of the fields
are those of `opentelemetry/proto` 1.10; fields that are not known are passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""
LONGEST_VARINT = 10
DEPTH = 32
"""Deepest nesting of values that is read."""
SIGN, WRAP = 1 << 63, 1 << 64

Value: TypeAlias = "int | bytes"
Field: TypeAlias = "tuple[int, int, Value]"
"""Number, wire type and value of a field."""


class ProtobufError(ValueError):
    """A body is no such message; the message is a part of a sentence."""


def read_logs(body: bytes) -> dict[str, Any]:
    """Return a request in the form of OTLP's JSON. Raises `ProtobufError`."""
    return {"resourceLogs": [_resource_logs(one) for one in _messages(body, 1)]}


def status(code: int, message: str) -> bytes:
    """Return the message `google.rpc.Status`."""
    text = message.encode()
    return b"\x08" + _varint(code) + b"\x12" + _varint(len(text)) + text


def _resource_logs(body: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {"scopeLogs": []}
    for number, kind, value in _fields(body):
        if number == 1:
            found["resource"] = {"attributes": [_attribute(one) for one in _messages(_bytes(kind, value), 1)]}
        elif number == 2:
            found["scopeLogs"].append(
                {"logRecords": [_record(one) for one in _messages(_bytes(kind, value), 2)]},
            )
    return found


def _record(body: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {"attributes": []}
    for number, kind, value in _fields(body):
        if number in (1, 11):
            if kind != FIXED64:
                raise ProtobufError("a time has another type than it must have")
            found["timeUnixNano" if number == 1 else "observedTimeUnixNano"] = value
        elif number == 5:
            found["body"] = _any(_bytes(kind, value), DEPTH)
        elif number == 6:
            found["attributes"].append(_attribute(_bytes(kind, value)))
        elif number == 12:
            found["eventName"] = _text(_bytes(kind, value))
    return found


def _attribute(body: bytes, depth: int = DEPTH) -> dict[str, Any]:
    found: dict[str, Any] = {"key": "", "value": None}
    for number, kind, value in _fields(body):
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
    for number, kind, value in _fields(body):
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
    for number, kind, value in _fields(body):
        if number == wanted:
            yield _bytes(kind, value)


def _bytes(kind: int, value: Value) -> bytes:
    if kind != BYTES or not isinstance(value, bytes):
        raise ProtobufError("a message has another type than it must have")
    return value


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _fields(body: bytes) -> Iterator[Field]:
    place, size = 0, len(body)
    while place < size:
        tag, place = _read_varint(body, place)
        number, kind = tag >> 3, tag & 7
        if not number:
            raise ProtobufError("it has a field without a number")
        value: Value
        if kind == VARINT:
            value, place = _read_varint(body, place)
        elif kind in (FIXED64, FIXED32):
            end = place + (8 if kind == FIXED64 else 4)
            value, place = int.from_bytes(body[place:end], "little"), end
        elif kind == BYTES:
            length, place = _read_varint(body, place)
            value, place = body[place : place + length], place + length
        else:
            raise ProtobufError("it has a field of a type that is not known")
        if place > size:
            raise ProtobufError("it ends in the middle of a field")
        yield number, kind, value


def _read_varint(body: bytes, place: int) -> tuple[int, int]:
    value = 0
    for index in range(LONGEST_VARINT):
        if place + index >= len(body):
            raise ProtobufError("it ends in the middle of a field")
        byte = body[place + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value & (WRAP - 1), place + index + 1
    raise ProtobufError("it has a number that is too long")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
