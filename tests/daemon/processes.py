"""`tooltap serve` as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.daemon.constants import program
from tests.daemon.running import TIMEOUT, Wire


class DaemonProcess:
    """A `tooltap serve` process with its files in `directory`; `arguments` are added to its command line, and it is run
    by the command `within`. `log`: the log entries read from its stderr so far."""

    def __init__(
        self,
        directory: Path,
        *arguments: str | Path,
        journal: Path | str | None = None,
        within: Sequence[str] = (),
        **environment: str,
    ) -> None:
        self.path = directory / "run" / "t.sock"
        self.process = subprocess.Popen(
            [
                *within,
                *(sys.executable, "-m", program(environment), "serve"),
                *("--socket", self.path, "--journal", journal or directory / "journal.db"),
                *arguments,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **environment},
        )
        self.log: list[dict[str, Any]] = []
        self.sentence = ""
        """Lines on stderr that are not log entries."""

    def wait_ready(self) -> Self:
        """Wait until it listens or has ended."""
        while (entry := self._read()) is not None and entry.get("event") != "listening":
            pass
        return self

    def wait(self) -> int:
        """Wait until it has ended; returns its exit code."""
        while self._read() is not None:
            pass
        return self.process.wait(TIMEOUT)

    def next_log(self) -> dict[str, Any]:
        entry = self._read()
        assert entry is not None, "the daemon has ended"
        return entry

    def connect(self) -> Wire:
        wire = Wire(self.path)
        assert wire.read()["op"] == "welcome"
        return wire

    def _read(self) -> dict[str, Any] | None:
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        if not line:
            return None
        if not line.startswith(b"{"):
            self.sentence += line.decode()
            return {}
        self.log.append(json.loads(line))
        return self.log[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()
