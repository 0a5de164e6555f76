"""The log never makes anybody wait."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.hostile.texts import offences
from tests.cli.screen import started
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import TIMEOUT
from tooltap.daemon.system.logs import MAX_FIELD, LineWriter

HOSTILE_FIELDS = """
from pathlib import Path
from tests.cli.hostile.texts import HOSTILE, LONG
from tooltap.daemon.system import logs
logs.configure()
log = logs.get_logger("x")
log.warning("texts", name=HOSTILE, names=[HOSTILE, b"\\x9b"], table={HOSTILE: LONG}, place=Path(HOSTILE), long=LONG)
try:
    raise ValueError(LONG) from KeyError(HOSTILE)
except ValueError:
    log.exception("an error")
logs._writer.flush(60.0)
"""


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(reading)


def read_lines(descriptor: int, wanted: int) -> list[str]:
    data = b""
    while data.count(b"\n") < wanted:
        assert select.select([descriptor], [], [], TIMEOUT)[0], data[-200:]
        data += os.read(descriptor, 65_536)
    return data.decode().splitlines()


def test_lines_are_written_in_order(pipe: tuple[int, int]) -> None:
    writer = LineWriter(pipe[1])
    for number in range(1_000):
        writer.msg(f"{number} \N{SNOWMAN} \ud800")
    writer.flush(TIMEOUT)

    assert read_lines(pipe[0], 1_000) == [f"{number} \N{SNOWMAN} \\ud800" for number in range(1_000)]
    assert writer.left_out == 0


def test_what_nobody_reads_is_left_out_and_counted(pipe: tuple[int, int]) -> None:
    writer = LineWriter(pipe[1], max_waiting=200_000)
    line = "x" * 99
    for _ in range(10_000):
        writer.msg(line)
    assert writer.left_out >= 10_000 - 200_000 // 99 - 65_536 // 100 - 1
    given, left_out = 10_000, writer.left_out
    while writer.left_out == left_out:  # until nothing fits any more, so that the last one is left out
        writer.msg(line)
        given += 1

    found: list[str] = []
    while len(found) + writer.left_out < given:
        found += read_lines(pipe[0], 1)
        found = [one for one in found if one == line]
    writer.msg("after")
    gap, after = read_lines(pipe[0], 2)

    assert '"lines": ' in gap
    assert after == "after"


def test_a_reader_that_is_gone_stops_nobody() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    writer = LineWriter(writing)
    writer.msg("one")
    writer.flush(TIMEOUT)
    writer.msg("two")
    writer.flush(TIMEOUT)

    assert writer.left_out == 2


def test_a_process_ends_although_nobody_reads_its_log() -> None:
    script = (
        "from tooltap.daemon.system.logs import configure, get_logger\n"
        "configure()\n"
        "for _ in range(2000): get_logger('x').info('y' * 100)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE)
    try:
        assert process.wait(TIMEOUT) == 0
    finally:
        process.kill()
        process.communicate()


def test_a_daemon_serves_although_nobody_reads_its_log(tmp_path: Path) -> None:
    config = tmp_path / "tooltap.toml"
    config.write_text("")
    with DaemonProcess(tmp_path, "--config", config) as daemon, daemon.wait_ready().connect() as wire:
        for _ in range(1_000):  # each is a line of the log, and a pipe holds less than all of them
            daemon.process.send_signal(signal.SIGHUP)
            assert wire.ask("ping") == {}
        daemon.process.terminate()
        assert daemon.process.wait(TIMEOUT) == 0


def test_fields_cannot_act_on_a_terminal() -> None:
    with started([sys.executable, "-c", HOSTILE_FIELDS], dict(os.environ)) as screen:
        assert screen.end() == 0
    shown = screen.shown.replace(b"\r\n", b"\n")

    assert b"Traceback" in shown
    assert offences(shown[: shown.index(b"Traceback")], terminal=True) == []
    assert offences(shown, terminal=True, texts=True) == []
    assert max(map(len, shown[shown.index(b"Traceback") :].decode().splitlines())) <= MAX_FIELD


def test_fields_are_bounded_in_a_pipe() -> None:
    finished = subprocess.run(
        [sys.executable, "-c", HOSTILE_FIELDS],
        capture_output=True,
        timeout=TIMEOUT,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    texts, error = finished.stderr.decode().splitlines()

    assert offences(finished.stderr, terminal=False, json_lines=True) == []
    assert len(json.loads(texts)["long"]) == MAX_FIELD
    assert max(len(one["exc_value"]) for one in json.loads(error)["exception"]) == MAX_FIELD


FAULTS = """
import sqlite3, sys
from tooltap.daemon.system import logs

logs.configure()
for place, path in (("disk", sys.argv[1]), ("code", ":memory:")):
    try:
        sqlite3.connect(path).execute("SELECT nonsense FROM sqlite_master")
    except sqlite3.Error as error:
        logs.faults.note("it failed", place, error)
logs._writer.flush(60.0)
"""


def test_a_damaged_file_needs_no_traceback(tmp_path: Path) -> None:
    damaged = tmp_path / "journal.db"
    damaged.write_bytes(b"no database" * 1_000)
    finished = subprocess.run([sys.executable, "-c", FAULTS, damaged], capture_output=True, timeout=TIMEOUT, check=True)
    disk, code = map(json.loads, finished.stderr.decode().splitlines())

    assert "not a database" in disk["error"]
    assert "exception" not in disk
    assert "exception" in code
