"""What runs in the foreground until it is told to stop, as `serve`, `attach` and `gateway` do."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio

from tooltap.daemon.system.logs import get_logger

__all__ = ["OnStop", "run_until_stopped", "tell_problems"]

OnStop: TypeAlias = Callable[[Callable[[], object]], None]

LOOK = 1.0
"""Seconds between looks at whether lines get through."""

_log = get_logger("tap")


def run_until_stopped(work: Callable[[OnStop], Awaitable[None]]) -> None:
    """Run `work` in an event loop of its own. It is given a function that takes what is to be called for SIGTERM and
    Ctrl-C. Raises `KeyboardInterrupt` after its end if there was a Ctrl-C."""
    interrupted = False

    def on_stop(stop: Callable[[], object]) -> None:
        def interrupt() -> None:
            nonlocal interrupted
            interrupted = True
            stop()

        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, stop)
        loop.add_signal_handler(signal.SIGINT, interrupt)

    anyio.run(work, on_stop, backend="asyncio")
    if interrupted:
        raise KeyboardInterrupt


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
