"""A pseudo-terminal with a program."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Screen", "started"]


class Screen:
    """The controlling side of a program's terminal."""

    def __init__(self, terminal: int, pid: int) -> None:
        self.shown = b""
        self._terminal = terminal
        self.pid = pid

    def resize(self, rows: int, columns: int) -> None:
        """Resize; the foreground process gets SIGWINCH."""
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def type(self, text: bytes) -> None:
        os.write(self._terminal, text)

    def read(self) -> bytes:
        """Return what the program shows next; empty once it has ended."""
        try:
            data = os.read(self._terminal, 1024)
        except OSError:  # on Linux: the other side of the terminal is closed
            return b""
        self.shown += data
        return data

    def until(self, text: bytes) -> None:
        while text not in self.shown:
            self.shown += os.read(self._terminal, 1024)

    def modes(self) -> list[object]:
        return termios.tcgetattr(self._terminal)

    def end(self) -> int:
        try:
            while data := os.read(self._terminal, 1024):
                self.shown += data
        except OSError:  # on Linux: the other side of the terminal is closed
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@contextmanager
def started(command: list[str], env: dict[str, str], *, size: tuple[int, int] = (24, 80)) -> Iterator[Screen]:
    """Start a program in its own terminal of this size, whatever size the tests inherit in their environment."""
    env = {name: value for name, value in env.items() if name not in ("COLUMNS", "LINES")}
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("4H", *size, 0, 0))
        os.execvpe(command[0], command, env)
    try:
        yield Screen(terminal, pid)
    finally:
        os.close(terminal)
