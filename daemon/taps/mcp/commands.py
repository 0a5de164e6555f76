"""Runs the commands of display tools, limited in time and output; no process of them survives (`keeper.py`)."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Literal, NamedTuple

import anyio
from anyio import to_thread
from anyio.abc import Process

from tooltap.daemon.taps.mcp import keeper

CHUNK = 65_536
GRACE = 1.0
"""Seconds for the output to end after the command: a process that could not be killed may hold it open."""
ENDING = 2 * keeper.PATIENCE + GRACE
"""Timeout in seconds for all processes of a command to end."""


class Ran(NamedTuple):
    output: bytes
    """Standard output and standard error, interleaved."""
    exit_code: int
    """128 + signal if a signal ended it."""
    stopped: Literal["time", "bytes"] | None
    """The limit by which the command was stopped, or None."""


class Commands:
    """Runs commands, each in a shell. `folder`: working folder. `timeout`: seconds."""

    def __init__(self, folder: Path, *, timeout: float, max_bytes: int) -> None:
        self.timeout = timeout
        self.max_bytes = max_bytes
        self._folder = folder
        self._keepers: set[int] = set()
        self._starting = anyio.Lock()

    async def run(self, command: str) -> Ran:
        """Run a command line in a shell. Raises `OSError` if it cannot be started."""
        group = keeper.make_group()
        reader, writer = os.pipe()
        held, hold = os.pipe()
        try:
            async with self._starting:
                process = await anyio.open_process(
                    [sys.executable, "-I", "-S", keeper.__file__, group, command],
                    stdin=held,
                    stdout=writer,
                    stderr=writer,
                    cwd=self._folder,
                    start_new_session=True,
                )
                self._keepers.add(process.pid)
        except BaseException:
            os.close(reader)
            os.close(hold)
            keeper.remove_group(group)
            raise
        finally:
            os.close(writer)
            os.close(held)
        running = _Running(process, hold)
        try:
            return await self._watch(running, reader)
        finally:
            running.end()
            os.close(reader)
            with anyio.CancelScope(shield=True):
                with anyio.move_on_after(ENDING):
                    await process.wait()
                if process.returncode is None or process.returncode < 0:
                    await self._end_without_keeper(process, group)
            self._keepers.discard(process.pid)

    async def _watch(self, running: _Running, reader: int) -> Ran:
        output = bytearray()
        drained = anyio.Event()

        async def read() -> None:
            while len(output) <= self.max_bytes:
                await anyio.wait_readable(reader)
                if not (data := os.read(reader, CHUNK)):
                    break
                output.extend(data)
            else:
                running.end()
            drained.set()

        process = running.process
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            with anyio.move_on_after(self.timeout) as patience:
                await process.wait()
            running.end()
            with anyio.move_on_after(ENDING):
                await process.wait()
            with anyio.move_on_after(GRACE):
                await drained.wait()
            tasks.cancel_scope.cancel()
        code = process.returncode if process.returncode is not None else -signal.SIGKILL
        flooded = len(output) > self.max_bytes
        return Ran(
            bytes(output[: self.max_bytes]),
            code if code >= 0 else 128 - code,
            "bytes" if flooded else "time" if patience.cancelled_caught else None,
        )

    async def _end_without_keeper(self, process: Process, group: str) -> None:
        """End the processes of a command that has killed its keeper: without it, they become children of this
        process."""
        if process.returncode is None:
            process.kill()
            await process.wait()
        async with self._starting:  # a keeper that starts is no orphan
            self._keepers.discard(process.pid)
            await to_thread.run_sync(keeper.remove_group, group)
            if keeper.is_subreaper():
                await to_thread.run_sync(keeper.end_adopted, frozenset(self._keepers))


class _Running:
    """A running keeper process: it lives until the pipe `hold` is closed."""

    def __init__(self, process: Process, hold: int) -> None:
        self.process = process
        self._hold: int | None = hold

    def end(self) -> None:
        if self._hold is not None:
            os.close(self._hold)
            self._hold = None
