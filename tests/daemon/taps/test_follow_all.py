"""`--follow all`: the sessions of every agent, wherever the home has some; the newest first, with their progress."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec

from tests.daemon.taps.following import (
    CLAUDE,
    CODEX,
    FIXTURES,
    Follower,
    append,
    expected,
    ids,
    lines_of,
    make_old,
    named,
)
from tooltap.daemon.taps.follow.file import Seen
from tooltap.daemon.taps.follow.follower import AHEAD, Backfill, Entry, Queues
from tooltap.daemon.taps.follow.stores import Found, Root
from tooltap.daemon.taps.stream_ids import recording_id
from tooltap.normalizers.catalog.registry import stores
from tooltap.protocol.stats import FollowStatistics

LINES = lines_of(CLAUDE)


class Everything(Follower):
    """Follows all agents in a home of its own."""

    def __init__(self, directory: Path, **follow: Any) -> None:
        super().__init__(directory, agents=["all"], **follow)
        self.home = directory / "home"
        self.environment |= dict.fromkeys(("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"), "")
        self.environment["HOME"] = str(self.home)


def done(stats: dict[str, Any]) -> bool:
    return bool(stats["following"]["backfill"]["complete"])


def files(stats: dict[str, Any]) -> int:
    """Of a moment before the streams that these statistics list."""
    return int(stats["following"]["files"])


def test_every_store_of_every_agent_has_a_reader() -> None:
    places = [(name, place) for name, several in stores().items() for place in several]

    assert all(Root(name, place, "/sessions").reader for name, place in places)


def test_store_that_appears_later_is_followed(tmp_path: Path) -> None:
    follower = Everything(tmp_path)
    early = follower.home / ".claude" / "projects" / "-ws" / CLAUDE.name
    late = follower.home / ".codex" / "sessions" / "2026" / "rollout-late.jsonl"
    early.parent.mkdir(parents=True)
    shutil.copy(CLAUDE, early)
    with follower:
        first = follower.wait_stats(lambda stats: len(stats["perStream"]) == files(stats) == 1)["following"]["agents"]
        late.parent.mkdir(parents=True)
        shutil.copy(CODEX, late)
        stats = follower.wait_stats(
            lambda stats: len(stats["perStream"]) == files(stats) == 2 and not stats["following"]["waiting"]
        )
        events = follower.events_when(lambda events: len({event["stream"] for event in events}) == 2)

    assert first == {"claude": 1}
    assert stats["following"]["agents"] == {"claude": 1, "codex": 1}
    assert {event["provider"] for event in events} == {"claude", "codex"}


STORED = {
    "copilot-json/copilot-1.0.102/stored-subagent": ".copilot/session-state/one/events.jsonl",
    "droid-session/droid-0.215.0/edit": ".factory/sessions/-ws/one.jsonl",
    "kimi-session/kimi-code-2.1.0/todo": ".kimi-code/sessions/wd_ws/session_1/agents/main/wire.jsonl",
    "kimi-wire/kimi-cli-written/session": ".kimi/sessions/0123456789abcdef/session_2/wire.jsonl",
    "pi-session/pi-0.73.1/edit": ".pi/agent/sessions/--ws--/one.jsonl",
    "qwen-chat/qwen-0.24.4/subagent": ".qwen/projects/-ws/chats/one.jsonl",
}
"""Recording -> its place in the home."""


def test_what_agents_store_is_ingested_once(tmp_path: Path) -> None:
    """Real files grow, and the daemon is killed in between."""
    follower = Everything(tmp_path)
    follower.settings["suspend_timeout"] = 1e9  # the sessions are old
    places = {name: follower.home / place for name, place in STORED.items()}
    lines = {name: lines_of(FIXTURES / f"{name}.jsonl") for name in STORED}
    for place in places.values():
        place.parent.mkdir(parents=True)
    total = sum(map(len, lines.values()))
    with follower:
        for part in range(3):
            for name, place in places.items():
                third = len(lines[name]) // 3
                append(place, lines[name][part * third : (part + 1) * third if part < 2 else None])
            if part < 2:
                follower.restart(follower.kill)
        follower.wait_stats(lambda stats: sum(one["lines"] for one in stats["perStream"]) == total)
        expectation = {
            recording_id(str(place)): expected(place, name.partition("/")[0], lines[name])
            for name, place in places.items()
        }
        events = follower.events_when(lambda events: len(events) >= sum(map(len, expectation.values())))

    told = {stream: ids(one for one in events if one["stream"] == stream) for stream in expectation}
    assert told == expectation


def test_newest_sessions_are_complete_first(tmp_path: Path) -> None:
    """Files of which each takes many turns."""
    follower = Everything(tmp_path, backfill="all", jobs=1, turn_bytes=2_048)
    projects = follower.home / ".claude" / "projects"
    paths = []
    for number in range(12):
        path = projects / f"-ws-{number % 5}" / f"{number:02}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        append(path, named(LINES, number))
        make_old(path, 3600.0 * (1 + number))
        paths.append(path)
    with follower:
        follower.wait_stats(done)
        events = follower.events_when(lambda events: len({event["stream"] for event in events}) == len(paths))

    ends = {event["stream"]: event["seq"] for event in events}
    order = [list(map(recording_id, map(str, paths))).index(stream) for stream in sorted(ends, key=ends.__getitem__)]
    assert all(abs(place - at) <= AHEAD for at, place in enumerate(order)), order


def test_old_session_that_changes_does_not_wait_in_the_backlog() -> None:
    place = Root("claude", stores()["claude"][0], "/projects")
    entries = {
        name: Entry(place, Found(name, 1, at), Seen(0, None)) for at, name in enumerate(("oldest", "old", "new"))
    }
    queues = Queues(entries)
    for name, entry in entries.items():
        queues.add_old(name, entry)
    queues.add("oldest", entries["oldest"])
    queues.add("oldest", entries["oldest"])

    assert [queues.pop_fresh(), queues.pop_fresh()] == ["oldest", None]
    assert [queues.pop_old(), queues.pop_old(), queues.pop_old()] == ["new", "old", None]


def test_file_that_changes_while_it_waits_is_retried_once() -> None:
    """Each change is another attempt, which finds that the file must wait."""
    place = Root("claude", stores()["claude"][0], "/projects")
    entry = Entry(place, Found("/projects/a.jsonl", 1, 1), Seen(0, None))
    queues = Queues({"a": entry})
    for seconds in (3_600.0, 0.0, 1_800.0):
        queues.add_later("a", seconds)

    assert (queues.postponed, queues.due is None, queues.pop_fresh()) == (1, False, None)
    queues.add_later("a", 0.0)
    assert (queues.pop_fresh(), queues.pop_fresh(), queues.postponed, queues.due) == ("a", None, 0, None)


def test_progress_of_the_backfill(tmp_path: Path) -> None:
    """Also after a restart: only what the journal does not have is found again."""
    follower = Everything(tmp_path, backfill="7d")
    projects = follower.home / ".claude" / "projects" / "-ws"
    projects.mkdir(parents=True)
    ages = {"new": 1, "old": 48, "older": 24 * 30}
    for name, hours in ages.items():
        append(projects / f"{name}.jsonl", named(LINES, f"{name:^36}"))
        make_old(projects / f"{name}.jsonl", 3600.0 * hours)
    size = len(b"".join(named(LINES, f"{'new':^36}")))
    with follower:
        statistics = follower.wait_stats(done)["following"]
        follower.stop()
        follower.wait()
        append(projects / "old.jsonl", LINES[:1])
        make_old(projects / "old.jsonl", 3600.0)
        follower.start()
        again = follower.wait_stats(done)["following"]
        events = follower.events_when(lambda events: len({event["stream"] for event in events}) == 2)

    assert msgspec.convert(statistics, FollowStatistics).backfill.complete
    whole = {"files": 2, "filesDone": 2, "bytes": 2 * size, "bytesDone": 2 * size, "complete": True}
    rest = len(LINES[0])
    assert statistics["backfill"] == whole
    assert again["backfill"] == {"files": 1, "filesDone": 1, "bytes": rest, "bytesDone": rest, "complete": True}
    assert again["agents"] == {"claude": 3}
    new = [event for event in events if event["stream"] == recording_id(str(projects / "new.jsonl"))]
    assert ids(new) == expected(projects / "new.jsonl", "claude-transcript", LINES)


def test_file_that_grows_or_goes_does_not_confuse_the_progress() -> None:
    backfill = Backfill(1)
    backfill.add("a", 100)
    backfill.add("b", 50)
    backfill.advance("a", 40)
    backfill.advance("a", 70)
    partly = backfill.statistics()
    backfill.finish("b")
    backfill.advance("b", 10)
    backfill.finish("a")
    unlisted = backfill.statistics()
    backfill.listed()

    assert (partly.files, partly.files_done, partly.bytes, partly.bytes_done) == (2, 0, 150, 60)
    assert (unlisted.files_done, unlisted.bytes_done, unlisted.complete) == (2, 150, False)
    assert backfill.statistics().complete
