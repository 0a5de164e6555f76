"""A few faults of `make lab-faults`, and the shim itself."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.running import Bench
from tests.faults.shim import Control, Fault, build
from tests.faults.zygote import Process
from tests.programs import COMPILER

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs Linux"),
    pytest.mark.programs(COMPILER),
]

WRITING = """
import os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for number in range(3):
    try:
        os.write(file, b"%d" % number * 10)
        os.fsync(file)
    except OSError as error:
        print(error.errno)
"""
TRIED = [
    ("ingest", "accept", "", "EMFILE"),
    ("ingest", "poll", "", "ENOMEM"),
    ("ingest", "write", "journal.db-wal", "ENOSPC"),
    ("commit", "sync", "journal.db-wal", "EIO"),
    ("create", "unlink", "journal.db-journal", "kill"),
    ("start", "listen", "", "EADDRINUSE"),
    ("shutdown", "unlink", "t.sock", "EACCES"),
    ("drain", "open", "spool", "EINTR"),
    ("drain", "unlink", "spool", "EIO"),
]
"""Scenario, class, what the name of the file has, and what becomes of the last such call."""


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Bench() as bench:
        yield bench


def test_no_promise_is_broken(bench: Bench) -> None:
    broken = []
    for scenario, klass, name, effect in TRIED:
        calls = _names(bench.count(scenario), klass)
        nth = max(number for number, one in enumerate(calls, 1) if name in one)
        outcome = bench.run(Fault(scenario, klass, nth, effect))
        broken += [outcome.broken] if outcome.broken else []

    assert broken == []


def test_command_ends_whose_request_cannot_be_sent(bench: Bench) -> None:
    bench.count("commands")

    assert [bench.run(Fault("commands", "send", nth, "EPIPE")).broken for nth in range(1, 5)] == [None] * 4


def test_a_read_that_fails_once_is_no_damage(bench: Bench) -> None:
    """SQLite calls it that. A new stream was one that had lost its row, whose dialect nobody knows any more."""
    reads = [nth for nth, name in enumerate(_names(bench.count("drain"), "read"), 1) if name == "journal.db-wal"]
    outcomes = [bench.run(Fault("drain", "read", nth, "EIO")) for nth in reads[:4]]

    assert [one.broken for one in outcomes] == [None] * 4
    assert all(one.fired for one in outcomes)


def test_after_a_failed_sync_everything_is_written_anew_before_an_ack(bench: Bench) -> None:
    """The kernel reports what it could not write once, and the next sync succeeds without it."""
    sync = max(at for at, name in enumerate(_names(bench.count("commit"), "sync"), 1) if name == "journal.db-wal")
    scenario = bench.arm(Fault("commit", "sync", sync, "EIO"))
    assert scenario.act() == ["the journal cannot be written: disk I/O error"]
    calls = bench.watch(scenario.after)

    acked = [klass for klass, _ in calls].index("send", _nth(calls, "recv", 2))
    done = [(klass, call.rpartition("/")[2]) for klass, call in calls[:acked]]
    synced, emptied = done.index(("sync", "journal.db")), done.index(("truncate", "journal.db-wal"))
    assert synced < emptied < max(at for at, one in enumerate(done) if one == ("sync", "journal.db-wal"))


def _names(calls: list[tuple[str, str]], klass: str) -> list[str]:
    """The files of all calls of a class."""
    return [call.rpartition("/")[2] for kind, call in calls if kind == klass]


def _nth(calls: list[tuple[str, str]], klass: str, nth: int) -> int:
    return [at for at, (kind, _) in enumerate(calls) if kind == klass][nth - 1]


def test_a_process_may_end_before_it_is_signalled(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    ours, zygote = socket.socketpair()
    with ours, zygote:
        zygote.sendall(b"%d\n" % ended.pid)
        process = Process(ours, tmp_path / "errors")
        process.signal(signal.SIGTERM)

        zygote.sendall(b"0\n")
        assert process.wait() == 0


@pytest.mark.parametrize(
    ("fault", "printed", "code", "written"),
    [
        ("write/2/ENOSPC", [errno.ENOSPC], 0, b"00000000002222222222"),
        ("write/2/short", [], 0, b"00000000001111122222" + b"22222"),
        ("write/2/torn", [], -signal.SIGKILL, b"000000000011111"),
        ("write/2/kill", [], -signal.SIGKILL, b"0000000000"),
        ("write/2/kill-after", [], -signal.SIGKILL, b"00000000001111111111"),
        ("sync/3/EIO", [errno.EIO], 0, b"000000000011111111112222222222"),
        ("sync/4/EIO", [], 0, b"000000000011111111112222222222"),
    ],
)
def test_the_nth_call_fails(tmp_path: Path, fault: str, printed: list[int], code: int, written: bytes) -> None:
    control = Control(tmp_path / "control")
    control.watch(tmp_path)
    control.arm(Fault.parse(f"-/{fault}"))
    environment = {**os.environ, "LD_PRELOAD": str(build(tmp_path)), "FAULTS_CONTROL": str(control.path)}
    ended = subprocess.run(
        [sys.executable, "-c", WRITING, tmp_path / "file"],
        env={**environment, "FAULTS_ENABLE": "1"},
        stdout=subprocess.PIPE,
        check=False,
    )

    assert (list(map(int, ended.stdout.split())), ended.returncode) == (printed, code)
    assert (tmp_path / "file").read_bytes() == written
    assert control.fired == (fault != "sync/4/EIO")
