"""Starts `tooltap` processes under the shim quickly: a server that has imported everything and forks.

`python -m tests.faults.zygote PATH` listens at a socket. Each connection is one process: it is sent a `Launch`, answers
with the pid, and, when the process has ended, with its status. A process runs the command's own entry point and ends as
the interpreter does, so that exit codes and what is printed at the end are those of the real command.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import tooltap
from tests.daemon.constants import assign_from_environment
from tests.faults.shim import Control
from tooltap.daemon.system.processes import users_environment

__all__ = ["Process", "Zygote"]

PR_SET_PDEATHSIG = 1
TIMEOUT = 30.0
ROOT = Path(__file__).parent.parent.parent


class Process:
    """A running `tooltap` process; its output is in files."""

    def __init__(self, connection: socket.socket, errors: Path) -> None:
        self._connection = connection
        self._file = connection.makefile("r")
        self.pid = int(self._file.readline())
        self.errors = errors
        self._status: int | None = None

    def wait(self, timeout: float = TIMEOUT) -> int | None:
        """Wait for its exit code, negative for a signal; None if it has not ended in time."""
        if self._status is None:
            self._connection.settimeout(timeout)
            try:
                line = self._file.readline()
            except (TimeoutError, OSError):
                self._file = self._connection.makefile("r")
                return None
            finally:
                self._connection.settimeout(None)
            self._status = os.waitstatus_to_exitcode(int(line))
            self._file.close()
            self._connection.close()
        return self._status

    @property
    def ended(self) -> bool:
        return self.wait(0.0001) is not None

    def signal(self, number: int) -> None:
        if not self.ended:
            with suppress(ProcessLookupError):  # it has just ended; its exit code comes next
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()


class Zygote:
    """Starts the server, and launches processes with it. `library`: the shim; `control`: its control block."""

    def __init__(self, folder: Path, library: Path, control: Control) -> None:
        self._path = folder / "zygote.sock"
        ours = ("TOOLTAP_", "HAPPIER_")
        kept = {name: value for name, value in users_environment().items() if not name.startswith(ours)}
        environment = {**kept, "LD_PRELOAD": str(library), "FAULTS_CONTROL": str(control.path)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.zygote", str(self._path)],
            env=environment,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
        )
        while not self._path.exists():
            assert self._process.poll() is None, "the zygote has died"
            time.sleep(0.01)

    def launch(self, *arguments: object, errors: Path, output: Path, **environment: str) -> Process:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self._path))
        launch = {
            "arguments": list(map(str, arguments)),
            "environment": environment,
            "errors": str(errors),
            "output": str(output),
        }
        connection.sendall(json.dumps(launch).encode() + b"\n")
        return Process(connection, errors)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _serve(path: str) -> None:
    """Fork a process for each connection. Returns in a child, which is to run the command."""
    _die_with_parent()
    _import_everything()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(f"{path}.new")
    listening.listen(64)
    os.rename(f"{path}.new", path)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.collect()
    gc.freeze()
    while True:
        connection, _ = listening.accept()
        if os.fork() == 0:  # stays until its process has ended
            listening.close()
            break
        connection.close()
    _die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    launch = json.loads(connection.makefile("r").readline())
    if (pid := os.fork()) == 0:
        _die_with_parent()
        connection.close()
        _become(launch)
        return
    connection.sendall(b"%d\n" % pid)
    _, status = os.waitpid(pid, 0)
    try:
        connection.sendall(b"%d\n" % status)
    except OSError:  # nobody waits any more
        pass
    os._exit(0)


def _import_everything() -> None:
    """Import all modules, which is most of the cost of a process."""
    for module in pkgutil.walk_packages(tooltap.__path__, "tooltap."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def _become(launch: dict[str, Any]) -> None:
    os.setsid()
    for name, number in (("output", 1), ("errors", 2)):
        file = os.open(launch[name], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, number)
        os.close(file)
    os.environ.update(launch["environment"], FAULTS_ENABLE="1")
    assign_from_environment()
    ctypes.CDLL(None).faults_enable()
    sys.argv = ["tooltap", *launch["arguments"]]


if __name__ == "__main__":
    _serve(sys.argv[1])
    from tooltap.cli.main import main

    main()
