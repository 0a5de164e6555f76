"""The place of a storm: its folders, its two daemons, which are started again whenever they end, and its processes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from tests.daemon.constants import write_settings
from tests.daemon.running import Wire

__all__ = ["NAME", "PATIENCE", "World"]

DISK = "900m"
JOURNAL_BYTES = 64 * 1024 * 1024
PATIENCE = 600.0
"""Seconds after which what must come true counts as stuck: many times what it takes on a slow machine."""
POLL = 0.05
STOPPED, FAILED = 0, 1
NAME = "storm-remote"
"""What the daemon is called at the other one. No line of an agent has this word."""


class Daemon:
    """A daemon that is started again whenever it ends. Each must end as the faults explain."""

    def __init__(self, world: World, config: Path, environment: dict[str, str], log: Path) -> None:
        self.config = config
        self.log = log
        self.failpoint = ""
        """Where the next daemon dies."""
        self._world = world
        self._environment = environment
        self._lock = threading.RLock()
        self._expected: set[int] = set()
        self._ending = False
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper = threading.Thread(target=self._keep, daemon=True)

    def start(self) -> None:
        self._keeper.start()

    def _keep(self) -> None:
        world = self._world
        while not self._ending:
            with self.log.open("ab") as log:
                command = [sys.executable, "-m", "tests.daemon.shifted", str(world.ahead), "serve", "--config"]
                armed = {"TOOLTAP_FAILPOINT": self.failpoint} if self.failpoint else {}
                with self._lock:
                    self._expected = {-signal.SIGKILL} if armed else set()
                    self.failpoint = ""
                    self._process = subprocess.Popen(
                        [*command, str(self.config)],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=log,
                        env={**self._environment, **armed},
                    )
            was_full, fills = world.is_full, world.fills
            code = self._process.wait()
            world.counts["daemons"] += 1
            allowed = self._expected | ({FAILED} if was_full or world.fills > fills else set())
            if code not in allowed:
                world.note(f"the daemon ended with {code}, and {sorted(allowed)} was to be expected: see {self.log}")
            if code == FAILED:
                time.sleep(0.5)

    def signal(self, number: int) -> None:
        """Send the daemon a signal, and expect that it ends as the signal says, if it is to end."""
        with self._lock:
            if self._process is not None:
                if number in (signal.SIGKILL, signal.SIGTERM):
                    self._expected |= {STOPPED, -number} if number == signal.SIGTERM else {-number}
                self._process.send_signal(number)

    def end(self) -> None:
        """Kill it for good."""
        self._ending = True
        self.signal(signal.SIGKILL)
        if self._keeper.is_alive():
            self._keeper.join(PATIENCE)


class World:
    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.seed = seed
        self.disk, self.home, self.records = folder / "disk", folder / "home", folder / "records"
        for one in (self.disk, self.home, self.records):
            one.mkdir(mode=0o700)
        self.can_fill = _mount(self.disk)
        self.socket, self.cut_socket = folder / "s.sock", folder / "cut.sock"
        self.port, self.cut_port, self.collector_port = _free_ports(seed)
        self.token = self.disk / "web-token"
        self.journal = self.disk / "journal.db"
        self.ahead = folder / "ahead"
        self.ahead.write_text("0")
        self.other_socket = folder / "other.sock"
        self.connections, self.cut = self.records / "connections", folder / "cut"
        self.config = folder / "tooltap.toml"
        self.log = folder / "daemon.log"
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.is_full = False
        self.fills = 0
        """How often the disk was filled."""
        self.stopping = threading.Event()
        """Set when the actors are to end."""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, list[str]] = {}
        constants = write_settings(
            self.config,
            f"retention_bytes = {JOURNAL_BYTES}\nretention_days = 0\nretention_interval = 2.0\ndrain_interval = 1.0\n"
            f'socket = "{self.socket}"\njournal = "sqlite:{self.journal}"\n'
            f'[follow]\nagents = ["claude"]\nbackfill = "all"\njobs = 1\n'
            f'[web]\nenabled = true\nlisten = "127.0.0.1:{self.port}"\ntoken_file = "{self.token}"\n'
            f'[otlp]\nurl = "http://127.0.0.1:{self.collector_port}"\nmetrics_interval = 5.0\n',
        )
        self.environment = {
            **{
                name: value for name, value in os.environ.items() if not name.startswith(("TOOLTAP_", "XDG_", "CLAUDE"))
            },
            "HOME": str(self.home),
            "XDG_DATA_HOME": str(self.disk / "data"),
            "XDG_RUNTIME_DIR": str(folder),
            "TOOLTAP_SOCKET": str(self.socket),
            "TOOLTAP_SPOOL": str(self.disk / "spool"),
            "PYTHONPATH": str(Path(__file__).parents[2]),
            **constants,
        }
        self.daemon = Daemon(self, self.config, self.environment, self.log)
        self.other = self._other()

    def _other(self) -> Daemon:
        """The daemon of another machine, which reads the events of this one."""
        home, disk, config = self.folder / "other", self.disk / "other", self.folder / "other.toml"
        for folder in (home, disk):
            folder.mkdir(mode=0o700)
        self.cut.touch()
        constants = write_settings(
            config,
            f"retention_bytes = {JOURNAL_BYTES}\nretention_days = 0\nretention_interval = 2.0\n"
            f'socket = "{self.other_socket}"\njournal = "sqlite:{disk / "journal.db"}"\n',
        )
        places = {"HOME": home, "XDG_RUNTIME_DIR": home, "TOOLTAP_SOCKET": self.other_socket}
        places |= {"XDG_DATA_HOME": disk / "data", "TOOLTAP_SPOOL": disk / "spool"}
        environment = {**self.environment, **{name: str(place) for name, place in places.items()}, **constants}
        return Daemon(self, config, environment, self.folder / "other.log")

    # -- the daemon -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.daemon.start()
        self.until("the daemon answers", self.answers)
        self.other.start()
        self.until("the other daemon answers", self.other_answers)
        program = ["env", f"TOOLTAP_SOCKET={self.socket}", f"PYTHONPATH={self.environment['PYTHONPATH']}"]
        program += [sys.executable, "-m", "tests.storm.connection", str(self.connections), str(self.cut)]
        done = self.command("remote", "add", NAME, "--socket", self.other_socket, "--", *program)
        if done.returncode:
            self.note(f"`remote add`: {done.stderr.decode()[-500:]}")

    def other_answers(self) -> bool:
        return self._answers(self.other_socket)

    def cut_off(self) -> None:
        """Kill what connects the two daemons."""
        self.cut.touch()

    def answers(self) -> bool:
        return self._answers(self.socket)

    def _answers(self, socket: Path) -> bool:
        with suppress(OSError, ValueError, AssertionError), self.wire(socket) as wire:
            wire.ask("ping")
            return True
        return False

    def ask(self, op: str, **arguments: Any) -> Any:
        """A request over the socket. Raises `OSError`, `AssertionError`."""
        with self.wire() as wire:
            return wire.ask(op, **arguments)

    def wire(self, socket: Path | None = None) -> Wire:
        """A connection, after its greeting. `socket`: of the other daemon. Raises `OSError`."""
        wire = Wire(socket or self.socket)
        try:
            if not wire.line():
                raise ConnectionError
        except OSError:
            wire.close()
            raise
        return wire

    def http(self, method: str, target: str, body: Any = None) -> tuple[int, bytes]:
        """A request over HTTP. Raises `OSError`."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"Authorization": f"Bearer {self.token.read_text().strip()}", "Content-Type": "application/json"}
        try:
            connection.request(method, target, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, response.read()
        except HTTPException as error:
            raise ConnectionError from error
        finally:
            connection.close()

    # -- processes ------------------------------------------------------------------------------------------------

    def launch(self, name: str, module: str, *arguments: str) -> None:
        """Start a process of ours, which faults may kill and start again."""
        self._commands[name] = [sys.executable, "-m", f"tests.storm.{module}", *arguments]
        self._begin(name)

    def _begin(self, name: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                self._commands[name], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment
            )

    def restart(self, name: str) -> None:
        self._processes[name].kill()
        self._processes[name].wait()
        self._begin(name)

    def end(self, *names: str, patience: float = PATIENCE) -> None:
        """Ask processes to end, and wait for them."""
        for name in names:
            self._processes[name].terminate()
        for name in names:
            try:
                code = self._processes.pop(name).wait(patience)
                if code not in (0, -signal.SIGTERM):
                    self.note(f"{name} ended with {code}: {(self.folder / f'{name}.log').read_text()[-500:]}")
            except subprocess.TimeoutExpired:
                self.note(f"{name} does not end")

    def command(self, *arguments: object, timeout: float = PATIENCE) -> subprocess.CompletedProcess[bytes]:
        """Run a command of tooltap to its end."""
        line = [sys.executable, "-m", "tooltap.cli", *map(str, arguments)]
        try:
            return subprocess.run(
                line, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False
            )
        except subprocess.TimeoutExpired as error:
            self.note(f"`tooltap {' '.join(map(str, arguments))}` does not end")
            return subprocess.CompletedProcess(line, 124, error.stdout or b"", error.stderr or b"")

    def note(self, wrong: str) -> None:
        print(f"DIFFERENCE: {wrong}", flush=True)
        self.wrong.append(wrong)

    def until(self, what: str, holds: Callable[[], Any], patience: float = PATIENCE) -> bool:
        """Wait until `holds()`; notes what does not come true."""
        deadline = time.monotonic() + patience
        while not holds():
            if time.monotonic() > deadline:
                self.note(f"not after {patience:.0f} s: {what}")
                return False
            time.sleep(POLL)
        return True

    # -- the disk -------------------------------------------------------------------------------------------------

    def fill(self) -> None:
        """Leave no byte on the disk."""
        self.is_full = True
        self.fills += 1
        with (self.disk / "filler").open("wb", buffering=0) as file:
            for size in (1_048_576, 4_096, 1):
                with suppress(OSError):
                    while True:
                        file.write(bytes(size))

    def free(self) -> None:
        (self.disk / "filler").unlink(missing_ok=True)
        self.is_full = False

    def close(self) -> None:
        self.daemon.end()
        self.other.end()
        for process in self._processes.values():
            process.kill()
            process.wait()
        if self.can_fill:
            subprocess.run(["umount", "-l", self.disk], check=False)


def _mount(folder: Path) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=700", "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _free_ports(seed: int) -> tuple[int, int, int]:
    """Ports that no connection gets by chance while the daemon is away."""
    import socket

    found: list[int] = []
    numbers = random.Random(f"{seed} {os.getpid()}")
    while len(found) < 3:
        port = numbers.randrange(20_000, 30_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
    return found[0], found[1], found[2]
