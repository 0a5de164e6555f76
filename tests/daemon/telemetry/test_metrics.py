"""Metrics that a daemon sends to a collector: sums of what the events state, each counted once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from tests.cli.command import CLAUDE, here
from tests.daemon.events import commit, event
from tests.daemon.export.collector import Point, Sent, collecting, points_in
from tests.daemon.export.exporting import events_of
from tests.daemon.lives import Gone, Lives, Publisher, wait_for_ack
from tests.daemon.publishing import tapped
from tests.daemon.running import Running
from tests.daemon.telemetry.test_sender import FAST, sending, turn
from tests.daemon.web.browsing import until
from tests.http_server import HttpServer, Request, Response
from tests.normalizers.reading import FIXTURES
from tooltap.daemon.export.otlp import SessionSpans, Span, scope
from tooltap.daemon.export.otlp_names import Metric, Name
from tooltap.daemon.telemetry.metrics import MOST_SERIES, Metrics, Sums, Waits, groups_of
from tooltap.daemon.telemetry.protobuf import encode_metrics
from tooltap.protocol.events import PermissionRequest, PermissionResponse, SessionEvent, ToolResult, Turn, Usage

PARALLEL = FIXTURES / "claude-stream" / "claude-code-2.1.330" / "subagents-parallel.jsonl"
PIECES = [PARALLEL, FIXTURES / "codex-app-server" / "codex-0.169" / "subagent.jsonl"]
ALWAYS = {"metrics_interval": 0.02}


def stated_in(path: Path) -> dict[str, float]:
    """What the events of a recording state, added up without spans: tokens of requests, or of turns without any, and
    how many turns and calls ended."""
    events = [one for one in events_of(path) if not one.replay]
    used = [one for one in events if isinstance(one, Usage) and one.scope != "session" and one.beside is None]
    replaced = {one.replaces for one in used}
    with_requests = {(one.agent, one.turn) for one in used if one.scope == "step"}
    requests = [
        one
        for one in used
        if one.id not in replaced and (one.scope == "step" or (one.agent, one.turn) not in with_requests)
    ]
    turns = {(one.stream, one.agent, one.turn) for one in events if isinstance(one, Turn) and one.state != "started"}
    calls = {one.call_id for one in events if isinstance(one, ToolResult) and not one.async_}
    return {
        Metric.INPUT_TOKENS: sum(one.input_tokens or 0 for one in requests),
        Metric.OUTPUT_TOKENS: sum(one.output_tokens or 0 for one in requests),
        Metric.CACHE_READ_TOKENS: sum(one.cache_read_tokens or 0 for one in requests),
        Metric.TURN_DURATION: len(turns),
        Metric.CALL_DURATION: len(calls),
    }


def summed(points: Sequence[Point]) -> dict[str, float]:
    found: Counter[str] = Counter()
    for one in points:
        found[one.name] += one.number if one.name.endswith(".duration") else one.value  # type: ignore[assignment]
    return {name: found[name] for name in stated_in(CLAUDE)}


def metrics_in(sent: Sequence[Sent]) -> list[list[Point]]:
    return [points_in(one.body) for one in list(sent) if one.path == "/v1/metrics"]


def latest(sent: Sequence[Sent]) -> list[Point]:
    found = metrics_in(sent)
    return found[-1] if found else []


def counted(spans: Sequence[Span]) -> list[Point]:
    metrics = Metrics(Sums(1))
    metrics.count("claude", spans)
    return points_of(metrics)


def points_of(metrics: Metrics, **waiting: Waits) -> list[Point]:
    return points_in(encode_metrics(groups_of(metrics.sums, waiting, 2, "host"), scope()))


def spans_of(*events: Any) -> list[Span]:
    spans = SessionSpans(has_content=True)
    return [one for given in events for one in spans.add(given)]


def usage(number: int, **fields: Any) -> Usage:
    envelope: dict[str, Any] = {"v": 2, "stream": "s", "line": number, "session": "s", "protocol": "p"}
    stated = {"scope": "step", "provider": "claude", "dialect": "d", "model": "claude-opus-5", "ts": number}
    return Usage(id=f"s:{number}:0", **{**envelope, **stated, **fields})


@pytest.mark.parametrize("path", [CLAUDE, *PIECES])
def test_sums_are_those_of_the_events(path: Path) -> None:
    stated = stated_in(path)

    assert summed(counted(spans_of(*events_of(path)))) == stated
    assert stated[Metric.CALL_DURATION]


def test_sums_are_by_model_provider_and_tool() -> None:
    points = counted(spans_of(*events_of(PARALLEL)))
    [tokens] = {tuple(one.attributes) for one in points if one.name == Metric.INPUT_TOKENS}
    tools = {one.attributes[Name.TOOL]: one.number for one in points if one.name == Metric.CALL_DURATION}
    ended = Counter(one.name for one in events_of(PARALLEL) if isinstance(one, ToolResult) and not one.async_)

    assert tokens == (Name.OPERATION, Name.PROVIDER, Name.MODEL, Name.MODALITY)
    assert {one.attributes.get(Name.PROVIDER, "anthropic") for one in points} == {"anthropic"}
    assert tools == ended


def test_duration_is_in_seconds_and_in_its_bucket() -> None:
    ended = [one.seconds for one in spans_of(*events_of(PARALLEL)) if one.attributes[Name.OPERATION] == "chat"]
    points = [one for one in counted(spans_of(*events_of(PARALLEL))) if one.name == Metric.REQUEST_DURATION]

    assert sum(one.value for one in points) == pytest.approx(sum(ended))
    assert sum(one.buckets[0] for one in points) == sum(one <= 0.01 for one in ended)
    assert sum(sum(one.buckets) for one in points) == len(ended)


def test_what_failed_is_counted_by_its_error() -> None:
    path = FIXTURES / "claude-stream" / "claude-code-2.1.330" / "tool-errors.jsonl"
    points = [one for one in counted(spans_of(*events_of(path))) if one.name == Metric.CALL_DURATION]
    failed = sum(one.status == "failed" for one in events_of(path) if isinstance(one, ToolResult))

    assert sum(one.number for one in points if Name.ERROR in one.attributes) == failed > 0


def test_correction_counts_only_what_it_adds() -> None:
    first, second = usage(1, input_tokens=5), usage(2, input_tokens=7, replaces="s:1:0")
    tokens, duration, *_ = counted(spans_of(first, second))

    assert (tokens.name, tokens.value) == (Metric.INPUT_TOKENS, 7)
    assert (duration.name, duration.number) == (Metric.REQUEST_DURATION, 1)


def test_sum_never_falls() -> None:
    """A receiver would take a sum that falls for one that began again."""
    metrics = Metrics(Sums(1))
    spans = SessionSpans(has_content=False)
    seen = []
    for one in (
        usage(1, input_tokens=9),
        usage(2, input_tokens=4, replaces="s:1:0"),
        usage(3, input_tokens=3),
        usage(4, input_tokens=5),
    ):
        metrics.count("claude", spans.add(one))
        seen.append(points_of(metrics)[0].value)

    assert seen == [9, 9, 9, 12]


def test_cost_of_a_turn_counts_unless_its_requests_state_theirs() -> None:
    def cost(*events: Any) -> float:
        return sum(one.value for one in counted(spans_of(*events)) if one.name == Metric.COST)

    started = next(one for one in events_of(CLAUDE) if isinstance(one, Turn) and one.state == "started")
    at = {"turn": started.turn, "session": started.session, "stream": started.stream}
    ended = next(one for one in events_of(CLAUDE) if isinstance(one, Turn) and one.state != "started")
    of_turn = usage(9, scope="turn", cost_usd=0.5, **at)

    assert cost(started, usage(1, **at), of_turn, ended) == 0.5
    assert cost(started, usage(1, cost_usd=0.25, **at), of_turn, ended) == 0.25


def test_number_of_series_is_limited_and_no_token_is_lost() -> None:
    points = counted(spans_of(*(usage(one, input_tokens=1, model=f"m{one}") for one in range(1, MOST_SERIES + 9))))
    tokens = [one for one in points if one.name == Metric.INPUT_TOKENS]

    assert sum(one.value for one in tokens) == MOST_SERIES + 8
    assert [one.agent for one in tokens if one.attributes.get(Name.OVERFLOW)] == ["others"]
    assert len(points) < MOST_SERIES + len(Metric)


@pytest.mark.parametrize("figure", [10**30, -(10**30)])
def test_figure_that_is_no_count_does_not_count(figure: int) -> None:
    assert counted(spans_of(usage(1, input_tokens=figure)))[0].name == Metric.REQUEST_DURATION


def test_request_has_the_same_metrics_in_protobuf_as_in_json() -> None:
    metrics = Metrics(Sums(1))
    metrics.count("claude", spans_of(*events_of(PARALLEL), usage(1, cost_usd=0.5)))
    groups = groups_of(metrics.sums, {"codex": Waits(1, 2)}, 2, "host")
    scoped = {"scope": scope(), "metrics": None}
    as_json = {
        "resourceMetrics": [
            {"resource": {"attributes": resource}, "scopeMetrics": [{**scoped, "metrics": found}]}
            for resource, found in groups
        ]
    }

    read = ExportMetricsServiceRequest.FromString(encode_metrics(groups, scope()))
    assert read == ParseDict(as_json, ExportMetricsServiceRequest())


@contextmanager
def measured(folder: Path, **otlp: Any) -> Iterator[tuple[Running, list[Sent]]]:
    with collecting() as (url, sent), sending(folder, url, otlp={**ALWAYS, **otlp}) as daemon:
        yield daemon, sent


def test_daemon_sends_sums_of_what_was_published(tmp_path: Path) -> None:
    with measured(tmp_path) as (daemon, sent):
        assert here("ingest", "--socket", daemon.path, PARALLEL).returncode == 0
        until(lambda: summed(latest(sent)) == stated_in(PARALLEL), "the sums")

        assert {one.agent for one in latest(sent)} == {"claude"}
        until(lambda: daemon.stats()["telemetry"]["pointsSent"], "the statistics")


def test_what_waits_is_counted_as_long_as_it_waits(tmp_path: Path) -> None:
    def waiting(sent: Sequence[Sent]) -> list[float]:
        names = (Metric.WAITING_SESSIONS, Metric.WAITING_QUESTIONS)
        return [one.value for one in latest(sent) if one.name in names]

    asked = [
        event(PermissionRequest, permission_id=one, type="permission", ts=1, index=number)
        for number, one in enumerate(("p", "q"), 10)
    ]
    answered = [
        event(PermissionResponse, permission_id=one, outcome="allowed", ts=2, index=number)
        for number, one in enumerate(("p", "q"), 20)
    ]
    with measured(tmp_path) as (daemon, sent):
        daemon.commit(commit(*turn(1), event(SessionEvent, state="started", index=9), *asked))
        until(lambda: waiting(sent) == [1, 2], "two questions")
        daemon.commit(commit(*answered, base=1))
        until(lambda: waiting(sent) == [0, 0], "none")


def test_no_metrics_are_sent_without_an_interval(tmp_path: Path) -> None:
    with measured(tmp_path, metrics_interval=0) as (daemon, sent):
        daemon.commit(commit(*turn(1)))
        until(lambda: daemon.stats()["telemetry"]["sent"] == 2, "the spans")

    assert metrics_in(sent) == []


def test_collector_that_takes_no_metrics_is_asked_once(tmp_path: Path) -> None:
    def respond(request: Request, response: Response) -> None:
        response.whole(404 if request.target == "/v1/metrics" else 200, b"")

    with HttpServer(respond) as server, sending(tmp_path, server.url, otlp=ALWAYS) as daemon:
        daemon.commit(commit(*turn(1)))
        until(lambda: "metricsProblem" in daemon.stats()["telemetry"], "the answer")
        daemon.commit(commit(*turn(2), base=1))
        until(lambda: daemon.stats()["telemetry"]["sent"] == 4, "more spans")

        assert daemon.stats()["telemetry"]["metricsProblem"] == "it answered 404"
        assert "problem" not in daemon.stats()["telemetry"]
    assert [one.target for one in server.requests].count("/v1/metrics") == 1


@pytest.mark.process
@pytest.mark.parametrize("hit", [1, 3])
def test_nothing_counts_twice_after_a_kill(tmp_path: Path, hit: int) -> None:
    """The daemon dies after the collector has taken spans, and before the sums are stored with the cursor."""
    records = [tapped(line).rstrip() for line in PARALLEL.read_bytes().splitlines()]
    with (
        collecting() as (url, sent),
        Lives(tmp_path, otlp={"url": url, **ALWAYS}, **FAST, **{"telemetry.read": 4_000}) as lives,
    ):
        lives.start(f"spans-sent:{hit}")
        publisher = Publisher(lives, "claude", records)
        with suppress(Gone):
            publisher.publish(wait_for_ack)
        lives.wait()
        assert lives.hits() == ["spans-sent"]
        lives.start()
        publisher.publish(wait_for_ack)
        until(lambda: summed(latest(sent)) == stated_in(PARALLEL), "the sums")
    requests = metrics_in(sent)
    known: dict[str, float] = {}
    for points in requests:
        for one in points:
            if one.began:
                key = json.dumps([one.name, one.attributes])
                assert one.value >= known.get(key, 0)
                known[key] = one.value
    assert len({one.began for points in requests for one in points if one.began}) == 1
