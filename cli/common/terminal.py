"""The terminal of the user: a pager, the whole screen, and the browser beside it."""

from __future__ import annotations

import io
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import termios
import threading
import tty
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any, Self

from tooltap.cli.common.printing import Clean, at_terminal, terminal, warn
from tooltap.daemon.system.processes import users_environment

LESS = "FRX"
"""Default options of `less`: exit if everything fits on one screen (F), show colors (R), do not clear the screen
(X)."""


@contextmanager
def paged() -> Iterator[None]:
    """Show what is printed in the block page by page, with `$PAGER` or `less`, if standard output is a terminal. The
    block ends early if the user leaves the pager."""
    words = _pager() if at_terminal() else []
    if not words:
        yield
        return
    environment = {**os.environ, "LESS": os.environ.get("LESS", LESS)}
    try:
        pager = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=terminal(), env=environment)
    except OSError as error:
        warn(f"PAGER cannot be started: {words[0]}: {error.strerror}")
        yield
        return
    assert pager.stdin is not None
    shown, streams = sys.stdout, sys
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the pager has its own use for Ctrl-C
    output = io.TextIOWrapper(pager.stdin, "utf-8", errors="backslashreplace")
    streams.stdout = output
    try:
        yield
    except BrokenPipeError:
        pass
    finally:
        streams.stdout = shown
        with suppress(OSError):
            output.close()
        pager.wait()
        signal.signal(signal.SIGINT, usual)


def _pager() -> list[str]:
    """Return the pager's command line; empty for no pager."""
    if "PAGER" not in os.environ:
        return ["less"] if shutil.which("less") else []
    try:
        return shlex.split(os.environ["PAGER"])
    except ValueError:
        return []


ENTER = "\x1b[?1049h\x1b[?25l"
"""Escape sequence that switches to the alternate screen and hides the cursor."""
LEAVE = "\x1b[?25h\x1b[?1049l"
SIGNALS = (signal.SIGWINCH, signal.SIGTSTP, signal.SIGTERM, signal.SIGHUP)


class LiveScreen:
    """Full-screen display, redrawn in place in a `with` block; after it, the terminal is restored. After `draw`, `wait`
    returns at a key, a resize, or a call of `wake` from any thread."""

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
        """Draw the lines, which must fit the terminal's height and width."""
        text = "\n".join(f"{line}\x1b[K" for line in lines)
        self._write(f"\x1b[H{text}\x1b[J")

    def wake(self) -> None:
        try:
            os.write(self._waker, b"x")
        except OSError:
            pass  # it is awake, or gone

    def wait(self, seconds: float | None) -> str:
        """Return the keys that were typed; empty after a resize, a `wake` or `seconds`, `q` if the terminal has been
        closed."""
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


BROWSER = "BROWSER"
"""Environment variable with the user's browser: a command, with `%s` for the address; a list is separated by colons,
and the first one is used."""
REMOTE = ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")
"""Environment variables of a login over SSH, where the user does not see this machine's screen."""
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def open_in_browser(address: str) -> bool:
    """Open an address in the user's browser, if there is a display for it. Return whether a browser was started. It may
    outlive this process."""
    command = _browser(address)
    if command is None:
        return False
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=users_environment(),
        )
    except OSError:
        return False
    threading.Thread(target=process.wait, daemon=True).start()  # so that it does not become a zombie
    return True


def _browser(address: str) -> list[str] | None:
    """Return the browser's command line; None if there is no display. Text browsers are not searched: they would take
    over our terminal."""
    if named := os.environ.get(BROWSER):
        try:
            words = shlex.split(named.partition(os.pathsep)[0])
        except ValueError:
            return None
        return [word.replace("%s", address) for word in words] if "%s" in named else [*words, address]
    if any(os.environ.get(name) for name in REMOTE):
        return None
    if sys.platform == "darwin":
        return ["/usr/bin/open", address]
    program = shutil.which("xdg-open") if any(os.environ.get(name) for name in DISPLAYS) else None
    return None if program is None else [program, address]
