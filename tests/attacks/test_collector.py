"""Attacks of a collector on the daemon that sends it spans: answers that never end, say what is not so, or name another
address."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from tests.cli.hostile.texts import HOSTILE, LONG, offences
from tests.daemon.events import commit
from tests.daemon.export.collector import Answer, collecting
from tests.daemon.running import Running
from tests.daemon.telemetry.test_sender import sending, turn
from tests.daemon.web.browsing import until
from tests.http_server import HttpServer, Request, Response

pytestmark = pytest.mark.process

PROTOBUF = "Content-Type: application/x-protobuf"


@contextmanager
def attacked(folder: Path, attack: Callable[[Response], None], **settings: Any) -> Iterator[Running]:
    """A daemon that has sent the spans of a turn to a collector which answers with an attack, as long as it can."""

    def respond(request: Request, response: Response) -> None:
        with suppress(OSError):
            attack(response)
        response.break_off()

    with HttpServer(respond) as server, sending(folder, server.url, **settings) as daemon:
        daemon.commit(commit(*turn(1)))
        until(lambda: server.requests, "a request")
        yield daemon


def until_problem(daemon: Running) -> str:
    until(lambda: "problem" in daemon.stats()["telemetry"], "the problem")
    problem: str = daemon.stats()["telemetry"]["problem"]
    return problem


def never(response: Response) -> None:
    response.wait_until_left()


def promises_forever(response: Response) -> None:
    while True:
        response.write(b"HTTP/1.1 100 Continue\r\n\r\n")


@pytest.mark.parametrize("attack", [never, promises_forever])
def test_answer_that_does_not_end_takes_no_more_than_its_time(
    tmp_path: Path, attack: Callable[[Response], None]
) -> None:
    with attacked(tmp_path, attack, otlp={"timeout": 0.3}) as daemon:
        assert until_problem(daemon) == "it has not answered within 0.3 s"
        daemon.commit(commit(*turn(2), base=1))  # the journal waits for nobody

        assert daemon.stats()["telemetry"]["sent"] == 0


def test_endless_answer_is_read_up_to_its_bound(tmp_path: Path) -> None:
    def pour(response: Response) -> None:
        response.head(200, PROTOBUF)
        while True:
            response.write(b"\x00" * 65_536)

    with attacked(tmp_path, pour, otlp={"timeout": 60.0}) as daemon:
        until(lambda: daemon.stats()["telemetry"]["sent"] == 2, "the end of the request")


@pytest.mark.parametrize("line", [HOSTILE, LONG, "HTTP/1.1 999999 x", "HTTP/1.1 200 OK\r\n" + "x: y\r\n" * 200])
def test_what_is_no_answer_is_named_in_one_harmless_line(tmp_path: Path, line: str) -> None:
    with attacked(tmp_path, lambda response: response.write(f"{line}\r\n\r\n".encode())) as daemon:
        problem = until_problem(daemon)

    assert offences(problem.encode(), terminal=False) == []
    assert (len(problem) <= 100, problem.count("\n")) == (True, 0)
    assert problem.startswith(("it does not speak HTTP: ", "its answer cannot be read: "))


@pytest.mark.parametrize("code", [302, 308])
def test_key_is_not_sent_on_to_another_address(tmp_path: Path, code: int) -> None:
    with (
        collecting() as (other, elsewhere),
        collecting(Answer(code, {"Location": f"{other}/v1/traces"})) as (url, sent),
        sending(tmp_path, url, otlp={"headers": {"Authorization": "Bearer key"}}) as daemon,
    ):
        daemon.commit(commit(*turn(1)))
        until(lambda: daemon.stats()["telemetry"]["refused"] == 2, "the refusal")

        assert "Bearer key" not in str(daemon.stats())
    assert (len(sent), elsewhere) == (1, [])


def test_long_time_to_wait_is_cut(tmp_path: Path) -> None:
    busy = Answer(429, {"Retry-After": "9" * 400})
    with collecting(busy) as (url, _), sending(tmp_path, url, **{"telemetry.longest_pause": 0.02}) as daemon:
        daemon.commit(commit(*turn(1)))
        until(lambda: daemon.stats()["telemetry"]["sent"] == 2, "the second request")


@pytest.mark.parametrize("count", [2**63 - 1, -1])
def test_no_more_spans_are_rejected_than_were_sent(tmp_path: Path, count: int) -> None:
    partial = ExportTraceServiceResponse(partial_success=ExportTracePartialSuccess(rejected_spans=count))
    answer = Answer(200, {"Content-Type": "application/x-protobuf"}, partial.SerializeToString())
    with collecting(answer) as (url, _), sending(tmp_path, url) as daemon:
        daemon.commit(commit(*turn(1)))
        until(lambda: daemon.stats()["telemetry"]["behind"] == 0, "the request")
        found = daemon.stats()["telemetry"]

    assert (found["sent"], found["refused"]) == (0, 2)
