"""`tooltap.client`: talk to a running daemon. See `tooltap.daemon.client`."""

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
    "ingest",
    "request",
    "subscribe",
]
