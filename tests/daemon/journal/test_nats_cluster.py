"""A journal with three replicas: a server of the cluster dies, even the leader, and nothing is lost."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import anyio
import pytest

from tests.daemon.events import commit, message
from tests.daemon.journal.test_journal_nats import Published, everything, opened, texts, until
from tests.daemon.nats_server import NatsServer
from tooltap.daemon.journal.nats.place import NatsOptions, NatsPlace

pytestmark = pytest.mark.anyio
SERVERS = 3


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[list[NatsServer]]:
    ports = free_ports(SERVERS)
    routes = ",".join(f"nats://127.0.0.1:{port}" for port in ports)
    with ExitStack() as stack:
        servers = []
        for number, port in enumerate(ports):
            (tmp_path / str(number)).mkdir()
            member = ("--server_name", f"n{number}", "--cluster_name", "c", "--cluster", f"nats://127.0.0.1:{port}")
            servers.append(stack.enter_context(NatsServer(tmp_path / str(number), *member, "--routes", routes)))
        yield servers


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


async def test_leader_dies(cluster: list[NatsServer]) -> None:
    place = NatsPlace(
        servers=tuple(server.url for server in cluster),
        options=NatsOptions(replicas=3, connect_timeout=30),
    )
    async with opened(place) as one, opened(place) as other:
        published = Published(other)
        await other.listen()
        for line in range(20):
            with anyio.fail_after(60):
                await one.commit(commit(message(str(line)), base=line))
            if line == 9:
                info = await one._link.api(f"STREAM.INFO.{place.name}")
                assert len(info["cluster"]["replicas"]) == SERVERS - 1
                cluster[int(info["cluster"]["leader"][1:])].kill()
        await until(lambda: len(published.events) == 20)

        assert texts(published.events) == [str(line) for line in range(20)]
        assert await asyncio.wait_for(everything(one), 30) == published.events
