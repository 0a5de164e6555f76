"""Cuts connections: `python -m tests.storm.cutter SEED RECORD LISTEN=TARGET…` forwards sockets, and ends each
connection after random bytes. A place is the path of a socket, or a port. RECORD has a byte for each cut."""

from __future__ import annotations

import random
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
from anyio.abc import SocketStream, TaskGroup

MEAN = 3_000_000
"""Bytes of a connection until it is cut, on average."""
BLOCK = 65_536
LOST = (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


class Cutter:
    def __init__(self, seed: int, record: Path) -> None:
        self._random = random.Random(seed)
        self._record = record

    async def serve(self, listen: str, target: str, tasks: TaskGroup) -> None:
        if listen.isdigit():
            listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=int(listen))
            tasks.start_soon(partial(listener.serve, partial(self._connected, target)))
        else:
            tasks.start_soon(
                partial((await anyio.create_unix_listener(listen)).serve, partial(self._connected, target))
            )

    async def _connected(self, target: str, here: SocketStream) -> None:
        left = [int(self._random.expovariate(1 / MEAN))]
        async with here:
            with suppress(*LOST):
                connect = (
                    anyio.connect_tcp("127.0.0.1", int(target)) if target.isdigit() else anyio.connect_unix(target)
                )
                async with await connect as there, anyio.create_task_group() as tasks:
                    tasks.start_soon(self._forward, here, there, left, tasks)
                    tasks.start_soon(self._forward, there, here, left, tasks)

    async def _forward(self, one: SocketStream, other: SocketStream, left: list[int], tasks: TaskGroup) -> None:
        with suppress(*LOST):
            while left[0] > 0:
                data = await one.receive(BLOCK)
                await other.send(data[: left[0]])
                left[0] -= len(data)
            with self._record.open("ab") as record:
                record.write(b".")
        tasks.cancel_scope.cancel()


async def main(*arguments: str) -> None:
    seed, record, *places = arguments
    cutter = Cutter(int(seed), Path(record))
    async with anyio.create_task_group() as tasks:
        for place in places:
            listen, _, target = place.partition("=")
            await cutter.serve(listen, target, tasks)


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
