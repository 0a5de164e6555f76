"""Resumes a stream that an earlier tap has left suspended.

A tap counts its lines from those that the daemon has (`Outbox`). If the earlier one was killed, it left a spool: these
lines are delivered first, because they come before all new ones.
"""

from __future__ import annotations

import os
from pathlib import Path

from anyio.to_thread import run_sync

from tooltap.daemon.client.asynchronous import connect, ingest
from tooltap.daemon.client.discovery import ConnectError, DaemonError, DisconnectedError
from tooltap.daemon.taps.delivery.outbox import SpoolLimits, StreamOptions
from tooltap.daemon.taps.delivery.spool import SUFFIX, Spool, SpoolError
from tooltap.daemon.taps.delivery.tap import Tap


async def resume_tap(options: StreamOptions, socket: Path, spool: SpoolLimits) -> tuple[Tap, bool]:
    """Return a tap of the stream, and whether the stream has lines of an earlier tap.

    Where it cannot be resumed now, the tap gets a stream of its own: there is no daemon, another tap publishes the
    stream, or its spool is in use.
    """
    try:
        begin = await _lines_of(options, socket, spool.directory)
    except (ConnectError, DaemonError, DisconnectedError, SpoolError, OSError):
        begin = None
    if begin is None:
        return Tap(options._replace(stream=f"{options.stream}-{os.urandom(4).hex()}"), socket, spool), False
    return Tap(options, socket, spool, begin=begin), begin > 0


async def _lines_of(options: StreamOptions, socket: Path, spools: Path) -> int | None:
    """Return how many lines the daemon has of the stream, with those of its spool; None if it cannot be resumed now."""
    async with connect(socket) as client:
        statistics = await client.request("stats")
    if any(one["stream"] == options.stream and one["state"] == "open" for one in statistics["perStream"]):
        return None
    path = spools / f"{options.stream}{SUFFIX}"
    spool = await run_sync(Spool.adopt, path)
    try:
        if spool is None and path.exists():
            return None
        async with ingest(**options._asdict(), path=socket) as publisher:
            if spool is not None:
                left = spool.left_after(publisher.ingesting.lines)
                while (records := await run_sync(next, left, None)) is not None:
                    await publisher.write(records)
            lines = await publisher.suspend()
        if spool is not None and spool.is_damaged:
            return None  # the daemon moves it to the quarantine, and until then no other can have its name
        if spool is not None:
            spool.remove()
        return lines
    finally:
        if spool is not None:
            spool.close()
