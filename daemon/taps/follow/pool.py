"""The processes in which a backfill is normalized, and the sockets to them.

On Linux, the first process imports what is needed, and the others are its forks: an import takes longer than to read
many a file. A process ends when the other end of its socket is closed, also if the daemon is killed.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import subprocess
import sys
from contextlib import suppress

from tooltap.daemon.system.processes import import_nothing_from_here
from tooltap.daemon.taps.follow.backfill_worker import HEADER, Portion, Request

IDLE = 10.0
"""Seconds without work after which the processes are ended."""
COMMAND = "from tooltap.daemon.taps.follow.backfill_worker import serve_all; serve_all()"


class BrokenPoolError(Exception):
    """A process has ended before its work was done."""


class Pool:
    """Up to `jobs` processes, which are started with the first request. Call `close` in the end."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._loop = asyncio.get_running_loop()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._links: list[socket.socket] = []
        self._idle: list[socket.socket] = []
        self._is_free = asyncio.Semaphore(jobs)
        self._end: asyncio.TimerHandle | None = None

    async def normalize(self, request: Request) -> Portion | None:
        """Normalize a portion in one of the processes, once one is free. Raises `BrokenPoolError`, and what
        `backfill_worker.normalize` raises."""
        async with self._is_free:
            if self._end is not None:
                self._end.cancel()
                self._end = None
            link: socket.socket | None = None
            try:
                if not self._links:
                    self._start()
                link = self._idle.pop()
                result = await self._exchange(link, request)
            except BaseException as error:
                if link is not None:
                    link.close()
                self.close()
                if isinstance(error, OSError | EOFError | pickle.UnpicklingError):
                    raise BrokenPoolError(repr(error)) from None
                raise
            if link not in self._links:
                link.close()
            else:
                self._idle.append(link)
                if len(self._idle) == len(self._links):
                    self._end = self._loop.call_later(IDLE, self.close)
        if isinstance(result, Exception):
            raise result
        return result

    def close(self) -> None:
        """End the processes at once. The next request starts others."""
        if self._end is not None:
            self._end.cancel()
            self._end = None
        for link in self._idle:
            link.close()
        self._links, self._idle = [], []  # the requests that wait notice the end of the process, and close theirs
        for process in self._processes:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._processes = []

    def _start(self) -> None:
        import_nothing_from_here()
        pairs = [socket.socketpair() for _ in range(self._jobs)]
        self._links = [ours for ours, _ in pairs]
        self._idle = list(self._links)
        for ours in self._links:
            ours.setblocking(False)
        theirs = [one.fileno() for _, one in pairs]
        # macOS's own libraries start threads, so that it is not safe to fork there.
        for group in [theirs] if sys.platform == "linux" else [[one] for one in theirs]:
            self._processes.append(
                subprocess.Popen(
                    [sys.executable, "-c", COMMAND, *map(str, group)],
                    pass_fds=group,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    process_group=0,
                )
            )
        for _, one in pairs:
            one.close()

    async def _exchange(self, link: socket.socket, request: Request) -> Portion | Exception | None:
        data = pickle.dumps(request, pickle.HIGHEST_PROTOCOL)
        await self._loop.sock_sendall(link, HEADER.pack(len(data)) + data)
        (size,) = HEADER.unpack(await self._receive(link, HEADER.size))
        result: Portion | Exception | None = pickle.loads(await self._receive(link, size))
        return result

    async def _receive(self, link: socket.socket, size: int) -> bytearray:
        data = bytearray(size)
        left = memoryview(data)
        while left:
            if not (received := await self._loop.sock_recv_into(link, left)):
                raise EOFError("a process has ended")
            left = left[received:]
        return data
