"""Publishes what display tools do: output bodies, and a stream of records in the dialect `display-tools`.

The stream begins with the first call, and its connection stays open. If the daemon was restarted since the last record,
the record is sent again on a new connection, unless the daemon has committed it.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

import anyio
import orjson

from tooltap.daemon.client.asynchronous import Publisher, connect, ingest
from tooltap.daemon.client.discovery import ConnectError, DaemonError, DisconnectedError
from tooltap.daemon.system.clock import wall_clock

PATIENCE = 10.0
"""Seconds until a daemon that does not answer counts as away."""
END_PATIENCE = 1.0

T = TypeVar("T")


class DisplayStream:
    """`socket`: of the daemon. `session`: the session of the events; default: one of their own."""

    def __init__(self, socket: Path | None, session: str | None = None, provider: str | None = None) -> None:
        self.about: dict[str, Any] = {}
        """The content of the stream's first record; to be filled in before the first call."""
        self._socket = socket
        self._stream = f"mcp-{secrets.token_hex(8)}"
        self._session = session
        self._provider = provider
        self._stack = AsyncExitStack()
        self._publisher: Publisher | None = None
        self._lines = 0
        """How many lines were durable when the last one was sent."""
        self._lock = anyio.Lock()

    async def publish(self, kind: str, **record: Any) -> None:
        """Publish a record; return when it is durable. Raises `ConnectError` and `DaemonError`."""
        line = _line(kind, record)
        async with self._lock:
            try:
                await _uninterrupted(lambda: self._publish(line))
            except (ConnectError, DaemonError):
                await self._leave()
                raise

    async def store(self, body: bytes, **about: Any) -> str:
        """Store a body in the daemon's memory and return its output id. Raises `ConnectError` and `DaemonError`."""

        async def work() -> str:
            async with connect(self._socket) as client:
                return await client.store(body, **about)

        return await _uninterrupted(work)

    async def close(self) -> None:
        """End the stream."""
        with anyio.move_on_after(END_PATIENCE, shield=True):
            try:
                if self._publisher is not None:
                    await self._publisher.end()
            except (DaemonError, DisconnectedError):
                pass
            await self._leave()

    async def _publish(self, line: bytes) -> None:
        publisher = self._publisher or await self._open()
        if not publisher.acked:
            await self._deliver(_line("session", self.about))
        await self._deliver(line)

    async def _deliver(self, line: bytes) -> None:
        try:
            await self._send(line)
        except DisconnectedError:
            before = self._lines
            await self._leave()
            publisher = await self._open()
            if publisher.acked != before + 1:  # else the daemon has the line, and only the ack was lost
                await self._send(line)

    async def _send(self, line: bytes) -> None:
        publisher = self._publisher or await self._open()
        self._lines = publisher.acked
        await publisher.send(line, t=wall_clock(), direction="out")
        await publisher.wait_acked(self._lines + 1)

    async def _open(self) -> Publisher:
        self._publisher = await self._stack.enter_async_context(
            ingest(
                stream=self._stream,
                dialect="display-tools",
                provider=self._provider,
                session=self._session,
                path=self._socket,
            )
        )
        return self._publisher

    async def _leave(self) -> None:
        self._publisher = None
        await self._stack.aclose()


def _line(kind: str, record: dict[str, Any]) -> bytes:
    return orjson.dumps({"type": f"display/{kind}", **record})


async def _uninterrupted(work: Callable[[], Awaitable[T]]) -> T:
    """Do the work despite cancellation, so that no record is sent in part. Raises `ConnectError`."""
    with anyio.move_on_after(PATIENCE, shield=True):
        try:
            return await work()
        except DisconnectedError as error:
            raise ConnectError(str(error)) from None
    raise ConnectError("the daemon does not answer")
