"""Running a program in the foreground until a signal stops it, as `serve`, `attach` and `gateway` do.

`ForcedEnd` ends a process that does not stop in time after a signal, even if its threads are blocked.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import anyio

from tooltap.daemon.system.logs import flush, get_logger

INTERRUPTED = 130
"""The exit code after Ctrl-C."""

_log = get_logger("process")


class ForcedEnd:
    """Ends this process with `os._exit` if it does not end in time, even if its threads are blocked. `seconds`: time
    limit after `arm`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._armed = False

    def arm(self, number: int) -> None:
        """Start the timer. `number`: number of the received signal."""
        if not self._armed:
            self._armed = True
            code = INTERRUPTED if number == signal.SIGINT else 0
            timer = threading.Timer(self._seconds, self._end, (code,))
            timer.daemon = True
            timer.start()

    def _end(self, code: int) -> None:
        _log.warning("ended without waiting any longer; nothing acknowledged is lost", seconds=self._seconds)
        flush()
        os._exit(code)


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
