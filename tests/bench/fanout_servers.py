"""`python -m tests.bench.fanout_servers hub|bare SOCKET SUBSCRIBERS BATCHES EVENTS`: who writes in the row `fanout`.

Both say `ready` when they listen, wait for a line and for the subscribers, and write BATCHES times the same events to
all of them, the next when nobody is behind. Then they print the seconds of processor time that took, and the bytes.

`bare` is asyncio as its documentation shows it: `write` and `drain` of streams, with bytes made beforehand. `hub` is a
whole daemon whose hub is given events as the journal gives them once they are durable; it makes the bytes.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.daemon.events import message
from tooltap.daemon.app import Daemon
from tooltap.daemon.config import load_config
from tooltap.daemon.journal import Committed
from tooltap.daemon.logs import configure
from tooltap.normalizers.bounds import Produced
from tooltap.protocol.events import event_lines

__all__: list[str] = []

EVENT_BYTES = 700
CHUNKS = 64
"""As many are made for `bare`, so that they are not all in the processor's cache."""


def events(count: int) -> list[Produced]:
    empty = len(message("").body)
    return [message("x" * (EVENT_BYTES - empty)) for _ in range(count)]


def chunk(batch: list[Produced], first: int) -> bytes:
    return event_lines([(first + index, one.body) for index, one in enumerate(batch)])


async def bare(path: str, subscribers: int, batches: int, batch: list[Produced]) -> None:
    writers: list[asyncio.StreamWriter] = []
    chunks = [chunk(batch, 100_000 + number * len(batch)) for number in range(CHUNKS)]

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    async def write(number: int) -> None:
        for writer in writers:
            writer.write(chunks[number % CHUNKS])
        for writer in writers:
            await writer.drain()

    async with await asyncio.start_unix_server(accept, path, backlog=1_024):
        await _measure(lambda: len(writers) == subscribers, write, batches, len(chunks[0]) * subscribers)
        for writer in writers:
            writer.close()


async def hub(path: str, subscribers: int, batches: int, batch: list[Produced]) -> None:
    configure("warning")
    with tempfile.TemporaryDirectory() as folder:
        daemon = Daemon(load_config(None, socket=path, journal=f"{folder}/journal.db"))
        ready = asyncio.Event()
        running = asyncio.create_task(daemon.run(ready.set))
        await ready.wait()
        subscriptions = daemon.hub.subscriptions

        async def write(number: int) -> None:
            first = 100_000 + number * len(batch)
            daemon.hub.publish([Committed(batch, list(range(first, first + len(batch))))])
            for one in subscriptions:
                await one._connection.drain()

        await _measure(
            lambda: len(subscriptions) == subscribers and not any(one.behind for one in subscriptions),
            write,
            batches,
            len(chunk(batch, 100_000)) * subscribers,
        )
        assert not any(one.behind for one in subscriptions)
        daemon.stop()
        await running


async def _measure(
    ready: Callable[[], bool], write: Callable[[int], Awaitable[None]], batches: int, batch_bytes: int
) -> None:
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    while not ready():
        await asyncio.sleep(0.001)
    cpu = time.process_time()
    for number in range(batches):
        await write(number)
    print(json.dumps([time.process_time() - cpu, batches * batch_bytes]), flush=True)


if __name__ == "__main__":
    side, path, subscribers, batches, count = sys.argv[1:]
    Path(path).parent.mkdir(exist_ok=True, mode=0o700)
    asyncio.run({"bare": bare, "hub": hub}[side](path, int(subscribers), int(batches), events(int(count))))
