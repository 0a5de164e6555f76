"""Waits until an agent shows what became of what was sent to it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

NOT_YET = 4
"""Exit code: it is journaled, but the agent has not got it yet, or has not accepted it in time."""


def accepted_option(what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option `--accepted`. `what`: what the agent may accept."""
    return click.option(
        "--accepted",
        type=click.FloatRange(min=0),
        metavar="SECONDS",
        help=f"Wait for this long until the agent shows that it has accepted {what}.",
    )


def wait_for_agent(
    socket: Path | None, stream: str, after: int, seconds: float, shown: Callable[[dict[str, Any]], str | None]
) -> str | None:
    """Read the events of a stream after a `seq` that may say it, and return what `shown` finds; None if the agent shows
    nothing in time. Raises what `shown` raises."""
    events: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_read, args=(socket, stream, after, events.put), daemon=True).start()
    deadline = time.monotonic() + seconds
    while True:
        try:
            event = events.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return None
        if (found := shown(event)) is not None:
            return found


def _read(socket: Path | None, stream: str, after: int, put: Callable[[dict[str, Any]], object]) -> None:
    import orjson

    from tooltap.daemon.client.blocking import BlockingSubscription
    from tooltap.daemon.client.discovery import ConnectError, DaemonError
    from tooltap.protocol.filters import Filter
    from tooltap.protocol.frames import Subscribe

    wanted = Filter(stream=(stream,), kind=("permission-response", "notice", "turn"))
    with suppress(ConnectError, DaemonError):
        for item in BlockingSubscription(socket, Subscribe(after=after, filter=wanted), reconnect=True):
            if isinstance(item, bytes):
                put(orjson.loads(item))
