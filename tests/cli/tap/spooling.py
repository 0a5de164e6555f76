"""An isolated folder with spools, agents and a daemon."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cli.command import TIMEOUT, WITHOUT_BYTECODE, Child, environment, serving, start
from tests.daemon.constants import program, write_settings
from tests.daemon.running import Wire

POLL = 0.01


def line(number: int) -> bytes:
    """Return a line of an agent."""
    return b'{"n":%d}\n' % number


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, "it does not come to that"
        time.sleep(POLL)


class Place:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "s.sock"
        self.variables = {"TOOLTAP_SPOOL": str(folder / "spool")}

    @property
    def spools(self) -> list[Path]:
        return sorted((self.folder / "spool").glob("*.spool"))

    def run(
        self, *arguments: object, file_kib: int | None = None, within: Sequence[object] = (), **changes: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command. `file_kib`: the size limit of files; beyond it, writing fails as on a full disk. `within`: the
        command that runs it."""
        variables = environment(**self.variables, **changes)
        options = ["--socket", self.socket, "--dialect", "claude-stream"]
        command = [*within, sys.executable, "-m", program(variables), "run", *options, *arguments]
        if file_kib is not None:
            variables |= WITHOUT_BYTECODE
            command = ["bash", "-c", f'ulimit -f {file_kib}; exec "$@"', "bash", *command]
        return subprocess.run(
            list(map(str, command)), capture_output=True, input=b"", timeout=TIMEOUT, env=variables, check=False
        )

    def spooled(self, number: int) -> bool:
        """Whether a spool holds this line."""
        return any(b'{\\"n\\":%d}' % number in path.read_bytes() for path in self.spools)

    @contextmanager
    def start(
        self, *arguments: object, command: str = "run", within: Sequence[str] = (), **changes: str
    ) -> Iterator[Child]:
        options = ["--socket", self.socket, "--dialect", "claude-stream"]
        variables = environment(**self.variables, **changes)
        with start(command, *options, *arguments, env=variables, within=within) as run:
            yield run

    @contextmanager
    def serving(self, *settings: str) -> Iterator[Daemon]:
        """`settings`: lines of the configuration file."""
        config = self.folder / "tooltap.toml"
        constants = write_settings(config, "\n".join(["drain_interval = 0.05", *settings]))
        with serving(self.socket, self.folder, "--config", config, **self.variables, **constants) as daemon:
            yield Daemon(self, daemon)


class Daemon:
    def __init__(self, place: Place, process: Child) -> None:
        self.process = process
        self._place = place

    def wait_until_ended(self, streams: int, state: str = "ended") -> None:
        """Wait until this many streams have ended, or are in another state, and the spools are empty."""
        until(lambda: self.ask("stats")["streams"][state] == streams and not self._place.spools)

    def ask(self, op: str) -> Any:
        with self.connect() as wire:
            return wire.ask(op)

    def lines(self) -> int:
        """Return the number of lines of all streams."""
        return sum(one["lines"] for one in self.ask("stats")["perStream"])

    def events(self) -> list[dict[str, Any]]:
        with self.connect() as wire:
            wire.send("subscribe", after="start", follow=False)
            return [event for event in wire.rest() if "kind" in event]

    def journal(self) -> dict[str, list[Any]]:
        """Stream -> its line numbers and the `(lines, reason)` of its losses, in order."""
        found: dict[str, list[Any]] = {}
        for event in self.events():
            if event["kind"] == "unparsed":
                found.setdefault(event["stream"], []).append(json.loads(event["text"])["n"])
            elif event.get("code") == "lost":
                found.setdefault(event["stream"], []).append((event["data"]["lines"], event["data"]["reason"]))
        return found

    def connect(self) -> Wire:
        wire = Wire(self._place.socket)
        assert wire.read()["op"] == "welcome"
        return wire
