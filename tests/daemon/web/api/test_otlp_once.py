"""A session whose agent sends telemetry, and that is tapped or followed as well, has each of its events once."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.daemon.running import Running, Wire
from tests.daemon.taps.following import CLAUDE, CLAUDE_SESSION, PRINTED, lines_of
from tests.daemon.taps.log_records import encoded, event, request, turn
from tests.daemon.web.browsing import Browser, browsed, socket_lines, until
from tooltap.daemon.taps.otlp import receiver


def send(browser: Browser, *records: dict[str, Any]) -> None:
    answer = browser.get(
        "/v1/logs", {"Content-Type": "application/json"}, method="POST", body=encoded(request(*records))
    )
    assert answer.status == 200, answer.body


def events(daemon: Running) -> list[dict[str, Any]]:
    return [json.loads(line) for line in socket_lines(daemon)]


def of_telemetry(daemon: Running) -> list[str]:
    return [one["kind"] for one in events(daemon) if one["dialect"] == "otlp"]


def tap(daemon: Running) -> Wire:
    """A tap of Claude Code that has printed all of a run, and has not ended."""
    wire = daemon.connect()
    wire.send("ingest", stream="tap", dialect="claude-stream")
    wire.until("ingesting")
    wire.write(b"".join(lines_of(PRINTED)))
    until(lambda: any(one["stream"] == "tap" for one in events(daemon)), "the events of the tap")
    return wire


@pytest.fixture
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store of Claude Code; returns where it keeps the session."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    session = tmp_path / "claude" / "projects" / "-ws" / f"{CLAUDE_SESSION}.jsonl"
    session.parent.mkdir(parents=True)
    return session


def test_tap_reports_its_session_alone(daemon: Running, browser: Browser) -> None:
    tap(daemon)
    before = events(daemon)
    send(browser, *turn(CLAUDE_SESSION))
    assert events(daemon) == before


def test_telemetry_of_another_session_is_reported(daemon: Running, browser: Browser) -> None:
    tap(daemon)
    send(browser, *turn("another"))
    assert of_telemetry(daemon).count("tool-result") == 1


def test_record_that_cannot_be_read_is_reported_beside_a_tap(daemon: Running, browser: Browser) -> None:
    tap(daemon)
    send(browser, event("brand_new", 1, CLAUDE_SESSION))
    assert of_telemetry(daemon) == ["unparsed"]


def test_tap_that_comes_later_reports_all_that_its_agent_prints(daemon: Running, browser: Browser) -> None:
    send(browser, *turn(CLAUDE_SESSION))
    tap(daemon)
    kinds = [one["kind"] for one in events(daemon) if one["stream"] == "tap"]
    assert kinds.count("tool-result") == 1
    assert "message" in kinds


def test_next_turn_is_left_to_a_tap_that_has_come(daemon: Running, browser: Browser) -> None:
    send(browser, *turn(CLAUDE_SESSION))
    before = of_telemetry(daemon)
    tap(daemon)
    send(browser, *turn(CLAUDE_SESSION, first=10))
    assert of_telemetry(daemon) == [*before, "turn"]  # the end of the turn that it has reported


def test_call_that_was_reported_gets_its_result_although_a_tap_has_come(daemon: Running, browser: Browser) -> None:
    records = turn(CLAUDE_SESSION)
    send(browser, *records[:2])
    assert of_telemetry(daemon)[-1] == "tool-call"
    tap(daemon)
    send(browser, *records[2:])
    assert "tool-result" in of_telemetry(daemon)


def test_followed_file_reports_its_session_alone(tmp_path: Path, agents: Path) -> None:
    agents.write_bytes(CLAUDE.read_bytes())
    with browsed(tmp_path, follow={"agents": ["claude"], "backfill": "all"}) as (daemon, browser):
        until(lambda: any(one["kind"] == "tool-result" for one in events(daemon)), "the events of the file")
        send(browser, *turn(CLAUDE_SESSION))
        assert of_telemetry(daemon) == []


def test_first_batch_waits_for_the_file_of_its_session(
    tmp_path: Path, agents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver, "FILE_PATIENCE", 300.0)
    with browsed(tmp_path, follow={"agents": ["claude"], "backfill": "all"}) as (daemon, browser):
        sending = Thread(target=send, args=(browser, *turn(CLAUDE_SESSION)))
        sending.start()
        until(lambda: daemon.stats()["web"]["otlp"]["waiting"] == 1, "the batch")
        agents.write_bytes(CLAUDE.read_bytes())
        sending.join()
        assert "tool-result" in [one["kind"] for one in events(daemon)]
        assert of_telemetry(daemon) == []


def test_session_without_a_file_is_reported_after_a_while(
    tmp_path: Path, agents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver, "FILE_PATIENCE", 0.01)
    with browsed(tmp_path, follow={"agents": ["claude"]}) as (daemon, browser):
        send(browser, *turn("elsewhere"))
        assert "tool-result" in of_telemetry(daemon)


def test_what_is_left_out_is_counted(daemon: Running, browser: Browser) -> None:
    tap(daemon)
    send(browser, *turn(CLAUDE_SESSION))
    with daemon.connect() as wire:
        [one] = [one for one in wire.ask("stats")["perStream"] if one["stream"].startswith("otlp-")]
    assert one["lines"] == 5
    assert one["skipped"] == {"told-elsewhere": 5}
