"""Fields of Protobuf messages, as the official package writes them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from google.protobuf.wrappers_pb2 import BytesValue, DoubleValue, UInt64Value
from hypothesis import given
from hypothesis import strategies as st

from tooltap.normalizers.wire.protobuf import (
    BYTES,
    FIXED64,
    VARINT,
    ProtobufError,
    bytes_field,
    fields,
    fixed64_field,
    varint_field,
)


@given(st.integers(1, 2**64 - 1))
def test_integer_is_written_and_read_as_the_official_package_does(number: int) -> None:
    assert varint_field(1, number) == UInt64Value(value=number).SerializeToString()
    assert list(fields(varint_field(1, number))) == [(1, VARINT, number)]


@given(st.binary(min_size=1, max_size=300))
def test_bytes_are_written_and_read_as_the_official_package_does(data: bytes) -> None:
    assert bytes_field(1, data) == BytesValue(value=data).SerializeToString()
    assert list(fields(bytes_field(1, data))) == [(1, BYTES, data)]


def test_eight_bytes_are_written_and_read_as_the_official_package_does() -> None:
    data = bytes.fromhex("000000000000d03f")
    assert fixed64_field(1, data) == DoubleValue(value=0.25).SerializeToString()
    assert list(fields(fixed64_field(1, data))) == [(1, FIXED64, int.from_bytes(data, "little"))]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"\x08", "ends in the middle"),
        (b"\x0a\x02x", "ends in the middle"),
        (b"\x09" + bytes(7), "ends in the middle"),
        (b"\x0d" + bytes(3), "ends in the middle"),
        (b"\x08" + b"\xff" * 10, "number that is too long"),
        (b"\x00\x01", "without a number"),
        (b"\x0b", "type that is not known"),
    ],
)
def test_what_is_no_message_is_refused(body: bytes, says: str) -> None:
    with pytest.raises(ProtobufError, match=says):
        list(fields(body))


@given(st.binary(max_size=50))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with suppress(ProtobufError):
        list(fields(body))
