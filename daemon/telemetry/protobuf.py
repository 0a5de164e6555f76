"""Encodes spans and metrics as the Protobuf messages `ExportTraceServiceRequest` and `ExportMetricsServiceRequest` of
OTLP, and reads the answers.

Some collectors take nothing else over HTTP (Phoenix 20). The few messages that these need are encoded here, from what
they are in JSON. The numbers of the fields are those of `opentelemetry/proto` 1.10.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from tooltap.normalizers.wire.protobuf import ProtobufError, bytes_field, fields, fixed64_field, varint_field

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
        bytes_field(
            1,
            bytes_field(1, _attributes(1, resource))
            + bytes_field(2, bytes_field(1, named) + b"".join(bytes_field(2, encode(one)) for one in sent)),
        )
        for resource, sent in groups
    )


def rejected_of(answer: bytes) -> int:
    """Return how many spans or data points an answer says were rejected (`partial_success`); if it is no such message,
    none."""
    try:
        for number, _, value in fields(answer):
            if number == 1 and isinstance(value, bytes):
                return next((one for inner, _, one in fields(value) if inner == 1 and isinstance(one, int)), 0)
    except ProtobufError:
        pass
    return 0


def _span(span: Mapping[str, Any]) -> bytes:
    parts = [
        bytes_field(1, bytes.fromhex(span["traceId"])),
        bytes_field(2, bytes.fromhex(span["spanId"])),
        _text(5, span["name"]),
        varint_field(6, span["kind"]),
        fixed64_field(7, struct.pack("<Q", int(span["startTimeUnixNano"]))),
        fixed64_field(8, struct.pack("<Q", int(span["endTimeUnixNano"]))),
        _attributes(9, span["attributes"]),
    ]
    if "parentSpanId" in span:
        parts.append(bytes_field(4, bytes.fromhex(span["parentSpanId"])))
    if "status" in span:
        parts.append(bytes_field(15, varint_field(3, span["status"]["code"])))
    return b"".join(parts)


def _metric(metric: Mapping[str, Any]) -> bytes:
    named = _text(1, metric["name"]) + _text(3, metric["unit"])
    if (gauge := metric.get("gauge")) is not None:
        return named + bytes_field(5, b"".join(bytes_field(1, _number_point(one)) for one in gauge["dataPoints"]))
    if (total := metric.get("sum")) is not None:
        points = b"".join(bytes_field(1, _number_point(one)) for one in total["dataPoints"])
        is_monotonic = varint_field(3, int(total["isMonotonic"]))
        return named + bytes_field(7, points + varint_field(2, total["aggregationTemporality"]) + is_monotonic)
    histogram = metric["histogram"]
    points = b"".join(bytes_field(1, _histogram_point(one)) for one in histogram["dataPoints"])
    return named + bytes_field(9, points + varint_field(2, histogram["aggregationTemporality"]))


def _number_point(point: Mapping[str, Any]) -> bytes:
    value = (
        fixed64_field(6, struct.pack("<q", int(point["asInt"])))
        if "asInt" in point
        else fixed64_field(4, struct.pack("<d", point["asDouble"]))
    )
    return _times(point) + value + _attributes(7, point["attributes"])


def _histogram_point(point: Mapping[str, Any]) -> bytes:
    counts, bounds = list(map(int, point["bucketCounts"])), point["explicitBounds"]
    return (
        _times(point)
        + fixed64_field(4, struct.pack("<Q", int(point["count"])))
        + fixed64_field(5, struct.pack("<d", point["sum"]))
        + bytes_field(6, struct.pack(f"<{len(counts)}Q", *counts))
        + bytes_field(7, struct.pack(f"<{len(bounds)}d", *bounds))
        + _attributes(9, point["attributes"])
    )


def _times(point: Mapping[str, Any]) -> bytes:
    began = point.get("startTimeUnixNano")
    started = b"" if began is None else fixed64_field(2, struct.pack("<Q", int(began)))
    return started + fixed64_field(3, struct.pack("<Q", int(point["timeUnixNano"])))


def _attributes(number: int, attributes: Iterable[Mapping[str, Any]]) -> bytes:
    pairs = (_text(1, one["key"]) + bytes_field(2, _any(one["value"])) for one in attributes)
    return b"".join(bytes_field(number, one) for one in pairs)


def _any(value: Mapping[str, Any]) -> bytes:
    [(kind, stated)] = value.items()
    match kind:
        case "stringValue":
            return _text(1, stated)
        case "boolValue":
            return varint_field(2, int(stated))
        case "intValue":
            return varint_field(3, int(stated) & (1 << 64) - 1)
        case "doubleValue":
            return fixed64_field(4, struct.pack("<d", stated))
        case _:
            return bytes_field(5, b"".join(bytes_field(1, _text(1, one["stringValue"])) for one in stated["values"]))


def _text(number: int, text: str) -> bytes:
    return bytes_field(number, text.encode(errors="replace"))
