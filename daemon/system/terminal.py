"""A pseudo-terminal for a program whose output is read, so that it behaves as at a real terminal.

Above all, programs at a terminal do not buffer their output in blocks. The pseudo-terminal changes no byte (the real
one converts line ends afterwards) and has the size of the real one. Input, echo, signals and job control stay with the
real terminal, whose modes are not changed.
"""

from __future__ import annotations

import fcntl
import os
import termios
from typing import Self

OUTPUT_FLAGS = 1
"""Index into the list that `tcgetattr` returns."""


class OutputTerminal:
    """A pseudo-terminal in place of the terminal at descriptor `real`."""

    @classmethod
    def like(cls, real: int) -> Self | None:
        """None if `real` is not a terminal, or the system has no pseudo-terminal left."""
        if not os.isatty(real):
            return None
        try:
            return cls(real)
        except OSError:
            return None

    def __init__(self, real: int) -> None:
        """Raises `OSError`."""
        self.ends = os.openpty()
        """Descriptors: ours, and the program's."""
        self._real = real
        attributes = termios.tcgetattr(self.ends[1])
        attributes[OUTPUT_FLAGS] &= ~termios.OPOST
        termios.tcsetattr(self.ends[1], termios.TCSANOW, attributes)
        self.resize()

    def resize(self) -> None:
        """Adopt the size of the real terminal."""
        try:
            fcntl.ioctl(self.ends[0], termios.TIOCSWINSZ, fcntl.ioctl(self._real, termios.TIOCGWINSZ, bytes(8)))
        except OSError:  # the real terminal or the program is gone
            pass
