"""Stores behind links of the user's own are followed, each session once; and several folders of one agent."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

import pytest

from tests.cli.command import TIMEOUT
from tests.daemon.taps.following import CLAUDE, CLAUDE_SESSION, append, expected, lines_of, moved_to_now, named
from tests.daemon.taps.test_follow_moved import all_read, read_all, sessions, unsettled
from tooltap.daemon.taps.follow import watch as follow_watch
from tooltap.daemon.taps.follow.notify import Asked, Inotify, Notifier
from tooltap.daemon.taps.follow.stores import Found, Root, look_at, roots, scan
from tooltap.daemon.taps.follow.watch import Watcher
from tooltap.daemon.taps.stream_ids import recording_id
from tooltap.normalizers.catalog.registry import stores

LINES = moved_to_now(lines_of(CLAUDE))


@pytest.fixture(autouse=True)
def recent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines are of now, however long after this module was read a test runs."""
    monkeypatch.setattr(f"{__name__}.LINES", moved_to_now(lines_of(CLAUDE)))


def listed(root: Root) -> list[str]:
    troubles: list[OSError] = []
    found = sorted(os.path.relpath(one.path, root.path) for one in scan(root, root.path, troubles.append))
    assert troubles == []
    return found


@pytest.fixture
def root(tmp_path: Path) -> Root:
    (tmp_path / "projects").mkdir()
    return Root("claude", stores()["claude"][0], str(tmp_path / "projects"))


def test_links_of_the_user_are_followed_one_level(root: Root, tmp_path: Path) -> None:
    elsewhere, projects = tmp_path / "elsewhere", Path(root.path)
    (elsewhere / "deeper").mkdir(parents=True)
    for place in ("a.jsonl", "deeper/b.jsonl", "alone"):
        append(elsewhere / place, LINES)
    (elsewhere / "again").symlink_to(elsewhere / "deeper")
    (projects / "-x").symlink_to(elsewhere)
    (projects / "c.jsonl").symlink_to(elsewhere / "alone")
    append(projects / "own.jsonl", LINES)
    (projects / "same.jsonl").symlink_to(projects / "own.jsonl")
    (projects / "up").symlink_to(tmp_path)
    (projects / "loop").symlink_to("loop")

    assert listed(root) == ["-x/a.jsonl", "-x/deeper/b.jsonl", "c.jsonl", "own.jsonl"]
    size = (elsewhere / "alone").stat().st_size
    seen = [[(one.size, one.path) for one in look_at(root, str(projects / name), print)] for name in ("c.jsonl", "-x")]
    assert seen[0] == [(size, str(projects / "c.jsonl"))]
    assert sorted(path for _, path in seen[1]) == [str(projects / "-x/a.jsonl"), str(projects / "-x/deeper/b.jsonl")]
    assert list(look_at(root, str(projects / "same.jsonl"), print)) == []
    assert list(look_at(root, str(projects / "-x/again/b.jsonl"), print)) == []


def test_linked_sessions_are_read_once_as_they_grow(tmp_path: Path) -> None:
    """A project's folder and a file; both also through a second link."""
    follower = unsettled(tmp_path)
    synced = tmp_path / "synced"
    synced.mkdir()
    append(synced / "folder.jsonl", LINES[:20])
    append(tmp_path / "file", named(LINES, "linked"))
    for name in ("-one", "-two"):
        (follower.projects.parent / name).symlink_to(synced)
        (follower.projects / f"{name}.jsonl").symlink_to(tmp_path / "file")
    with follower:
        all_read(follower)
        append(synced / "folder.jsonl", LINES[20:])
        told = [event["id"].partition(":")[2] for event in read_all(follower, "again")]
        rows = sessions(follower)

    place = follower.projects.parent / "-one" / "folder.jsonl"
    assert told == [one.partition(":")[2] for one in expected(place, "claude-transcript", LINES)]
    assert [len(rows[name]["streams"]) for name in (CLAUDE_SESSION, "linked")] == [1, 1]


def asked(most: int) -> Notifier:
    return Asked()


@pytest.mark.parametrize("kind", [Inotify, asked])
def test_change_of_a_linked_file_is_seen_at_once(
    kind: Callable[[int], Notifier], root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at the next listing, which never comes here: when it grows, when it is replaced, when it is linked later."""
    monkeypatch.setattr(follow_watch, "notifier", kind)
    target, later, link = tmp_path / "target", tmp_path / "later", Path(root.path) / "a.jsonl"
    for place in (target, later):
        append(place, LINES[:1])
    link.symlink_to(target)
    reports: SimpleQueue[list[Found]] = SimpleQueue()
    watcher = Watcher([root], [], False, math.inf, 0, lambda _, files: reports.put(list(files)), print, print)

    def until_seen(path: Path) -> None:
        while not any(
            one.path == str(path) and one.size == path.stat().st_size for one in reports.get(timeout=TIMEOUT)
        ):
            pass

    thread = threading.Thread(target=watcher.run)
    thread.start()
    try:
        until_seen(link)
        append(target, LINES[1:2])
        until_seen(link)
        append(tmp_path / "new", LINES[:3])
        (tmp_path / "new").rename(target)
        until_seen(link)
        append(target, LINES[3:4])
        until_seen(link)
        second = link.with_name("b.jsonl")
        second.symlink_to(later)
        until_seen(second)
        append(later, LINES[1:2])
        until_seen(second)
    finally:
        watcher.stop()
        thread.join()
        watcher.close()


@pytest.mark.parametrize("variable", [True, False])
def test_several_folders_of_one_agent(tmp_path: Path, variable: bool) -> None:
    """Two accounts: the variable lists folders, or the configuration has a further one."""
    work = tmp_path / "work"
    follower = unsettled(tmp_path, **({} if variable else {"folders": {"claude": [str(work)]}}))
    if variable:
        follower.environment["CLAUDE_CONFIG_DIR"] += f", {work}"
    append(follower.session, LINES)
    (work / "projects" / "-ws").mkdir(parents=True)
    append(work / "projects" / "-ws" / "b.jsonl", named(LINES, "at-work"))
    with follower:
        row = all_read(follower)
        rows = sessions(follower)

    assert row["streams"] == [recording_id(str(follower.session))]
    assert rows["at-work"]["streams"] == [recording_id(str(work / "projects" / "-ws" / "b.jsonl"))]


def test_folders_are_named_in_the_ways_that_people_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "with, comma").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")

    def paths(value: str | None, *further: str) -> list[str]:
        environment = {} if value is None else {"CLAUDE_CONFIG_DIR": value}
        return [os.path.relpath(one.path, tmp_path) for one in roots(("claude",), environment, {"claude": further})]

    assert paths(None) == paths("") == [".claude/projects"]
    assert paths("~/a,~/b") == paths(f"{tmp_path}/a , {tmp_path}/b,") == ["a/projects", "b/projects"]
    assert paths(f"{tmp_path}/with, comma") == ["with, comma/projects"]
    assert paths(None, "~/a", "~/link", "~/.claude") == [".claude/projects", "a/projects"]
