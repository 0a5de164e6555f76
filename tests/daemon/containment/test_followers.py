"""What goes wrong with one followed file, or one folder, keeps no other from being followed; it is tried again."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.running import TIMEOUT, Running, running
from tests.daemon.taps.following import CLAUDE, CODEX, NEVER, append, lines_of, named, title_line
from tooltap.daemon import app
from tooltap.daemon.system.logs import faults
from tooltap.daemon.taps.follow import watch
from tooltap.daemon.taps.follow.file import FollowedFile
from tooltap.daemon.taps.follow.follower import Follower
from tooltap.daemon.taps.follow.stores import Root, scan
from tooltap.daemon.taps.stream_ids import recording_id
from tooltap.normalizers.catalog.registry import stores

LINES = lines_of(CLAUDE)
NAMES = ("a", "b", "c")


@contextmanager
def following(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Running, list[Path]]]:
    """A daemon that follows the folders of two agents, and three sessions that the first one will write."""
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.setenv(variable, str(directory / variable))
    projects = directory / "CLAUDE_CONFIG_DIR" / "projects" / "-ws"
    projects.mkdir(parents=True)
    (directory / "CODEX_HOME" / "sessions").mkdir(parents=True)
    follow = {"agents": ["claude", "codex"], "grace": 0.0, "rescan": 0.1, "jobs": 1}
    with running(directory, follow=follow, **NEVER) as daemon:
        yield daemon, [projects / f"{name}.jsonl" for name in NAMES]


def wait_read(daemon: Running, lines: dict[Path, int]) -> None:
    """Wait until this many lines of each file are durable."""
    wanted = {recording_id(str(path)): count for path, count in lines.items()}
    deadline = time.monotonic() + TIMEOUT
    while True:
        found = {one["stream"]: one["lines"] for one in daemon.stats()["perStream"]}
        if {stream: found.get(stream) for stream in wanted} == wanted:
            return
        assert time.monotonic() < deadline, (found, wanted)
        time.sleep(0.02)


class Raising:
    """A function that raises in calls which concern file `a`, until it is mended, or in the first one only."""

    def __init__(
        self, patch: pytest.MonkeyPatch, owner: Any, name: str, concerns: Callable[..., bool], *, once: bool
    ) -> None:
        usual = getattr(owner, name)
        self.raised = 0
        self.mended = threading.Event()

        def raising(*arguments: Any, **keys: Any) -> Any:
            if not self.mended.is_set() and concerns(*arguments):
                self.raised += 1
                if once:
                    self.mended.set()
                raise TypeError("put in by the test")
            return usual(*arguments, **keys)

        patch.setattr(owner, name, raising)


def is_a(path: str) -> bool:
    return os.path.basename(path) == "a.jsonl"


@pytest.mark.parametrize(
    ("owner", "name", "concerns", "once"),
    [
        (FollowedFile, "turn", lambda file: is_a(file.path), False),
        (FollowedFile, "__init__", lambda file, path, *more: is_a(path), True),
        (Follower, "_notice", lambda self, root, found, absent: is_a(found.path), False),
        (watch, "scan", lambda root, *more: root.agent == "claude", True),
    ],
    ids=["turn", "opening", "noticing", "listing"],
)
def test_file_that_fails_is_read_later_and_the_others_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, concerns: Callable[..., bool], once: bool
) -> None:
    raising = Raising(monkeypatch, owner, name, concerns, once=once)
    monkeypatch.setattr(watch, "RETRY", 0.05)
    with following(tmp_path, monkeypatch) as (daemon, paths):
        rollout = tmp_path / "CODEX_HOME" / "sessions" / "rollout-2026-11-21T20-44-03-01a1ffd9.jsonl"
        append(rollout, lines_of(CODEX))
        for path in paths:
            append(path, named(LINES, path.stem))
        wait_read(daemon, {rollout: len(lines_of(CODEX)), paths[1]: len(LINES), paths[2]: len(LINES)})
        if not once:
            while not raising.raised:
                time.sleep(0.01)
            raising.mended.set()
        wait_read(daemon, dict.fromkeys(paths, len(LINES)))
        assert raising.raised
        assert faults.counts.total() > 0
        append(paths[0], [title_line("the end")])
        wait_read(daemon, {paths[0]: len(LINES) + 1})


def test_file_that_cannot_be_closed_is_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual: Any = FollowedFile.__dict__["at_rest"]
    monkeypatch.setattr(FollowedFile, "_at_rest", usual.fget, raising=False)
    monkeypatch.setattr(FollowedFile, "at_rest", property(lambda file: file._at_rest()))
    Raising(monkeypatch, FollowedFile, "turn", lambda file: is_a(file.path), once=True)
    closing = Raising(monkeypatch, FollowedFile, "_at_rest", lambda file: is_a(file.path), once=True)
    with following(tmp_path, monkeypatch) as (daemon, paths):
        for path in paths:
            append(path, named(LINES, path.stem))
        wait_read(daemon, dict.fromkeys(paths, len(LINES)))
        assert closing.raised


@pytest.mark.parametrize("name", ["_turn", "_wait"])
def test_follower_that_fails_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    raising = Raising(monkeypatch, Follower, name, lambda follower, *_: bool(follower._open), once=True)
    monkeypatch.setattr(app, "FOLLOWING_RETRY", 0.05)
    with following(tmp_path, monkeypatch) as (daemon, paths):
        for path in paths:
            append(path, named(LINES[:5], path.stem))
        wait_read(daemon, dict.fromkeys(paths, 5))
        for path in paths:
            append(path, named(LINES[5:], path.stem))
        wait_read(daemon, dict.fromkeys(paths, len(LINES)))
        assert raising.raised


def test_entry_that_cannot_be_examined_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        append(tmp_path / f"{name}.jsonl", LINES)
    usual = os.lstat

    def lstat(path: str) -> os.stat_result:
        if os.path.basename(path) == "a.jsonl":
            raise OSError(5, "Input/output error", path)
        return usual(path)

    monkeypatch.setattr("tooltap.daemon.taps.follow.stores.os.lstat", lstat)
    troubles: list[OSError] = []
    root = Root("claude", stores()["claude"][0], str(tmp_path.parent))
    found = sorted(Path(one.path).name for one in scan(root, str(tmp_path), troubles.append))
    assert found == ["b.jsonl", "c.jsonl"]
    assert [one.filename for one in troubles] == [str(tmp_path / "a.jsonl")]
