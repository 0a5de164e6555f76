"""The NATS client, with what nats-py 2.16 leaves undone when a connection ends.

It does not close a connection on which the server did not answer its greeting before it makes the next one. It waits
until all that was sent on a connection has left, before it gives that connection up: for a quarter of an hour, if the
other end is gone. And an error while it closes or reconnects can end it without a message.
"""

from __future__ import annotations

import asyncio

from nats.aio.client import Client, Srv

__all__ = ["NatsClient"]

CLOSE_TIMEOUT = 0.3
"""Seconds that the end of a connection may take, if the server takes nothing any more."""


class NatsClient(Client):
    is_ended = False

    def drop(self) -> None:
        """Close the socket at once. What was not sent yet is lost."""
        for name in ("_io_writer", "_bare_io_writer"):
            writer: asyncio.StreamWriter | None = getattr(self._transport, name, None)
            if writer is not None:
                writer.transport.abort()

    async def end(self, *, is_lost: bool = False) -> None:
        """Close, within a short time. `is_lost`: nothing comes through this connection any more."""
        self.is_ended = True
        if is_lost:
            self._pending, self._pending_data_size = [], 0
            self.drop()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self.close()
        except OSError:  # the server went away at this moment; a `TimeoutError` is one: it takes nothing any more
            pass
        finally:
            self.drop()

    async def _connect_to_server(self, s: Srv) -> None:
        self.drop()
        await super()._connect_to_server(s)
        if self.is_ended:  # `wait_for` in Python 3.11 may return a result instead of being cancelled
            self.drop()
            raise asyncio.CancelledError

    async def _process_op_err(self, e: Exception) -> None:
        if self.is_connected or self.is_connecting:
            self.drop()
        await super()._process_op_err(e)
