"""A session whose agent sends telemetry, and that is tapped or followed as well, has each of its events once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.daemon.running import Running, Wire
from tests.daemon.taps.following import CLAUDE, CLAUDE_SESSION, PRINTED, lines_of
from tests.daemon.taps.log_records import SECOND, START, encoded, event, request, turn
from tests.daemon.web.browsing import Browser, browsed, socket_lines, until
from tooltap.daemon.taps.stream_ids import recording_id

WRITTEN = START // SECOND + 600
"""When agents write their files, in s: after all that they send."""
LATER = 4_000_000_000
"""A time after the start of any daemon, in s."""
LAST = "The command failed with exit code 3."
"""Text of the last answer in the file."""


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


FOLLOWED = {"agents": ["claude"], "backfill": "all"}
AT_ONCE = {**FOLLOWED, "telemetry_wait": 0}


def store(session: Path, written: int = WRITTEN) -> None:
    """Store the session of Claude Code. `written`: when its file was written last, in s."""
    hidden = session.with_suffix(".new")
    hidden.write_bytes(CLAUDE.read_bytes())
    os.utime(hidden, (written, written))
    hidden.rename(session)


def of_file(daemon: Running) -> list[dict[str, Any]]:
    return [one for one in events(daemon) if one["dialect"] == "claude-transcript"]


def until_file(daemon: Running) -> None:
    """Wait until the file is read to its end, which is an answer."""
    until(lambda: any(one.get("text") == LAST for one in of_file(daemon)), "the events of the file")


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
    store(agents)
    with browsed(tmp_path, follow=FOLLOWED) as (daemon, browser):
        until_file(daemon)
        send(browser, *turn(CLAUDE_SESSION))
        assert of_telemetry(daemon) == []


def test_first_batch_waits_for_the_file_of_its_session(tmp_path: Path, agents: Path) -> None:
    with browsed(tmp_path, follow={**FOLLOWED, "telemetry_wait": 60}) as (daemon, browser):
        sending = Thread(target=send, args=(browser, *turn(CLAUDE_SESSION)))
        sending.start()
        until(lambda: daemon.stats()["web"]["otlp"]["waiting"] == 1, "the batch")
        store(agents)
        sending.join()
        until_file(daemon)
        assert {one["dialect"] for one in events(daemon)} == {"claude-transcript"}
        assert "replaced" not in codes(daemon)


def test_session_without_a_file_is_reported_after_a_while(tmp_path: Path, agents: Path) -> None:
    with browsed(tmp_path, follow={**FOLLOWED, "telemetry_wait": 0.01}) as (daemon, browser):
        send(browser, *turn("elsewhere"))
        assert "tool-result" in of_telemetry(daemon)


# -- a file that is read after telemetry was reported -----------------------------------------------------------------


def codes(daemon: Running) -> list[str]:
    return [one["code"] for one in events(daemon) if one["kind"] == "notice"]


def row(daemon: Running) -> dict[str, Any]:
    """What lists show of the session, without what depends on when and how often something was stored."""
    with daemon.connect() as wire:
        [one] = [one for one in wire.ask("sessions")["sessions"] if one["session"] == CLAUDE_SESSION]
    return {key: one.get(key) for key in ("calls", "turns", "usage", "costUsd", "title", "families", "pinned")}


@pytest.fixture
def alone(tmp_path: Path, agents: Path) -> dict[str, Any]:
    """What lists show of the session if there was no telemetry."""
    store(agents)
    (tmp_path / "alone").mkdir()
    with browsed(tmp_path / "alone", follow=AT_ONCE) as (daemon, _):
        until_file(daemon)
        found = row(daemon)
    agents.unlink()
    return found


def test_file_replaces_what_telemetry_has_reported(tmp_path: Path, agents: Path, alone: dict[str, Any]) -> None:
    with browsed(tmp_path, follow=AT_ONCE) as (daemon, browser):
        send(browser, *turn(CLAUDE_SESSION))
        assert "tool-result" in of_telemetry(daemon)
        store(agents)
        until_file(daemon)
        assert of_telemetry(daemon) == []
        assert row(daemon) == alone


def test_subscriber_is_told_that_telemetry_was_replaced(tmp_path: Path, agents: Path) -> None:
    with browsed(tmp_path, follow=AT_ONCE) as (daemon, browser):
        send(browser, *turn(CLAUDE_SESSION))
        store(agents)
        until_file(daemon)
        first = of_file(daemon)[0]
        assert (first["kind"], first["code"], first["session"]) == ("notice", "replaced", CLAUDE_SESSION)
        assert codes(daemon) == ["replaced"]


def test_rest_of_a_turn_is_left_to_the_file_that_has_come(tmp_path: Path, agents: Path, alone: dict[str, Any]) -> None:
    records = turn(CLAUDE_SESSION)
    with browsed(tmp_path, follow=AT_ONCE) as (daemon, browser):
        send(browser, *records[:2])
        assert of_telemetry(daemon)[-1] == "tool-call"
        store(agents)
        until_file(daemon)
        send(browser, *records[2:], *turn(CLAUDE_SESSION, first=10))
        assert of_telemetry(daemon) == []
        assert row(daemon) == alone


def test_file_and_telemetry_that_come_at_once_are_reported_once(
    tmp_path: Path, agents: Path, alone: dict[str, Any]
) -> None:
    with browsed(tmp_path, follow=AT_ONCE) as (daemon, browser):
        sending = [Thread(target=send, args=(browser, one)) for one in turn(CLAUDE_SESSION)]
        for number, thread in enumerate(sending):
            thread.start()
            if number == 1:
                store(agents)
        for thread in sending:
            thread.join()
        until_file(daemon)
        assert of_telemetry(daemon) == []
        assert row(daemon) == alone


def test_file_that_comes_while_the_daemon_is_away_replaces_telemetry(
    tmp_path: Path, agents: Path, alone: dict[str, Any]
) -> None:
    with browsed(tmp_path, follow=AT_ONCE) as (daemon, browser):
        send(browser, *turn(CLAUDE_SESSION))
    store(agents)
    with browsed(tmp_path, follow=AT_ONCE) as (daemon, browser):
        until_file(daemon)
        assert of_telemetry(daemon) == []
        assert row(daemon) == alone


def test_telemetry_that_was_replaced_stays_so_after_a_restart(
    tmp_path: Path, agents: Path, alone: dict[str, Any]
) -> None:
    with browsed(tmp_path, follow=AT_ONCE) as (daemon, browser):
        send(browser, *turn(CLAUDE_SESSION))
        store(agents)
        until_file(daemon)
    with browsed(tmp_path, follow=AT_ONCE) as (daemon, browser):
        send(browser, *turn(CLAUDE_SESSION), *turn(CLAUDE_SESSION, first=10))
        assert of_telemetry(daemon) == []
        assert row(daemon) == alone


def test_lines_from_before_the_start_are_read_if_they_replace_telemetry(
    tmp_path: Path, agents: Path, alone: dict[str, Any]
) -> None:
    with browsed(tmp_path, follow={**AT_ONCE, "backfill": "none"}) as (daemon, browser):
        send(browser, *turn(CLAUDE_SESSION))
        store(agents, LATER)
        until_file(daemon)
        assert row(daemon) == alone


def test_session_stays_pinned_when_its_file_replaces_telemetry(tmp_path: Path, agents: Path) -> None:
    with browsed(tmp_path, follow=AT_ONCE) as (daemon, browser):
        send(browser, *turn(CLAUDE_SESSION))
        with daemon.connect() as wire:
            wire.ask("pin", session=CLAUDE_SESSION, pinned=True)
        store(agents)
        until_file(daemon)
        assert row(daemon)["pinned"] is True


def test_file_that_was_written_before_telemetry_replaces_nothing(tmp_path: Path, agents: Path) -> None:
    with browsed(tmp_path, follow=AT_ONCE) as (daemon, browser):
        send(browser, *turn(CLAUDE_SESSION))
        before = of_telemetry(daemon)
        store(agents, START // SECOND - 60)
        until_file(daemon)
        assert of_telemetry(daemon) == before


def test_telemetry_of_a_session_that_is_tapped_as_well_is_not_deleted(tmp_path: Path, agents: Path) -> None:
    with browsed(tmp_path, follow=AT_ONCE) as (daemon, browser):
        send(browser, *turn(CLAUDE_SESSION))
        before = of_telemetry(daemon)
        tap(daemon)
        store(agents)
        stream = recording_id(str(agents))
        until(lambda: any(one["stream"] == stream and one["lines"] for one in daemon.stats()["perStream"]), "the file")
        assert of_telemetry(daemon) == before
        assert codes(daemon) == []


def test_what_is_left_out_is_counted(daemon: Running, browser: Browser) -> None:
    tap(daemon)
    send(browser, *turn(CLAUDE_SESSION))
    with daemon.connect() as wire:
        [one] = [one for one in wire.ask("stats")["perStream"] if one["stream"].startswith("otlp-")]
    assert one["lines"] == 5
    assert one["skipped"] == {"told-elsewhere": 5}
