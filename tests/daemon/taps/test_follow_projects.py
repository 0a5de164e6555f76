"""Projects that an agent lists in a file: which folders are followed because of it, and when it changes."""

from __future__ import annotations

import json
import math
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from tests.daemon.running import TIMEOUT
from tests.daemon.taps.following import FIXTURES, Follower
from tooltap.daemon.taps.follow import stores as follow_stores
from tooltap.daemon.taps.follow.stores import Found, Root, RootList, root_lists, roots
from tooltap.daemon.taps.follow.watch import Watcher
from tooltap.normalizers.catalog.registry import stores

FACTS, *MESSAGES = (
    json.loads(line)
    for line in (FIXTURES / "crush-db" / "crush-0.66-written" / "greet.jsonl").read_bytes().splitlines()
)
SESSION = FACTS["id"]
TABLES = """
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, parent_session_id TEXT, title TEXT NOT NULL, prompt_tokens INTEGER, completion_tokens INTEGER,
    cost REAL, updated_at INTEGER, created_at INTEGER
);
CREATE TABLE messages (
    id TEXT PRIMARY KEY, session_id TEXT, role TEXT, parts BLOB NOT NULL DEFAULT '[]', model TEXT, created_at INTEGER,
    updated_at INTEGER, finished_at INTEGER
);
"""


class Projects:
    """A list of projects, and the projects."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "data" / "projects.json"
        self.path.parent.mkdir()

    def add_session(self, name: str) -> str:
        """Store a session in a project. Return its path."""
        folder = self.folder / name / ".crush"
        folder.mkdir(parents=True, exist_ok=True)
        one = MESSAGES[0]
        with closing(sqlite3.connect(folder / "crush.db", isolation_level=None)) as agent:
            agent.executescript(TABLES)
            began = FACTS["created_at"]
            agent.execute("INSERT INTO sessions VALUES (?, NULL, 'New', 0, 0, 0, ?, ?)", (SESSION, began, began))
            agent.execute(
                "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, NULL, NULL)",
                (one["id"], SESSION, one["role"], json.dumps(one["parts"]), one["model"], one["created_at"]),
            )
        return str(folder / "crush.db" / SESSION)

    def write(self, *names: str) -> None:
        self.write_all([{"path": str(self.folder / one), "data_dir": ".crush"} for one in names])

    def write_all(self, projects: Any) -> None:
        self.path.write_text(json.dumps({"projects": projects}))

    def listed(self, most: int = 256) -> RootList:
        [found] = root_lists(["crush"], {"CRUSH_GLOBAL_DATA": str(self.path.parent)}, most)
        return found

    def named(self) -> list[str]:
        return [root.path for root in self.listed().read()[0]]


@pytest.fixture
def projects(tmp_path: Path) -> Projects:
    return Projects(tmp_path)


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({"CRUSH_GLOBAL_DATA": "/d", "XDG_DATA_HOME": "/x"}, "/d/projects.json"),
        ({"CRUSH_GLOBAL_DATA": "", "XDG_DATA_HOME": "/x"}, "/x/crush/projects.json"),
        ({}, "{home}/.local/share/crush/projects.json"),
    ],
)
def test_first_variable_that_is_set_says_where_the_list_is(environment: dict[str, str], path: str) -> None:
    [found] = root_lists(["claude", "crush"], environment, 1)

    assert found.path == path.format(home=Path.home())


def test_folder_may_be_relative_to_its_project(projects: Projects, tmp_path: Path) -> None:
    elsewhere = {"path": str(tmp_path / "b"), "data_dir": str(tmp_path / "elsewhere")}
    projects.write_all([{"path": str(tmp_path / "a"), "data_dir": ".crush"}, elsewhere])

    assert projects.named() == [str(tmp_path / "a" / ".crush"), str(tmp_path / "elsewhere")]


def test_project_that_names_no_folder_costs_only_itself(projects: Projects, tmp_path: Path) -> None:
    whole = {"path": str(tmp_path / "a"), "data_dir": str(tmp_path / "a")}
    odd = [None, "a", {}, {"data_dir": 1}, {"data_dir": ""}, {"data_dir": "a"}, {"data_dir": "/a\0b"}]
    projects.write_all([*odd, whole, whole])

    assert projects.named() == [str(tmp_path / "a")]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"projects": {}}', '{"projects": [', "\xff"])
def test_other_file_is_no_list_of_projects(projects: Projects, text: str) -> None:
    projects.path.write_bytes(text.encode("latin-1"))

    with pytest.raises(OSError, match="not a list of projects of a known form"):
        projects.listed().read()


def test_huge_file_is_not_read(projects: Projects, monkeypatch: pytest.MonkeyPatch) -> None:
    projects.write("a")
    monkeypatch.setattr(follow_stores, "LIST_BYTES", projects.path.stat().st_size)
    assert len(projects.named()) == 1
    projects.write("aa")

    with pytest.raises(OSError, match="a list of projects has at most"):
        projects.listed().read()


def test_stores_in_projects_are_databases() -> None:
    """Nobody goes through a folder because a file names it."""
    listed = [place for places in stores().values() for place in places if place.listed is not None]

    assert [place.dialect for place in listed if place.database is None] == []
    assert listed


class Watching:
    """A thread that watches what a list names, and what it has reported."""

    def __init__(self, listed: RootList) -> None:
        self._reports: SimpleQueue[str] = SimpleQueue()
        self.troubles: SimpleQueue[OSError] = SimpleQueue()
        self.watcher = Watcher([], [listed], False, math.inf, 0, self._found, self.troubles.put, print)

    def _found(self, _: Root, files: Iterable[Found]) -> None:
        for one in files:
            self._reports.put(one.path)

    def until(self, *paths: str) -> list[str]:
        """Return all reports until these paths are among them."""
        seen: list[str] = []
        while not seen or not set(paths) <= set(seen):
            seen.append(self._reports.get(timeout=TIMEOUT))
        return seen


@contextmanager
def watching(listed: RootList) -> Iterator[Watching]:
    found = Watching(listed)
    thread = threading.Thread(target=found.watcher.run)
    thread.start()
    try:
        yield found
    finally:
        found.watcher.stop()
        thread.join()
        found.watcher.close()


def test_list_that_appears_later_is_read(projects: Projects) -> None:
    session = projects.add_session("a")
    with watching(projects.listed()) as found:
        projects.write("a")
        found.until(session)


def test_project_that_is_listed_no_longer_is_not_looked_at(projects: Projects) -> None:
    first, second = map(projects.add_session, ("a", "b"))
    projects.write("a")
    with watching(projects.listed()) as found:
        found.until(first)
        projects.write("b")
        found.until(second)
        with closing(sqlite3.connect(str(Path(first).parent))) as agent, agent:
            agent.execute("UPDATE sessions SET title = 'Later'")
        projects.write("b", "c")

        assert first not in found.until(projects.add_session("c"))


def test_broken_list_is_reported_once_and_changes_nothing(projects: Projects) -> None:
    first = projects.add_session("a")
    projects.write("a")
    with watching(projects.listed()) as found:
        found.until(first)
        projects.path.write_text('{"projects": [')
        error = found.troubles.get(timeout=TIMEOUT)
        assert (error.filename, error.strerror) == (str(projects.path), "not a list of projects of a known form")
        with closing(sqlite3.connect(str(Path(first).parent))) as agent, agent:
            agent.execute("UPDATE sessions SET title = 'Later'")
        found.until(first)
        projects.write("a", "b")
        found.until(projects.add_session("b"))
        assert found.troubles.empty()


def test_first_projects_of_a_long_list_are_followed(projects: Projects) -> None:
    first, second, _ = map(projects.add_session, ("a", "b", "c"))
    projects.write("a", "b", "c")
    with watching(projects.listed(most=2)) as found:
        assert set(found.until(first, second)) == {first, second}
        reason = found.troubles.get(timeout=TIMEOUT).strerror

    assert reason == "of its 3 projects, only the first 2 are followed (follow.projects)"


def test_folder_that_is_named_twice_is_watched_once(projects: Projects, tmp_path: Path) -> None:
    """In the configuration, and in the list."""
    session = projects.add_session("a")
    named = {"crush": [str(tmp_path / "a" / ".crush")]}
    reports: SimpleQueue[str] = SimpleQueue()

    def found(_: Root, files: Iterable[Found]) -> None:
        for one in files:
            reports.put(one.path)

    projects.write("a", "b")
    places = roots(["crush"], {}, named)
    watcher = Watcher(places, [projects.listed()], False, math.inf, 0, found, print, print)
    thread = threading.Thread(target=watcher.run)
    thread.start()
    try:
        last = projects.add_session("b")
        seen: list[str] = []
        while last not in seen:
            seen.append(reports.get(timeout=TIMEOUT))
        assert seen.count(session) == 1
    finally:
        watcher.stop()
        thread.join()
        watcher.close()


@pytest.mark.process
def test_project_that_is_new_is_followed_while_the_daemon_runs(projects: Projects, tmp_path: Path) -> None:
    follower = Follower(tmp_path, agents=["crush"], backfill="all")
    follower.environment |= {"HOME": str(tmp_path), "CRUSH_GLOBAL_DATA": str(projects.path.parent)}
    projects.write("a")
    projects.add_session("a")
    with follower:
        follower.wait_stats(lambda stats: stats["following"]["agents"] == {"crush": 1})
        projects.add_session("b")
        projects.write("b", "a")
        follower.wait_stats(lambda stats: stats["following"]["agents"] == {"crush": 2})
        events = follower.events_when(lambda events: "message" in {event["kind"] for event in events})

    assert {(event["dialect"], event["session"]) for event in events} == {("crush-db", SESSION)}
