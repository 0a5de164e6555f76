"""`tooltap.client`: talk to a running daemon, with an event loop (asyncio or trio) or without.

    from tooltap.client import Gap, subscribe

    for event in subscribe(after="start"):      # or: async for event in subscribe(after="start")
        if isinstance(event, Gap):
            print("events", event.from_, "to", event.to, "are gone")
        else:
            print(event.seq, event.provider, event)

- `subscribe`: typed events (`tooltap.protocol.events`) and gaps; it reconnects, and its `cursor` is where to resume.
- `ask`, and asynchronously `request` and `connect`: sessions, single events, output bodies, statistics.
- `ingest`: publish a stream of an agent's lines (asynchronous).
- `display_events`, `display_of`, `display_text`: what a user interface shows of events; with
  `subscribe(as_="display")` the daemon does the same.

`tooltap.daemon.client.asynchronous` has subscriptions to undecoded lines.
"""

from tooltap.daemon.client.asynchronous import Client, OtherInputError, Publisher, connect, ingest, request
from tooltap.daemon.client.blocking import ask
from tooltap.daemon.client.discovery import ConnectError, DaemonError, DisconnectedError
from tooltap.daemon.client.events import EventOrGap, EventStream, subscribe
from tooltap.daemon.show.skins.display import display_events, display_of, display_text
from tooltap.protocol.events import AnyEvent
from tooltap.protocol.filters import Filter
from tooltap.protocol.frames import Gap

__all__ = [
    "AnyEvent",
    "Client",
    "ConnectError",
    "DaemonError",
    "DisconnectedError",
    "EventOrGap",
    "EventStream",
    "Filter",
    "Gap",
    "OtherInputError",
    "Publisher",
    "ask",
    "connect",
    "display_events",
    "display_of",
    "display_text",
    "ingest",
    "request",
    "subscribe",
]
