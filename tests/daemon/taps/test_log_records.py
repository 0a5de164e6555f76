"""Log records of OTLP become lines, from JSON and from Protobuf as the official package encodes it."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from google.rpc.status_pb2 import Status
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.daemon.taps.log_records import START, encoded, event, request, span, spans, turn
from tooltap.daemon.taps.otlp.protobuf import DEPTH, read_logs, read_spans, status
from tooltap.daemon.taps.otlp.records import BodyError, LogRecord, log_records, read_json, stream_of
from tooltap.daemon.taps.otlp.records import spans as spans_of
from tooltap.normalizers.wire.protobuf import ProtobufError


def in_protobuf(value: dict[str, Any]) -> bytes:
    found: bytes = ParseDict(value, ExportLogsServiceRequest()).SerializeToString()
    return found


def only(value: dict[str, Any]) -> dict[str, Any]:
    """The line of a request's only record."""
    [record] = log_records(value)
    assert record is not None
    line: dict[str, Any] = json.loads(record.line)
    return line


def without_ids(records: list[LogRecord | None]) -> list[dict[str, Any]]:
    return [{**json.loads(one.line), "id": ""} for one in records if one is not None]


def test_record_is_the_same_in_protobuf_as_in_json() -> None:
    sent = request(*turn(), event("other", 9, number=-7, truth=True, fraction=0.25, texts=["a", "b"]))

    read = list(log_records(read_logs(in_protobuf(sent))))

    assert without_ids(read) == without_ids(list(log_records(read_json(encoded(sent)))))
    assert next(one.t for one in read if one is not None) == START // 1_000_000 + 1_000


@given(
    text=st.text(),
    number=st.integers(-(2**63), 2**63 - 1),
    fraction=st.floats(allow_nan=False, allow_infinity=False),
    truth=st.booleans(),
    texts=st.lists(st.text(), max_size=3),
)
def test_any_value_of_protobuf_is_read_as_it_was(
    text: str, number: int, fraction: float, truth: bool, texts: list[str]
) -> None:
    values: dict[str, Any] = {"text": text, "number": number, "fraction": fraction, "truth": truth, "texts": texts}
    found = only(read_logs(in_protobuf(request(event("other", 1, **values)))))["attributes"]
    assert {key: found.get(key) for key in values} == values


@given(st.binary(max_size=200))
def test_bytes_are_read_or_refused(body: bytes) -> None:
    with suppress(ProtobufError):
        list(log_records(read_logs(body)))
    with suppress(ProtobufError):
        list(spans_of(read_spans(body)))


def test_span_is_the_same_in_protobuf_as_in_json() -> None:
    sent = spans(span("c-1", "hello"))
    ids = {"traceId": "3SZwx2kA2KnoatAI6vCHBg==", "spanId": "7EoXs6ncCFI="}  # the package reads these in base64
    body = ParseDict(spans({**span("c-1", "hello"), **ids}), ExportTraceServiceRequest()).SerializeToString()
    [read], [wanted] = spans_of(read_spans(body)), spans_of(read_json(encoded(sent)))
    assert read == wanted
    assert json.loads(read.line)["events"] == [{"name": "tool.output", "attributes": {"output": "hello"}}]


def test_span_of_qwen_code_has_its_output_as_an_attribute() -> None:
    sent = {**span("c-1", "", name="qwen-code.tool"), "events": []}
    assert list(spans_of(spans(sent))) == []
    sent["attributes"] += [{"key": "gen_ai.tool.call.result", "value": {"stringValue": '{"output":"hello"}'}}]
    assert len(list(spans_of(spans(sent)))) == 1


def test_span_that_says_nothing_more_than_records_is_left_out() -> None:
    silent = {**span("c-1", "hello"), "events": []}
    nameless = {**span("c-1", "hello"), "attributes": []}
    assert list(spans_of(spans(silent, nameless, span("c-1", "hello", name="exec_command")))) == []


def test_values_that_are_nested_too_deep_are_refused() -> None:
    value: dict[str, Any] = {"stringValue": "x"}
    for _ in range(DEPTH + 1):
        value = {"arrayValue": {"values": [value]}}
    record = {"attributes": [{"key": "deep", "value": value}]}
    with pytest.raises(ProtobufError, match="nested deeper than 32"):
        read_logs(in_protobuf(request(record)))


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"7", b"[" * 100_000, b"\xff\xfe"])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(BodyError, match="not one object of JSON"):
        read_json(body)


def test_event_of_claude_code_has_its_prefix() -> None:
    assert only(request(event("user_prompt", 1)))["name"] == "claude_code.user_prompt"


def test_session_may_be_stated_by_the_resource() -> None:
    sent = request({"attributes": [{"key": "event.name", "value": {"stringValue": "gemini_cli.config"}}]})
    stated = {"key": "session.id", "value": {"stringValue": "s-2"}}
    sent["resourceLogs"][0]["resource"]["attributes"].append(stated)
    assert only(sent)["session"] == "s-2"


def test_record_without_a_session_is_none() -> None:
    assert list(log_records(request({"body": {"stringValue": "flushing OTEL metrics"}}))) == [None]


def test_time_of_codex_is_that_of_observation() -> None:
    record = {**event("user_prompt", 1), "timeUnixNano": "0", "observedTimeUnixNano": str(START)}
    assert only(request(record))["time"] == START // 1_000_000


@pytest.mark.parametrize("time", ["0", "-1", "x", "9" * 21, "9" * 5_000, None, [1], 1.5, True, 2**64])
def test_what_is_no_time_is_left_out(time: object) -> None:
    sent = encoded(request({**event("user_prompt", 1), "timeUnixNano": time}))
    assert "time" not in only(read_json(sent))


def test_integers_that_are_too_long_stay_text() -> None:
    sent = event("other", 1)
    sent["attributes"] += [
        {"key": "most", "value": {"intValue": str(2**63 - 1)}},
        {"key": "more", "value": {"intValue": str(-(2**63) - 1)}},
    ]
    found = only(request(sent))["attributes"]
    assert (found["most"], found["more"]) == (2**63 - 1, str(-(2**63) - 1))


def test_same_record_has_the_same_id_and_another_one_has_not() -> None:
    one, again, other = (only(request(event("user_prompt", number)))["id"] for number in (1, 1, 2))
    assert one == again != other


def test_sessions_never_share_a_stream() -> None:
    names = [("a", "b/c"), ("a", "b-c"), ("a-b", "c"), ("a", "x" * 300), ("a", "x" * 301), ("a", "\0")]
    streams = [stream_of(*one) for one in names]
    assert len(set(streams)) == len(names)
    assert all(len(one) <= 200 for one in streams)


def test_status_is_read_by_the_official_package() -> None:
    read = Status.FromString(status(3, "ä" * 200))
    assert (read.code, read.message) == (3, "ä" * 200)
