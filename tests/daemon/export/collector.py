"""A collector: it reads OTLP with the messages of the official package, and without leniency."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from types import MappingProxyType
from typing import Any, NamedTuple

from google.protobuf.json_format import ParseDict, ParseError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE

from tests.daemon.running import TIMEOUT

IDS = {"traceId": 32, "spanId": 16, "parentSpanId": 16}
"""Key -> hexadecimal digits. In plain Protobuf JSON they would be base64."""


class Seen(NamedTuple):
    """A span as a receiver has it."""

    trace: str
    id: str
    parent: str
    """Empty for a root."""
    name: str
    kind: int
    began: int
    ended: int
    """Both in ns."""
    failed: bool
    attributes: dict[str, Any]
    resource: dict[str, Any]


class Sent(NamedTuple):
    """What a collector was sent."""

    path: str
    headers: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    code: int = 200
    headers: Mapping[str, str] = MappingProxyType({})
    body: bytes = b""
    after: Event | None = None
    """It is given when this is set."""


@contextmanager
def collecting(*first: Answer) -> Iterator[tuple[str, list[Sent]]]:
    """Run a collector. Yields its address, and what it has been sent so far. `first`: its first answers."""
    sent: list[Sent] = []
    answers = iter(first)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = next(answers, Answer())
            sent.append(Sent(self.path, dict(self.headers), body))
            assert answer.after is None or answer.after.wait(TIMEOUT)
            self.send_response(answer.code)
            for name, value in {**answer.headers, "Content-Length": str(len(answer.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = Thread(target=http.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_port}", sent
        finally:
            http.shutdown()
            thread.join()


def spans_of(text: str | bytes) -> list[Seen]:
    """Return the spans of requests, one on a line. Raises `ValueError` if a collector would refuse one."""
    found = []
    for line in text.splitlines():
        value = json.loads(line)
        _with_base64(value)
        try:
            request = ParseDict(value, ExportTraceServiceRequest())
        except ParseError as error:
            raise ValueError(str(error)) from error
        found += _spans(request)
    return found


def spans_in(body: bytes) -> list[Seen]:
    """Return the spans of a request in Protobuf."""
    return _spans(ExportTraceServiceRequest.FromString(body))


def _spans(request: Any) -> list[Seen]:
    found = []
    for sent in request.resource_spans:
        resource = _attributes(sent.resource.attributes)
        for scoped in sent.scope_spans:
            found += [_seen(span, resource) for span in scoped.spans]
    return found


class Point(NamedTuple):
    """A data point as a receiver has it."""

    agent: str
    name: str
    attributes: dict[str, Any]
    value: float
    """Of a histogram, the sum."""
    number: int
    """Of a histogram; 1 for others."""
    began: int
    """In ns; 0 for a gauge."""
    buckets: tuple[int, ...] = ()


def points_in(body: bytes) -> list[Point]:
    """Return the data points of a request with metrics in Protobuf."""
    found = []
    for sent in ExportMetricsServiceRequest.FromString(body).resource_metrics:
        agent = _attributes(sent.resource.attributes)["service.name"]
        for metric in sent.scope_metrics[0].metrics:
            kind = metric.WhichOneof("data")
            data = getattr(metric, kind)
            assert kind == "gauge" or data.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
            for point in data.data_points:
                is_histogram = kind == "histogram"
                value = point.sum if is_histogram else getattr(point, point.WhichOneof("value"))
                buckets = tuple(point.bucket_counts) if is_histogram else ()
                number, began = point.count if is_histogram else 1, point.start_time_unix_nano
                assert began <= point.time_unix_nano
                found.append(Point(agent, metric.name, _attributes(point.attributes), value, number, began, buckets))
    return found


def _with_base64(value: Any) -> None:
    """Replace the ids in a request by what the package reads."""
    if isinstance(value, list):
        for one in value:
            _with_base64(one)
    if isinstance(value, dict):
        for key, one in value.items():
            if key in IDS:
                if not re.fullmatch(f"[0-9a-f]{{{IDS[key]}}}", one) or not int(one, 16):
                    raise ValueError(f"{key} is {one!r}")
                value[key] = b64encode(bytes.fromhex(one)).decode()
            else:
                _with_base64(one)


def _seen(span: Any, resource: dict[str, Any]) -> Seen:
    return Seen(
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.name,
        span.kind,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        span.status.code == span.status.STATUS_CODE_ERROR,
        _attributes(span.attributes),
        resource,
    )


def _attributes(stated: Any) -> dict[str, Any]:
    """Return attributes by their names. Raises `ValueError` if two have the same one."""
    found = {one.key: _value(one.value) for one in stated}
    if len(found) < len(stated):
        raise ValueError("an attribute is there twice")
    return found


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_value(one) for one in value.array_value.values] if kind == "array_value" else getattr(value, kind)
