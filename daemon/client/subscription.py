"""Subscriptions as lines and control frames, with an event loop. `events.py` makes typed events of them.

async with subscribe(after="start", filter=Filter(kind=("tool-call",))) as subscription:
    async for item in subscription:        # bytes: an event line; else a control frame
        if isinstance(item, bytes):
            print(decode(item))            # tooltap.protocol.events.decode

async with subscribe(as_="display") as subscription:
    async for shown in subscription.display_events():       # tooltap.protocol.display
        if isinstance(shown, DisplayText):
            print(shown.text)
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

import anyio

from tooltap.daemon.client.connection import Client
from tooltap.daemon.client.cursor import Reading, Received
from tooltap.daemon.client.discovery import ConnectError, DisconnectedError, pauses
from tooltap.protocol.display import AnyDisplayEvent, decode_display
from tooltap.protocol.filters import ALL_EVENTS, Filter
from tooltap.protocol.frames import Form, Subscribe


class Subscription:
    """An asynchronous iterator of `Received`, made by `subscribe`.

    It ends after the replay if `follow` is false. Otherwise it ends only by `DisconnectedError`, if `reconnect` is
    false. It includes every `Gap`; the events in a gap will not come.
    """

    def __init__(self, path: Path | str | None, frame: Subscribe, reconnect: bool) -> None:
        self._path = path
        self._reading = Reading(frame)
        self._reconnect = reconnect
        self._client: Client | None = None

    @property
    def cursor(self) -> str | None:
        """The cursor after the last item: pass it as `after` to resume. None before the first item."""
        return self._reading.cursor

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Received:
        while not self._reading.finished:
            try:
                received = self._reading.take(await self._receive())
            except DisconnectedError:
                if not self._reconnect:
                    raise
                await self._reopen()
                continue
            if received is not None:
                return received
        raise StopAsyncIteration

    async def display_events(self) -> AsyncIterator[AnyDisplayEvent]:
        """Decode the lines of a subscription `as_="display"`. Kinds that this version does not know are left out."""
        async for item in self:
            if isinstance(item, bytes) and (shown := decode_display(item)) is not None:
                yield shown

    async def open(self, wait: float = 0.0) -> None:
        """Connect and subscribe. `wait`: seconds to wait for a daemon that is not there yet. Raises `ConnectError` and
        `DaemonError`."""
        self._client = await Client.open(self._path, wait)
        await self._client.send(self._reading.frame)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _receive(self) -> bytes:
        if self._client is None:
            raise DisconnectedError
        return await self._client.receive_line()

    async def _reopen(self) -> None:
        """Reconnect as soon as there is a daemon, and resume after the last item."""
        for pause in pauses(math.inf):
            await self.close()
            self._client = None
            try:
                await self.open()
                return
            except (ConnectError, DisconnectedError):
                await anyio.sleep(pause)


@asynccontextmanager
async def subscribe(
    *,
    after: str | int = "now",
    filter: Filter | None = None,  # noqa: A002 -- the key's name on the wire
    partials: bool = False,
    as_: Form = "events",
    follow: bool = True,
    reconnect: bool = False,
    path: Path | str | None = None,
    wait: float = 0.0,
) -> AsyncIterator[Subscription]:
    """Subscribe to event lines after `after`: `start`, `now`, a `seq`, or the `cursor` of an earlier subscription.

    `as_`: with `display` the lines are display lines, what a user interface shows of the events; filters and cursors
    still refer to events. `reconnect`: if the daemon goes away, wait for it and resume without loss. `wait`:
    seconds to wait for a daemon that is not there at first; then `ConnectError` is raised.
    """
    frame = Subscribe(after=after, filter=filter or ALL_EVENTS, partials=partials, follow=follow, as_=as_)
    subscription = Subscription(path, frame, reconnect)
    await subscription.open(wait)
    try:
        yield subscription
    finally:
        await subscription.close()
