"""A session is one stream wherever its file is: its folder is renamed, copied, linked or synchronized."""

from __future__ import annotations

import os
import shutil
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
    Follower,
    append,
    expected,
    ids,
    lines_of,
    moved_to_now,
    named,
    prompt_line,
    title_line,
)
from tooltap.daemon.journal.interface import StreamInfo
from tooltap.daemon.taps.follow.file import TURN_BYTES, Relation, relate
from tooltap.daemon.taps.follow.stores import common_lines, roots
from tooltap.daemon.taps.stream_ids import recording_id
from tooltap.protocol.stats import Statistics

LINES = moved_to_now(lines_of(CLAUDE))
MARKER = "the marker"
"""Title of another session: when it is there, everything before it has been read."""


@pytest.fixture(autouse=True)
def recent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines are of now, however long after this module was read a test runs."""
    monkeypatch.setattr(f"{__name__}.LINES", moved_to_now(lines_of(CLAUDE)))


def unsettled(directory: Path, **follow: Any) -> Follower:
    """A follower that takes no silence for the end of a turn."""
    follower = Follower(directory, backfill="all", **follow)
    follower.settings |= NEVER
    return follower


@pytest.fixture
def follower(tmp_path: Path) -> Iterator[Follower]:
    with unsettled(tmp_path) as follower:
        yield follower


def sessions(follower: Follower) -> dict[str, dict[str, Any]]:
    with follower.connect() as wire:
        return {one["session"]: one for one in wire.ask("sessions")["sessions"]}


def all_read(follower: Follower, marker: str = MARKER) -> dict[str, Any]:
    """Return the row of the session once everything that was written before is read."""
    read_all(follower, marker)
    row = sessions(follower)[CLAUDE_SESSION]
    del row["state"]
    return row


def read_all(follower: Follower, marker: str = MARKER) -> list[dict[str, Any]]:
    """Return all events of everything that was written before."""
    for title in (marker, f"{marker}, and what was noticed with it"):
        append(follower.projects / "marker.jsonl", named([title_line(title)], "marker"))
        events = follower.events_when(lambda events, title=title: any(event.get("title") == title for event in events))  # type: ignore[misc]
        follower.wait_stats(lambda stats: not stats["following"]["waiting"])
    return [event for event in events if event["session"] == CLAUDE_SESSION]


def stopped(follower: Follower, change: Callable[[], object]) -> None:
    follower.stop()
    follower.wait()
    change()
    follower.start()


def running(follower: Follower, change: Callable[[], object]) -> None:
    change()


@pytest.mark.parametrize("while_", [running, stopped])
def test_renamed_folder_is_the_same_stream(follower: Follower, while_: Callable[..., None]) -> None:
    append(follower.session, LINES[:20])
    follower.events_after_lines(follower.session, LINES[:20])
    moved = follower.projects.parent / "-new"

    def rename() -> None:
        follower.projects.rename(moved)
        append(moved / follower.session.name, LINES[20:])

    while_(follower, rename)
    events = follower.events_after_title(moved / follower.session.name, "the end")

    assert ids(events) == expected(follower.session, "claude-transcript", LINES)
    assert [one["lines"] for one in follower.stats()["perStream"]] == [len(LINES) + 1]


@pytest.mark.parametrize("while_", [running, stopped])
@pytest.mark.parametrize("copy", [shutil.copyfile, os.link])
def test_copy_counts_nothing_twice(
    follower: Follower, while_: Callable[..., None], copy: Callable[[Path, Path], object]
) -> None:
    append(follower.session, LINES)
    before = all_read(follower)
    copied = follower.projects / f"{CLAUDE_SESSION}.sync-conflict-20261120-101010-ABCDEF.jsonl"
    while_(follower, lambda: copy(follower.session, copied))

    after = all_read(follower, "again")
    assert after == before
    append(follower.session, [title_line("goes on")])
    follower.events_when(lambda events: any(event.get("title") == "goes on" for event in events))
    after = all_read(follower, "and again")
    assert after["streams"] == [recording_id(str(follower.session))]
    assert (after["turns"], after["calls"], after["inputTokens"]) == (
        before["turns"],
        before["calls"],
        before["inputTokens"],
    )


def test_copies_that_are_there_from_the_beginning_are_one_stream(tmp_path: Path) -> None:
    """The longest wins, whichever is read first."""
    follower = unsettled(tmp_path)
    for number, end in enumerate((12, len(LINES), 20)):
        append(follower.projects / f"{number}.jsonl", LINES[:end])
    with follower:
        told = ids(read_all(follower))

        (stream,) = sessions(follower)[CLAUDE_SESSION]["streams"]
        whole = expected(follower.session, "claude-transcript", LINES)
        assert told == [one.replace(recording_id(str(follower.session)), stream) for one in whole]


def test_copy_that_grows_continues_the_stream(follower: Follower) -> None:
    """The first file stays as it is; then it gets the same lines, too."""
    append(follower.session, LINES[:20])
    follower.events_after_lines(follower.session, LINES[:20])
    copied = follower.projects.parent / "-copy" / follower.session.name
    copied.parent.mkdir()
    shutil.copyfile(follower.session, copied)
    append(copied, LINES[20:])
    follower.events_after_lines(follower.session, LINES)
    append(follower.session, LINES[20:])
    events = follower.events_after_title(follower.session, "the end")

    assert ids(events) == expected(follower.session, "claude-transcript", LINES)


@pytest.mark.parametrize("while_", [running, stopped])
def test_copies_that_go_on_differently_have_their_common_lines_once(
    follower: Follower, while_: Callable[..., None]
) -> None:
    append(follower.session, LINES)
    before = all_read(follower)
    copied = follower.projects.parent / "-copy" / follower.session.name
    copied.parent.mkdir()

    def diverge() -> None:
        shutil.copyfile(follower.session, copied)
        append(follower.session, [prompt_line("Only here", 0)])
        append(copied, [prompt_line("Only there", 0), prompt_line("Again there", 1)])

    while_(follower, diverge)
    prompts = [one["text"] for one in read_all(follower, "again") if one.get("role") == "user"]
    after = sessions(follower)[CLAUDE_SESSION]

    assert sorted(prompts[1:]) == ["Again there", "Only here", "Only there"]
    assert (after["calls"], after["inputTokens"]) == (before["calls"], before["inputTokens"])
    # Two prompts in a row are one turn.
    assert (before["turns"], after["turns"]) == (1, 3)
    assert len(after["streams"]) == 2
    follower.restart(follower.stop)
    append(copied, [prompt_line("Later there", 2)])
    prompts = [one["text"] for one in read_all(follower, "later") if one.get("role") == "user"]
    assert sorted(prompts[1:]) == ["Again there", "Later there", "Only here", "Only there"]


def test_copies_that_go_on_differently_after_much_in_common_lose_nothing(follower: Follower) -> None:
    """The longer copy continues the stream. What the shorter one has of its own comes, although the stream has not read
    as far as the two differ when both are compared."""
    append(follower.session, LINES)
    all_read(follower)
    copied = follower.projects.parent / "-copy" / follower.session.name
    copied.parent.mkdir()

    def diverge() -> None:
        append(follower.session, [prompt_line("much " * TURN_BYTES, 0)])
        shutil.copyfile(follower.session, copied)
        append(follower.session, [prompt_line("Only here", 0)])
        append(copied, [prompt_line("Only there", 0), prompt_line("Again there", 1)])

    stopped(follower, diverge)
    prompts = [one["text"] for one in read_all(follower, "again") if one.get("role") == "user"]

    assert sorted(prompts[2:]) == ["Again there", "Only here", "Only there"]


@pytest.mark.parametrize("read", [0, 1, 2])
@pytest.mark.parametrize("is_longer", [False, True])
def test_files_that_differ_after_the_position_are_two_streams(tmp_path: Path, read: int, is_longer: bool) -> None:
    """However much of its own file the stream has read, and whichever file is longer."""
    lines = [b'{"common": 1}\n', b'{"here": 1}\n']
    own, other = tmp_path / "own.jsonl", tmp_path / "other.jsonl"
    own.write_bytes(b"".join(lines))
    other.write_bytes(lines[0] + b'{"t": 1}\n' + (b'{"more": 1}\n' if is_longer else b""))
    done = b"".join(lines[:read])
    statistics = Statistics(stream="s", dialect="auto", provider="claude", lines=read, bytes=len(done) - read)
    info = StreamInfo(stream="s", lines=read, path=str(own), statistics=statistics)
    (root,) = roots(("claude",), {"CLAUDE_CONFIG_DIR": str(tmp_path)}, {})

    assert relate(str(other), info, root) == Relation(common=len(lines[0]))


def test_moved_database_and_folder_are_known_after_a_restart(follower: Follower) -> None:
    """A file that was moved and has not grown since is opened, and nothing of it is read twice."""
    append(follower.session, LINES)
    before = all_read(follower)
    for number in range(2):
        moved = follower.projects.parent / f"-{number}"
        follower.stop()
        follower.wait()
        os.rename(follower.projects, moved)
        follower.projects = moved
        follower.start()
        assert all_read(follower, f"{number}") == before


def test_lines_in_common_are_whole_lines(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    cases = [
        (b"a\nb\n", b"a\nb\nc\n", (4, True)),
        (b"a\nbc\n", b"a\nbd\n", (2, False)),
        (b"x\n", b"y\n", (0, False)),
        (b"a\nb\nc", b"a\nb\ncd\n", (4, True)),
        (b"a\nb\nc\n", b"a\nb\n", (4, False)),
        (b"a" * 1_048_576 + b"\nb\n", b"a" * 1_048_576 + b"\nc\n", (1_048_577, False)),
    ]
    for left, right, common in cases:
        one.write_bytes(left)
        other.write_bytes(right)
        assert common_lines(str(one), str(other)) == common


def test_new_home_has_nothing_twice(follower: Follower, tmp_path: Path) -> None:
    """Of every agent, with subagents and documents; and what they write there continues their sessions."""
    agents = FIXTURES / "claude-transcript" / "claude-code-2.1.330"
    parent = "2f40b229-18f4-43db-8092-c2cc387ac019"
    places = {
        agents / "subagent-async.jsonl": follower.projects / f"{parent}.jsonl",
        agents / "subagent-async.agent.jsonl": follower.projects / parent / "subagents" / "agent-ad0a.jsonl",
        CODEX: follower.rollouts / "rollout-2026-11-21T20-44-03-01a1ffd9.jsonl",
        GEMINI: follower.chats / "session-2026-11-21T20-45-a774addb.jsonl",
        DOCUMENT: follower.chats / "session-2025-11-08T10-00-0e8b5a1c.json",
    }
    for source, place in places.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, place)
    follower.wait_stats(lambda stats: len(stats["perStream"]) == len(places) and not stats["following"]["waiting"])
    before = sessions(follower)

    def move() -> None:
        (tmp_path / "new").mkdir()
        for name, variable in (("claude", "CLAUDE_CONFIG_DIR"), ("codex", "CODEX_HOME"), ("gemini", "GEMINI_CLI_HOME")):
            os.rename(tmp_path / name, tmp_path / "new" / name)
            follower.environment[variable] = str(tmp_path / "new" / name)
        follower.projects = tmp_path / "new" / "claude" / "projects" / "-ws"
        rollout = tmp_path / "new" / places[CODEX].relative_to(tmp_path)
        append(rollout, lines_of(CODEX)[-1:])

    stopped(follower, move)
    read_all(follower)
    after = sessions(follower)

    assert [one["lines"] for one in follower.stats()["perStream"] if one["stream"].startswith("rollout")] == [
        len(lines_of(CODEX)) + 1
    ]
    same = ("events", "calls", "inputTokens", "outputTokens", "streams", "turns", "title")
    codex = "01a1ffd9-ba6f-7181-86d4-0540301f722d"
    assert before.keys() == after.keys() > {codex}
    for name in before.keys() - {codex}:
        assert {key: after[name].get(key) for key in same} == {key: before[name].get(key) for key in same}
