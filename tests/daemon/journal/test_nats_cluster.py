"""A journal with three replicas: its servers die, stand still, and are cut off from each other; nothing is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import pytest

from tests.daemon.events import commit, message
from tests.daemon.journal.nats_cluster import SERVERS, Cluster
from tests.daemon.journal.on_nats import Published, everything, opened, texts, until


@pytest.mark.anyio
async def test_leader_dies(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        async with opened(cluster.place) as one, opened(cluster.place) as other:
            published = Published(other)
            await other.listen()
            for line in range(20):
                with anyio.fail_after(60):
                    await one.commit(commit(message(str(line)), base=line))
                if line == 9:
                    info = await one._connection.api(f"STREAM.INFO.{cluster.place.name}")
                    assert len(info["cluster"]["replicas"]) == SERVERS - 1
                    cluster.servers[int(info["cluster"]["leader"][1:])].kill()
            await until(lambda: len(published.events) == 20)

            assert texts(published.events) == [str(line) for line in range(20)]
            assert await asyncio.wait_for(everything(one), 30) == published.events
