"""Runs a program, passes its output through and shows it to a tap.

The program comes first: what it prints is written on before the tap sees it, byte for byte, and the tap must not raise.
Standard input, standard error and the terminal are the program's own, and so are signals: those meant for it are
forwarded, and its end is ours.
"""

from __future__ import annotations

import os
import select
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from types import FrameType

__all__ = ["run_child"]

STDOUT = 1
CHUNK = 65_536
SWITCH_INTERVAL = 0.0005
"""Seconds until another thread of ours, busy with the tap, gives way to output that waits to be written."""

FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
TYPED = (signal.SIGINT, signal.SIGQUIT)
"""The terminal sends these to the program as well as to us."""


def run_child(command: Sequence[str], tap: Callable[[bytes], None]) -> int:
    """The exit code as a shell gives it, 128 + signal for a death. Raises `OSError` if it cannot be started."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    with _Signals() as signals:
        output, output_end = os.pipe()
        try:
            process = subprocess.Popen(command, stdout=output_end, close_fds=False)  # `agent --config <(…)`
        except OSError:
            os.close(output)
            raise
        finally:
            os.close(output_end)
        signals.started(process)
        _pass_on(process, output, signals.wakeup, tap)
        code = process.wait()
    return code if code >= 0 else 128 - code


class _Signals:
    """Forwards signals to the program, and wakes `wakeup` on each, also when the program ends."""

    def __init__(self) -> None:
        self.wakeup, self._wakeup_end = os.pipe()
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        self._before: dict[int, object] = {}

    def __enter__(self) -> _Signals:
        for end in (self.wakeup, self._wakeup_end):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._wakeup_end, warn_on_full_buffer=False)
        self._handle(signal.SIGCHLD, lambda *_: None)
        for number in FORWARDED:
            if signal.getsignal(number) != signal.SIG_IGN:  # what we were told to ignore, the program ignores, too
                self._handle(number, self._forward)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(-1)
        os.close(self.wakeup)
        os.close(self._wakeup_end)

    def started(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        for number in self._early:
            process.send_signal(number)

    def _handle(self, number: int, handler: Callable[[int, FrameType | None], object]) -> None:
        self._before[number] = signal.signal(number, handler)

    def _forward(self, number: int, _: FrameType | None) -> None:
        if self._process is None:
            self._early.append(number)
        elif number not in TYPED or not _at_terminal():
            self._process.send_signal(number)


def _at_terminal() -> bool:
    """Whether the terminal sends what is typed to us, and so to the program, which is of the same process group."""
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


def _pass_on(process: subprocess.Popen[bytes], output: int, wakeup: int, tap: Callable[[bytes], None]) -> None:
    """Until the output ends, or the program, or nobody reads any more."""
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        selector.register(wakeup, selectors.EVENT_READ)
        while process.poll() is None:
            ready = {key.fd for key, _ in selector.select()}
            if wakeup in ready:
                os.read(wakeup, CHUNK)
            if output in ready and not _pass_chunk_on(os.read(output, CHUNK), tap):
                os.close(output)  # whoever still writes learns it as if we were not there
                return
    os.set_blocking(output, False)
    try:
        while _pass_chunk_on(os.read(output, CHUNK), tap):
            pass
    except BlockingIOError:
        # The program is gone, but has left a child behind that may go on printing: not to us, we end with the program.
        os.set_blocking(output, True)
        subprocess.Popen(["cat"], stdin=output)
    os.close(output)


def _pass_chunk_on(data: bytes, tap: Callable[[bytes], None]) -> bool:
    """Whether there is more to come, and somebody to take it."""
    if not data:
        return False
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(STDOUT, left) :]
        except BlockingIOError:
            select.select([], [STDOUT], [])
        except OSError:
            return False
    tap(data)
    return True
