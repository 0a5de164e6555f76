"""Runs commands of the user's configuration, within bounds of time and output.

A command may do anything: hang, flood, crash, fork. It gets its own process session, and everything left in that
session is killed when the run ends, however it ends. Processes that have left the session do not delay the run.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import IO

from tooltap.daemon.system.processes import users_environment

CHUNK = 65_536
STDERR_BYTES = 1_000
"""Maximum bytes of standard error that are reported: the last ones."""
TICK = 0.05
"""Seconds between checks whether a command whose output stays open has exited."""


class CommandError(Exception):
    """The command failed. The message is the same for all failures of one kind; `detail` describes this one."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.detail = detail


class UserCommands:
    """All running commands. `run` may be called from several threads at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def run(self, command: Sequence[str], stdin: bytes, *, timeout: float, max_bytes: int) -> bytes:
        """Run a command and return its output. Raises `CommandError`."""
        deadline = time.monotonic() + timeout
        with self._start(command) as process:
            try:
                return _talk(process, stdin, deadline, max_bytes)
            finally:
                _kill(process)
                with self._lock:
                    self._running.discard(process)

    def stop(self) -> None:
        """Kill the running commands; start no more."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                _kill(process)

    def _start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        arguments = [os.path.expanduser(command[0]), *command[1:]]
        with self._lock:
            if self._stopped:
                raise CommandError("the daemon is shutting down")
            try:
                process = subprocess.Popen(
                    arguments,
                    bufsize=0,
                    stdin=pipe,
                    stdout=pipe,
                    stderr=pipe,
                    start_new_session=True,
                    env=users_environment(),
                )
            except (OSError, ValueError) as error:
                raise CommandError("it cannot be started", str(error)) from None
            self._running.add(process)
        return process


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # no process is left; on macOS none but zombies
        pass


def _talk(process: subprocess.Popen[bytes], stdin: bytes, deadline: float, max_bytes: int) -> bytes:
    answer, errors, rest = bytearray(), bytearray(), memoryview(stdin)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with selectors.DefaultSelector() as selector:
        os.set_blocking(process.stdin.fileno(), False)
        selector.register(process.stdin, selectors.EVENT_WRITE)
        selector.register(process.stdout, selectors.EVENT_READ)
        selector.register(process.stderr, selectors.EVENT_READ)
        while process.stdout in (key.fileobj for key in selector.get_map().values()):
            if (left := deadline - time.monotonic()) <= 0:
                raise CommandError("it takes too long")
            has_exited = process.poll() is not None  # asked first: then all that it wrote is ready
            ready = [key.fileobj for key, _ in selector.select(min(left, TICK))]
            if not ready and has_exited:
                break  # a process outside its session holds its output open; its own output has been read
            if process.stdin in ready:
                rest = rest[_write(process.stdin, rest) :]
                if not rest:
                    selector.unregister(process.stdin)
                    process.stdin.close()
            for stream, taken in ((process.stderr, errors), (process.stdout, answer)):
                if stream not in ready:
                    continue
                data = os.read(stream.fileno(), CHUNK)
                taken += data
                if not data:
                    selector.unregister(stream)
            del errors[:-STDERR_BYTES]
            if len(answer) > max_bytes:
                raise CommandError("it answers too much")
    try:
        code = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise CommandError("it takes too long") from None
    if code:
        text = errors.decode("utf-8", "replace").strip()
        raise CommandError("it failed", f"{'signal' if code < 0 else 'exit code'} {abs(code)}{': ' * bool(text)}{text}")
    return bytes(answer)


def _write(stream: IO[bytes], data: memoryview) -> int:
    """Write to the command, and return the number of bytes consumed: all, if it no longer reads. A command may answer
    without reading everything."""
    try:
        return os.write(stream.fileno(), data[:CHUNK])
    except BrokenPipeError:
        return len(data)
