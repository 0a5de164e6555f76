"""Keeps a connection to each remote of the list: a child process, whose output `reading.py` commits.

A connection that ends, or is silent, is made again, after pauses that become longer. The list is looked at every
second, so that `tooltap remote` needs no daemon.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream, Process, TaskGroup

from tooltap.daemon.journal.interface import Journal, JournalError, StreamConflictError
from tooltap.daemon.system.clock import wall_clock
from tooltap.daemon.system.logs import Trouble, faults, get_logger
from tooltap.daemon.system.processes import users_environment
from tooltap.daemon.system.sanitize import one_line
from tooltap.daemon.taps.remotes.reading import BadRemoteError, Reader
from tooltap.daemon.taps.remotes.settings import Bounds, Remote, RemotesError, load
from tooltap.normalizers.stream.reset import place_of

LOOK = 1.0
"""Seconds between two looks at the list."""
SILENCE = 30.0
"""Seconds without a byte after which a connection is taken for lost: several heartbeats."""
PAUSES = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds before a connection is made again; the last one is used from then on."""
PATIENCE = 1.0
"""Seconds in which a process whose output has ended is to end, before it is killed."""
CHUNK = 262_144
STDERR_BYTES = 2_000
LONGEST_PROBLEM = 300
NOT_FOUND = 127
"""Exit code of a shell that does not find a program."""
USAGE = 2
ADVICE = {
    "Host key verification failed": "log in once by hand, and confirm the key if it is the right one",
    "Permission denied (": "ssh has to log in without a password, so set up a key",
}
"""What ssh says -> what to do."""

_log = get_logger("remotes")


class Connection:
    """A remote, and how its connection is."""

    def __init__(self, remote: Remote) -> None:
        self.remote = remote
        self.scope = anyio.CancelScope()
        self.since: int | None = None
        """When the remote said its first word on this connection, in ms since the epoch; None: it is not connected."""
        self.reader: Reader | None = None
        self.behind: int | None = None
        self.trouble = Trouble(_log.bind(remote=remote.name), "a remote is away; it is tried again", "a remote is back")

    def statistics(self) -> dict[str, Any]:
        """Return the row of `stats`."""
        known = {"since": self.since, "behind": self.behind, "problem": self.trouble.problem}
        return {"name": self.remote.name, "host": self.remote.host} | {
            key: value for key, value in known.items() if value is not None
        }


class Remotes:
    """All remotes of a daemon. `masks`: mask secrets in what is committed."""

    def __init__(self, journal: Journal, path: Path, tasks: TaskGroup, bounds: Bounds, *, masks: bool) -> None:
        self._journal = journal
        self._path = path
        self._tasks = tasks
        self._bounds = bounds
        self._masks = masks
        self._connections: dict[str, Connection] = {}
        self._seen: tuple[int, int] | None = None
        self._unread = Trouble(_log, "the list of remotes is not used", "the list of remotes is used again")

    def statistics(self) -> dict[str, Any]:
        """Return the part `remotes` of the reply to `stats`."""
        return {"file": str(self._path), "connections": [one.statistics() for one in self._connections.values()]}

    def look(self) -> None:
        """Read the list if it has changed: connect what is new in it, and disconnect what is not in it any more."""
        try:
            status = os.stat(self._path)
            seen = (status.st_mtime_ns, status.st_ino)
        except OSError:
            seen = None
        if seen == self._seen and self._unread.problem is None:
            return
        self._seen = seen
        try:
            remotes = {one.name: one for one in load(self._path)}
        except RemotesError as error:
            self._unread.begin(str(error))
            return
        self._unread.end()
        for name, connection in list(self._connections.items()):
            if remotes.get(name) != connection.remote:
                connection.scope.cancel()
                del self._connections[name]
        for name, remote in remotes.items():
            if name not in self._connections:
                connection = self._connections[name] = Connection(remote)
                self._tasks.start_soon(self._run, connection, name=f"remote {name}")

    async def _run(self, connection: Connection) -> None:
        failed = 0
        with connection.scope:
            while True:
                problem = await self._connect_once(connection)
                failed = 0 if connection.since is not None else failed + 1
                connection.since = None
                connection.trouble.begin(problem)
                await anyio.sleep(PAUSES[min(failed, len(PAUSES) - 1)])

    async def _connect_once(self, connection: Connection) -> str:
        """Read from a remote until that ends. Returns why it has."""
        reader = Reader(self._journal, connection.remote.name, self._bounds, masks=self._masks)
        try:
            after = await reader.open()
            try:
                return await self._read(connection, reader, after)
            finally:
                with anyio.CancelScope(shield=True):
                    await reader.close()
        except (BadRemoteError, JournalError, StreamConflictError) as error:
            return one_line(str(error), LONGEST_PROBLEM)
        except Exception as error:
            faults.note("a remote is connected again", place_of(error), error, remote=connection.remote.name)
            return one_line(repr(error), LONGEST_PROBLEM)

    async def _read(self, connection: Connection, reader: Reader, after: str) -> str:
        program = connection.remote.program
        command = [*program, "remote", "send", "--after", after]
        try:
            process = await anyio.open_process(command, env=users_environment(), start_new_session=True)
        except (OSError, ValueError) as error:
            return f"{one_line(program[0], LONGEST_PROBLEM)} cannot be started: {getattr(error, 'strerror', error)}"
        said = bytearray()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_keep_end, process.stderr, said)
                problem = await self._read_output(connection, reader, process.stdout)
                with anyio.move_on_after(PATIENCE):
                    await process.wait()
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)
        return problem or _why(process.returncode, said.decode(errors="replace"))

    async def _read_output(self, connection: Connection, reader: Reader, output: ByteReceiveStream | None) -> str:
        """Read until the output ends. Returns why nothing more is read; empty if it has ended."""
        assert output is not None
        try:
            while True:
                with anyio.fail_after(SILENCE):
                    data = await output.receive(CHUNK)
                await reader.feed(data)
                connection.behind = reader.behind
                if reader.is_live:
                    connection.since = connection.since or wall_clock()
                    connection.trouble.end()
        except anyio.EndOfStream:
            return ""
        except TimeoutError:
            return f"it has been silent for {SILENCE:.0f} seconds"
        except (BadRemoteError, JournalError, StreamConflictError) as error:
            return one_line(str(error), LONGEST_PROBLEM)


async def _keep_end(errors: ByteReceiveStream | None, said: bytearray) -> None:
    assert errors is not None
    async for data in errors:
        said += data
        del said[:-STDERR_BYTES]


async def _end(process: Process) -> None:
    """Kill what is left of a connection."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.aclose()


def _why(code: int | None, errors: str) -> str:
    """Return a sentence about a connection that has ended."""
    lines = [line for line in errors.splitlines() if line.strip()]
    last = one_line(lines[-1].removeprefix("tooltap: "), LONGEST_PROBLEM) if lines else ""
    if code == NOT_FOUND:
        return f"tooltap is not found there: {last or 'exit code 127'}"
    if code == USAGE and "No such command" in errors:
        return "the tooltap there is too old: it has no `tooltap remote send`"
    for said, advice in ADVICE.items():
        if said in last:
            return f"{last.removesuffix('.')}: {advice}"
    if not last and code is not None and code < 0:
        return f"the command that connects was killed by {signal.Signals(-code).name}"
    return last or f"the connection has ended with exit code {code}"
