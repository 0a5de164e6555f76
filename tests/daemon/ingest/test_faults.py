"""Exactly once although the publisher is killed, the disk is full, or the clock is set back."""

from __future__ import annotations

import itertools
import json
import random
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import start
from tests.daemon.processes import DaemonProcess
from tests.daemon.publishing import NOW, Clock, daemon, events, journal_of, publish
from tests.daemon.running import Wire
from tooltap.protocol.inputs import write_tapped

LINES = 20_000
HOUR = 3_600_000


@pytest.fixture
def process(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path) as process:
        yield process.wait_ready()


@pytest.fixture
def subscriber(process: DaemonProcess) -> Iterator[Wire]:
    with process.connect() as wire:
        wire.send("subscribe", after="start")
        yield wire


def texts(wire: Wire) -> Iterator[str]:
    """The events of a subscriber. Each line that is not JSON becomes one `unparsed` event."""
    while True:
        line = wire.read()
        if line.get("kind") == "unparsed":
            yield line["text"]


def test_killed_publisher_resumes(process: DaemonProcess, subscriber: Wire, tmp_path: Path) -> None:
    recording = tmp_path / "recording.txt"
    recording.write_text("".join(f"line {number}\n" for number in range(LINES)))
    command = ("ingest", "--dialect", "claude-stream", "--socket", process.path, "--stream", "s")
    chance = random.Random(1)
    seen: list[str] = []
    arriving = texts(subscriber)
    for life in range(1, 6):
        with start(*command, "-") as publisher:  # its input does not end before it is killed
            publisher.write(b"".join(b"line %d\n" % number for number in range(LINES * life // 6)))
            seen += itertools.islice(arriving, chance.randint(1, 2_500))
            publisher.kill()
            assert publisher.process.returncode == -signal.SIGKILL

    with start(*command, recording) as publisher:
        assert publisher.end()[0] == 1  # no line is understood
    seen += itertools.islice(arriving, LINES - len(seen))

    assert seen == recording.read_text().splitlines()
    with process.connect() as other:
        assert other.ask("stats")["journal"]["latest"] == LINES


def test_full_disk_stops_publishers_only(process: DaemonProcess, subscriber: Wire) -> None:
    """A limit on file size stands in for a full disk: both make SQLite's write fail."""
    sent = [f"{number} ".ljust(4_000, "x") for number in range(2_000)]
    pid = process.process.pid
    folder = process.path.parent.parent
    journal = sum((folder / name).stat().st_size for name in ("journal.db", "journal.db-wal"))
    _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE, (journal + 1_000_000, resource.RLIM_INFINITY))

    refused, committed = send(process, sent)
    assert refused == {
        "op": "error",
        "code": "journal",
        "message": "the journal cannot be written: disk I/O error",
    }
    assert 0 < committed < len(sent)
    with process.connect() as other:
        assert other.ask("ping") == {}

    resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))
    done, _ = send(process, sent)
    assert (done["op"], done["lines"]) == ("done", len(sent))
    assert [int(text.split()[0]) for text in itertools.islice(texts(subscriber), len(sent))] == list(range(len(sent)))


def send(process: DaemonProcess, lines: list[str]) -> tuple[dict[str, Any], int]:
    """Publish the lines the daemon does not have; returns its last frame, and how many lines it had acknowledged."""
    with process.connect() as wire:
        wire.send("ingest", stream="s", framing="tapped", dialect="claude-stream")
        acknowledged = wire.until("ingesting")[-1]["lines"]
        try:
            for line in lines[acknowledged:]:
                wire.write(write_tapped(line.encode(), NOW, "out") + b"\n")
            wire.send("end")
        except ConnectionError:  # its last frame said why
            pass
        for answer in map(json.loads, wire.lines()):
            if answer["op"] != "ack":
                return answer, acknowledged
            acknowledged = answer["lines"]
    raise AssertionError("the daemon said nothing")


@pytest.mark.anyio
async def test_clock_set_back_is_harmless(tmp_path: Path) -> None:
    clock = Clock()
    async with daemon(tmp_path / "journal.db", clock, suspend_timeout_ms=HOUR) as streams:
        first = await publish(streams, "s", dialect="claude-stream")
        await first.lines(b"before")
        await first.ingest.suspend()
        clock.now -= 48 * HOUR

        assert await streams.close_overdue() == 0
        assert await journal_of(streams).expire(clock.now) == 0
        second = await publish(streams, "s", dialect="claude-stream")
        await second.lines(b"after")
        await second.ingest.suspend()
        clock.now += HOUR + 1
        assert await streams.close_overdue() == 1

        found = await events(journal_of(streams))
        assert [(one["line"], one["text"]) for one in found if one["kind"] == "unparsed"] == [
            (1, "before"),
            (2, "after"),
        ]
        assert [int(one["id"].split(":")[1]) for one in found] == sorted(int(one["id"].split(":")[1]) for one in found)
