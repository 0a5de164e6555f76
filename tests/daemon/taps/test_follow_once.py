"""Dedupe: a session that is tapped and followed is ingested once."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.events import info
from tests.daemon.taps.following import (
    CLAUDE,
    CLAUDE_SESSION,
    PRINTED,
    Follower,
    append,
    lines_of,
    make_old,
    moved_to_now,
    named,
    prompt_line,
    publish,
    publish_more,
)
from tooltap.daemon.system.clock import wall_clock
from tooltap.daemon.taps.delivery.announcement import Announced, announce, withdraw
from tooltap.daemon.taps.follow.overlap import Span, covering, spans

LINES = lines_of(CLAUDE)
PRINT = lines_of(PRINTED)
NOT_PRINTED = {"message": 1, "session": 2, "usage": 3}
"""What is ingested of `LINES` beside `PRINT`, by kind."""
PROMPT = json.loads(LINES[2])["message"]["content"]


def prompts_from_file(events: list[dict[str, Any]]) -> list[str]:
    return [event["text"] for event in events if event.get("role") == "user" and not event["stream"].startswith("run")]


def test_run_covers_its_file(tmp_path: Path) -> None:
    """Only what Claude Code does not print is ingested: the prompt, the session's branch, tokens of each request (two,
    and the total); and what is written after the run."""
    with Follower(tmp_path, grace=0.5, tolerance=0.5) as follower, follower.connect() as wire:
        publish(wire, "run-1", PRINT)
        lines = moved_to_now(LINES)
        append(follower.session, lines[:20])
        follower.read(follower.session, 20)
        wire.send("end")
        wire.until("done")
        append(follower.session, lines[20:])
        left_out = follower.read(follower.session, len(LINES))
        follower.restart(follower.kill)
        append(follower.session, [prompt_line("Long after", 60)])
        events = follower.events_when(lambda events: len(prompts_from_file(events)) == 2)

    assert left_out["kinds"] == NOT_PRINTED
    assert left_out["skipped"]["told-elsewhere"] == 1
    assert prompts_from_file(events) == [PROMPT, "Long after"]
    assert "parser-reset" not in {event.get("code") for event in events}  # rebuilt, with what was left out


@pytest.mark.parametrize(
    ("stored", "kept"), [({"interrupted": True}, []), ("Error: Exit code 3\nboom: something broke", ["failed"])]
)
def test_result_that_is_stored_after_the_run_is_the_files_own_if_it_is_news(
    stored: Any, kept: list[str], tmp_path: Path
) -> None:
    """The run ended, and its calls with it, but what it had started works on: that of Qwen Code, which has been
    interrupted, too, or an agent whose tap was killed."""
    line = json.loads(LINES[20])
    result = json.dumps({**line, "toolUseResult": stored}, separators=(",", ":")).encode() + b"\n"
    with Follower(tmp_path, grace=0.5, tolerance=0.5) as follower, follower.connect() as wire:
        publish(wire, "run-1", PRINT[:9])
        append(follower.session, moved_to_now(LINES[:20]))
        follower.read(follower.session, 20)
        wire.send("end")
        wire.until("done")
        append(follower.session, [*moved_to_now([result], 60), prompt_line("Long after", 61)])
        events = follower.events_when(lambda events: "Long after" in prompts_from_file(events))

    results = [(event["stream"] == "run-1", event["status"]) for event in events if event["kind"] == "tool-result"]
    assert results == [(True, "interrupted"), *((False, status) for status in kept)]


@pytest.mark.parametrize("first", ["run", "file"])
def test_tokens_and_costs_of_a_run_and_its_file_count_once(tmp_path: Path, first: str) -> None:
    """Two requests of 2,400 tokens in and 42 out, $0.00732 each: both sources state them, each in its own way."""
    with Follower(tmp_path) as follower, follower.connect() as wire, follower.connect() as asking:
        publish(wire, "run-1", PRINT[:1] if first == "file" else PRINT)
        append(follower.session, moved_to_now(LINES))
        follower.read(follower.session, len(LINES))
        if first == "file":
            publish_more(wire, PRINT[1:], len(PRINT))
        wire.send("end")
        wire.until("done")
        (session,) = asking.ask("sessions")["sessions"]
        sums = [asking.ask("usage", by=by)["total"] for by in ("day", "model", "session")]

    for one in (session, *sums):
        assert (one["inputTokens"], one["outputTokens"]) == (4_800, 84)
        assert one["costUsd"] == pytest.approx(0.01464)


def test_prompt_that_the_agent_stores_in_quotes_is_there_once(tmp_path: Path) -> None:
    """As `opencode run 'Say "hello" twice'` stores it."""
    said = 'Say "hello" twice'
    typed = json.dumps({"type": "user", "message": {"role": "user", "content": said}}).encode() + b"\n"
    with Follower(tmp_path) as follower, follower.connect() as wire:
        publish(wire, "run-1", PRINT[:1])
        publish_more(wire, [typed], 2, direction="in")
        append(follower.session, [prompt_line(json.dumps(said), 0)])
        follower.read(follower.session, 1)
        append(follower.session, [prompt_line("Only here", 0)])
        events = follower.events_when(lambda events: "Only here" in prompts_from_file(events))

    assert [event["text"] for event in events if event.get("role") == "user"] == [said, "Only here"]


def test_prompts_are_there_once(tmp_path: Path) -> None:
    """From whichever stream has them first; the same words, said twice, are there twice."""
    typed = json.dumps({"type": "user", "message": {"role": "user", "content": "Again"}}).encode() + b"\n"
    with Follower(tmp_path) as follower, follower.connect() as wire:
        publish(wire, "run-1", PRINT[:1])
        append(follower.session, [prompt_line("Again", 0)])
        follower.read(follower.session, 1)
        publish_more(wire, [typed], 2, direction="in")
        publish_more(wire, [typed], 3, direction="in")
        follower.restart(follower.kill)
        with follower.connect() as again:
            publish(again, "run-1", [])
            append(follower.session, [prompt_line("Again", 0), prompt_line("Again\n\nfrom standard input", 0)])
            follower.read(follower.session, 3)
            append(follower.session, [prompt_line("Only here", 0)])
            follower.read(follower.session, 4)
            events = follower.events_when(lambda events: "Only here" in prompts_from_file(events))

    said = [event["text"] for event in events if event.get("role") == "user"]
    assert said == ["Again", "Again", "Again\n\nfrom standard input", "Only here"]
    assert [event["stream"][:3] for event in events if event.get("role") == "user"][1] == "run"


def test_run_takes_over_followed_session(tmp_path: Path) -> None:
    with Follower(tmp_path) as follower, follower.connect() as wire:
        append(follower.session, [prompt_line("Before", -60)])
        follower.events_when(lambda events: prompts_from_file(events) == ["Before"])
        publish(wire, "run-1", PRINT)
        append(follower.session, moved_to_now(LINES[3:]))
        follower.read(follower.session, len(LINES) - 2)
        wire.send("end")
        wire.until("done")
        append(follower.session, [prompt_line("After", 60)])
        events = follower.events_when(lambda events: len(prompts_from_file(events)) == 2)

    assert prompts_from_file(events) == ["Before", "After"]
    assert {event["stream"] for event in events if event["kind"] == "tool-call"} == {"run-1"}


def test_earlier_run_is_not_ingested_again(tmp_path: Path) -> None:
    """Only events from before the run are ingested."""
    follower = Follower(tmp_path, backfill="all", grace=30.0, tolerance=30.0)
    agents = follower.settings["follow"].pop("agents")
    with follower:
        with follower.connect() as wire:
            publish(wire, "run-1", PRINT)
            append(follower.session, [prompt_line("Before", -60), *moved_to_now(LINES)])
            make_old(follower.session, 40)  # no new file, which would wait
            wire.send("end")
            wire.until("done")
        follower.settings["follow"]["agents"] = agents
        follower.restart(follower.stop)
        follower.read(follower.session, len(LINES) + 1)
        events = follower.events_when(lambda events: len(prompts_from_file(events)) == 2)

    assert prompts_from_file(events) == ["Before", PROMPT]
    assert {event["stream"] for event in events if event["kind"] == "tool-call"} == {"run-1"}


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


def waits_for_a_run(directory: Path, *parts: list[bytes]) -> None:
    """The file waits for an hour, so however late the run comes. To the next daemon it is no longer new, and yet its
    last change is near enough to the run."""
    follower = Follower(directory, grace=3_600.0, tolerance=30.0)
    with follower:
        with follower.connect() as wire:
            for number, lines in enumerate(parts):
                append(follower.session, lines)
                append(
                    follower.projects / f"{number}.jsonl", named(LINES[2:3], number)
                )  # noticed no earlier than the session
                files = number + 2
                follower.wait_stats(
                    lambda stats, files=files: stats["following"]["files"] == stats["following"]["waiting"] == files  # type: ignore[misc]
                )
            publish(wire, "run-1", PRINT)
            wire.send("end")
            wire.until("done")
        make_old(follower.session, grace := 30.0)
        follower.settings["follow"]["grace"] = grace
        follower.restart(follower.stop)
        left_out = follower.read(follower.session, len(LINES))

    assert left_out["kinds"] == NOT_PRINTED


def test_new_file_waits_for_a_run(tmp_path: Path) -> None:
    waits_for_a_run(tmp_path, moved_to_now(LINES))


def test_new_file_waits_as_long_when_it_is_written_again(tmp_path: Path) -> None:
    """A second write does not end the waiting time."""
    lines = moved_to_now(LINES)
    waits_for_a_run(tmp_path, lines[:3], lines[3:20], lines[20:])


def test_file_does_not_wait_for_ever_for_an_agent_that_names_no_session(tmp_path: Path) -> None:
    note = announce(str(tmp_path / "spool"), Announced("run-1", "claude", wall_clock(), ""))
    assert note is not None
    with Follower(tmp_path, patience=3_600.0) as follower:
        append(follower.session, LINES)
        waits = follower.wait_stats(lambda stats: stats["following"]["waiting"] == 1)
        assert waits["perStream"] == []
        follower.settings["follow"]["patience"] = 1.0
        follower.restart(follower.stop)
        follower.read(follower.session, len(LINES))
    withdraw(note)


def test_file_that_is_noticed_late_waits_no_longer(tmp_path: Path) -> None:
    """It waits until it is an hour old, whenever that is noticed: here, where a second of it is left."""
    with Follower(tmp_path, grace=3_600.0) as follower:
        elsewhere = tmp_path / "elsewhere"
        append(elsewhere, moved_to_now(LINES))
        make_old(elsewhere, 3_599)
        elsewhere.rename(follower.session)
        follower.read(follower.session, len(LINES))


def stream(name: str, state: Any = "ended", first: int = 100, last: int = 200, dialect: str = "claude-stream") -> Any:
    return info(name, state=state, dialect=dialect, first_t=first, last_t=last)


def test_live_stream_covers_from_first_line() -> None:
    assert spans([stream("run-1")], "S", "file~1", 0, grace=5) == [Span(95, 205, "run-1")]
    assert spans([stream("run-1", "open")], "S", "file~1", 0, grace=5) == [Span(95, math.inf, "run-1")]
    assert spans([stream("run-1", "suspended")], "S", "file~1", 0, grace=5) is None
    assert [Span(95, 205).has(ts, ts) for ts in (94, 95, 205, 206)] == [False, True, True, False]


def test_tap_covers_while_its_agent_ran() -> None:
    tap = info("run-1", state="ended", dialect="claude-stream", first_t=100, last_t=200, started=90)
    assert spans([tap], "S", "file~1", 0, grace=5) == [Span(90, 200, "run-1")]


def test_guests_and_display_tools_cover_nothing() -> None:
    guest = info("run-1", state="suspended", dialect="claude-stream", roles={"S": "guest"})
    tools = info("mcp-1", state="open", dialect="display-tools", asked_dialect="display-tools")
    assert spans([guest, tools], "S", "file~1", 0, grace=5) == []
    assert spans([guest], "another", "file~1", 0, grace=5) is None


def test_telemetry_covers_what_it_has_reported() -> None:
    telemetry = info("otlp-1", state="suspended", asked_dialect="otlp", first_t=10, last_t=900)
    assert spans([telemetry], "S", "file~1", 0, grace=5) == []
    telemetry.begins, telemetry.last_reported_ts = {"S": 100}, 200
    assert spans([telemetry], "S", "file~1", 0, grace=5) == [Span(95, 205, "otlp-1")]
    assert spans([telemetry], "another", "file~1", 0, grace=5) == []


def test_file_waits_while_telemetry_of_its_session_is_stored() -> None:
    telemetry = info("otlp-1", asked_dialect="otlp", last_session="S")
    assert covering([telemetry], [], "S") is None
    telemetry.roles = {"S": "guest"}
    assert covering([telemetry], [], "S") == []


def test_undecided_until_the_role_is_durable() -> None:
    tap = info("run-1", last_session="S")
    assert covering([tap], [], "S") is None
    assert covering([tap], [], "another") == []
    assert covering([tap], [info("run-1")], "S") == [tap]


def test_only_files_of_same_name_cover_each_other() -> None:
    """The younger of two leaves out what the older covers."""
    others = [stream(name, dialect="claude-transcript") for name in ("agent-1~2", "file~1")]

    assert spans(others, "S", "file~1", 100, grace=5) == []
    assert spans(others, "S", "file~1~abc", 100, grace=5) == [Span(0, 200)]
    assert spans(others, "S", "file~3", 101, grace=5) == [Span(0, 200)]
    assert spans(others, "S", "file~3", 99, grace=5) == []


def test_files_of_two_agents_cover_nothing_of_each_other() -> None:
    """Kimi Code names the file of each agent of a session `wire.jsonl`."""
    main = stream("wire~1", dialect="kimi-session")

    assert spans([main], "S", "wire~2", 101, grace=5) == [Span(0, 200)]
    assert spans([main], "S", "wire~2", 101, grace=5, agent="agent-1") == []


def test_only_streams_of_the_session_cover(tmp_path: Path) -> None:
    """A run of another session covers nothing."""
    with Follower(tmp_path) as follower, follower.connect() as wire:
        publish(wire, "run-1", [line.replace(CLAUDE_SESSION.encode(), b"another") for line in PRINT])
        append(follower.session, [prompt_line("Here", 0)])
        events = follower.events_when(lambda events: bool(prompts_from_file(events)))

    assert prompts_from_file(events) == ["Here"]
