"""Requests in Protobuf, as the official package reads them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.daemon.export.collector import spans_in, spans_of
from tests.daemon.export.exporting import exported
from tests.normalizers.reading import FIXTURES
from tooltap.daemon.telemetry.protobuf import encode_request, rejected_of

SUBAGENT = FIXTURES / "codex-app-server" / "codex-0.169" / "subagent.jsonl"
FAILED = FIXTURES / "claude-stream" / "claude-code-2.1.330" / "subagents-parallel.jsonl"


@pytest.mark.parametrize("path", [SUBAGENT, FAILED])
def test_request_has_the_same_spans_in_protobuf_as_in_json(path: object) -> None:
    text = exported("otlp", path)[1]  # type: ignore[arg-type]
    [sent] = json.loads(text)["resourceSpans"]
    [scoped] = sent["scopeSpans"]
    body = encode_request([(sent["resource"]["attributes"], scoped["spans"])], scoped["scope"])

    assert spans_in(body) == spans_of(text)
    [read] = ExportTraceServiceRequest.FromString(body).resource_spans
    assert (read.scope_spans[0].scope.name, len(read.scope_spans[0].scope.attributes)) == ("tooltap", 1)


@given(
    text=st.text(),
    number=st.integers(-(2**63), 2**63 - 1),
    fraction=st.floats(allow_nan=False),
    is_true=st.booleans(),
    texts=st.lists(st.text(), max_size=3),
)
def test_any_value_is_read_as_it_was(text: str, number: int, fraction: float, is_true: bool, texts: list[str]) -> None:
    values = {
        "text": {"stringValue": text},
        "number": {"intValue": str(number)},
        "fraction": {"doubleValue": fraction},
        "truth": {"boolValue": is_true},
        "texts": {"arrayValue": {"values": [{"stringValue": one} for one in texts]}},
    }
    span = {
        "traceId": "1" * 32,
        "spanId": "2" * 16,
        "parentSpanId": "3" * 16,
        "name": text,
        "kind": 3,
        "startTimeUnixNano": "1",
        "endTimeUnixNano": str(2**64 - 1),
        "attributes": [{"key": key, "value": value} for key, value in values.items()],
        "status": {"code": 2},
    }
    [seen] = spans_in(encode_request([([], [span])], {"name": "tooltap", "version": "1", "attributes": []}))

    wanted = {"text": text, "number": number, "fraction": fraction, "truth": is_true, "texts": texts}
    assert seen.attributes == wanted
    assert (seen.name, seen.kind, seen.began, seen.ended, seen.failed) == (text, 3, 1, 2**64 - 1, True)


@pytest.mark.parametrize("count", [0, 1, 300])
def test_number_of_rejected_spans_is_read(count: int) -> None:
    partial = ExportTracePartialSuccess(rejected_spans=count, error_message="too old")

    assert rejected_of(ExportTraceServiceResponse(partial_success=partial).SerializeToString()) == count


@given(st.binary())
def test_answer_that_is_no_message_rejects_a_number_or_none(answer: bytes) -> None:
    assert rejected_of(answer) >= 0
