"""Following on unusual machines: disks that come and go, file systems that report nothing, few watches, odd names.

Each test has a machine of its own: namespaces of users and mounts, which end with it. So nobody else sees what it
mounts and how it is limited, and it need not be root.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.constants import VARIABLE
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import TIMEOUT
from tests.daemon.taps.following import CLAUDE, append, lines_of, moved_to_now, named
from tests.programs import require
from tests.test_layout import ROOT
from tooltap.daemon.taps.follow.mounts import Mount, concerning, remote_type
from tooltap.daemon.taps.follow.stores import as_text, from_text
from tooltap.daemon.taps.stream_ids import real_path_id

ONCE = {"follow.rescan": 3_600.0, "follow.grace": 0.0}
"""Without a later listing, which would find what was missed."""


AS_ROOT = os.geteuid() == 0
PRIVATE = ("unshare", *(() if AS_ROOT else ("--map-root-user",)), "--mount")
"""Begins the command line of a program whose mounts nobody else sees."""


@cache
def why_not() -> str:
    """Why there can be no machines here; empty if there can be."""
    mounting = [*PRIVATE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    tried = subprocess.run(mounting, capture_output=True, text=True, check=False)
    return f"the system grants no namespaces: {tried.stderr.strip()}" if tried.returncode else ""


def require_machines() -> None:
    """Skip a test where there can be no machines."""
    require("mount", "nsenter", "unshare")
    if reason := why_not():
        pytest.skip(reason)


class Machine:
    """`with_users`: it has a namespace of users, too."""

    def __init__(self, pid: int, folder: Path, with_users: bool = not AS_ROOT) -> None:
        self._folder = folder
        self.within = [
            "nsenter",
            f"--target={pid}",
            "--mount",
            *(("--user", "--preserve-credentials") if with_users else ()),
            f"--wd={ROOT}",
            "--",
        ]
        """Begins the command line of a program that runs there."""
        self._root = f"/proc/{pid}/root"
        self.store = folder / "claude" / "projects"
        self.store.mkdir(parents=True)

    def run(self, *command: object) -> str:
        arguments = [*self.within, *map(str, command)]
        return subprocess.run(arguments, stdout=subprocess.PIPE, text=True, check=True).stdout

    def seen(self, path: Path) -> Path:
        """Return where its path is here."""
        return Path(f"{self._root}{path}")

    def write(self, path: Path, count: int = 3, session: str | None = None) -> None:
        """Append the first lines of a session. It is that of the file's name."""
        self.seen(path).parent.mkdir(parents=True, exist_ok=True)
        append(self.seen(path), named(moved_to_now(lines_of(CLAUDE)[2 : 2 + count]), session or path.stem))

    def disk(self, name: str) -> Path:
        """Return a file system that lies nowhere yet. `run("mount", "--bind", …)` puts it somewhere."""
        place = self._folder / "disks" / name
        self.seen(place).mkdir(parents=True)
        self.run("mount", "-t", "tmpfs", "tmpfs", place)
        return place

    @contextmanager
    def following(self, **constants: float) -> Iterator[Daemon]:
        environment = {
            VARIABLE: json.dumps({**ONCE, **constants}),
            "CLAUDE_CONFIG_DIR": str(self.store.parent),
            "XDG_CONFIG_HOME": str(self._folder / "config"),
        }
        config = self._folder / "config" / "tooltap" / "tooltap.toml"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text("stall_seconds = 600\n")  # else the log of a busy machine says that the event loop was held
        options = ("--follow", "claude", "--backfill", "all")
        with Daemon(self._folder, *options, within=self.within, **environment) as daemon:
            yield daemon.wait_ready()
            daemon.process.terminate()
            daemon.wait()

    def doctor(self, daemon: Daemon) -> list[dict[str, str]]:
        """Return what it has found of the daemon."""
        tooltap = [*self.within, sys.executable, "-m", "tooltap.cli"]
        command = [*tooltap, "doctor", "--json", "--socket", str(daemon.path)]
        environment = {**os.environ, "CLAUDE_CONFIG_DIR": str(self.store.parent)}
        printed = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=False).stdout
        return [one for one in json.loads(printed)["findings"] if one["area"] == "daemon"]


class Daemon(DaemonProcess):
    def statistics(self) -> dict[str, Any]:
        with self.connect() as wire:
            statistics: dict[str, Any] = wire.ask("stats")
            return statistics

    @property
    def problems(self) -> list[dict[str, Any]]:
        """What it has logged that is not in order, once it has ended."""
        return [one for one in self.log if one.get("level") != "info"]

    def until(self, met: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT
        while not met(statistics := self.statistics()):
            assert time.monotonic() < deadline, (statistics["perStream"], statistics["following"])
            time.sleep(0.01)  # between questions
        return statistics

    def until_read(self, path: Path, count: int = 3) -> None:
        stream = real_path_id(str(path))
        self.until(lambda found: (stream, count) in {(one["stream"], one["lines"]) for one in found["perStream"]})


@contextmanager
def begun(unshared: Sequence[str], folder: Path, with_users: bool = not AS_ROOT) -> Iterator[Machine]:
    command = [*unshared, "sh", "-c", "echo; exec cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield Machine(process.pid, folder, with_users)
        finally:
            process.kill()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    require_machines()
    with begun(PRIVATE, tmp_path) as machine:
        yield machine


# -- disks that come and go -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["project", "deep", "linked", "store"])
def test_disk_that_comes_and_goes_is_followed(kind: str, machine: Machine, tmp_path: Path) -> None:
    """At a project's folder, below one, where a link leads, and with the whole store. It can be unmounted meanwhile."""
    disk, store = machine.disk("usb"), machine.store
    point = {"project": store / "-p", "deep": store / "-p" / "deep", "store": store, "linked": tmp_path / "media"}[kind]
    point.mkdir(parents=True, exist_ok=True)
    folder = store / "-linked" if kind == "linked" else point / "-p"
    if kind == "linked":
        folder.symlink_to(point / "-p")
    machine.write(disk / "-p" / "a.jsonl")
    machine.write(store / "-own" / "before.jsonl")
    with machine.following() as daemon:
        daemon.until_read(store / "-own" / "before.jsonl")
        machine.run("mount", "--bind", disk, point)
        daemon.until_read(folder / "a.jsonl")
        machine.write(point / "-p" / "b.jsonl")
        daemon.until_read(folder / "b.jsonl")
        machine.run("umount", point)
        machine.write(store / "-own" / "away.jsonl")
        daemon.until_read(store / "-own" / "away.jsonl")
        machine.write(disk / "-p" / "a.jsonl", 2, "a")
        machine.write(disk / "-p" / "c.jsonl")
        machine.run("mount", "--bind", disk, point)
        daemon.until_read(folder / "a.jsonl", 5)
        daemon.until_read(folder / "c.jsonl")
        machine.write(point / "-p" / "c.jsonl", 2, "c")
        daemon.until_read(folder / "c.jsonl", 5)
        found = daemon.statistics()

    assert len(found["perStream"]) == 5
    assert daemon.problems == []


def test_store_on_an_overlay_is_watched(machine: Machine, tmp_path: Path) -> None:
    """As in a container: what a session of the image gets, a new one beside it, and a new project."""
    layers = machine.disk("layers")
    machine.write(layers / "lower" / "-p" / "a.jsonl")
    for name in ("upper", "work"):
        machine.seen(layers / name).mkdir()
    options = f"lowerdir={layers}/lower,upperdir={layers}/upper,workdir={layers}/work"
    machine.run("mount", "-t", "overlay", "overlay", "-o", options, machine.store)
    with machine.following() as daemon:
        daemon.until_read(machine.store / "-p" / "a.jsonl")
        machine.write(machine.store / "-p" / "a.jsonl", 2, "a")
        daemon.until_read(machine.store / "-p" / "a.jsonl", 5)
        for path in (machine.store / "-p" / "b.jsonl", machine.store / "-new" / "c.jsonl"):
            machine.write(path)
            daemon.until_read(path)
        following = daemon.statistics()["following"]

    assert (following["unwatched"], following["remote"], following["delays"]) == ({}, {}, {})


# -- few watches ------------------------------------------------------------------------------------------------------


@contextmanager
def few_watches(most: int, folder: Path) -> Iterator[tuple[Machine, str]]:
    """A machine whose kernel grants so many watches, where it has a namespace of users for that; else one whose
    configuration does. With the name of the limit."""
    limit = ["sh", "-c", f"echo {most} >/proc/sys/user/max_inotify_watches"]
    unshared = ("unshare", "--map-root-user", "--mount")
    if not subprocess.run([*unshared, *limit], capture_output=True, check=False).returncode:
        with begun(unshared, folder, with_users=True) as machine:
            machine.run(*limit)
            yield machine, "fs.inotify.max_user_watches"
        return
    settings = folder / "config" / "tooltap" / "tooltap.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"[follow]\nwatches = {most}\n")
    with begun(PRIVATE, folder) as machine:
        yield machine, "follow.watches"


def test_folders_written_last_are_live_though_there_are_too_many(tmp_path: Path) -> None:
    """They are never listed again here. The doctor says which changes come late."""
    require_machines()
    with few_watches(40, tmp_path) as (machine, limit):
        paths = [machine.store / f"-p{number}" / f"s{number}.jsonl" for number in range(100)]
        for age, path in enumerate(reversed(paths)):
            machine.write(path)
            os.utime(machine.seen(path), (time.time() - 60 * age,) * 2)
        with machine.following(**{"follow.poll_share": 1e-9}) as daemon:
            for path in paths:
                daemon.until_read(path)
            following = daemon.until(lambda found: bool(found["following"]["unwatched"]))["following"]
            live = following["latest"][str(machine.store)]
            assert 10 <= live <= 20
            for path in (*paths[-3:], paths[-1].with_name("new.jsonl"), machine.store / "-new" / "a.jsonl"):
                is_new = path not in paths
                machine.write(path, 3 if is_new else 2, path.stem)
                daemon.until_read(path, 3 if is_new else 5)
            [problem] = [one for one in machine.doctor(daemon) if one["level"] == "problem"]

    assert f": a change is noticed within {following['delays'][str(machine.store)]:g} s" in problem["text"]
    assert f"and at once in the {live} folders written last" in problem["text"]
    assert problem["text"].endswith(f"the limit of watches is reached ({limit})")
    assert [one["event"] for one in daemon.problems if one["area"] == "follow"] == ["cannot be followed"]


@pytest.mark.lab
@pytest.mark.timeout(600)
def test_sessions_written_last_are_live_among_100000_folders(tmp_path: Path) -> None:
    """Within two seconds, also in a new folder; and doctor says what comes later."""
    require_machines()
    with few_watches(400, tmp_path) as (machine, limit):
        for number in range(100_000):
            machine.seen(machine.store / f"-p{number}").mkdir(parents=True)
        path = machine.store / "-p99999" / "last.jsonl"
        machine.write(path)
        with machine.following(**{"follow.poll_share": 1e-9}) as daemon:
            daemon.until_read(path)
            daemon.until(lambda found: bool(found["following"]["unwatched"]))
            for changed in (path, path.with_name("new.jsonl"), machine.store / "-new" / "a.jsonl"):
                is_new = changed != path
                machine.write(changed, 3 if is_new else 2, changed.stem)
                began = time.monotonic()
                daemon.until_read(changed, 3 if is_new else 5)
                assert time.monotonic() - began < 2
            [problem] = [one for one in machine.doctor(daemon) if one["level"] == "problem"]
    assert problem["text"].endswith(f"the limit of watches is reached ({limit})")


# -- file systems that report nothing ---------------------------------------------------------------------------------


@contextmanager
def mirrored(machine: Machine, folder: Path, point: Path) -> Iterator[subprocess.Popen[str]]:
    command = [*machine.within, sys.executable, "-m", "tests.daemon.taps.mirror", str(folder), str(point)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "mounted\n"
            yield process
        finally:
            process.kill()


def test_remote_store_is_listed_and_doctor_says_how_late(machine: Machine, tmp_path: Path) -> None:
    server = tmp_path / "server"
    machine.write(server / "-p" / "a.jsonl")
    store = machine.store
    with machine.following() as daemon, mirrored(machine, server, store):
        daemon.until_read(store / "-p" / "a.jsonl")
        machine.write(server / "-p" / "a.jsonl", 2, "a")  # on the other machine
        daemon.until_read(store / "-p" / "a.jsonl", 5)
        machine.write(server / "-p" / "b.jsonl")
        machine.write(server / "-new" / "c.jsonl")
        daemon.until_read(store / "-p" / "b.jsonl")
        daemon.until_read(store / "-new" / "c.jsonl")
        following = daemon.statistics()["following"]
        [_, said] = machine.doctor(daemon)
        machine.run("umount", store)
        daemon.until(lambda found: not found["following"]["remote"])

    assert following["remote"] == {str(store): "fuse.mirror"}
    assert following["unwatched"] == {}
    assert 1.0 <= following["delays"][str(store)] < TIMEOUT
    assert said["level"] == "note"
    assert said["text"] == (
        f"{store} is on a file system (fuse.mirror) that does not report what other machines change, so the daemon"
        f" lists it periodically: a change is noticed within {following['delays'][str(store)]:g} s"
    )


def test_types_of_file_systems() -> None:
    """By the deepest mount above a folder, the last one at a place, and those in it."""
    home, share, gone = Mount(1, "/", "ext4"), Mount(2, "/home/me/share", "nfs4"), Mount(3, "/home/me/share", "ext4")
    project = Mount(4, "/home/me/share/-p", "fuse.sshfs")

    def of(*mounts: Mount) -> list[str | None]:
        return [remote_type(mounts, [path]) for path in ("/home/me/share", "/home/me/share/-q", "/home/me/sharing")]

    assert of() == of(home) == [None, None, None]
    assert of(home, share) == ["nfs4", "nfs4", None]
    assert of(home, share, gone) == [None, None, None]
    assert of(home, share, gone, project) == ["fuse.sshfs", None, None]
    assert concerning([home, share, project], ["/home/me/sharing"]) == {home}
    assert concerning([home, share, project], ["/home/me/share/-q"]) == {home, share}


# -- names ------------------------------------------------------------------------------------------------------------


def test_names_that_are_not_utf8_are_followed(machine: Machine) -> None:
    """Of a project's folder and of a file. The session goes on where it was after the daemon was started again."""
    folder = machine.store / os.fsdecode(b"-caf\xe9")
    odd = folder / os.fsdecode(b"\xff.jsonl")
    machine.write(odd, session="odd")
    machine.write(folder / "even.jsonl")
    for count in (3, 5):
        with machine.following() as daemon:
            daemon.until_read(odd, count)
            daemon.until_read(folder / "even.jsonl")
            machine.write(odd, 2, "odd")
            daemon.until_read(odd, count + 2)
            found = daemon.statistics()
            [only] = machine.doctor(daemon)

        assert only["level"] == "ok"
        assert len(found["perStream"]) == 2
        assert daemon.problems == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"/home/caf\xc3\xa9/100%", "/home/caf\xe9/100%"),
        (b"/home/caf\xe9/100%", "file:///home/caf%E9/100%25"),
        (b"caf\xe9", "caf%E9"),
    ],
)
def test_any_path_has_a_text(name: bytes, text: str) -> None:
    path = os.fsdecode(name)

    assert as_text(path) == text
    assert not path.startswith("/") or from_text(text) == path
