"""What `tooltap remote send` writes to standard output on the other machine, for `reading.py`.

{"op":"subscribed","after":17,"journal":"6f0c…",…}    then the frames and events of a subscription, as they come
{"op":"output","outputId":"s:3:o1","offset":0,…}      the output bodies of the next event, before it
{"seq":18,"v":2,"kind":"tool-result",…}               the event
{"op":"working","streams":["s"]}                      streams of the sessions that are running or waiting: every few
                                                      seconds once everything older is sent, and so a heartbeat
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import msgspec
from anyio.abc import TaskGroup

from tooltap.daemon.client.asynchronous import Client, Subscription, connect, subscribe
from tooltap.daemon.client.discovery import DaemonError
from tooltap.daemon.journal.interface import MAX_SLICE, output_ids
from tooltap.daemon.journal.json_lines import OutputLine
from tooltap.protocol.frames import Live, OutputRequest, SessionsRequest, encode_frame

BEAT = 3.0
"""Seconds between two frames `working`."""
MOST_WORKING = 1_000
"""Sessions that are running or waiting, at most; later ones are not said to be."""


class Working(msgspec.Struct, tag_field="op", tag="working"):
    """The streams of the sessions that are running, or wait for a person."""

    streams: list[str]


async def send(after: str, path: Path | None, write: Callable[[bytes], None]) -> None:
    """Write everything after a cursor, until the connection ends. `path`: of the daemon's socket. `write` gets whole
    lines. Raises `ConnectError`, `DaemonError` and `DisconnectedError`."""
    async with connect(path) as client, subscribe(after=after, path=path) as events:
        try:
            async with anyio.create_task_group() as tasks:
                await _send_events(client, events, tasks, write)
        except BaseExceptionGroup as group:  # one end of the connection has several effects
            raise group.exceptions[0] from None


async def _send_events(client: Client, events: Subscription, tasks: TaskGroup, write: Callable[[bytes], None]) -> None:
    asking = anyio.Lock()
    is_live = False
    async for item in events:
        if not isinstance(item, bytes):
            write(encode_frame(item))
            if isinstance(item, Live) and not is_live:
                is_live = True
                tasks.start_soon(_beat, client, asking, write)
            continue
        async with asking:
            for output_id in output_ids(item):
                await _send_output(client, output_id, write)
        write(item + b"\n")


async def _beat(client: Client, asking: anyio.Lock, write: Callable[[bytes], None]) -> None:
    while True:
        async with asking:
            found = await client.request(SessionsRequest(status=("running", "waiting"), limit=MOST_WORKING, empty=True))
            write(msgspec.json.encode(Working([stream for one in found.sessions for stream in one.streams])) + b"\n")
        await anyio.sleep(BEAT)


async def _send_output(client: Client, output_id: str, write: Callable[[bytes], None]) -> None:
    """Write a body. Nothing is written of one that is not there any more: the event itself says how long it was."""
    offset, total = 0, 1
    while offset < total:
        try:
            part = await client.request(OutputRequest(output_id=output_id, offset=offset, length=MAX_SLICE))
        except DaemonError:
            return
        line = OutputLine(output_id=output_id, offset=offset, total=part.total, mime_type=part.mime_type)
        if part.text is not None:
            line.text = part.text
        else:
            line.b64 = msgspec.convert(part.b64, bytes)
        write(msgspec.json.encode(line) + b"\n")
        offset, total = offset + part.length, part.total
        if not part.length:
            return
