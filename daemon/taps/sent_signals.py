"""Tells signals that a process has sent from those that were typed at the terminal.

A terminal sends what is typed (Ctrl-C, Ctrl-\\) to its whole foreground process group, so a program that we run gets
it as well as we do. The kernel says where a signal comes from, but not to Python's handlers: so the signals are
blocked, and a thread waits for them.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Self

SI_KERNEL = 0x80
"""`si_code` of a signal that the kernel sends, as for a terminal (Linux)."""


class SentSignals:
    """Calls `sent` with the number of each signal that a process sends; a typed one has no effect. Threads and
    processes that are started until `stop` inherit the block: a process that wants the signals unblocks them."""

    @classmethod
    def wait_for(cls, numbers: Sequence[int], sent: Callable[[int], object]) -> Self | None:
        """None if there is nothing to wait for."""
        return cls(numbers, sent) if numbers else None

    def __init__(self, numbers: Sequence[int], sent: Callable[[int], object]) -> None:
        self._numbers = numbers
        self._sent = sent
        self._stopped = False
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        self._thread = threading.Thread(target=self._wait, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leave the signals to their handlers again."""
        self._stopped = True
        if self._thread.ident is not None:
            signal.pthread_kill(self._thread.ident, self._numbers[0])
        self._thread.join()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._numbers)

    def _wait(self) -> None:
        while True:
            number, typed = _next(self._numbers)
            if self._stopped:
                return
            if not typed:
                self._sent(number)


def _next(numbers: Sequence[int]) -> tuple[int, bool]:
    """Wait for the next signal. Return its number, and whether it was typed."""
    if sys.platform == "linux":
        info = signal.sigwaitinfo(numbers)
        return info.si_signo, info.si_code == SI_KERNEL
    number = signal.sigwait(numbers)  # macOS does not say where it comes from
    return number, _in_foreground()


def _in_foreground() -> bool:
    """Say whether the terminal would signal our process group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
