"""Runs an agent as a child process, passes its output through and copies it to a tap; on request its input as well.

The program comes first: bytes pass unchanged, neither direction waits for the other, and the tap must not raise. The
program inherits standard error, and standard input unless that is tapped. If standard output is a terminal, the
program gets a pseudo-terminal (`OutputTerminal`). Signals are forwarded to the program, except those that it receives
itself because they were typed at its terminal. This process ends when the program ends.
"""

from __future__ import annotations

import fcntl
import os
import select
import selectors
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import IO, TYPE_CHECKING, NamedTuple, Self

from tooltap.daemon.taps.pipes import CHUNK, STDIN, STDOUT, Tap, leave, read, write

if TYPE_CHECKING:
    from tooltap.daemon.taps.answering import Answering

SWITCH_INTERVAL = 0.0005
"""Interpreter switch interval in seconds: threads of the tap must yield quickly to the thread that passes output."""

AT_ONCE = 0.02
"""Seconds to wait for first output or the end of the program before doing other work. Agents take longer to start."""

FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
STOPPING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
"""Those that ask the program to end."""
TYPED = (signal.SIGINT, signal.SIGQUIT)
"""Signals of keys: a terminal sends them to the program as well as to this process."""


class Ended(NamedTuple):
    """How the program ended."""

    status: int
    """Exit code, or minus the number of the signal that killed it."""
    stopped: bool
    """Whether a signal to stop was passed on to it, or nobody read its output any more."""


def run_child(
    command: Sequence[str],
    tap: Tap,
    tap_input: Tap | None = None,
    *,
    answering: Answering | None = None,
    while_starting: Callable[[], object],
) -> Ended:
    """Run the program and return how it ended. Raises `OSError` if it cannot be started.

    With `tap_input`, which is called in its own thread, taps get data before it is passed on. So a tap never sees
    a response before its request. With `answering`, more than the client's input is written to the program.
    `while_starting` is called if the program neither prints nor ends at once.
    """
    sys.setswitchinterval(SWITCH_INTERVAL)
    with _Signals() as signals:
        terminal = OutputTerminal.like(STDOUT) if tap_input is None else None
        output, output_end = terminal.ends if terminal else os.pipe()
        if terminal is not None:
            signals.on_resize(terminal.resize)
        try:
            process = subprocess.Popen(
                command,
                stdin=None if tap_input is None else subprocess.PIPE,
                stdout=output_end,
                bufsize=0,
                close_fds=False,  # `agent --config <(…)`
            )
        except OSError:
            os.close(output)
            raise
        finally:
            os.close(output_end)
        signals.started(process)
        if process.stdin is not None and tap_input is not None:
            pass_input = _pass_input if answering is None else answering.pass_input
            threading.Thread(target=pass_input, args=(process.stdin, tap_input), daemon=True).start()
        if answering is None:
            pass_chunk = partial(_pass, output, STDOUT, tap, tap_first=tap_input is not None)
        else:
            pass_chunk = partial(answering.pass_output, output, tap)
        is_read = _pass_output(process, output, signals.wakeup, pass_chunk, answering, while_starting)
        status = process.wait()
    return Ended(status, signals.has_stopped or not is_read)


class _Signals:
    """Forwards signals to the program. Each signal, including the program's end, makes `wakeup` readable."""

    def __init__(self) -> None:
        self.wakeup, self._wakeup_end = os.pipe()
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        self._before: dict[int, object] = {}
        self._sent: SentSignals | None = None
        self.has_stopped = False
        """Whether a signal to stop was passed on."""

    def __enter__(self) -> _Signals:
        for end in (self.wakeup, self._wakeup_end):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._wakeup_end, warn_on_full_buffer=False)
        self._handle(signal.SIGCHLD, lambda *_: None)
        for number in FORWARDED:
            if signal.getsignal(number) != signal.SIG_IGN:  # the program inherits ignored signals
                self._handle(number, self._forward)
        return self

    def __exit__(self, *_: object) -> None:
        if self._sent is not None:
            self._sent.stop()
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(-1)
        os.close(self.wakeup)
        os.close(self._wakeup_end)

    def on_resize(self, resize: Callable[[], None]) -> None:
        """Call `resize` when the size of the terminal changes, before the signal is forwarded."""

        def forward(number: int, _: FrameType | None) -> None:
            resize()
            self._forward(number, _)

        self._handle(signal.SIGWINCH, forward)

    def started(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        for number in self._early:
            self._send(number)
        if _has_terminal():
            typed = [number for number in TYPED if number in self._before]
            self._sent = SentSignals.wait_for(typed, self._send)

    def _handle(self, number: int, handler: Callable[[int, FrameType | None], object]) -> None:
        self._before[number] = signal.signal(number, handler)

    def _forward(self, number: int, _: FrameType | None) -> None:
        if self._process is None:
            self._early.append(number)
        else:
            self._send(number)

    def _send(self, number: int) -> None:
        assert self._process is not None
        self.has_stopped = self.has_stopped or number in STOPPING
        self._process.send_signal(number)


def _has_terminal() -> bool:
    """Say whether there is a terminal at which signals may be typed."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _pass_output(
    process: subprocess.Popen[bytes],
    output: int,
    wakeup: int,
    pass_chunk: Callable[[], bool | None],
    answering: Answering | None,
    while_starting: Callable[[], object],
) -> bool:
    """Pass output until it ends, the program ends, or its reader has closed it. Return whether it was read to the
    end."""
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        selector.register(wakeup, selectors.EVENT_READ)
        if answering is not None:
            selector.register(answering.wakeup_output, selectors.EVENT_READ)
        if not selector.select(AT_ONCE):
            while_starting()
        while process.poll() is None:
            ready = {key.fd for key, _ in selector.select()}
            for descriptor in ready - {output}:
                os.read(descriptor, CHUNK)
            passed = output not in ready or pass_chunk()
            if passed and answering is not None and not answering.insert_output():
                passed = None
            if not passed:
                os.close(output)  # a program that goes on gets SIGPIPE, as if we were not there
                leave(STDOUT)
                return passed is False
    os.set_blocking(output, False)
    try:
        while pass_chunk():
            pass
    except BlockingIOError:
        # The program has ended, but a child of it may still print. We end now, and `cat` passes on its output.
        os.set_blocking(output, True)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, TYPED)  # `cat` inherits what is blocked
        subprocess.Popen(["cat"], stdin=output, stderr=subprocess.DEVNULL)
    os.close(output)
    return True


def _pass_input(program: IO[bytes], tap: Tap) -> None:
    """Pass input until it ends or the program closes it; either is propagated to the other side."""
    more: bool | None = True
    while more:
        try:
            more = _pass(STDIN, program.fileno(), tap, tap_first=True)
        except BlockingIOError:  # another process has made the shared descriptor non-blocking
            select.select([STDIN], [], [])
    program.close()
    leave(STDIN)


def _pass(source: int, target: int, tap: Tap, *, tap_first: bool) -> bool | None:
    """Pass one chunk. Return False at the end, and None if the reader has closed it. Raises `BlockingIOError`."""
    data = read(source)
    if tap_first and data:
        tap(data)
    if not data:
        return False
    if not write(target, data):
        return None
    if not tap_first:
        tap(data)
    return True


# -- signals ----------------------------------------------------------------------------------------------------------

SI_KERNEL = 0x80
"""`si_code` of a signal that the kernel sends, as for a terminal (Linux)."""


class SentSignals:
    """Calls `sent` with the number of each signal sent by a process, and ignores signals typed at the terminal.

    A terminal sends what is typed (Ctrl-C, Ctrl-\\) to its whole foreground process group, so a child program receives
    it, too. The kernel reports the origin of a signal, but Python's handlers do not get it: so the signals are blocked,
    and a thread waits for them (`sigwaitinfo`). Threads and processes that are started until `stop` inherit the signal
    mask: a process that needs the signals unblocks them.
    """

    @classmethod
    def wait_for(cls, numbers: Sequence[int], sent: Callable[[int], object]) -> Self | None:
        """Start waiting for these signals; returns None if `numbers` is empty."""
        return cls(numbers, sent) if numbers else None

    def __init__(self, numbers: Sequence[int], sent: Callable[[int], object]) -> None:
        self._numbers = numbers
        self._sent = sent
        self._stopped = False
        signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
        self._thread = threading.Thread(target=self._wait, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Restore the normal handling of the signals."""
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
    """Wait for the next signal. Return its number, and whether it was typed at the terminal."""
    if sys.platform == "linux":
        info = signal.sigwaitinfo(numbers)
        return info.si_signo, info.si_code == SI_KERNEL
    number = signal.sigwait(numbers)  # macOS does not say where it comes from
    return number, _in_foreground()


def _in_foreground() -> bool:
    """Say whether this process group is in the terminal's foreground, and so receives typed signals."""
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


# -- the terminal -----------------------------------------------------------------------------------------------------

OUTPUT_FLAGS = 1
"""Index of the output flags in the list that `tcgetattr` returns."""


class OutputTerminal:
    """A pseudo-terminal in place of the terminal at descriptor `real`, for a program whose output is read, so that it
    behaves as at a real terminal.

    Above all, programs at a terminal do not buffer their output in blocks. The pseudo-terminal changes no byte (the
    real one converts line ends afterwards) and has the size of the real one. Input, echo, signals and job control stay
    with the real terminal, whose modes are not changed.
    """

    @classmethod
    def like(cls, real: int) -> Self | None:
        """Create a pseudo-terminal; None if `real` is not a terminal, or the system has none left."""
        if not os.isatty(real):
            return None
        try:
            return cls(real)
        except OSError:
            return None

    def __init__(self, real: int) -> None:
        """Raises `OSError`."""
        self.ends = os.openpty()
        """Descriptors: our end (master), and the program's."""
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
