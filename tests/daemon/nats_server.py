"""A real nats-server process, which can be killed and restarted at the same address."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.daemon.running import TIMEOUT
from tests.programs import found, require

PROGRAM = "nats-server"


def reserved() -> socket.socket:
    """Return a socket that is bound to a free port and does not listen: a server can listen there, also after a
    restart, and nobody else gets the port for a socket that names none."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("127.0.0.1", 0))
    return one


class NatsServer:
    """A nats-server process with its files in `directory`; `options` are added to its command line. Skips
    the test if it is not installed. Raises `RuntimeError` if it does not start."""

    def __init__(self, directory: Path, *options: str, jetstream: bool = True) -> None:
        require(PROGRAM)
        self.directory = directory
        self._reserved = reserved()
        self.options = ("-js", "-sd", str(directory / "js"), *options) if jetstream else options
        self.url = ""
        self._process: subprocess.Popen[bytes]
        self.start()

    def start(self) -> None:
        """Start, again at the same address. The log goes to a file: a pipe that nobody reads would block the server."""
        log = self.directory / "server.log"
        port = self._reserved.getsockname()[1]
        command = [found(PROGRAM), "-a", "127.0.0.1", "-p", str(port), *self.options]
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=output)
        deadline = time.monotonic() + TIMEOUT
        while "Server is ready" not in (said := log.read_text()):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(said)
            time.sleep(0.002)
        self.url = f"nats://127.0.0.1:{port}"

    def stop(self) -> None:
        """Stop gracefully, as an operator does: all data is written to disk."""
        self._process.terminate()
        self._process.wait(TIMEOUT)

    def pause(self) -> None:
        """Suspend the process: connections stay open, and nothing is answered."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)  # until it has stopped

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(TIMEOUT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._reserved.close()
