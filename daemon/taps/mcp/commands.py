"""Runs the commands of display tools, limited in time and output; no process of them survives."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Literal, NamedTuple

import anyio
from anyio.abc import Process

__all__ = ["Commands", "Ran"]

CHUNK = 65_536
GRACE = 1.0
"""Seconds for output to end after the command: a child outside of its process group may hold it open."""


class Ran(NamedTuple):
    output: bytes
    """Standard output and standard error, interleaved."""
    exit_code: int
    """128 + signal if a signal ended it."""
    stopped: Literal["time", "bytes"] | None
    """The limit that stopped it."""


class Commands:
    """`folder`: where they run. `timeout`: seconds."""

    def __init__(self, folder: Path, *, timeout: float, max_bytes: int) -> None:
        self.timeout = timeout
        self.max_bytes = max_bytes
        self._folder = folder
        self._groups: set[int] = set()

    async def run(self, command: str) -> Ran:
        """Run a command line in a shell. Raises `OSError` if it cannot be started."""
        reader, writer = os.pipe()
        try:
            process = await anyio.open_process(
                ["/bin/sh", "-c", command],
                stdin=subprocess.DEVNULL,
                stdout=writer,
                stderr=writer,
                cwd=self._folder,
                start_new_session=True,
            )
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        self._groups.add(process.pid)
        try:
            return await self._watch(process, reader)
        finally:
            _kill(process.pid)
            self._groups.discard(process.pid)
            os.close(reader)
            with anyio.CancelScope(shield=True):
                await process.wait()

    def kill_all(self) -> None:
        """Kill all commands, because this process ends."""
        for group in self._groups:
            _kill(group)

    async def _watch(self, process: Process, reader: int) -> Ran:
        output = bytearray()
        drained = anyio.Event()

        async def read() -> None:
            while len(output) <= self.max_bytes:
                await anyio.wait_readable(reader)
                if not (data := os.read(reader, CHUNK)):
                    break
                output.extend(data)
            else:
                _kill(process.pid)
            drained.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            with anyio.move_on_after(self.timeout) as patience:
                await process.wait()
            _kill(process.pid)  # its background processes, or all of it after the timeout
            with anyio.move_on_after(GRACE):
                await process.wait()
                await drained.wait()
            tasks.cancel_scope.cancel()
        code = process.returncode if process.returncode is not None else -signal.SIGKILL
        flooded = len(output) > self.max_bytes
        return Ran(
            bytes(output[: self.max_bytes]),
            code if code >= 0 else 128 - code,
            "bytes" if flooded else "time" if patience.cancelled_caught else None,
        )


def _kill(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:  # the whole group has ended
        pass
    except PermissionError:  # macOS: only a zombie is left in the group
        pass
