"""Following the agents' session files: real files, a real daemon, and each line takes effect once."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.taps.following import (
    CLAUDE,
    CLAUDE_SESSION,
    CODEX,
    DOCUMENT,
    FIXTURES,
    GEMINI,
    NEVER,
    PRINTED,
    Follower,
    append,
    events_of,
    expected,
    ids,
    lines_of,
    make_old,
    named,
    publish,
)
from tooltap.daemon.taps.stream_ids import recording_id

LINES = lines_of(CLAUDE)


@pytest.fixture
def follower(tmp_path: Path) -> Iterator[Follower]:
    follower = Follower(tmp_path)
    follower.settings |= NEVER
    with follower:
        yield follower


def test_files_of_every_agent_are_found(follower: Follower) -> None:
    """Files of subagents belong to the session of their agent."""
    agents = FIXTURES / "claude-transcript" / "claude-code-2.1.330"
    places = {
        agents / "subagent-async.jsonl": follower.projects / "2f40b229-18f4-43db-8092-c2cc387ac019.jsonl",
        agents / "subagent-async.agent.jsonl": (
            follower.projects / "2f40b229-18f4-43db-8092-c2cc387ac019" / "subagents" / "agent-ad0a.jsonl"
        ),
        CODEX: follower.rollouts / "rollout-2026-11-21T20-44-03-01a1ffd9.jsonl",
        GEMINI: follower.chats / "session-2026-11-21T20-45-a774addb.jsonl",
        DOCUMENT: follower.chats / "session-2025-11-08T10-00-0e8b5a1c.json",
        GEMINI.parent.parent / "gemini-written" / "subagent-chat.jsonl": follower.chats / "a774addb" / "sub.jsonl",
    }
    for source, place in places.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, place)
    (follower.chats.parent / "logs.json").write_text("{}\n")
    (follower.projects / "notes.txt").write_text("no session\n")
    follower.wait_stats(lambda stats: len(stats["perStream"]) == len(places) and not stats["following"]["waiting"])
    events = follower.events_when(lambda events: len({event["stream"] for event in events}) == len(places))

    sessions = {(event["stream"].partition("~")[0], event["session"]) for event in events}
    assert sessions == {
        ("2f40b229-18f4-43db-8092-c2cc387ac019", "2f40b229-18f4-43db-8092-c2cc387ac019"),
        ("agent-ad0a", "2f40b229-18f4-43db-8092-c2cc387ac019"),
        ("rollout-2026-11-21T20-44-03-01a1ffd9", "01a1ffd9-ba6f-7181-86d4-0540301f722d"),
        ("session-2026-11-21T20-45-a774addb", "a774addb-e820-460e-877b-2418090c3cb4"),
        ("session-2025-11-08T10-00-0e8b5a1c", json.loads(DOCUMENT.read_bytes())["sessionId"]),
        ("sub", "a774addb"),
    }
    assert {event["agent"] for event in events if event["stream"].startswith("agent-")} == {"ad0a7d162f9d16959"}


def test_growing_file_is_ingested_by_lines(follower: Follower) -> None:
    half = len(LINES[12]) // 2
    append(follower.session, [*LINES[:12], LINES[12][:half]])
    first = follower.events_after_lines(follower.session, LINES[:12])
    append(follower.session, [LINES[12][half:], *LINES[13:]])

    assert ids(first) == expected(follower.session, "claude-transcript", LINES[:12])
    assert ids(follower.events_after_title(follower.session, "the end")) == expected(
        follower.session, "claude-transcript", LINES
    )
    assert {event["session"] for event in first} == {CLAUDE_SESSION}


@pytest.mark.parametrize("end", [Follower.kill, Follower.stop])
def test_restart_resumes(follower: Follower, end: Callable[[Follower], None]) -> None:
    """With an incomplete line, and lines written while there is no daemon."""
    expectation = expected(follower.session, "claude-transcript", LINES)
    for number in range(0, len(LINES), 6):
        half = len(LINES[number]) // 2
        append(follower.session, [LINES[number][:half]])
        follower.restart(lambda: end(follower))
        append(follower.session, [LINES[number][half:], *LINES[number + 1 : number + 5]])
        follower.restart(lambda: end(follower))
        append(follower.session, LINES[number + 5 : number + 6])

    assert ids(follower.events_after_title(follower.session, "the end")) == expectation
    assert len(follower.stats()["perStream"]) == 1


@pytest.mark.parametrize("point", ["before-commit", "after-commit"])
def test_kill_during_commit_ingests_each_line_once(tmp_path: Path, point: str) -> None:
    follower = Follower(tmp_path, turn_bytes=1_000, jobs=1)
    append(follower.session, LINES)
    follower.start(f"{point}:3")
    lines = follower.until_dead(LINES)
    with follower:
        events = follower.events_after_title(follower.session, "the end")

    assert ids(events) == expected(follower.session, "claude-transcript", lines)
    assert follower.hits() == [point]


def test_repeated_kills_ingest_each_line_once(tmp_path: Path) -> None:
    """The files grow by chunks that end anywhere; the daemon is killed at any point."""
    chance = random.Random(5)
    follower = Follower(tmp_path, turn_bytes=2_000)
    follower.settings |= {"snapshot_bytes": 4_096, **NEVER}
    files = {
        follower.session: (CLAUDE, "claude-transcript", CLAUDE_SESSION),
        follower.rollouts / "rollout-1.jsonl": (CODEX, "codex-rollout", "01a1ffd9-ba6f-7181-86d4-0540301f722d"),
        follower.chats / "session-1.jsonl": (GEMINI, "gemini-chat", "a774addb-e820-460e-877b-2418090c3cb4"),
    }
    rest = {path: source.read_bytes() for path, (source, _, _) in files.items()}
    wanted = {
        path: expected(path, dialect, lines_of(source), session) for path, (source, dialect, session) in files.items()
    }
    with follower:
        while any(rest.values()):
            path = chance.choice([path for path in rest if rest[path]])
            size = chance.randrange(1, 3_000)
            append(path, [rest[path][:size]])
            rest[path] = rest[path][size:]
            if chance.random() < 0.3:
                follower.restart(follower.kill)
        events = follower.events_when(lambda events: len(events) >= sum(map(len, wanted.values())))

    assert len(follower.died) >= 6
    for path, of_file in wanted.items():
        assert ids(event for event in events if event["stream"] == recording_id(str(path))) == of_file


def test_session_whose_last_line_is_old_has_ended_however_new_its_file_is(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    with follower:
        append(follower.session, LINES[:20])  # up to a call without a result
        follower.wait_stats(lambda stats: stats["streams"]["ended"] == 1)
        with follower.connect() as wire:
            (session,) = wire.ask("sessions")["sessions"]

    # The prompt was written at 20:37:45.340, the call at 20:37:45.493.
    assert (session["status"], session["durationMs"]) == ("interrupted", 153)
    assert session["lastTs"] == 1795293465493


def test_last_line_without_newline_is_ingested(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    append(follower.session, [*LINES[:-1], LINES[-1].rstrip(b"\n")])
    make_old(follower.session, 3600)
    with follower:
        follower.wait_stats(lambda stats: stats["streams"]["ended"] == 1)
        lines = follower.stats()["perStream"][0]["lines"]
        append(follower.session, [b"\n"])
        follower.restart(follower.kill)
        events = follower.events_after_title(follower.session, "the end")

    assert lines == len(LINES)
    assert ids(events)[: len(expected(follower.session, "claude-transcript", LINES))] == expected(
        follower.session, "claude-transcript", LINES
    )


def test_replaced_file_is_a_new_stream(follower: Follower) -> None:
    """The last lines of the old file, which is renamed, are ingested as well."""
    path = follower.rollouts / "rollout-a.jsonl"
    old, new = lines_of(CODEX), lines_of(CODEX.parent / "picture.jsonl")
    append(path, old[:5])
    follower.events_when(lambda events: bool(events))
    os.kill(follower.pid, signal.SIGSTOP)  # it is not to look while there is no file at the path
    with path.open("ab") as file:
        path.rename(path.with_suffix(".jsonl.1"))
        file.write(b"".join(old[5:]))
    append(path, new)
    os.kill(follower.pid, signal.SIGCONT)
    wanted = [
        *events_of(recording_id(str(path)), "codex-rollout", old, "01a1ffd9-ba6f-7181-86d4-0540301f722d"),
        *(new_ids := events_of("?", "codex-rollout", new, "01a1ffd9-a3ea-79f1-ac96-1f2b84218d36")),
    ]
    events = follower.events_when(lambda events: len(events) == len(wanted))
    streams = [*dict.fromkeys(event["stream"] for event in events)]

    assert streams[0] == recording_id(str(path))
    assert streams[1].startswith(f"{streams[0]}~")
    assert ids(events) == wanted[: -len(new_ids)] + [one.replace("?", streams[1]) for one in new_ids]


def test_truncated_file_emits_only_newer_events(follower: Follower) -> None:
    """Events up to the time of the last ingested one are left out."""
    append(follower.session, LINES)
    before = follower.events_after_lines(follower.session, LINES)
    follower.session.write_bytes(b"".join(LINES[:10]))
    after = follower.events_after_title(follower.session, "the end")

    assert ids(after) == ids(before)


def test_deleted_file_may_come_back(follower: Follower) -> None:
    append(follower.session, LINES[:8])
    follower.events_after_lines(follower.session, LINES[:8])
    follower.session.unlink()
    follower.wait_stats(lambda stats: stats["following"]["files"] == 0)
    append(follower.session, LINES)

    assert ids(follower.events_after_title(follower.session, "the end")) == expected(
        follower.session, "claude-transcript", LINES
    )


def test_new_or_replaced_folder_is_followed(tmp_path: Path) -> None:
    follower = Follower(tmp_path)
    follower.projects.rmdir()
    follower.projects.parent.rmdir()
    with follower:
        for name in ("one", "two"):
            follower.projects.mkdir(parents=True)
            append(follower.projects / f"{name}.jsonl", named(LINES, name))
            stats = follower.read(follower.projects / f"{name}.jsonl", len(LINES))
            shutil.rmtree(follower.projects.parent)
            follower.wait_stats(lambda stats: not stats["following"]["open"])

    assert stats["stream"].startswith("two~")


def test_other_publisher_may_send_the_file(follower: Follower) -> None:
    """`tooltap ingest` of a followed file takes over its stream; then the follower resumes."""
    append(follower.session, LINES[:5])
    follower.read(follower.session, 5)
    with follower.connect() as wire:
        publish(wire, recording_id(str(follower.session)), [line.rstrip(b"\n") for line in LINES[5:10]])
        append(follower.session, LINES[5:])
        wire.send("end")
        wire.until("done")

    assert (
        ids(follower.events_after_title(follower.session, "the end"))[-1]
        == expected(follower.session, "claude-transcript", LINES)[-1]
    )
    assert [(one["lines"], one["kinds"]["tool-call"]) for one in follower.stats()["perStream"]] == [(len(LINES) + 1, 1)]


def test_session_stays_as_long_as_its_file(tmp_path: Path) -> None:
    """Retention deletes what a tap has sent and leaves what was read from a session file, however old both are."""
    follower = Follower(tmp_path, idle=0.2)
    follower.settings |= {"retention_days": 1e-7, "retention_interval": 0.05, "suspend_timeout": 0.2}

    def sessions() -> list[dict[str, Any]]:
        with follower.connect() as wire:
            found: list[dict[str, Any]] = wire.ask("sessions")["sessions"]
        return found

    with follower:
        append(follower.session, LINES)
        follower.events_after_lines(follower.session, LINES)
        with follower.connect() as wire:
            publish(wire, "tap", [line.replace(CLAUDE_SESSION.encode(), b"tapped") for line in lines_of(PRINTED)])
            assert {one["session"] for one in sessions()} == {CLAUDE_SESSION, "tapped"}
        follower.wait_stats(lambda stats: stats["streams"]["ended"] == 2)
        follower.wait_stats(lambda _: len(sessions()) == 1)
        before = sessions()
        assert [one["session"] for one in before] == [CLAUDE_SESSION]

        follower.restart(follower.stop)
        assert sessions() == before
