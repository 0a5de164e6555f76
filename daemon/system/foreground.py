"""Run a program in the foreground until a signal stops it, as `serve`, `attach` and `gateway` do."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio

__all__ = ["OnStop", "run_until_stopped"]

OnStop: TypeAlias = Callable[[Callable[[], object]], None]


def run_until_stopped(work: Callable[[OnStop], Awaitable[None]]) -> None:
    """Run `work` in a new event loop. `work` is given a function that registers what SIGTERM and Ctrl-C call. Raises
    `KeyboardInterrupt` when `work` has ended if Ctrl-C was pressed."""
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
