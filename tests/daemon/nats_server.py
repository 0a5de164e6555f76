"""A real nats-server process, which can be killed and restarted at the same address."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sysconfig
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.daemon.running import TIMEOUT

PROGRAM = Path(sysconfig.get_path("scripts")) / "nats-server"


class NatsServer:
    """A nats-server process with its files in `directory`; `options` are added to its command line. Raises
    `RuntimeError` if it does not start."""

    def __init__(self, directory: Path, *options: str, jetstream: bool = True) -> None:
        self.directory = directory
        self.options = ("-js", "-sd", str(directory / "js"), *options) if jetstream else options
        self.url = ""
        self._process: subprocess.Popen[bytes]
        self.start()

    def start(self) -> None:
        """Start on a free port the first time, later on the same one. The log goes to a file: a pipe that nobody reads
        would block the server."""
        log = self.directory / "server.log"
        port = self.url.rpartition(":")[2] or "-1"
        command = [str(PROGRAM), "-a", "127.0.0.1", "-p", port, *self.options]
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=output)
        deadline = time.monotonic() + TIMEOUT
        while "Server is ready" not in (said := log.read_text()):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(said)
            time.sleep(0.002)
        listening = re.search(r"client connections on (\S+)", said)
        assert listening is not None
        self.url = f"nats://{listening[1]}"

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
