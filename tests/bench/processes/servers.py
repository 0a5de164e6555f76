"""`python -m tests.bench.processes.servers SIDE SOCKET NUMBER…`: bare asyncio servers as references, and the hub alone.

`bare` and `hub` SUBSCRIBERS BATCHES EVENTS: wait for a line on stdin and for the subscribers, then write BATCHES
batches of EVENTS events to all of them, each batch when no subscriber is behind. The result is the seconds and the
processor seconds from the first write until the sockets have taken everything, and the number of bytes. `bare` uses
asyncio as its documentation shows it, `write` and `drain`, with bytes encoded in advance. `hub` is a whole daemon; its
hub gets events as from the journal, and encodes the lines itself. Both buffer as many bytes for a subscriber.

`relay` SUBSCRIBERS: forward everything that the connection after the subscribers sends to the subscribers.

`send` BYTES: send this many bytes to each connection.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path

from tests.daemon.events import message
from tooltap.daemon.app import Daemon
from tooltap.daemon.config import load_config
from tooltap.daemon.hub import Subscription
from tooltap.daemon.journal.interface import Committed
from tooltap.daemon.server.connection import Connection
from tooltap.daemon.system.listener import BACKLOG
from tooltap.daemon.system.logs import configure
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import event_lines

__all__ = ["EVENT_BYTES", "events"]

EVENT_BYTES = 700
FIRST_SEQ = 100_000
CHUNKS = 64
"""Distinct chunks of `bare` and batches of `hub`, so that they do not all fit into the processor's cache."""
SENT_BYTES = 262_144
"""Bytes per write of `send`, about as many as a subscription reads at once from the journal."""


def events(count: int) -> list[Produced]:
    empty = len(message("").body)
    return [message("x" * (EVENT_BYTES - empty)) for _ in range(count)]


async def bare(path: str, subscribers: int, batches: int, count: int) -> None:
    writers: list[asyncio.StreamWriter] = []
    chunks = [_chunk(events(count), number) for number in range(CHUNKS)]

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    async def write(number: int) -> None:
        for writer in writers:
            writer.write(chunks[number % CHUNKS])
        for writer in writers:
            await writer.drain()

    async with await asyncio.start_unix_server(accept, path, backlog=BACKLOG):

        def buffered() -> int:
            return sum(one.transport.get_write_buffer_size() for one in writers)

        size = len(chunks[0]) * subscribers
        await _measure(lambda: len(writers) == subscribers, write, buffered, batches, size)
        for writer in writers:
            writer.close()


async def hub(path: str, subscribers: int, batches: int, count: int) -> None:
    configure("warning")
    produced = [events(count) for _ in range(CHUNKS)]
    with tempfile.TemporaryDirectory() as folder:
        daemon = Daemon(load_config(None, socket=path, journal=f"{folder}/journal.db"))
        listening = asyncio.Event()
        running = asyncio.create_task(daemon.run(listening.set))
        await listening.wait()
        subscriptions = daemon.hub.subscriptions

        def keep_up() -> bool:
            return len(subscriptions) == subscribers and not any(one.statistics()["behind"] for one in subscriptions)

        async def write(number: int) -> None:
            first = FIRST_SEQ + number * count
            daemon.hub.publish([Committed(produced[number % CHUNKS], list(range(first, first + count)))])
            for one in subscriptions:
                assert isinstance(one, Subscription)
                await one._connection.drain()

        def buffered() -> int:
            return sum(_transport(one).get_write_buffer_size() for one in subscriptions)

        await _measure(keep_up, write, buffered, batches, len(_chunk(produced[0], 0)) * subscribers)
        assert keep_up()  # no subscription fell back to the journal, which does not hold these events
        daemon.stop()
        await running


def _transport(subscription: object) -> asyncio.WriteTransport:
    assert isinstance(subscription, Subscription)
    connection = subscription._connection
    assert isinstance(connection, Connection)
    return connection._transport


def _chunk(batch: list[Produced], number: int) -> bytes:
    first = FIRST_SEQ + number * len(batch)
    return event_lines([(first + index, one.body) for index, one in enumerate(batch)])


async def _measure(
    ready: Callable[[], bool],
    write: Callable[[int], Awaitable[None]],
    buffered: Callable[[], int],
    batches: int,
    batch_bytes: int,
) -> None:
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    while not ready():
        await asyncio.sleep(0.001)
    start, cpu = time.perf_counter(), time.process_time()
    for number in range(batches):
        await write(number)
    while buffered():
        await asyncio.sleep(0.0001)
    spent = time.perf_counter() - start, time.process_time() - cpu
    print(json.dumps([*spent, batches * batch_bytes]), flush=True)


async def relay(path: str, subscribers: int) -> None:
    writers: list[asyncio.StreamWriter] = []
    ended = asyncio.Event()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(writers) < subscribers:
            writers.append(writer)
            return
        while data := await reader.read(SENT_BYTES):
            for one in writers:
                one.write(data)
        for one in [*writers, writer]:
            one.close()
        ended.set()

    async with await asyncio.start_unix_server(accept, path, backlog=BACKLOG):
        print("ready", flush=True)
        await ended.wait()


async def send(path: str, size: int) -> None:
    data = b"x" * SENT_BYTES

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(-(-size // SENT_BYTES)):
            writer.write(data)
            await writer.drain()
        writer.close()

    async with await asyncio.start_unix_server(accept, path):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    side, path, *numbers = sys.argv[1:]
    Path(path).parent.mkdir(exist_ok=True, mode=0o700)
    sides: dict[str, Callable[..., Coroutine[None, None, None]]] = {
        "bare": bare,
        "hub": hub,
        "relay": relay,
        "send": send,
    }
    asyncio.run(sides[side](path, *map(int, numbers)))
