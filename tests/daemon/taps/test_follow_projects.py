"""Stores in projects: those of the projects that an agent lists in a file, and those of the projects in which other
agents had sessions."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from tests.daemon.running import TIMEOUT
from tests.daemon.taps.following import FIXTURES, Follower, append, prompt_line
from tooltap.daemon.taps.follow import stores as follow_stores
from tooltap.daemon.taps.follow.stores import Found, Root, RootList, project_roots, root_lists, roots, scan
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


AIDER = (FIXTURES / "aider-history" / "aider-0.86.2" / "sessions.jsonl").read_bytes()
HISTORY = ".aider.chat.history.md"


def test_only_the_file_with_the_name_is_looked_at_in_a_project(tmp_path: Path) -> None:
    for name in (HISTORY, f"below/{HISTORY}", f"{HISTORY}.bak"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(AIDER)
    [root] = roots(["aider"], {"HOME": str(tmp_path)}, {"aider": [str(tmp_path)]})[1:]

    assert [one.path for one in scan(root, root.path, print)] == [str(tmp_path / HISTORY)]


def test_history_of_another_user_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project may be in a folder in which others can write."""
    (tmp_path / HISTORY).write_bytes(AIDER)
    [root] = roots(["aider"], {}, {"aider": [str(tmp_path)]})[1:]
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)

    assert list(scan(root, root.path, print)) == []


def test_projects_are_the_folders_of_sessions_and_their_repositories(tmp_path: Path) -> None:
    (tmp_path / "a" / ".git").mkdir(parents=True)
    [found] = project_roots(["claude", "aider"], 3)
    found.folders = tuple(str(tmp_path / name) for name in ("a/src/deep", "b", "c"))
    named, _ = found.read()

    assert [root.path for root in named] == [str(tmp_path / name) for name in ("a/src/deep", "a", "b")]


@pytest.mark.process
def test_history_in_the_project_of_another_agent_is_followed(tmp_path: Path) -> None:
    """The project is known by the session of another agent, which begins while the daemon runs."""
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    (project / HISTORY).write_bytes(AIDER)
    follower = Follower(tmp_path, agents=["claude", "aider"], backfill="all")
    follower.environment["HOME"] = str(tmp_path / "home")
    prompt = json.loads(prompt_line("Hello", 0)) | {"cwd": str(project / "src")}
    with follower:
        append(follower.session, [json.dumps(prompt).encode() + b"\n"])
        follower.wait_stats(lambda stats: stats["following"]["agents"] == {"claude": 1, "aider": 1})
        append(project / HISTORY, [b"\n#### One more  \n", b"\nDone.\n"])
        follower.restart(follower.kill)
        append(project / HISTORY, [b"\n#### The last  \n"])
        events = follower.events_when(lambda events: "The last" in {event.get("text") for event in events})

    told = [event for event in events if event["dialect"] == "aider-history"]
    asked = [event["text"] for event in told if (event["kind"], event.get("role")) == ("message", "user")]
    assert asked == [
        "Greet like a cowboy",
        "Change the wrong line",
        '/run echo "two  words"; false',
        "How do I run it?",
        "A prompt of\n  two lines",
        "/exit",
        "Say good-bye, too",
        "One more",
        "The last",
    ]


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
