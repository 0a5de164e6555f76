"""What runs in the foreground until it is told to stop, as `attach` and `gateway` do."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

import anyio

from tooltap.daemon.logs import get_logger

__all__ = ["on_stop_signal", "tell_problems"]

LOOK = 1.0
"""Seconds between looks at whether lines get through."""

_log = get_logger("tap")


def on_stop_signal(stop: Callable[[], object]) -> None:
    """Call `stop` for SIGTERM and Ctrl-C, in the running event loop."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)


async def tell_problems(problem: Callable[[], str | None]) -> None:
    """Log when lines do not get through to the daemon any more, and when they do again. Until cancelled."""
    told: str | None = None
    while True:
        now = problem()
        if now is not None and told is None:
            _log.warning("lines wait in the spool", reason=now)
        elif now is None and told is not None:
            _log.info("lines get through again")
        told = now
        await anyio.sleep(LOOK)
