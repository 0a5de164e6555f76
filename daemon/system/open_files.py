"""The limit on open files and sockets of this process, and how connections are accepted when it is reached."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable

from tooltap.daemon.system.logs import Trouble, get_logger

AT_ONCE = 128
"""Connections accepted before other work has its turn."""
PAUSE = 1.0
"""Seconds without accepting after it has failed."""

_log = get_logger("process")


def allow_open_files(wanted: int) -> None:
    """Raise the limit, which is 256 or 1,024 on many systems, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        possible = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (possible, hard))
        except (OSError, ValueError):
            _log.warning("cannot raise the limit of open files", limit=soft, wanted=wanted)


class Acceptor:
    """Accepts connections, in an event loop. `protocol` makes the protocol of a new one.

    asyncio's own server, of Python 3.11, answers a shortage of file descriptors with a thousand tracebacks a second,
    and with more when it is closed. Here it is one sentence: nothing is accepted for `PAUSE` seconds, and clients wait
    in the socket's queue.
    """

    def __init__(self, listening: socket.socket, protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        self.trouble = Trouble(_log, "no connection can be accepted; clients wait", "connections are accepted again")
        self._listening = listening
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._connecting: set[asyncio.Task[None]] = set()
        self._again: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        self._loop.add_reader(listening, self._accept)

    def close(self) -> None:
        """Accept no more, and close the socket."""
        if self._again is not None:
            self._again.cancel()
        if self._listening.fileno() >= 0:
            self._loop.remove_reader(self._listening)
            self._listening.close()

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, _address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                self.trouble.end()
                return
            except OSError as error:
                self._pause(error.strerror or str(error))
                return
            connection.setblocking(False)
            task = self._loop.create_task(self._connect(connection))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _connect(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, connection)
        except OSError:  # the client is gone
            connection.close()

    def _pause(self, problem: str) -> None:
        self.trouble.begin(problem)
        self._loop.remove_reader(self._listening)
        self._again = self._loop.call_later(PAUSE, self._loop.add_reader, self._listening, self._accept)
