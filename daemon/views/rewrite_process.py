"""One run of a user's command: what it is told on its standard input, what it answers on its standard output.

The command may do anything: hang, flood, crash, fork. It gets a session of its own, and whatever is left of that is
killed when the run ends, however it ends. What it leaves behind elsewhere does not hold up the run.
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

__all__ = ["RewriteError", "RewriteProcesses"]

CHUNK = 65_536
COMPLAINT = 1_000
"""Bytes of standard error that are told: the last ones."""
TICK = 0.05
"""Seconds between looks at whether a command has ended whose output stays open."""


class RewriteError(Exception):
    """There is no answer; the message is always the same for the same reason, `detail` says more."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.detail = detail


class RewriteProcesses:
    """All that run; `run` is for threads, several at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def run(self, command: Sequence[str], stdin: bytes, *, timeout: float, max_bytes: int) -> bytes:
        """Raises `RewriteError`."""
        deadline = time.monotonic() + timeout
        with self._start(command) as process:
            try:
                return _talk(process, stdin, deadline, max_bytes)
            finally:
                _kill(process)
                with self._lock:
                    self._running.discard(process)

    def stop(self) -> None:
        """End those that run; no other is started."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                _kill(process)

    def _start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        arguments = [os.path.expanduser(command[0]), *command[1:]]
        with self._lock:
            if self._stopped:
                raise RewriteError("the daemon ends")
            try:
                process = subprocess.Popen(
                    arguments, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
                )
            except (OSError, ValueError) as error:
                raise RewriteError("it cannot be started", str(error)) from None
            self._running.add(process)
        return process


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # nothing is left; on macOS nothing but zombies
        pass


def _talk(process: subprocess.Popen[bytes], stdin: bytes, deadline: float, max_bytes: int) -> bytes:
    answer, complaint, rest = bytearray(), bytearray(), memoryview(stdin)
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
                raise RewriteError("it takes too long")
            ready = [key.fileobj for key, _ in selector.select(min(left, TICK))]
            if not ready and process.poll() is not None:
                break  # something it has started, out of reach, holds its output open; all it said itself is read
            if process.stdin in ready:
                rest = rest[_write(process.stdin, rest) :]
                if not rest:
                    selector.unregister(process.stdin)
                    process.stdin.close()
            for stream, taken in ((process.stderr, complaint), (process.stdout, answer)):
                if stream not in ready:
                    continue
                data = os.read(stream.fileno(), CHUNK)
                taken += data
                if not data:
                    selector.unregister(stream)
            del complaint[:-COMPLAINT]
            if len(answer) > max_bytes:
                raise RewriteError("it answers too much")
    try:
        code = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise RewriteError("it takes too long") from None
    if code:
        said = complaint.decode("utf-8", "replace").strip()
        raise RewriteError("it failed", f"{'signal' if code < 0 else 'exit code'} {abs(code)}{': ' * bool(said)}{said}")
    return bytes(answer)


def _write(stream: IO[bytes], data: memoryview) -> int:
    """How much need not be written any more: a command may answer without having read it all."""
    try:
        return os.write(stream.fileno(), data[:CHUNK])
    except BrokenPipeError:
        return len(data)
