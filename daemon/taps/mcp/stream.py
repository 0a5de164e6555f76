"""What display tools tell the daemon: bodies for its memory, and a stream of records, of the dialect `display-tools`.

The stream begins with the first call. Its connection is kept; where the daemon has been restarted meanwhile, the record
goes out again on a new one, unless it had got through.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

import anyio
import orjson

from tooltap.daemon.client.connection import ConnectError, DaemonError, DisconnectedError, connect
from tooltap.daemon.client.publishing import Publisher, ingest
from tooltap.daemon.system.clock import wall_clock

__all__ = ["DisplayStream"]

PATIENCE = 10.0
"""Seconds until a daemon that does not answer counts as absent."""
END_PATIENCE = 1.0

T = TypeVar("T")


class DisplayStream:
    """`socket`: of the daemon. `session`: what the events belong to, if not to a session of their own."""

    def __init__(self, socket: Path | None, session: str | None = None, provider: str | None = None) -> None:
        self.about: dict[str, Any] = {}
        """What the stream's first record says; to be filled in before the first call."""
        self._socket = socket
        self._stream = f"mcp-{secrets.token_hex(8)}"
        self._session = session
        self._provider = provider
        self._stack = AsyncExitStack()
        self._publisher: Publisher | None = None
        self._lines = 0
        """That were durable when the last one was sent."""
        self._lock = anyio.Lock()

    async def publish(self, kind: str, **record: Any) -> None:
        """Returns when the record is durable. Raises `ConnectError` and `DaemonError`."""
        line = _line(kind, record)
        async with self._lock:
            try:
                await _whole(lambda: self._publish(line))
            except (ConnectError, DaemonError):
                await self._leave()
                raise

    async def store(self, body: bytes, **about: Any) -> str:
        """Keep a body for a time; gives its output id. Raises `ConnectError` and `DaemonError`."""

        async def work() -> str:
            async with connect(self._socket) as client:
                return await client.store(body, **about)

        return await _whole(work)

    async def close(self) -> None:
        """Nothing more comes."""
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
            if publisher.acked != before + 1:  # else it had got through, and only the answer had not
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


async def _whole(work: Callable[[], Awaitable[T]]) -> T:
    """A record is sent whole or not at all, whoever is cancelled. Raises `ConnectError`."""
    with anyio.move_on_after(PATIENCE, shield=True):
        try:
            return await work()
        except DisconnectedError as error:
            raise ConnectError(str(error)) from None
    raise ConnectError("the daemon does not answer")
