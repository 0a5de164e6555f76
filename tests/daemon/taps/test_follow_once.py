"""Dedupe: a session that is tapped and followed is ingested once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from tests.cli.command import tooltap
from tests.daemon.events import info
from tests.daemon.taps.following import (
    CLAUDE,
    CLAUDE_SESSION,
    PRINTED,
    Follower,
    append,
    lines_of,
    moved_to_now,
    prompt_line,
    publish,
)
from tooltap.daemon.taps.follow.coverage import Span, is_covered, spans

LINES = lines_of(CLAUDE)
PRINT = lines_of(PRINTED)


def prompts_from_file(events: list[dict[str, Any]]) -> list[str]:
    return [event["text"] for event in events if event.get("role") == "user" and not event["stream"].startswith("run")]


def test_run_covers_its_file(tmp_path: Path) -> None:
    """Lines that are written long after the run are ingested."""
    with Follower(tmp_path, grace=0.5) as follower, follower.connect() as wire:
        publish(wire, "run-1", PRINT)
        lines = moved_to_now(LINES)
        last = prompt_line("At the end", 0)
        append(follower.session, lines[:20])
        follower.read(follower.session, 20)
        wire.send("end")
        wire.until("done")
        append(follower.session, lines[20:])
        left_out = follower.read(follower.session, len(LINES))
        follower.restart(follower.kill)
        append(follower.session, [last, prompt_line("Long after", 60)])
        events = follower.events_when(lambda events: bool(prompts_from_file(events)))

    assert (left_out["events"], left_out["skipped"]["told-elsewhere"]) == (0, 5)
    assert prompts_from_file(events) == ["Long after"]
    assert "parser-reset" not in {event.get("code") for event in events}  # rebuilt, with what was left out


def test_tapped_agent_with_file_is_ingested_once(tmp_path: Path) -> None:
    """Its lines have the time of writing."""
    follower = Follower(tmp_path, grace=4.0)
    with follower:
        now = "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
        keep = f"""sed 's/"timestamp":"[^"]*"/"timestamp":"'{now}'"/' {CLAUDE} >> {follower.session}"""
        run = tooltap("run", "--socket", follower.settings["socket"], "--", "sh", "-c", f"cat {PRINTED}; {keep}")
        followed = follower.read(follower.session, len(LINES))
        events = follower.events_when(lambda events: any(event["kind"] == "tool-result" for event in events))

    assert (run.returncode, run.stdout) == (0, PRINTED.read_bytes())
    assert (followed["events"], followed["skipped"]["told-elsewhere"]) == (0, 5)
    assert {event["stream"].partition("-")[0] for event in events} == {"run"}


def test_run_takes_over_followed_session(tmp_path: Path) -> None:
    with Follower(tmp_path) as follower, follower.connect() as wire:
        append(follower.session, [prompt_line("Before", -60)])
        follower.events_when(lambda events: prompts_from_file(events) == ["Before"])
        publish(wire, "run-1", PRINT)
        append(follower.session, [prompt_line("During", 0)])
        follower.read(follower.session, 2)
        wire.send("end")
        wire.until("done")
        append(follower.session, [prompt_line("After", 60)])
        events = follower.events_when(lambda events: len(prompts_from_file(events)) == 2)

    assert prompts_from_file(events) == ["Before", "After"]


def test_earlier_run_is_not_ingested_again(tmp_path: Path) -> None:
    """Only events from before the run are ingested."""
    follower = Follower(tmp_path, backfill="all", grace=2.0)
    agents = follower.settings["follow"].pop("agents")
    with follower:
        with follower.connect() as wire:
            publish(wire, "run-1", PRINT)
            append(follower.session, [prompt_line("Before", -60), *moved_to_now(LINES)])
            wire.send("end")
            wire.until("done")
        follower.settings["follow"]["agents"] = agents
        follower.restart(follower.stop)
        follower.read(follower.session, len(LINES) + 1)
        events = follower.events_when(lambda events: bool(prompts_from_file(events)))

    assert prompts_from_file(events) == ["Before"]


def test_file_waits_for_suspended_publisher(tmp_path: Path) -> None:
    """The publisher may come back. Once its stream is closed, the rest of the file is ingested."""
    follower = Follower(tmp_path)
    follower.settings["suspend_timeout"] = 0.5
    with follower:
        with follower.connect() as wire:
            publish(wire, "run-1", PRINT)
        append(follower.session, [prompt_line("After", 60)])
        events = follower.events_when(lambda events: bool(prompts_from_file(events)))

    last_of_run = max(event["seq"] for event in events if event["stream"] == "run-1")
    assert last_of_run < min(event["seq"] for event in events if event["stream"] != "run-1")


def test_new_file_waits_for_a_run(tmp_path: Path) -> None:
    with Follower(tmp_path, grace=4.0) as follower, follower.connect() as wire:
        append(follower.session, moved_to_now(LINES))
        publish(wire, "run-1", PRINT)
        left_out = follower.read(follower.session, len(LINES))

    assert left_out["events"] == 0


def stream(name: str, state: Any = "ended", first: int = 100, last: int = 200, dialect: str = "claude-stream") -> Any:
    return info(name, state=state, dialect=dialect, first_t=first, last_t=last)


def test_live_stream_covers_from_first_line() -> None:
    assert spans([stream("run-1")], "file~1", 0, grace=5) == [Span(95, 205)]
    assert spans([stream("run-1", "open")], "file~1", 0, grace=5) == [Span(95, math.inf)]
    assert spans([stream("run-1", "suspended")], "file~1", 0, grace=5) is None
    assert [is_covered(ts, [Span(95, 205)]) for ts in (94, 95, 205, 206)] == [False, True, True, False]


def test_only_files_of_same_name_cover_each_other() -> None:
    """The younger of two leaves out what the older covers."""
    others = [stream(name, dialect="claude-transcript") for name in ("agent-1~2", "file~1")]

    assert spans(others, "file~1", 100, grace=5) == []
    assert spans(others, "file~1~abc", 100, grace=5) == [Span(0, 200)]
    assert spans(others, "file~3", 101, grace=5) == [Span(0, 200)]
    assert spans(others, "file~3", 99, grace=5) == []


def test_only_streams_of_the_session_cover(tmp_path: Path) -> None:
    """A run of another session covers nothing."""
    with Follower(tmp_path) as follower, follower.connect() as wire:
        publish(wire, "run-1", [line.replace(CLAUDE_SESSION.encode(), b"another") for line in PRINT])
        append(follower.session, [prompt_line("Here", 0)])
        events = follower.events_when(lambda events: bool(prompts_from_file(events)))

    assert prompts_from_file(events) == ["Here"]
