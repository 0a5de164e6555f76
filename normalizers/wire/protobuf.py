"""Fields of Protobuf messages: reads and writes them, so that no package for Protobuf has to be installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""
LONGEST_VARINT = 10
_WRAP = 1 << 64

Value: TypeAlias = "int | bytes"
Field: TypeAlias = "tuple[int, int, Value]"
"""Number, wire type and value of a field."""


class ProtobufError(ValueError):
    """Bytes are no message; the error's message is a part of a sentence."""


def fields(body: bytes) -> Iterator[Field]:
    """Yield the fields of a message; numbers have no sign yet. Raises `ProtobufError`."""
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
            return value & (_WRAP - 1), place + index + 1
    raise ProtobufError("it has a number that is too long")


def bytes_field(number: int, data: bytes) -> bytes:
    """Return a field with bytes, a text or a message."""
    return _varint(number << 3 | BYTES) + _varint(len(data)) + data


def varint_field(number: int, value: int) -> bytes:
    """Return a field with an integer from 0 to 2^64 - 1."""
    return _varint(number << 3 | VARINT) + _varint(value)


def fixed64_field(number: int, data: bytes) -> bytes:
    """Return a field with 8 bytes."""
    return _varint(number << 3 | FIXED64) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
