"""The advice of `tooltap doctor` about limits is followed: `test_advice.py` has the table of all advice."""

from __future__ import annotations

import os
import re
import resource
import signal
import socket
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest
from structlog.testing import capture_logs

from tests.cli.command import environment, here, start
from tests.cli.manage.test_advice import finding, home, problems, says, served
from tests.cli.manage.test_doctor import examined, write
from tests.daemon.events import commit, message
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import running
from tests.daemon.taps.following import CLAUDE, append, lines_of, named, title_line
from tests.daemon.test_files_in_use import until

__all__ = ["home"]


def test_raised_index_bytes_search_more(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tooltap.daemon.search.index.PART_DOCUMENTS", 100)
    monkeypatch.setattr("tooltap.daemon.search.indexer.BATCH", 100)
    chosen = Random(3)
    many = [message(f"word {' '.join(str(chosen.random()) for _ in range(20))}") for _ in range(1_000)]
    with capture_logs(), running(home, index_bytes=300_000) as daemon:
        daemon.commit(commit(*many))
        until(lambda: says("search", "are not searched", "--socket", daemon.path))
        advice = finding("search", "are not searched", "--socket", daemon.path).advice
    [key] = re.findall(r"^Raise `(\w+)` in the configuration file, and restart the daemon", advice)
    with capture_logs() as logs, running(home, index_bytes=300_000) as daemon:  # nothing is rebuilt for that
        until(lambda: says("search", "are not searched", "--socket", daemon.path))
    assert [one for one in logs if "rebuilding" in one["event"]] == []
    with capture_logs(), running(home, **{key: 100_000_000}) as daemon:
        until(lambda: says("search", "the search index has 1,000 texts", "--socket", daemon.path))


@pytest.mark.process
def test_raised_limit_of_watches_watches_all(home: Path) -> None:
    settings = write(home / "config" / "tooltap" / "tooltap.toml", "[follow]\nagents = ['claude']\nwatches = 5\n")
    for number in range(20):
        write(
            home / ".claude" / "projects" / f"-p{number}" / "a.jsonl", CLAUDE.read_text().replace("demo", f"s{number}")
        )
    with served("serve"):
        until(lambda: says("daemon", "the daemon cannot watch"))
        advice = finding("daemon", "the daemon cannot watch").advice
    [table, key] = re.findall(r"`(\w+)\.(\w+)`", advice)[0]
    settings.write_text(f"[{table}]\nagents = ['claude']\n{key} = 5000\n")
    with served("serve"):
        write(home / ".claude" / "projects" / "-new" / "a.jsonl", CLAUDE.read_text().replace("demo", "last"))
        until(lambda: b"last" in here("sessions", "--json").stdout)
        assert not says("daemon", "the daemon cannot watch")


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process are set on Linux only")
@pytest.mark.parametrize("way", ["raise", "close"])
def test_clients_are_served_once_the_daemon_may_open_files(home: Path, way: str) -> None:
    """The doctor cannot connect either, and says why."""
    with served("serve") as daemon, ExitStack() as clients:
        pid = daemon.process.pid
        usual = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")) + 3, usual[1]))
        for _ in range(9):
            clients.enter_context(socket.socket(socket.AF_UNIX)).connect(str(home / "run" / "tooltap.sock"))
        until(lambda: says("daemon", "the daemon has as many files open as it may", "--timeout", "0.5"))
        advice = finding("daemon", "as many files open", "--timeout", "0.5").advice
        assert advice.startswith("Raise the limit of open files (ulimit -n), or close clients; those that wait are")
        if way == "raise":
            resource.prlimit(pid, resource.RLIMIT_NOFILE, usual)
        else:
            clients.close()
        until(lambda: says("daemon", ", listening at") and not says("daemon", "cannot accept connections"))


@pytest.mark.process
def test_log_is_complete_in_a_file(home: Path) -> None:
    """That of a daemon whose standard error was a pipe that nobody read."""
    settings = write(home / "config" / "tooltap" / "tooltap.toml", "")
    with served("serve", "--config", settings) as daemon:
        assert daemon.process.stderr is not None
        daemon.process.stderr.close()
        daemon.send_signal(signal.SIGHUP)  # it logs that it reads its configuration again
        until(lambda: says("log", "has left out"))
        assert "Direct its standard error to a file" in finding("log", "has left out").advice
        assert here("serve", "stop").returncode == 0
        daemon.process.wait()
    file = home / "log"
    with file.open("wb") as errors, start("serve", env=environment(), stderr=errors):
        until(lambda: says("daemon", ", listening at"))
        assert finding("log", "log is complete").level == "ok"
        assert "listening" in file.read_text()


@pytest.mark.process
@pytest.mark.programs("sh")
def test_session_files_are_followed_by_a_daemon_that_may_open_few_files(home: Path) -> None:
    """Fewer than there are: a system may allow a program few of them by default, as macOS does."""
    begin = lines_of(CLAUDE)[2:3]
    paths = [home / ".claude" / "projects" / f"-p{one}" / f"s{one}.jsonl" for one in range(100)]
    for path in paths:
        path.parent.mkdir(parents=True)
        append(path, named(begin, path.stem))
    within = ("sh", "-c", 'ulimit -n 64; exec "$@"', "sh")
    with DaemonProcess(home, "--follow", "claude", "--backfill", "all", within=within) as daemon:
        daemon.wait_ready()
        with daemon.connect() as asking, daemon.connect() as wire:
            until(lambda: asking.ask("stats")["following"]["backfill"]["complete"])
            wire.send("subscribe", after="now")
            wire.until("live")
            for path in (paths[0], paths[50], paths[99]):
                written = time.monotonic()
                append(path, named([title_line("more")], path.stem))
                while wire.read().get("session") != path.stem:
                    pass
                assert time.monotonic() - written < 2
        assert not [one for one in problems(examined("--socket", daemon.path)) if one.text.startswith("the daemon")]
