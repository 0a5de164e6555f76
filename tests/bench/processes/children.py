"""Runs a module of this folder in its own process. The module prints `ready`, may wait for a line, and prints its
result as a line of JSON at its end."""

from __future__ import annotations

import json
import subprocess
import sys
from types import TracebackType
from typing import Any, Self

from tests.bench.harness import ROOT

__all__ = ["Child"]


class Child:
    """Waits until the process is ready. Raises `RuntimeError` if it does not start."""

    def __init__(self, module: str, *arguments: object) -> None:
        command = [sys.executable, "-m", f"tests.bench.processes.{module}", *map(str, arguments)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        if self._line() != "ready\n":
            self._process.communicate()
            raise RuntimeError(f"{' '.join(command)} did not start")
        self.pid = self._process.pid

    def go(self) -> None:
        """Send the line for which the process waits."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def result(self) -> Any:
        return json.loads(self._line())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._process.kill()
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()
