"""A terminal for a program whose output we read, where its output would otherwise be one.

Programs do behave differently at a terminal; above all, they do not hold their output back until they have a block of
it. The pseudo-terminal changes no byte (what a terminal does to line ends, the real one does afterwards) and is as
large as the real one. Input, echo, signals and job control stay those of the real terminal, which keeps its modes.
"""

from __future__ import annotations

import fcntl
import os
import termios
from typing import Self

__all__ = ["OutputTerminal"]

OUTPUT_FLAGS = 1
"""Of what `tcgetattr` gives."""


class OutputTerminal:
    """A pseudo-terminal that stands for the one at the descriptor `real`."""

    @classmethod
    def like(cls, real: int) -> Self | None:
        """None if there is no terminal, or the system has no more of them."""
        if not os.isatty(real):
            return None
        try:
            return cls(real)
        except OSError:
            return None

    def __init__(self, real: int) -> None:
        """Raises `OSError`."""
        self.ends = os.openpty()
        """Ours, and the program's."""
        self._real = real
        attributes = termios.tcgetattr(self.ends[1])
        attributes[OUTPUT_FLAGS] &= ~termios.OPOST
        termios.tcsetattr(self.ends[1], termios.TCSANOW, attributes)
        self.resize()

    def resize(self) -> None:
        """As large as the real one."""
        try:
            fcntl.ioctl(self.ends[0], termios.TIOCSWINSZ, fcntl.ioctl(self._real, termios.TIOCGWINSZ, bytes(8)))
        except OSError:  # the real one, or the program, is gone
            pass
