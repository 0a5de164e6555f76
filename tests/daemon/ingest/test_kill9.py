"""Exactly once, although the daemon is killed with `kill -9`: at each failpoint, and at random moments.

The stream has messages in chunks and calls that stay open for many lines, so that every kill leaves something half
done. The journal must come out as that of a daemon that was never killed, save `seq` and `ts`; and a subscriber who
resumes by `seq` must have seen exactly what the journal holds.
"""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import pytest

from tests.daemon.lives import SUBSCRIBERS, Gone, Lives, Publisher, wait_for_ack
from tests.daemon.running import Wire
from tooltap.protocol.events import with_seq
from tooltap.protocol.inputs import looks_tapped, write_tapped

FIXTURES = Path(__file__).parents[2] / "fixtures"
RECORDINGS = {
    "acp": FIXTURES / "acp/claude-agent-acp-0.100.0/two-turns.jsonl",
    "opencode": FIXTURES / "acp/opencode-1.18.33/parallel-calls.jsonl",
    "claude": FIXTURES / "claude-stream/claude-code-2.1.330/control-question.jsonl",
}
STREAMS = [f"{recording}-{number}" for recording in RECORDINGS for number in range(3)]
HALF_A_MESSAGE = {10, 18, 26, 27, 28}
"""Lines of `acp` after which a message is incomplete."""
OPEN_CALL = {20, 21, 22, 23}
LINES = 32
SNAPSHOTS = [0, 4 * 1024, 1024 * 1024]
KILLS = 9
"""Kills in each of the six runs at random moments."""
MOST_LINES_A_LIFE = 24
"""Times the recording is published, so that lines are left for every life."""
KILLED = -9
STOPPED = 0


@cache
def records(stream: str) -> list[bytes]:
    """The stream's recording as tapped lines."""
    lines = RECORDINGS[stream.partition("-")[0]].read_bytes().splitlines()
    return lines if looks_tapped(lines[0]) else [write_tapped(line, None, "out") for line in lines]


def journal(lives: Lives) -> list[bytes]:
    """The journal's event lines, as the file has them."""
    database = sqlite3.connect(lives.settings["journal"])
    rows = database.execute("SELECT seq, body FROM events ORDER BY seq").fetchall()
    database.close()
    return [with_seq(seq, body) + b"\n" for seq, body in rows]


def told_apart(lines: list[bytes]) -> list[dict[str, Any]]:
    """The events without the fields that differ from run to run: lines have the time of their receipt."""
    events = [orjson.loads(line) for line in lines]
    return [{key: value for key, value in one.items() if key not in ("seq", "ts", "waitMs")} for one in events]


@cache
def unbroken() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """All events, and each stream's `done`, of a daemon that was not killed."""
    with TemporaryDirectory() as directory, Lives(Path(directory)) as lives:
        lives.start()
        publishers = [Publisher(lives, stream, records(stream)) for stream in STREAMS]
        for publisher in publishers:
            publisher.publish(wait_for_ack)
        lives.stop()
        lives.wait()
        assert lives.died == [STOPPED]
        return told_apart(journal(lives)), {one.stream: one.done for one in publishers}


def check(lives: Lives, publishers: list[Publisher]) -> None:
    events, done = unbroken()
    found = journal(lives)
    for publisher in publishers:
        stream = publisher.stream
        assert [one for one in told_apart(found) if one["stream"] == stream] == [
            one for one in events if one["stream"] == stream
        ]
        assert publisher.done == done[stream]
    assert {one["stream"] for one in told_apart(found)} == {one.stream for one in publishers}
    assert lives.seen == [found] * SUBSCRIBERS


def until_seen(lives: Lives, publishers: list[Publisher]) -> None:
    """Wait until the subscribers have everything: a daemon that stops waits only briefly for them."""
    streams = {one.stream for one in publishers}
    lives.until_seen(sum(one["stream"] in streams for one in unbroken()[0]))


@pytest.mark.parametrize("snapshot_bytes", SNAPSHOTS)
@pytest.mark.parametrize(
    ("failpoint", "nth", "kills"),
    [
        ("before-commit", 6, 7),
        ("after-commit", 6, 6),
        ("before-ack", 6, 6),
        ("before-ack", LINES + 2, 1),  # after the opening and all lines: the reply to the end is lost
        ("during-snapshot", 1, 3),
        ("during-close", 1, 3),
    ],
)
@pytest.mark.process
def test_killed_at_a_failpoint(tmp_path: Path, failpoint: str, nth: int, kills: int, snapshot_bytes: int) -> None:
    if failpoint == "during-snapshot" and not snapshot_bytes:
        nth = 4  # every commit takes a snapshot, and some must succeed
    with Lives(tmp_path, snapshot_bytes=snapshot_bytes) as lives:
        publisher = Publisher(lives, "acp-0", records("acp-0"))
        while not publisher.done:
            lives.start(f"{failpoint}:{nth}" if len(lives.died) < kills else "")
            try:
                publisher.publish(wait_for_ack)
                until_seen(lives, [publisher])
                lives.stop()
            except Gone:
                pass
            lives.wait()

        assert lives.died == [KILLED] * kills + [STOPPED]
        assert lives.hits() == [failpoint] * kills
        if kills > 3:
            assert HALF_A_MESSAGE & set(publisher.resumed_at)
            assert OPEN_CALL & set(publisher.resumed_at)
        check(lives, [publisher])


@pytest.mark.parametrize("snapshot_bytes", SNAPSHOTS)
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_any_moment(tmp_path: Path, seed: int, snapshot_bytes: int) -> None:
    """Several publishers at once, which do not wait for their acks."""
    chance = random.Random(seed)
    lock = threading.Lock()
    left = 0

    def count_down(number: int, wire: Wire) -> None:
        nonlocal left
        with lock:
            left -= 1
            if left == 0:
                time.sleep(chance.random() / 200)  # lets the daemon reach any point of its work
                lives.kill()

    with Lives(tmp_path, snapshot_bytes=snapshot_bytes) as lives:
        publishers = [Publisher(lives, stream, records(stream)) for stream in STREAMS]
        for life in range(KILLS + 1):
            lives.start()
            left = chance.randint(1, MOST_LINES_A_LIFE) if life < KILLS else 0
            with ThreadPoolExecutor(len(publishers)) as pool:
                futures = [pool.submit(one.publish, count_down) for one in publishers if not one.done]
            assert all(isinstance(one.exception(), Gone | None) for one in futures)
            if all(one.done for one in publishers):
                until_seen(lives, publishers)
            lives.stop()
            lives.wait()

        assert lives.died == [KILLED] * KILLS + [STOPPED]
        check(lives, publishers)
