"""Limits of following: old sessions, open files, turns, unreadable files."""

from __future__ import annotations

import errno
import itertools
import math
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self

import pytest
from structlog.testing import capture_logs

from tests.cli.command import here
from tests.daemon.publishing import tapped
from tests.daemon.running import TIMEOUT, Running, running
from tests.daemon.taps.following import (
    CLAUDE,
    CLAUDE_SESSION,
    CODEX,
    Follower,
    append,
    lines_of,
    make_old,
    moved_to_now,
    named,
    prompt_line,
)
from tooltap.cli.common.statistics import MAX_UNREADABLE
from tooltap.daemon.taps.follow import stores
from tooltap.daemon.taps.follow import watch as follow_watch
from tooltap.daemon.taps.follow.follower import UNREADABLE_LISTED
from tooltap.daemon.taps.follow.notify import Asked, Changes, Inotify, Notifier
from tooltap.daemon.taps.follow.stores import Found, Root
from tooltap.daemon.taps.follow.watch import Listed, Watcher
from tooltap.daemon.taps.stream_ids import recording_id
from tooltap.normalizers.catalog.registry import stores as stores_of_agents

LINES = lines_of(CLAUDE)


def fresh() -> list[bytes]:
    """A line of now: tests may run long after this module was read."""
    return moved_to_now(LINES[2:3])


"""A prompt of now: the file of an old one is at rest, and is not held open."""
DAY = 24 * 3600

_opened: list[str] = []
sys.addaudithook(lambda event, values: _opened.append(str(values[0])) if event == "open" else None)


@pytest.fixture
def projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    folder = tmp_path / "claude" / "projects" / "-ws"
    folder.mkdir(parents=True)
    return folder


def following(directory: Path, settings: dict[str, Any] | None = None, **follow: Any) -> Any:
    values = {"agents": ["claude"], "grace": 0.0, "tolerance": 0.0, "rescan": 3600.0, **follow}
    return running(directory, follow=values, **(settings or {}))


def wait(daemon: Running, until: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    while not until(statistics := daemon.stats()):
        time.sleep(0.01)  # between questions
    return statistics


def at_rest(files: int) -> Callable[[dict[str, Any]], bool]:
    return lambda stats: stats["following"]["files"] >= files and not stats["following"]["waiting"]


def warnings(log: Iterable[MutableMapping[str, Any]]) -> list[MutableMapping[str, Any]]:
    """Those of the follower: on a busy machine the event loop may be held as well."""
    return [entry for entry in log if entry["log_level"] == "warning" and entry["area"] == "follow"]


def session_files(folder: Path) -> list[str]:
    """Return the session files that were opened since the last call."""
    found = [Path(path).name for path in _opened if path.startswith(str(folder))]
    _opened.clear()
    return found


def test_five_thousand_old_sessions_are_not_opened(projects: Path, tmp_path: Path) -> None:
    """Only today's session is opened, and an old one when it continues, from its beginning."""
    old = projects / "old"
    old.mkdir()
    for number in range(5_000):
        path = old / f"{number}.jsonl"
        path.write_bytes(named(LINES[2:3], number)[0])
        make_old(path, 30 * DAY)
    append(projects / "new.jsonl", [prompt_line("Today", 0)])
    session_files(projects)
    with following(tmp_path) as daemon:
        wait(daemon, at_rest(5_001))
        at_start = session_files(projects)
        append(old / "7.jsonl", [prompt_line("Again", 0)])
        wait(daemon, lambda stats: {one["lines"] for one in stats["perStream"]} == {1, 2})
        later = session_files(old)

    assert set(at_start) == {"new.jsonl"}
    assert set(later) == {"7.jsonl"}


def test_known_files_are_not_opened_after_restart(projects: Path, tmp_path: Path) -> None:
    for number in range(50):
        append(projects / f"{number}.jsonl", named(LINES[2:3], number))
        make_old(projects / f"{number}.jsonl", 2 * DAY)
    with following(tmp_path, backfill="all") as daemon:
        wait(daemon, lambda stats: stats["streams"]["ended"] == 50 and stats["following"]["open"] == 0)
    append(projects / "13.jsonl", [prompt_line("While nobody followed", 0)])
    make_old(projects / "13.jsonl", 2 * DAY)
    session_files(projects)
    with following(tmp_path) as daemon:
        wait(daemon, at_rest(50))
        opened = session_files(projects)
        [grown] = [one for one in daemon.stats()["perStream"] if one["lines"] == 2]

    assert set(opened) == {"13.jsonl"}
    assert grown["stream"] == recording_id(str(projects / "13.jsonl"))


@pytest.mark.parametrize(
    ("backfill", "ingested"), [("all", ["1", "40", "400"]), ("36h", ["1"]), ("2d", ["1", "40"]), ("none", [])]
)
def test_backfill_uses_time_of_last_change(backfill: str, ingested: list[str], projects: Path, tmp_path: Path) -> None:
    for hours in (1, 40, 400):
        append(projects / f"{hours}.jsonl", named(LINES[2:3], hours))
        make_old(projects / f"{hours}.jsonl", hours * 3600)
    with following(tmp_path, backfill=backfill) as daemon:
        stats = wait(daemon, at_rest(3))

    assert sorted(one["stream"].partition("~")[0] for one in stats["perStream"]) == ingested


def test_without_backfill_only_new_events_are_ingested(projects: Path, tmp_path: Path) -> None:
    append(projects / "a.jsonl", [LINES[2], prompt_line("Before", -5)])
    with following(tmp_path, backfill="none") as daemon, daemon.subscribe(after="start") as events:
        wait(daemon, at_rest(1))
        append(projects / "a.jsonl", [prompt_line("After", 5)])
        while (first := events.read()).get("role") != "user":
            pass
        [stats] = daemon.stats()["perStream"]

    append(projects / "a.jsonl", [prompt_line("While nobody followed", 0)])
    with following(tmp_path, backfill="none") as daemon:
        [later] = wait(daemon, lambda stats: stats["perStream"][0]["lines"] == 4)["perStream"]

    assert first["text"] == "After"
    assert first["session"] == CLAUDE_SESSION
    assert stats["skipped"]["told-elsewhere"] == later["skipped"]["told-elsewhere"] == 2


def test_number_of_open_files_is_limited(projects: Path, tmp_path: Path) -> None:
    with following(tmp_path, open_files=2) as daemon:
        for number in range(6):
            append(projects / f"{number}.jsonl", named(fresh(), number))
        wait(daemon, lambda stats: sum(one["lines"] for one in stats["perStream"]) == 6)
        append(projects / "0.jsonl", [prompt_line("Again", 0)])
        wait(daemon, lambda stats: sum(one["lines"] for one in stats["perStream"]) == 7)
        stats = wait(daemon, lambda stats: stats["following"]["open"] >= 2)

    assert stats["following"]["open"] == 2
    assert stats["streams"]["suspended"] == 4


def test_idle_file_is_closed(projects: Path, tmp_path: Path) -> None:
    append(projects / "a.jsonl", fresh())
    with following(tmp_path, idle=0.2) as daemon:
        wait(daemon, lambda stats: stats["streams"]["suspended"] == 1 and not stats["following"]["open"])
        append(projects / "a.jsonl", [prompt_line("Again", 0)])
        wait(daemon, lambda stats: bool(stats["perStream"]) and stats["perStream"][0]["lines"] == 2)


def test_files_are_not_held_open(projects: Path, tmp_path: Path) -> None:
    for number in range(20):
        append(projects / f"{number}.jsonl", named(fresh(), number))
    with following(tmp_path) as daemon:
        wait(daemon, lambda stats: stats["following"]["open"] == 20 and at_rest(20)(stats))
        held = {(status.st_dev, status.st_ino) for status in map(_status, range(256)) if status is not None}

    assert not held & {(status.st_dev, status.st_ino) for status in (path.stat() for path in projects.iterdir())}


def _status(descriptor: int) -> os.stat_result | None:
    try:
        return os.fstat(descriptor)
    except OSError:
        return None


@pytest.mark.process
def test_long_file_does_not_delay_others(projects: Path, tmp_path: Path) -> None:
    """Files take turns of a number of bytes: the short one is ingested before the end of the long one."""
    append(projects / "long.jsonl", [prompt_line(str(number), number) for number in range(2_000)])
    append(projects / "short.jsonl", named([prompt_line("short", 0)], "short"))
    with following(tmp_path, turn_bytes=4_096) as daemon, daemon.subscribe(after="start") as events:
        streams: list[str] = []
        while streams.count("long") < 2_000:
            event = events.read()
            if event.get("role") == "user":
                streams.append(event["stream"].partition("~")[0])

    assert streams.index("short") < 200


def test_unreadable_folder_is_one_warning(tmp_path: Path) -> None:
    """A folder with the name of a session, a pipe, and links to them; in a real process."""
    follower = Follower(tmp_path)
    (follower.projects / "folder.jsonl").mkdir()
    os.mkfifo(follower.projects / "pipe.jsonl")
    os.mkfifo(tmp_path / "pipe")
    (follower.projects / "piped.jsonl").symlink_to(tmp_path / "pipe")
    (follower.projects / "gone.jsonl").symlink_to(tmp_path / "gone")
    (follower.projects / "loop").symlink_to(follower.projects)
    (follower.projects / "above").symlink_to(tmp_path)
    with follower:
        append(follower.session, [LINES[2]])
        stats = follower.wait_stats(lambda stats: bool(stats["perStream"] and stats["following"]["files"]))

    assert [one["stream"] for one in stats["perStream"]] == [recording_id(str(follower.session))]
    assert stats["following"]["files"] == 1


def test_unreadable_file_is_one_warning(projects: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is simulated, because tests may run as root. Every change causes another attempt."""
    path = projects / "unreadable.jsonl"

    def read_head(place: str, limit: int) -> tuple[bytes, int]:
        if place == str(path):
            raise PermissionError(13, "Permission denied", place)
        return stores.read_head(place, limit)

    monkeypatch.setattr(stores.Files, "head", staticmethod(read_head))
    with capture_logs() as log, following(tmp_path) as daemon:
        for number in range(3):
            append(path, fresh())
            append(projects / f"{number}.jsonl", named(fresh(), number))
            stats = wait(
                daemon,
                lambda stats, number=number: len(stats["perStream"]) == number + 1 <= stats["following"]["open"],  # type: ignore[misc]
            )

    assert warnings(log) == [
        {"event": "cannot be followed", "file": str(path), "reason": "Permission denied", "log_level": "warning"}
        | {"area": "follow"}
    ]
    assert stats["following"]["open"] == 3


def test_session_files_are_not_limited_like_streams_of_taps(projects: Path, tmp_path: Path) -> None:
    """A tap finds room beside them, and the limit holds for the next one."""
    for number in range(3):
        append(projects / f"{number}.jsonl", named(fresh(), number))
    with following(tmp_path, {"max_streams": 1}) as daemon:
        wait(daemon, lambda stats: len(stats["perStream"]) == 3)
        for stream, answer in (("tap", "ingesting"), ("next", "error")):
            with daemon.connect() as tap:
                tap.send("ingest", stream=stream, dialect="claude-stream", framing="tapped")
                assert tap.read()["op"] == answer
                if answer == "ingesting":
                    tap.socket.sendall(tapped({"type": "unknown"}))
                    tap.until("ack")


def test_many_unreadable_files_are_named_up_to_a_limit(
    projects: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is simulated, because tests may run as root. Files that can be read are followed beside them."""
    unreadable = [projects / f"unreadable-{one}.jsonl" for one in range(UNREADABLE_LISTED + 3)]

    def read_head(place: str, limit: int) -> tuple[bytes, int]:
        if Path(place) in unreadable:
            raise PermissionError(13, "Permission denied", place)
        return stores.read_head(place, limit)

    monkeypatch.setattr(stores.Files, "head", staticmethod(read_head))
    for path in unreadable:
        append(path, fresh())
    append(projects / "readable.jsonl", fresh())
    with capture_logs() as log, following(tmp_path) as daemon:
        stats = wait(
            daemon,
            lambda stats: (
                len(warnings(log)) == len(unreadable)
                and len(stats["perStream"]) == 1
                and len(stats["following"]["unreadable"]) >= UNREADABLE_LISTED  # before the last warning, it had fewer
            ),
        )
        printed = here("stats", "--socket", daemon.path).stdout.decode()

    assert len(stats["following"]["unreadable"]) == UNREADABLE_LISTED
    assert {*stats["following"]["unreadable"]} < {*map(str, unreadable)}
    assert {*stats["following"]["unreadable"].values()} == {"Permission denied"}
    assert printed.count("  cannot be read: /") == MAX_UNREADABLE
    assert f"  cannot be read: at least {UNREADABLE_LISTED - MAX_UNREADABLE} other files\n" in printed


def test_folder_above_the_limit_of_watches_is_polled(
    projects: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only this one, and it is said once. The other one has the watches."""
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    rollouts = tmp_path / "codex" / "sessions"
    rollouts.mkdir(parents=True)
    with capture_logs() as log, following(tmp_path, agents=["claude", "codex"], watches=1) as daemon:
        append(projects / "a.jsonl", [LINES[2]])
        append(rollouts / "rollout-a.jsonl", lines_of(CODEX)[:3])
        wait(daemon, lambda stats: len(stats["perStream"]) == 2)
        append(projects / "a.jsonl", [prompt_line("More", 0)])
        append(rollouts / "rollout-a.jsonl", lines_of(CODEX)[3:4])
        stats = wait(daemon, lambda stats: {one["lines"] for one in stats["perStream"]} == {2, 4})

    [warning] = warnings(log)
    assert warning["file"] == str(projects.parent)
    reason = "the limit of watches is reached (follow.watches)"
    assert warning["reason"] == f"listed periodically, because it cannot be watched: {reason}"
    assert stats["following"]["unwatched"] == {str(projects.parent): reason}


def test_nothing_can_be_watched(projects: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(most: int) -> None:
        raise OSError(errno.EMFILE, "too many watch")

    monkeypatch.setattr(follow_watch, "notifier", none)
    with capture_logs() as log, following(tmp_path) as daemon:
        append(projects / "a.jsonl", [LINES[2]])
        wait(daemon, lambda stats: bool(stats["perStream"]))
        append(projects / "a.jsonl", [prompt_line("More", 0)])
        stats = wait(daemon, lambda stats: stats["perStream"][0]["lines"] == 2)

    assert len(warnings(log)) == 1
    assert stats["following"]["unwatched"] == {str(projects.parent): "too many watch"}


def asked(most: int) -> Notifier:
    return Asked()


def test_dropped_changes_are_found(projects: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue of the system overflows: simulated, as its length is the system's."""

    class Overflowing(Inotify):
        def wait(self, seconds: float) -> Changes:
            changes = super().wait(seconds)
            return Changes(missed=True) if changes.paths else changes

    monkeypatch.setattr(follow_watch, "notifier", Overflowing)
    with following(tmp_path) as daemon:
        wait(daemon, lambda stats: stats["following"]["backfill"]["complete"])
        append(projects / "a.jsonl", [LINES[2]])
        wait(daemon, lambda stats: bool(stats["perStream"]))


@pytest.mark.parametrize("kind", [Inotify, asked])
def test_folder_with_the_number_of_a_deleted_one_is_watched(
    kind: Callable[[int], Notifier], projects: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there before anybody looks whether the old one is. Most file systems give the number away at once."""
    monkeypatch.setattr(follow_watch, "notifier", kind)
    reports: SimpleQueue[list[Found]] = SimpleQueue()
    is_replaced = threading.Event()

    def note(_: Root, files: Iterable[Found]) -> None:
        found = list(files)
        reports.put(found)
        if any(not one.size for one in found):  # it was deleted
            is_replaced.wait(TIMEOUT)

    def until(name: str) -> Found:
        while True:
            for one in reports.get(timeout=TIMEOUT):
                if Path(one.path).name == name:
                    return one

    append(projects / "a.jsonl", [LINES[2]])
    root = Root("claude", stores_of_agents()["claude"][0], str(projects.parent))
    watcher = Watcher([root], [], False, math.inf, 0, note, print, print)
    watching = threading.Thread(target=watcher.run)
    watching.start()
    try:
        for _ in range(2 if kind is asked else 1):  # `Asked` begins after the first listing, and all is listed again
            until("a.jsonl")
        (projects / "a.jsonl").unlink()
        while until("a.jsonl").size:
            pass
        shutil.rmtree(projects.parent)
        projects.mkdir(parents=True)
        is_replaced.set()
        append(projects / "b.jsonl", named(LINES[2:3], "b"))
        until("b.jsonl")
        append(projects / "c.jsonl", named(LINES[2:3], "c"))
        until("c.jsonl")
    finally:
        watcher.stop()
        watching.join()
        watcher.close()


def test_renamed_folder_has_its_new_name(projects: Path, tmp_path: Path) -> None:
    """What is in it is watched under this name only."""
    reports: SimpleQueue[list[str]] = SimpleQueue()
    root = Root("claude", stores_of_agents()["claude"][0], str(projects.parent))

    def note(_: Root, files: Iterable[Found]) -> None:
        reports.put([one.path for one in files])

    def until(path: Path) -> set[str]:
        seen: set[str] = set()
        while str(path) not in seen:
            seen |= set(reports.get(timeout=TIMEOUT))
        return seen

    (projects / "deep").mkdir()
    watcher = Watcher([root], [], False, math.inf, 0, note, print, print)
    watching = threading.Thread(target=watcher.run)
    watching.start()
    try:
        renamed = projects.parent / "-new"
        projects.rename(renamed)
        (renamed / "deep" / "a.jsonl").write_bytes(LINES[2])
        until(renamed / "deep" / "a.jsonl")
        append(renamed / "deep" / "a.jsonl", [LINES[3]])
        append(renamed / "deep" / "b.jsonl", [LINES[3]])
        assert all(path.startswith(f"{renamed}/") for path in until(renamed / "deep" / "b.jsonl"))
    finally:
        watcher.stop()
        watching.join()
        watcher.close()


def test_polling_finds_changes(projects: Path, tmp_path: Path) -> None:
    with following(tmp_path, polling=True) as daemon:
        wait(daemon, lambda stats: "following" in stats)
        append(projects / "a.jsonl", [LINES[2]])
        wait(daemon, lambda stats: bool(stats["perStream"]))
        append(projects / "a.jsonl", [prompt_line("More", 0)])
        wait(daemon, lambda stats: stats["perStream"][0]["lines"] == 2)


# -- more folders than can be watched ----------------------------------------------------------------------------------


class Watched:
    """A store with `count` projects of one old session each, and a thread that watches it."""

    def __init__(self, store: Path, count: int, most: int, rescan: float = math.inf) -> None:
        self.store = store
        self.reports: SimpleQueue[list[str]] = SimpleQueue()
        self.listings: SimpleQueue[Listed | None] = SimpleQueue()
        for number in range(count):
            self.session(number).parent.mkdir(parents=True)
            append(self.session(number), LINES[2:3])
            os.utime(self.session(number), (1_000_000 + number,) * 2)
        root = Root("claude", stores_of_agents()["claude"][0], str(store))
        self.watcher = Watcher([root], [], False, rescan, most, self._note, print, self._listed)
        self._thread = threading.Thread(target=self.watcher.run)

    def _note(self, _: Root, files: Iterable[Found]) -> None:
        self.reports.put([one.path for one in files])

    def _listed(self, _: str, listed: Listed | None) -> None:
        self.listings.put(listed)

    def session(self, number: int) -> Path:
        return self.store / f"-p{number:03}" / "s.jsonl"

    def until(self, path: Path) -> None:
        """Wait until this file is reported, and not because everything was listed."""
        deadline = time.monotonic() + TIMEOUT
        while len(found := self.reports.get(timeout=TIMEOUT)) >= 40 or str(path) not in found:
            assert time.monotonic() < deadline

    def list_again(self, times: int) -> None:
        """Wait until everything was reported so often from now on."""
        while not self.reports.empty():
            self.reports.get()
        for _ in range(times):
            while len(self.reports.get(timeout=TIMEOUT)) < 40:
                pass

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.watcher.stop()
        self._thread.join()
        self.watcher.close()


@pytest.mark.skipif(sys.platform != "linux", reason="inotify(7)")
def test_folders_written_last_are_watched_though_there_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow_watch, "POLL_SHARE", 1e-9)  # so that nothing is listed again
    with Watched(tmp_path / "projects", 40, most=12) as watched:
        listed = watched.listings.get(timeout=TIMEOUT)
        assert listed is not None
        assert (listed.reason, listed.latest) == ("the limit of watches is reached (follow.watches)", 6)
        live = [watched.session(39), watched.session(35), watched.session(37).with_name("new.jsonl")]
        for path in (*live, watched.store / "-new" / "a.jsonl"):
            path.parent.mkdir(exist_ok=True)
            append(path, LINES[3:4])
            watched.until(path)
        append(watched.store / "-new" / "a.jsonl", LINES[4:5])  # its folder is watched, too
        watched.until(watched.store / "-new" / "a.jsonl")


@pytest.mark.skipif(sys.platform != "linux", reason="inotify(7)")
def test_folder_that_is_written_to_again_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the next listing on, in which it is found."""
    monkeypatch.setattr(follow_watch, "PERIOD", 0.02)
    with Watched(tmp_path / "projects", 40, most=12) as watched:
        assert watched.listings.get(timeout=TIMEOUT) is not None
        append(watched.session(0), LINES[3:4])
        watched.list_again(4)  # begun before, found, watched, and one more
        append(watched.session(0), LINES[4:5])
        watched.until(watched.session(0))


@pytest.mark.skipif(sys.platform != "linux", reason="inotify(7)")
@pytest.mark.parametrize("most", [0, 12])
def test_change_during_a_long_listing_is_reported_at_once(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("LISTING_STEP", 0.0), ("RESCAN_SHARE", 1e9), ("POLL_SHARE", 1e9)):
        monkeypatch.setattr(follow_watch, name, value)
    usual, is_told = stores.scan, threading.Event()
    numbers = itertools.count()

    def second_is_long(
        root: Root, folder: str, trouble: Callable[[OSError], None], watch: Callable[[str, str], None]
    ) -> Iterator[Found]:
        yield from usual(root, folder, trouble, watch)
        if next(numbers) != 1:
            return
        while not watched.reports.empty():  # what the first listing has found
            watched.reports.get()
        append(watched.session(39), LINES[3:4])
        while not is_told.is_set() and not is_over.is_set():
            watch(folder, folder)
            if not watched.reports.empty() and str(watched.session(39)) in watched.reports.get():
                is_told.set()

    is_over = threading.Event()
    monkeypatch.setattr(follow_watch, "scan", second_is_long)
    with Watched(tmp_path / "projects", 40, most, rescan=0.0) as watched:
        try:
            assert is_told.wait(TIMEOUT)
        finally:
            is_over.set()
