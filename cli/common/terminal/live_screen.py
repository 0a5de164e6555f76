"""The whole terminal, redrawn in place until the user leaves; then the terminal is as it was before."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterable
from types import FrameType, TracebackType
from typing import Any, Self

from tooltap.cli.common.printing import Clean, at_terminal, terminal

ENTER = "\x1b[?1049h\x1b[?25l"
"""The other screen, without a cursor."""
LEAVE = "\x1b[?25h\x1b[?1049l"
SIGNALS = (signal.SIGWINCH, signal.SIGTSTP, signal.SIGTERM, signal.SIGHUP)


class LiveScreen:
    """A context manager. Between `draw` and the next one, `wait` returns at a key, at another size, or when `wake` was
    called, from any thread."""

    @staticmethod
    def is_possible() -> bool:
        return at_terminal() and sys.stdin is not None and sys.stdin.isatty()

    def __init__(self) -> None:
        self._input = sys.stdin.fileno()
        self._woken, self._waker = os.pipe()
        self._modes: list[Any] = []
        self._usual: dict[signal.Signals, Any] = {}
        self._caught: list[int] = []

    def __enter__(self) -> Self:
        for number in (self._woken, self._waker):
            os.set_blocking(number, False)
        for one in SIGNALS:
            self._usual[one] = signal.signal(one, self._catch)
        self._take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()
        for one, handler in self._usual.items():
            signal.signal(one, handler)
        waker, self._waker = self._waker, -1
        os.close(waker)
        os.close(self._woken)

    def draw(self, lines: Iterable[Clean]) -> None:
        """The lines are no more, and no wider, than the terminal has room for."""
        text = "\n".join(f"{line}\x1b[K" for line in lines)
        self._write(f"\x1b[H{text}\x1b[J")

    def wake(self) -> None:
        try:
            os.write(self._waker, b"x")
        except OSError:
            pass  # it is awake, or gone

    def wait(self, seconds: float | None) -> str:
        """The keys that were typed; empty if something else happened, or the time is over."""
        ready, _, _ = select.select([self._input, self._woken], [], [], seconds)
        if self._woken in ready:
            os.read(self._woken, 4_096)
        while self._caught:
            self._obey(self._caught.pop(0))
        if self._input not in ready:
            return ""
        typed = os.read(self._input, 100)
        return typed.decode(errors="replace") if typed else "q"  # the terminal is gone

    def _catch(self, number: int, _: FrameType | None) -> None:
        self._caught.append(number)
        self.wake()

    def _obey(self, number: int) -> None:
        if number == signal.SIGTSTP:
            self._give_back()
            os.kill(os.getpid(), signal.SIGSTOP)
            self._take()
        elif number in (signal.SIGTERM, signal.SIGHUP):
            raise SystemExit(128 + number)

    def _take(self) -> None:
        self._modes = termios.tcgetattr(self._input)
        tty.setcbreak(self._input)
        self._write(ENTER)

    def _give_back(self) -> None:
        self._write(LEAVE)
        termios.tcsetattr(self._input, termios.TCSADRAIN, self._modes)

    def _write(self, text: str) -> None:
        stream = terminal()
        stream.write(text)
        stream.flush()
