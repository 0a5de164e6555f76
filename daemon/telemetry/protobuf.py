"""Encodes spans and metrics as the Protobuf messages `ExportTraceServiceRequest` and `ExportMetricsServiceRequest` of
OTLP, and reads the answers.

Some collectors take nothing else over HTTP (Phoenix 20). The few messages that these need are encoded here, from what
they are in JSON, so that no package for Protobuf has to be installed. The numbers of the fields are those of
`opentelemetry/proto` 1.10.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""


Groups: TypeAlias = Iterable[tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]]
"""The attributes of each resource, and its spans or metrics, as OTLP has them in JSON."""


def encode_request(groups: Groups, scope: Mapping[str, Any]) -> bytes:
    """Return a request with spans."""
    return _request(groups, scope, _span)


def encode_metrics(groups: Groups, scope: Mapping[str, Any]) -> bytes:
    """Return a request with metrics."""
    return _request(groups, scope, _metric)


def _request(groups: Groups, scope: Mapping[str, Any], encode: Callable[[Mapping[str, Any]], bytes]) -> bytes:
    named = _text(1, scope["name"]) + _text(2, scope["version"]) + _attributes(3, scope["attributes"])
    return b"".join(
        _field(
            1,
            _field(1, _attributes(1, resource))
            + _field(2, _field(1, named) + b"".join(_field(2, encode(one)) for one in sent)),
        )
        for resource, sent in groups
    )


def rejected_of(answer: bytes) -> int:
    """Return how many spans or data points an answer says were rejected (`partial_success`); if it is no such message,
    none."""
    try:
        for number, value in _fields(answer):
            if number == 1 and isinstance(value, bytes):
                return next((one for inner, one in _fields(value) if inner == 1 and isinstance(one, int)), 0)
    except (IndexError, ValueError):
        pass
    return 0


def _span(span: Mapping[str, Any]) -> bytes:
    parts = [
        _field(1, bytes.fromhex(span["traceId"])),
        _field(2, bytes.fromhex(span["spanId"])),
        _text(5, span["name"]),
        _number(6, span["kind"]),
        _fixed(7, struct.pack("<Q", int(span["startTimeUnixNano"]))),
        _fixed(8, struct.pack("<Q", int(span["endTimeUnixNano"]))),
        _attributes(9, span["attributes"]),
    ]
    if "parentSpanId" in span:
        parts.append(_field(4, bytes.fromhex(span["parentSpanId"])))
    if "status" in span:
        parts.append(_field(15, _number(3, span["status"]["code"])))
    return b"".join(parts)


def _metric(metric: Mapping[str, Any]) -> bytes:
    named = _text(1, metric["name"]) + _text(3, metric["unit"])
    if (gauge := metric.get("gauge")) is not None:
        return named + _field(5, b"".join(_field(1, _number_point(one)) for one in gauge["dataPoints"]))
    if (total := metric.get("sum")) is not None:
        points = b"".join(_field(1, _number_point(one)) for one in total["dataPoints"])
        is_monotonic = _number(3, int(total["isMonotonic"]))
        return named + _field(7, points + _number(2, total["aggregationTemporality"]) + is_monotonic)
    histogram = metric["histogram"]
    points = b"".join(_field(1, _histogram_point(one)) for one in histogram["dataPoints"])
    return named + _field(9, points + _number(2, histogram["aggregationTemporality"]))


def _number_point(point: Mapping[str, Any]) -> bytes:
    value = (
        _fixed(6, struct.pack("<q", int(point["asInt"])))
        if "asInt" in point
        else _fixed(4, struct.pack("<d", point["asDouble"]))
    )
    return _times(point) + value + _attributes(7, point["attributes"])


def _histogram_point(point: Mapping[str, Any]) -> bytes:
    counts, bounds = list(map(int, point["bucketCounts"])), point["explicitBounds"]
    return (
        _times(point)
        + _fixed(4, struct.pack("<Q", int(point["count"])))
        + _fixed(5, struct.pack("<d", point["sum"]))
        + _field(6, struct.pack(f"<{len(counts)}Q", *counts))
        + _field(7, struct.pack(f"<{len(bounds)}d", *bounds))
        + _attributes(9, point["attributes"])
    )


def _times(point: Mapping[str, Any]) -> bytes:
    began = point.get("startTimeUnixNano")
    started = b"" if began is None else _fixed(2, struct.pack("<Q", int(began)))
    return started + _fixed(3, struct.pack("<Q", int(point["timeUnixNano"])))


def _attributes(number: int, attributes: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(_field(number, _text(1, one["key"]) + _field(2, _any(one["value"]))) for one in attributes)


def _any(value: Mapping[str, Any]) -> bytes:
    [(kind, stated)] = value.items()
    match kind:
        case "stringValue":
            return _text(1, stated)
        case "boolValue":
            return _number(2, int(stated))
        case "intValue":
            return _number(3, int(stated) & (1 << 64) - 1)
        case "doubleValue":
            return _fixed(4, struct.pack("<d", stated))
        case _:
            return _field(5, b"".join(_field(1, _text(1, one["stringValue"])) for one in stated["values"]))


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode(errors="replace"))


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | BYTES) + _varint(len(data)) + data


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3 | VARINT) + _varint(value)


def _fixed(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | FIXED64) + data


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _fields(data: bytes) -> Iterable[tuple[int, int | bytes]]:
    """Yield the number and the value of each field. Raises `IndexError` and `ValueError` if this is no message."""
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        wire = key & 7
        if wire == VARINT:
            value, at = _read_varint(data, at)
            yield key >> 3, value
            continue
        if wire == BYTES:
            length, at = _read_varint(data, at)
        elif wire in (FIXED64, FIXED32):
            length = 8 if wire == FIXED64 else 4
        else:
            raise ValueError("not a Protobuf message")
        if at + length > len(data):
            raise IndexError("a field is longer than the message")
        yield key >> 3, data[at : at + length]
        at += length


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("a number is too long")
