"""Daemons of several hosts on one NATS journal: publish at any, subscribe at any, kill any, and the server too.

The yardstick is a daemon that nobody killed: its journal, save `seq` and `ts`, is what every subscriber must have seen,
each event once and in order.
"""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.daemon.ingest.test_kill9 import KILLED, LINES, STREAMS, records, told_apart, unbroken
from tests.daemon.lives import SUBSCRIBERS, Gone, Lives, Publisher, wait_for_ack
from tests.daemon.nats_server import NatsServer
from tests.daemon.running import TIMEOUT, Wire
from tooltap.daemon.journal.nats.place import NatsPlace


def lives_on(place: NatsPlace, directory: Path, **settings: Any) -> Lives:
    directory.mkdir()
    return Lives(directory, journal=str(place), **settings)


def replay(lives: Lives) -> list[bytes]:
    """The whole journal, as a running daemon replays it."""
    with lives.connect() as wire:
        wire.send("subscribe", after="start", follow=False)
        return [line for line in wire.lines() if not line.startswith(b'{"op"')]


def check_subscribers(lives: Lives, found: list[bytes]) -> None:
    """Check that each subscriber has seen the whole journal, and stop the daemon."""
    lives.until_seen(len(found))
    lives.stop()
    lives.wait()
    assert lives.seen == [found] * SUBSCRIBERS


def check(found: list[bytes], publishers: list[Publisher]) -> None:
    events, done = unbroken()
    assert [orjson.loads(line)["seq"] for line in found] == sorted({orjson.loads(line)["seq"] for line in found})
    for publisher in publishers:
        stream = publisher.stream
        assert [one for one in told_apart(found) if one["stream"] == stream] == [
            one for one in events if one["stream"] == stream
        ]
        assert publisher.done == done[stream]
    assert {one["stream"] for one in told_apart(found)} == {one.stream for one in publishers}


def test_publish_at_one_subscribe_at_the_other(tmp_path: Path, nats_place: NatsPlace) -> None:
    with lives_on(nats_place, tmp_path / "a") as one, lives_on(nats_place, tmp_path / "b") as other:
        one.start()
        other.start()
        publisher = Publisher(one, "acp-0", records("acp-0"))
        publisher.publish(wait_for_ack)
        found = replay(one)

        assert replay(other) == found
        check(found, [publisher])
        check_subscribers(one, found)
        check_subscribers(other, found)


@pytest.mark.parametrize(
    ("failpoint", "kills", "snapshot_bytes"),
    [("before-commit", 5, 0), ("after-commit", 4, 4 * 1024), ("after-commit", 4, 0), ("before-ack", 4, 1024 * 1024)],
)
def test_stream_of_a_killed_daemon_resumes_at_the_other(
    tmp_path: Path, nats_place: NatsPlace, failpoint: str, kills: int, snapshot_bytes: int
) -> None:
    """The publisher moves to the other daemon with every kill."""
    with (
        lives_on(nats_place, tmp_path / "a", snapshot_bytes=snapshot_bytes) as one,
        lives_on(nats_place, tmp_path / "b", snapshot_bytes=snapshot_bytes) as other,
    ):
        sides = [one, other]
        publisher = Publisher(one, "acp-0", records("acp-0"))
        one.start(f"{failpoint}:6")
        for life in range(kills):
            side, next_side = sides[life % 2], sides[(life + 1) % 2]
            next_side.start(f"{failpoint}:6" if life + 1 < kills else "")
            publisher._lives = side
            with pytest.raises(Gone):
                publisher.publish(wait_for_ack)
            side.wait()
        publisher._lives = last = sides[kills % 2]
        publisher.publish(wait_for_ack)

        found = replay(last)
        check(found, [publisher])
        check_subscribers(last, found)
        assert one.died.count(KILLED) + other.died.count(KILLED) == kills
        assert max(publisher.resumed_at) < LINES


def test_daemons_contend_for_one_stream(tmp_path: Path, nats_place: NatsPlace) -> None:
    """Two connections keep taking the stream from each other; each resumes where the daemon says."""
    lines = records("acp-0")
    with lives_on(nats_place, tmp_path / "a") as one, lives_on(nats_place, tmp_path / "b") as other:
        one.start()
        other.start()
        publishers = [Publisher(one, "acp-0", lines), Publisher(other, "acp-0", lines)]
        both_connected = threading.Barrier(2)
        conflicts = 0

        def contend(publisher: Publisher) -> None:
            """Goes on after its first acknowledged line when the other has one too."""
            nonlocal conflicts
            waits = True

            def after_sending(number: int, wire: Wire) -> None:
                nonlocal waits
                wait_for_ack(number, wire)
                if waits:
                    waits = False
                    both_connected.wait(60)

            while not publisher.done:
                try:
                    publisher.publish(after_sending)
                except Gone:
                    conflicts += 1
                except AssertionError as error:  # an error frame
                    if error.args[0]["code"] != "superseded":
                        raise
                    conflicts += 1

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(contend, publishers))

        assert conflicts
        found = replay(one)
        check(found, publishers)
        assert replay(other) == found


@pytest.mark.parametrize("seed", [1, 2])
def test_daemons_and_server_killed_at_random(tmp_path: Path, seed: int) -> None:
    """Several publishers at both daemons, while one of the three processes is killed and restarted."""
    chance = random.Random(seed)
    (tmp_path / "nats").mkdir()
    with NatsServer(tmp_path / "nats") as server:
        place = NatsPlace(servers=(server.url,))
        with lives_on(place, tmp_path / "a") as one, lives_on(place, tmp_path / "b") as other:
            sides = [one, other]
            for side in sides:
                side.start()
            publishers = [Publisher(chance.choice(sides), stream, records(stream)) for stream in STREAMS]
            servers_killed = 0
            while left := [publisher for publisher in publishers if not publisher.done]:
                most = chance.randint(1, 15)
                sent, unsent, killed = threading.Semaphore(0), threading.Semaphore(most), threading.Event()

                def count(
                    number: int,
                    wire: Wire,
                    sent: threading.Semaphore = sent,
                    unsent: threading.Semaphore = unsent,
                    killed: threading.Event = killed,
                ) -> None:
                    sent.release()
                    wait_for_ack(number, wire)
                    if not unsent.acquire(blocking=False):
                        killed.wait(TIMEOUT)

                with ThreadPoolExecutor(len(left)) as pool:
                    futures = [pool.submit(one.publish, count) for one in left]
                    for _ in range(most):
                        while not sent.acquire(timeout=0.02) and not all(future.done() for future in futures):
                            pass
                    if chance.random() < 0.5:
                        servers_killed += 1
                        server.kill()
                        server.start()
                    victim = left[0]._lives
                    assert isinstance(victim, Lives)
                    if one.died.count(KILLED) + other.died.count(KILLED) < 5:
                        victim.kill()
                        killed.set()
                        victim.wait()
                        victim.start()
                    killed.set()
                for future in futures:
                    if not isinstance(future.exception(), Gone | None):
                        raise future.exception()  # type: ignore[misc]
                for publisher in publishers:
                    publisher._lives = chance.choice(sides)

            found = replay(one)
            check(found, publishers)
            assert replay(other) == found
            for side in sides:
                check_subscribers(side, found)
            assert servers_killed
            assert one.died.count(KILLED) + other.died.count(KILLED) >= 3
