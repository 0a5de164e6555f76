"""As on SQLite, on a journal on NATS: each result gets one view or one notice that there is none, although the daemon
is killed with `kill -9`."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.ingest.test_kill9 import KILLED, STOPPED, records
from tests.daemon.lives import Gone, Lives, Publisher, wait_for_ack
from tests.daemon.views.test_rewriter_kill9 import SEEDS, STREAM, TOOLS, check
from tooltap.daemon.journal.nats.connection import Connection
from tooltap.daemon.journal.nats.place import NatsPlace

FAILPOINTS = ["view-start", "view-committed", "view-end", "view-commit", "after-commit"]


@pytest.fixture
def lives(nats_place: NatsPlace, tmp_path: Path) -> Iterator[Lives]:
    journal = f"{nats_place.servers[0]}/{nats_place.name}"
    with Lives(tmp_path, tools=TOOLS, rewriting={"concurrency": 1}, journal=journal) as lives:
        yield lives


def start_when_the_dead_are_known(lives: Lives, place: NatsPlace, failpoint: str = "") -> None:
    """The server deletes the last sign of life of a killed daemon after three minutes."""

    async def forget() -> None:
        connection = await Connection.open(place)
        await connection.api(f"STREAM.PURGE.{place.name}-state", filter=f"{place.name}.daemon.>")
        await connection.close()

    asyncio.run(forget())
    lives.start(failpoint)


@pytest.mark.parametrize("failpoint", FAILPOINTS if SEEDS > 2 else FAILPOINTS[:2])
def test_killed_while_views_are_made(lives: Lives, nats_place: NatsPlace, failpoint: str) -> None:
    publisher = Publisher(lives, STREAM, records(STREAM))
    lives.start(f"{failpoint}:2")
    for nth in (1, 0):
        try:
            publisher.publish(wait_for_ack)
        except Gone:
            pass
        lives.wait()
        start_when_the_dead_are_known(lives, nats_place, f"{failpoint}:{nth}" if nth else "")
    publisher.publish(wait_for_ack)
    check(lives)

    assert lives.died == [KILLED] * 2 + [STOPPED]
    assert lives.hits() == [failpoint] * 2


@pytest.mark.parametrize("seed", range(SEEDS))
def test_killed_at_any_moment_after_the_results(lives: Lives, nats_place: NatsPlace, seed: int) -> None:
    """The stream has ended, so that no publisher comes back."""
    chance = random.Random(seed)
    publisher = Publisher(lives, STREAM, records(STREAM))
    lives.start()
    publisher.publish(lambda number, wire: None)
    for _ in range(2):
        time.sleep(chance.random() / 50)  # lets the daemon reach any point of its work
        lives.kill()
        lives.wait()
        start_when_the_dead_are_known(lives, nats_place)
    check(lives)
