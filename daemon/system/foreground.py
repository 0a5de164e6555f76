"""Run a program in the foreground until a signal stops it, as `serve`, `attach` and `gateway` do."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import anyio

__all__ = ["OnStop", "run_until_stopped"]

OnStop: TypeAlias = Callable[[Callable[[], object]], None]


def run_until_stopped(
    work: Callable[[OnStop], Awaitable[None]],
    *,
    new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
    on_signal: Callable[[int], object] = lambda _: None,
) -> None:
    """Run `work` in a new event loop. `work` is given a function that registers what SIGTERM and Ctrl-C call. Raises
    `KeyboardInterrupt` when `work` has ended if Ctrl-C was pressed.

    `on_signal` is called with the number of either signal as well, even while something holds the event loop."""
    interrupted = False

    def on_stop(stop: Callable[[], object]) -> None:
        def interrupt() -> None:
            nonlocal interrupted
            interrupted = True
            stop()

        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, stop)
        loop.add_signal_handler(signal.SIGINT, interrupt)
        # The loop learns of a signal through its wakeup descriptor, whatever the handler is.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: on_signal(number))

    options: dict[str, Any] = {} if new_loop is None else {"loop_factory": new_loop}
    anyio.run(work, on_stop, backend="asyncio", backend_options=options)
    if interrupted:
        raise KeyboardInterrupt
