"""`tooltap.client`: talk to a running daemon, and project events to what a user interface shows.

See `tooltap.daemon.client` and `tooltap.normalizers.display`.
"""

from tooltap.daemon.client import (
    Client,
    ConnectError,
    DaemonError,
    DisconnectedError,
    Filter,
    OtherInputError,
    Publisher,
    Received,
    Subscription,
    connect,
    ingest,
    request,
    subscribe,
)
from tooltap.normalizers.display import display_events, display_of, display_text

__all__ = [
    "Client",
    "ConnectError",
    "DaemonError",
    "DisconnectedError",
    "Filter",
    "OtherInputError",
    "Publisher",
    "Received",
    "Subscription",
    "connect",
    "display_events",
    "display_of",
    "display_text",
    "ingest",
    "request",
    "subscribe",
]
