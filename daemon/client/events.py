"""Typed events from the daemon, for programs with an event loop and for those without one.

    for event in subscribe(after="start"):  # or: async for event in subscribe(after="start")
        match event:
            case ToolCall():  # tooltap.protocol.events has all kinds
                print(event.provider, event.name, event.preview)
            case Gap():
                print("events", event.from_, "to", event.to, "are gone")

`tooltap.daemon.client.subscription` has the lines and control frames that these are made of.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import Any, Generic, Literal, TypeAlias, TypeVar, overload

import msgspec

from tooltap.daemon.client.blocking import BlockingSubscription
from tooltap.daemon.client.reading import Received
from tooltap.daemon.client.subscription import Subscription
from tooltap.protocol.display import AnyDisplayEvent, decode_display
from tooltap.protocol.events import AnyEvent, decode
from tooltap.protocol.filters import Filter
from tooltap.protocol.frames import Form, Gap, Subscribe

__all__ = ["EventOrGap", "EventStream", "subscribe"]

EventOrGap: TypeAlias = AnyEvent | Gap
E = TypeVar("E")


class EventStream(Generic[E]):
    """Events in the order of the journal, each once, made by `subscribe`; to be used with `for` or `async for`.

    Iterating connects and raises `ConnectError` if no daemon is there; what the daemon refuses is a `DaemonError`, its
    end, where reconnecting is not wanted, a `DisconnectedError`. Leaving the loop disconnects; iterating again goes on
    where it was left. An asynchronous loop left by `break` disconnects when the event loop gets to it; where that is
    too late, use `contextlib.aclosing(aiter(stream))`.
    """

    def __init__(
        self, frame: Subscribe, decode: Callable[[bytes], E | None], path: Path | str | None, reconnect: bool
    ) -> None:
        self._frame = frame
        self._decode = decode
        self._path = path
        self._reconnect = reconnect
        self.cursor: str | None = None
        """Behind the last item given: pass it as `after` to go on from there, in this program or another. None before
        the first. Keep it when the item has been dealt with."""
        self.unknown = 0
        """Events left out because this version does not know their kind or one of their values: the daemon is newer."""

    def __iter__(self) -> Generator[E | Gap, None, None]:
        with closing(BlockingSubscription(self._path, self._next_frame(), self._reconnect)) as subscription:
            for received in subscription:
                item = self._item(received)
                self.cursor = subscription.cursor
                if item is not None:
                    yield item

    async def __aiter__(self) -> AsyncGenerator[E | Gap, None]:
        subscription = Subscription(self._path, self._next_frame(), self._reconnect)
        await subscription.open()
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


def _decode_known(line: bytes) -> AnyEvent | None:
    try:
        return decode(line)
    except msgspec.ValidationError:
        return None


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
) -> EventStream[Any]:
    """Events from `after` on: `start`, `now`, a `seq`, or a `cursor` kept from earlier.

    A `Gap` among them says which events will not come: they were too old (`retention`), or the cursor was of another
    journal (`reset`). With `follow` false it ends where the journal does. A daemon that goes away is waited for, and
    events go on without loss or repetition, unless `reconnect` is false. `partials` gives live previews of messages
    and outputs too, which have no `seq`. `as_="display"` gives what a user interface shows of the events
    (`tooltap.protocol.display`); filters and cursors are those of the events. `path`: of the socket, if not the default
    one.
    """
    frame = Subscribe(after=after, filter=filter or Filter(), partials=partials, follow=follow, as_=as_)
    return EventStream(frame, decode_display if as_ == "display" else _decode_known, path, reconnect)
