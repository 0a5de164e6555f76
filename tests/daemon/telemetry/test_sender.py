"""Spans that a daemon sends to a collector."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from email.utils import formatdate
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)
from structlog.testing import capture_logs

from tests.attacks.masked import kept, lines
from tests.cli.command import CLAUDE, here
from tests.daemon.events import call, commit, event, message, result
from tests.daemon.export.collector import Answer, Seen, Sent, collecting, spans_in, spans_of
from tests.daemon.lives import Gone, Lives, Publisher, wait_for_ack
from tests.daemon.publishing import tapped
from tests.daemon.running import Running, running
from tests.daemon.web.browsing import until
from tooltap.daemon.config import load_config
from tooltap.daemon.export.otlp_names import Name
from tooltap.daemon.journal.sqlite.tables import add_functions, set_meta
from tooltap.daemon.telemetry.sender import DELETED, FIRST_PAUSE
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import SessionEvent, Turn, Usage

FAST: dict[str, Any] = {"telemetry.look_period": 0.02, "telemetry.first_pause": 0.02}


@contextmanager
def sending(folder: Path, url: str, **settings: Any) -> Iterator[Running]:
    otlp = {"url": url, "metrics_interval": 0, **settings.pop("otlp", {})}
    with running(folder, otlp=otlp, **{**FAST, **settings}) as daemon:
        yield daemon


def turn(number: int, session: str = "session-1", stream: str = "s") -> list[Produced]:
    """A turn with a call."""
    at: dict[str, Any] = {"session": session, "stream": stream, "turn": f"t{number}"}
    ts = number * 1_000
    return [
        event(Turn, state="started", index=4 * number, ts=ts, **at),
        call(f"c{number}", index=4 * number + 1, ts=ts + 1, **at),
        result(f"c{number}", index=4 * number + 2, ts=ts + 2, **at),
        event(Turn, state="completed", index=4 * number + 3, ts=ts + 3, **at),
    ]


def received(sent: Sequence[Sent]) -> list[Seen]:
    return [span for one in list(sent) for span in spans_in(one.body)]


def until_received(sent: Sequence[Sent], count: int) -> list[Seen]:
    until(lambda: len({one.id for one in received(sent)}) >= count, f"{count} spans")
    return received(sent)


def test_calls_and_turns_are_sent_as_they_end(tmp_path: Path) -> None:
    started, called, ended, over = turn(1)
    with collecting() as (url, sent), sending(tmp_path, url) as daemon:
        daemon.commit(commit(started, called, ended))
        assert [one.name for one in until_received(sent, 1)] == ["execute_tool Bash"]
        daemon.commit(commit(over, base=1))
        spans = until_received(sent, 2)

    assert [one.name for one in spans] == ["execute_tool Bash", "invoke_agent gemini"]
    assert spans[0].parent == spans[1].id
    assert spans[0].resource[Name.HOST]


def test_request_is_one_of_otlp_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20key")
    with collecting() as (url, sent), sending(tmp_path, url) as daemon:
        daemon.commit(commit(*turn(1)))
        until_received(sent, 2)

    assert sent[0].path == "/v1/traces"
    headers = {name.lower(): value for name, value in sent[0].headers.items()}
    assert (headers["content-type"], headers["authorization"]) == ("application/x-protobuf", "Bearer key")


def test_ids_are_those_of_an_exported_file(tmp_path: Path) -> None:
    with collecting() as (url, sent), sending(tmp_path, url) as daemon:
        assert here("ingest", "--socket", daemon.path, CLAUDE).returncode == 0
        file = spans_of(here("export", "--socket", daemon.path, "--format", "otlp", "last").stdout)
        spans = until_received(sent, len(file))

    assert {(one.trace, one.id, one.parent, one.name) for one in spans} == {
        (one.trace, one.id, one.parent, one.name) for one in file
    }


def test_what_was_stored_before_the_first_time_is_not_sent(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        daemon.commit(commit(*turn(1)))
    with collecting() as (url, sent), sending(tmp_path, url) as daemon:
        daemon.commit(commit(*turn(2), base=1))
        spans = until_received(sent, 2)

    assert {one.attributes.get(Name.CALL) for one in spans} == {None, "c2"}


def test_turn_that_began_before_a_restart_keeps_its_beginning(tmp_path: Path) -> None:
    started, called, ended, over = turn(1)
    with collecting() as (url, sent):
        with sending(tmp_path, url) as daemon:
            daemon.commit(commit(started, called, ended))
            until_received(sent, 1)
            until(lambda: daemon.stats()["telemetry"]["behind"] == 0, "the cursor")
        with sending(tmp_path, url) as daemon:
            daemon.commit(commit(over, base=1))
            spans = until_received(sent, 2)

    [of_turn] = [one for one in spans if one.name.startswith("invoke_agent")]
    assert (of_turn.began, of_turn.id) == (1_000_000_000, spans[0].parent)


def test_forgotten_session_is_read_again_under_all_its_names(tmp_path: Path) -> None:
    _, called, ended, over = turn(1, "real")
    early = event(Turn, state="started", index=90, ts=500, turn="t1", session="early")
    alias = event(SessionEvent, state="updated", index=91, session="real", alias="early", turn="t1")
    with collecting() as (url, sent), sending(tmp_path, url, **{"telemetry.most_sessions": 1}) as daemon:
        daemon.commit(commit(early))
        daemon.commit(commit(alias, called, ended, base=1))
        until_received(sent, 1)
        daemon.commit(commit(*turn(2, "other", "o"), stream="o"))
        until_received(sent, 3)
        daemon.commit(commit(over, base=2))
        spans = until_received(sent, 4)

    [of_turn] = [one for one in spans if one.attributes[Name.CONVERSATION] == "real" and not one.parent]
    assert (of_turn.began, of_turn.id) == (500_000_000, spans[0].parent)


@pytest.mark.parametrize("headers", [{}, {"Retry-After": "0"}, {"Retry-After": formatdate(0)}, {"Retry-After": "soon"}])
def test_busy_collector_gets_the_same_request_again(tmp_path: Path, headers: dict[str, str]) -> None:
    with collecting(Answer(503, headers), Answer(429, headers)) as (url, sent), sending(tmp_path, url) as daemon:
        daemon.commit(commit(*turn(1)))
        until(lambda: daemon.stats()["telemetry"]["sent"] == 2, "the third request")

        assert daemon.stats()["telemetry"]["refused"] == 0
    assert len({one.body for one in sent}) == 1
    assert len(sent) == 3


@pytest.mark.timing
def test_collector_that_refuses_now_and_then_does_not_make_it_lag(tmp_path: Path) -> None:
    """Ten refusals, none of them twice in a row."""
    settings = {"telemetry.most_spans": 10, "telemetry.first_pause": FIRST_PAUSE}
    answers = [Answer(503), Answer()] * 10
    with collecting(*answers) as (url, sent), sending(tmp_path, url, **settings) as daemon:
        began = time.monotonic()
        daemon.commit(commit(*(one for number in range(50) for one in turn(number))))
        until(lambda: daemon.stats()["telemetry"]["sent"] == 100, "the last request")
        assert time.monotonic() - began < 6
        assert len(sent) == 20


def test_collector_that_is_away_gets_everything_later(tmp_path: Path) -> None:
    with collecting() as (url, _):
        pass
    with sending(tmp_path, url) as daemon:
        daemon.commit(commit(*turn(1)))
        until(lambda: "problem" in daemon.stats()["telemetry"], "the problem")
        assert daemon.stats()["telemetry"]["sent"] == 0
    with collecting() as (url, sent), sending(tmp_path, url) as daemon:
        until_received(sent, 2)
        until(lambda: "problem" not in daemon.stats()["telemetry"], "the end of the problem")


def test_what_retention_deletes_before_it_is_sent_is_named(tmp_path: Path) -> None:
    busy = Answer(503, {"Retry-After": "60"})
    with capture_logs() as log, collecting(Answer(), busy) as (old, first), collecting() as (new, sent):
        with sending(tmp_path, old) as daemon:
            daemon.commit(commit(*turn(1), state="ended"))
            until(lambda: daemon.stats()["telemetry"]["sent"] == 2, "the first turn")
            daemon.commit(commit(*turn(2, "gone", "t"), stream="t", state="ended"))
            daemon.commit(commit(*turn(3, "still there", "u"), stream="u"))
            until(lambda: len(first) == 2, "the second request")
            assert daemon.expire(before=1 << 44) == 8
        with sending(tmp_path, new) as daemon:
            until(lambda: daemon.stats()["telemetry"]["sent"] == 2, "the third turn")
            named = daemon.stats()["telemetry"]["deleted"]
        spans = received(sent)

    assert {one.attributes[Name.CONVERSATION] for one in spans} == {"still there"}
    assert named == {"from": 5, "to": 8}
    assert [(one["first"], one["last"]) for one in log if one["event"] == DELETED] == [(5, 8)]


def test_nothing_is_sent_of_what_began_in_deleted_events(tmp_path: Path) -> None:
    """Its id is that of its first event, so that it would be another span than was sent before."""
    busy = Answer(503, {"Retry-After": "60"})
    with collecting(busy) as (away, asked), sending(tmp_path, away) as daemon:
        daemon.commit(commit(*turn(1)), commit(*turn(2), base=1))
        until(lambda: bool(asked), "a request")
    with closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as database:
        add_functions(database)  # as a deletion does that is not over
        database.execute("DELETE FROM events WHERE seq<=2")
        set_meta(database, "expired", 2)
    with collecting() as (url, sent), sending(tmp_path, url) as daemon:
        until(lambda: daemon.stats()["telemetry"]["behind"] == 0, "the end")
        spans = received(sent)

    assert [(one.name, one.began // 1_000_000) for one in spans] == [
        ("execute_tool Bash", 2_001),
        ("invoke_agent gemini", 2_000),
    ]


def test_nothing_is_sent_of_what_began_in_events_that_are_deleted_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the sender knows the session, and waits for the collector."""
    deleted = Event()
    with collecting(Answer(), Answer(after=deleted)) as (url, sent), sending(tmp_path, url) as daemon:
        daemon.commit(commit(*turn(1)))
        until(lambda: daemon.stats()["telemetry"]["sent"] == 2, "the first turn")
        daemon.commit(commit(*turn(2, "other", "t"), stream="t"))
        until(lambda: len(sent) == 2, "the request that waits for its answer")
        daemon.commit(commit(*turn(3), base=1))
        with closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as database:
            add_functions(database)  # as a deletion does that is not over
            database.execute("DELETE FROM events WHERE seq<=4 OR seq IN (9, 10)")
            set_meta(database, "expired", 10)
        monkeypatch.setattr(daemon.daemon.journal, "_last_expired", 10)
        deleted.set()
        until(lambda: daemon.stats()["telemetry"]["behind"] == 0, "the end")
        spans = received(sent)

    assert sorted({(one.attributes[Name.CONVERSATION], one.began // 1_000_000_000) for one in spans}) == [
        ("other", 2),
        ("session-1", 1),
    ]


def test_deletion_of_what_was_sent_is_not_named(tmp_path: Path) -> None:
    with collecting() as (url, _), sending(tmp_path, url) as daemon:
        daemon.commit(commit(*turn(1), state="ended"))
        daemon.commit(commit(*turn(2, "session-2", "t"), stream="t"))
        until(lambda: daemon.stats()["telemetry"]["behind"] == 0, "the spans")
        assert daemon.expire(before=1 << 44) == 4
        daemon.commit(commit(*turn(3, "session-2", "t"), stream="t", base=1))
        until(lambda: daemon.stats()["telemetry"]["sent"] == 6, "the third turn")

        assert "deleted" not in daemon.stats()["telemetry"]


def test_what_a_collector_refuses_is_counted_once_and_said_once(tmp_path: Path) -> None:
    with (
        capture_logs() as log,
        collecting(Answer(400), Answer(400)) as (url, sent),
        sending(tmp_path, url) as daemon,
    ):
        for number in (1, 2, 3):
            daemon.commit(commit(*turn(number), base=number - 1))
            until(lambda: daemon.stats()["telemetry"]["behind"] == 0, "the answer")
        until(lambda: daemon.stats()["telemetry"]["sent"] == 2, "the third turn")

        assert daemon.stats()["telemetry"]["refused"] == 4
    assert len(sent) == 3
    assert [one["reason"] for one in log if one["event"] == "spans are not sent"] == ["it answered 400"]


def test_spans_that_are_rejected_in_part_are_counted(tmp_path: Path) -> None:
    partial = ExportTraceServiceResponse(partial_success=ExportTracePartialSuccess(rejected_spans=1))
    answer = Answer(200, {"Content-Type": "application/x-protobuf"}, partial.SerializeToString())
    with collecting(answer) as (url, _), sending(tmp_path, url) as daemon:
        daemon.commit(commit(*turn(1)))
        until(lambda: daemon.stats()["telemetry"]["sent"] == 1, "the request")

        assert daemon.stats()["telemetry"]["refused"] == 1


def test_request_has_a_limited_number_of_spans(tmp_path: Path) -> None:
    with collecting() as (url, sent), sending(tmp_path, url, **{"telemetry.most_spans": 3}) as daemon:
        daemon.commit(commit(*(one for number in range(1, 6) for one in turn(number))))
        until_received(sent, 10)

    assert [len(spans_in(one.body)) for one in sent] == [3, 3, 3, 1]


def test_texts_are_sent_only_on_request(tmp_path: Path) -> None:
    for content in (False, True):
        started, *rest = turn(1)
        made = (started, message("A secret plan.", turn="t1", index=40), *rest)
        with collecting() as (url, sent), sending(tmp_path / str(content), url, otlp={"content": content}) as daemon:
            daemon.commit(commit(*made))
            until_received(sent, 2)
        assert (b"A secret plan." in b"".join(one.body for one in sent)) == content


def test_secrets_are_never_sent(tmp_path: Path) -> None:
    (tmp_path / "claude.jsonl").write_bytes(lines())
    with collecting() as (url, sent), sending(tmp_path, url, otlp={"content": True}) as daemon:
        command = ("ingest", "--socket", daemon.path, "--dialect", "claude-stream", tmp_path / "claude.jsonl")
        assert here(*command).returncode == 0
        until(lambda: sent and daemon.stats()["telemetry"]["behind"] == 0, "the spans")
        body = b"".join(one.body for one in sent)

    assert kept(body) == []
    assert b"[masked " in body


def test_ingest_does_not_wait_for_a_collector_that_never_answers(tmp_path: Path) -> None:
    with collecting(*[Answer(503, {"Retry-After": "60"})] * 2) as (url, sent), sending(tmp_path, url) as daemon:
        daemon.commit(commit(*turn(1)))
        until(lambda: bool(sent), "the request")
        before = time.monotonic()
        for number in range(2, 50):
            daemon.commit(commit(*turn(number), base=number - 1))

        assert time.monotonic() - before < 30
        assert daemon.stats()["telemetry"]["behind"] == 4 * 49


def reload(daemon: Running, **otlp: Any) -> None:
    """Apply the table `[otlp]` as SIGHUP does."""
    daemon.call(lambda: daemon.daemon.apply(load_config(otlp=otlp)))


def test_collector_that_is_changed_gets_what_the_one_before_has_not_taken(tmp_path: Path) -> None:
    busy = Answer(503, {"Retry-After": "60"})
    with collecting(Answer(), busy) as (old, first), collecting() as (new, sent), sending(tmp_path, old) as daemon:
        daemon.commit(commit(*turn(1)))
        until(lambda: daemon.stats()["telemetry"]["sent"] == 2, "the first turn")
        daemon.commit(commit(*turn(2), base=1))
        until(lambda: "problem" in daemon.stats()["telemetry"], "the second request")
        reload(daemon, url=new, headers={"X-Team": "blue"})
        spans = until_received(sent, 2)

    assert {one.attributes.get(Name.CALL) for one in spans} == {None, "c2"}
    assert (sent[0].headers["X-Team"], len(first)) == ("blue", 2)


def test_sending_begins_and_ends_with_the_setting(tmp_path: Path) -> None:
    with collecting() as (url, sent), running(tmp_path, **FAST) as daemon:
        daemon.commit(commit(*turn(1)))
        assert "telemetry" not in daemon.stats()
        reload(daemon, url=url)
        until(lambda: daemon.daemon._sender._begun, "the beginning")
        daemon.commit(commit(*turn(2), base=1))
        until_received(sent, 2)
        until(lambda: daemon.stats()["telemetry"]["behind"] == 0, "the cursor")
        reload(daemon)
        assert "telemetry" not in daemon.stats()
        daemon.commit(commit(*turn(3), base=2))
        reload(daemon, url=url)
        spans = until_received(sent, 4)

    assert {one.attributes.get(Name.CALL) for one in spans} == {None, "c2", "c3"}


def test_correction_is_sent_under_the_same_id(tmp_path: Path) -> None:
    usage: dict[str, Any] = {"scope": "step", "ts": 5}
    with collecting() as (url, sent), sending(tmp_path, url) as daemon:
        daemon.commit(commit(event(Usage, input_tokens=5, index=1, **usage)))
        until_received(sent, 1)
        daemon.commit(commit(event(Usage, input_tokens=6, index=2, replaces="s:1:1", **usage), base=1))
        until(lambda: len(received(sent)) == 2, "the correction")

    first, second = received(sent)
    assert (first.id, second.attributes[Name.INPUT_TOKENS]) == (second.id, 6)


def test_event_that_cannot_be_read_costs_only_itself(tmp_path: Path) -> None:
    strange = event(Turn, state="started", index=50)
    strange.body = strange.body.replace(b'"started"', b'"dreaming"')
    with collecting() as (url, sent), sending(tmp_path, url) as daemon:
        daemon.commit(commit(strange, *turn(1)))
        until_received(sent, 2)

        assert list(daemon.stats()["errors"]) == ["protocol.events:decode"]


@pytest.mark.process
def test_spans_sent_before_a_kill_are_sent_again_with_the_same_ids_and_none_is_lost(tmp_path: Path) -> None:
    """The daemon dies after the collector has taken the spans, and before it has noted that."""
    records = [tapped(line).rstrip() for line in CLAUDE.read_bytes().splitlines()]
    whole = len(spans_of(here("export", "--format", "otlp", CLAUDE).stdout))
    with collecting() as (url, sent), Lives(tmp_path, otlp={"url": url, "metrics_interval": 0}, **FAST) as lives:
        lives.start("spans-sent:1")
        publisher = Publisher(lives, "claude", records)
        with suppress(Gone):
            publisher.publish(wait_for_ack)
        lives.wait()
        before = {one.id for one in received(sent)}
        assert (lives.hits(), bool(before)) == (["spans-sent"], True)
        lives.start()
        publisher.publish(wait_for_ack)
        again = min(before)
        until(lambda: [one.id for one in received(sent)].count(again) == 2, "a span for the second time")
        assert len({one.id for one in until_received(sent, whole)}) == whole
