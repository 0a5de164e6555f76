"""`/v1/logs` and its neighbours: what agents send as telemetry is stored before it is acknowledged, and counts once."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from tests.daemon.running import TIMEOUT, Running
from tests.daemon.taps.log_records import encoded, event, gists, request, span, spans, turn
from tests.daemon.web.browsing import Browser, Response, browsed, socket_lines
from tooltap.daemon.system.content_coding import Decode, decoder
from tooltap.daemon.taps.otlp import receiver
from tooltap.daemon.web.api import otlp
from tooltap.daemon.web.http.guard import OTLP_BYTES

JSON, PROTOBUF = "application/json", "application/x-protobuf"
TURN = [
    ("session", "updated", "2.1.332"),
    ("turn", "started"),
    ("message", "user", "Do it."),
    ("tool-call", "running"),
    ("usage", 0.5),
    ("tool-result", "failed"),
    ("message", "assistant", "Done."),
]


def send(
    browser: Browser, body: bytes, kind: str = JSON, path: str = "/v1/logs", coding: str = "", **more: str
) -> Response:
    headers = {"Content-Type": kind, **({"Content-Encoding": coding} if coding else {}), **more}
    return browser.get(path, headers, method="POST", body=body)


def stored(daemon: Running) -> list[dict[str, Any]]:
    return [json.loads(line) for line in socket_lines(daemon)]


def test_turn_is_stored_when_it_is_acknowledged(browser: Browser, daemon: Running) -> None:
    answer = send(browser, encoded(request(*turn())))

    assert (answer.status, answer.json) == (200, {})
    events = stored(daemon)
    assert gists(events) == TURN
    assert {(one["session"], one["provider"]) for one in events} == {("s-1", "claude")}


def test_batch_in_protobuf_may_be_compressed(browser: Browser, daemon: Running) -> None:
    body = ParseDict(request(*turn()), ExportLogsServiceRequest()).SerializeToString()

    answer = send(browser, gzip.compress(body), PROTOBUF, coding="gzip")

    assert (answer.status, answer.headers["content-type"], answer.body) == (200, PROTOBUF, b"")
    assert gists(stored(daemon)) == TURN


def test_daemon_answers_others_while_it_decompresses_a_batch(
    browser: Browser, daemon: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    decompressing, answered = threading.Event(), threading.Event()

    def waiting(codings: str) -> Decode:
        decompressing.set()
        assert answered.wait(TIMEOUT)
        return decoder(codings)

    monkeypatch.setattr(otlp, "decoder", waiting)
    with ThreadPoolExecutor(1) as exporter:
        sent = exporter.submit(send, browser, gzip.compress(encoded(request(*turn()))), coding="gzip")
        assert decompressing.wait(TIMEOUT)
        assert browser.get("/healthz").status == 200
        answered.set()

    assert sent.result().status == 200
    assert gists(stored(daemon)) == TURN


def test_batch_that_is_sent_again_counts_once(browser: Browser, daemon: Running) -> None:
    records = turn()
    for sent in (records[:3], records[:3], records, records):
        assert send(browser, encoded(request(*sent))).status == 200
    assert gists(stored(daemon)) == TURN


def test_batch_that_is_sent_again_counts_once_after_a_restart(tmp_path: Path) -> None:
    for _ in range(2):
        with browsed(tmp_path) as (daemon, browser):
            assert send(browser, encoded(request(*turn()))).status == 200
            assert gists(stored(daemon))[: len(TURN)] == TURN
            assert [one["kind"] for one in stored(daemon)].count("tool-result") == 1


def test_each_session_of_a_batch_has_a_stream(browser: Browser, daemon: Running) -> None:
    mixed = [one for pair in zip(turn("s-1"), turn("s-2"), strict=True) for one in pair]
    assert send(browser, encoded(request(*mixed))).status == 200
    events = stored(daemon)
    for session in ("s-1", "s-2"):
        assert gists(one for one in events if one["session"] == session) == TURN
    assert len({one["stream"] for one in events}) == 2


def test_what_is_not_read_is_counted(browser: Browser, daemon: Running) -> None:
    for path in ("/v1/traces", "/v1/metrics", "/v1/metrics"):
        assert send(browser, b"{}", path=path).status == 200
    assert send(browser, b"", PROTOBUF, "/v1/traces").body == b""
    assert send(browser, encoded(request({"body": {"stringValue": "flushing"}}, *turn()))).status == 200
    counted = daemon.stats()["web"]["otlp"]
    assert counted == {
        "requests": {"traces": 2, "metrics": 2, "logs": 1},
        "waiting": 0,
        "records": 5,
        "withoutSession": 1,
    }


@pytest.mark.parametrize("is_first", [True, False])
def test_output_of_a_span_is_that_of_its_call(browser: Browser, daemon: Running, is_first: bool) -> None:
    records = turn()
    records[3] = event("tool_result", 4, success="true", tool_name="Bash", tool_use_id="toolu-1")
    batches = [("/v1/traces", encoded(spans(span("toolu-1", "hello")))), ("/v1/logs", encoded(request(*records)))]
    for path, body in batches if is_first else batches[::-1]:
        assert send(browser, body, path=path).status == 200
    results = [one for one in stored(daemon) if one["kind"] == "tool-result"]
    assert results[-1]["output"]["stdout"] == "hello"
    assert [one.get("replaces") for one in results] == ([None] if is_first else [None, results[0]["id"]])


def test_spans_of_which_nothing_is_read_store_nothing(browser: Browser, daemon: Running) -> None:
    assert send(browser, encoded(spans(span("c", "hello", name="exec_command"))), path="/v1/traces").status == 200
    assert stored(daemon) == []


def test_event_of_an_unknown_name_is_unparsed(browser: Browser, daemon: Running) -> None:
    assert send(browser, encoded(request(event("brand_new", 1)))).status == 200
    assert [one["kind"] for one in stored(daemon)] == ["session", "unparsed"]


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def refusing(common: tuple[Running, Browser]) -> Iterator[Browser]:
    """A browser of a daemon to which nothing is sent that it takes."""
    daemon, browser = common
    yield browser
    assert stored(daemon) == []
    assert daemon.stats().get("errors", {}) == {}


@pytest.mark.parametrize(
    ("body", "coding", "says"),
    [
        (b"{", "", "it is not one object of JSON"),
        (b"[" * 100_000, "", "it is not one object of JSON"),
        (b"{}", "gzip", "cannot be read"),
        (b"{}", "lzma", "its coding 'lzma' is not known"),
    ],
)
def test_body_that_cannot_be_read_is_refused(refusing: Browser, body: bytes, coding: str, says: str) -> None:
    answer = send(refusing, body, coding=coding)
    assert (answer.status, answer.json["code"]) == (400, 3)
    assert answer.json["message"].startswith("the body cannot be read: ")
    assert says in answer.json["message"]


@pytest.mark.parametrize("path", ["/v1/logs", "/v1/traces"])
def test_refusal_of_protobuf_is_in_protobuf(refusing: Browser, path: str) -> None:
    answer = send(refusing, b"\x0a\x7f", PROTOBUF, path)
    assert (answer.status, answer.headers["content-type"]) == (400, PROTOBUF)
    assert answer.body.endswith(b"it ends in the middle of a field")


@pytest.mark.parametrize("path", ["/v1/logs", "/v1/traces", "/v1/metrics"])
def test_other_types_are_refused(refusing: Browser, path: str) -> None:
    answer = send(refusing, b"{}", "text/plain", path)
    assert (answer.status, answer.json["message"]) == (415, f"a body is {JSON} or {PROTOBUF}")


def test_body_that_is_too_long_is_refused(refusing: Browser) -> None:
    assert send(refusing, b" " * (OTLP_BYTES + 1)).error[:2] == (413, "too-large")


def test_body_that_is_too_long_when_it_is_decoded_is_refused(refusing: Browser) -> None:
    answer = send(refusing, gzip.compress(b" " * (OTLP_BYTES + 1)), coding="gzip")
    assert (answer.status, answer.json["message"]) == (
        413,
        f"the body has more than {OTLP_BYTES} bytes when it is decoded",
    )


def test_batch_without_the_token_is_refused(refusing: Browser) -> None:
    answer = send(refusing, encoded(request(*turn())), Authorization="Bearer wrong")
    assert answer.error[:2] == (403, "forbidden")


def test_batch_of_a_foreign_page_is_refused(refusing: Browser) -> None:
    answer = send(refusing, encoded(request(*turn())), Origin="http://evil.example")
    assert answer.error[:2] == (403, "forbidden")


def test_exporter_is_asked_to_come_back_when_too_many_wait(refusing: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "WAITING", 0)
    answer = send(refusing, encoded(request(*turn())))
    assert (answer.status, answer.headers["retry-after"], answer.json["code"]) == (429, "5", 8)


def test_exporter_is_asked_to_come_back_when_there_are_too_many_streams(tmp_path: Path) -> None:
    with browsed(tmp_path, max_streams=1) as (daemon, browser):
        assert send(browser, encoded(request(*turn("s-1")))).status == 200
        answer = send(browser, encoded(request(*turn("s-2"))))
        assert (answer.status, answer.headers["retry-after"]) == (429, "5")
        assert send(browser, encoded(request(event("user_prompt", 10, "s-1")))).status == 200
        assert {one["session"] for one in stored(daemon)} == {"s-1"}
