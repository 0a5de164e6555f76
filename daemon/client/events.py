"""Subscriptions to typed events, for programs with and without an event loop.

    for event in subscribe(after="start"):  # or: async for event in subscribe(after="start")
        match event:
            case ToolCall():  # tooltap.protocol.events has all kinds
                print(event.provider, event.name, event.preview)
            case Gap():
                print("events", event.from_, "to", event.to, "are gone")

It is built on the event lines and control frames of `asynchronous.py` and `blocking.py`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any, Generic, Literal, TypeAlias, TypeVar, overload

import msgspec

from tooltap.daemon.client.asynchronous import Subscription
from tooltap.daemon.client.blocking import BlockingSubscription
from tooltap.daemon.client.discovery import Received
from tooltap.protocol.display import AnyDisplayEvent, decode_display
from tooltap.protocol.events import AnyEvent, decode_known
from tooltap.protocol.filters import ALL_EVENTS, Filter
from tooltap.protocol.frames import Form, Gap, Subscribe

EventOrGap: TypeAlias = AnyEvent | Gap
E = TypeVar("E")


class EventStream(Generic[E]):
    """Events in the order of the journal, each once; made by `subscribe`, for `for` and `async for`.

    Iterating connects. It raises `ConnectError` if there is no daemon, `DaemonError` if the daemon refuses the request,
    and, without `reconnect`, `DisconnectedError` when the daemon ends. Leaving the loop disconnects; iterating again
    resumes after the last item. After a `break` an asynchronous loop disconnects only when the event loop collects it;
    if that is too late, use `contextlib.aclosing(aiter(stream))`.
    """

    def __init__(
        self,
        frame: Subscribe,
        decode: Callable[[bytes], E | None],
        path: Path | str | None,
        reconnect: bool,
        wait: float,
    ) -> None:
        self._frame = frame
        self._decode = decode
        self._path = path
        self._reconnect = reconnect
        self._wait = wait
        self.cursor: str | None = None
        """The cursor after the last item: pass it as `after` to resume, in this program or another. None before the
        first item. Save it when the item has been processed."""
        self.unknown = 0
        """Number of skipped events: of a kind, or with a value in a nested object, that only a newer version knows."""

    def __iter__(self) -> Generator[E | Gap, None, None]:
        opened = BlockingSubscription(self._path, self._next_frame(), self._reconnect, self._wait)
        with closing(opened) as subscription:
            for received in subscription:
                item = self._item(received)
                self.cursor = subscription.cursor
                if item is not None:
                    yield item

    async def __aiter__(self) -> AsyncGenerator[E | Gap, None]:
        subscription = Subscription(self._path, self._next_frame(), self._reconnect)
        await subscription.open(self._wait)
        try:
            async for received in subscription:
                item = self._item(received)
                self.cursor = subscription.cursor
                if item is not None:
                    yield item
        finally:
            await subscription.close()

    def _next_frame(self) -> Subscribe:
        return self._frame if self.cursor is None else msgspec.structs.replace(self._frame, after=self.cursor)

    def _item(self, received: Received) -> E | Gap | None:
        if isinstance(received, Gap):
            return received
        if not isinstance(received, bytes):
            return None
        event = self._decode(received)
        if event is None:
            self.unknown += 1
        return event


@overload
def subscribe(
    *,
    after: str | int = "now",
    filter: Filter | None = None,
    partials: bool = False,
    as_: Literal["events"] = "events",
    follow: bool = True,
    reconnect: bool = True,
    path: Path | str | None = None,
    wait: float = 0.0,
) -> EventStream[AnyEvent]: ...


@overload
def subscribe(
    *,
    as_: Literal["display"],
    after: str | int = "now",
    filter: Filter | None = None,
    partials: bool = False,
    follow: bool = True,
    reconnect: bool = True,
    path: Path | str | None = None,
    wait: float = 0.0,
) -> EventStream[AnyDisplayEvent]: ...


def subscribe(
    *,
    after: str | int = "now",
    filter: Filter | None = None,  # noqa: A002 -- the key's name on the wire
    partials: bool = False,
    as_: Form = "events",
    follow: bool = True,
    reconnect: bool = True,
    path: Path | str | None = None,
    wait: float = 0.0,
) -> EventStream[Any]:
    """Subscribe to events after `after`: `start`, `now`, a `seq`, or the `cursor` of an earlier stream.

    A `Gap` among the events reports which events will not come: they were too old (`retention`), are damaged on disk
    (`corrupt`), or the cursor belongs to another journal (`reset`). With `follow` false the stream ends at the end of
    the journal. If the daemon goes away the stream waits for it and resumes without loss or repetition, unless
    `reconnect` is false. `partials` adds live parts of messages and outputs, which have no `seq`. `as_="display"`
    returns display events (`tooltap.protocol.display`), what a user interface shows; filters and cursors still refer to
    events. `path`: of the socket; default: the user's. `wait`: seconds to wait for a daemon that is not there at first.
    """
    frame = Subscribe(after=after, filter=filter or ALL_EVENTS, partials=partials, follow=follow, as_=as_)
    return EventStream(frame, decode_display if as_ == "display" else decode_known, path, reconnect, wait)
