"""A feed of everything that daemons commit: every message of the journal once, in order, from a given one on.

The server pushes the messages. A push consumer may skip messages (it was lost with its server, or the client was too
slow), so each sequence is compared with the one before, and missing messages are read. A consumer without heartbeats,
or one that belongs to an earlier connection, is replaced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from nats.aio.msg import Msg

from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.journal.nats.connection import AwayError, Connection, StoredMessage
from tooltap.daemon.journal.nats.events import Messages
from tooltap.daemon.system.logs import get_logger

HEARTBEAT = 1.0
SILENCE = 3.5
"""Seconds without a message or heartbeat after which the consumer counts as lost."""
READ_BYTES = 1_048_576

_log = get_logger("journal")


class Feed:
    """`deliver` is called with each message; it must not raise. `missing`: with the first and last of messages that are
    not there; raises `AwayError` and `JournalError`."""

    def __init__(
        self,
        connection: Connection,
        messages: Messages,
        last: int,
        deliver: Callable[[StoredMessage], None],
        missing: Callable[[int, int], Awaitable[None]],
    ) -> None:
        self.last = last
        """Sequence of the last message delivered."""
        self._connection = connection
        self._messages = messages
        self._deliver = deliver
        self._missing = missing
        self._last_message_at = 0.0
        self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        self._task.cancel()

    async def fill(self, up_to: int) -> None:
        """Read and deliver the messages up to `up_to` that were not pushed. Raises `AwayError`, `JournalError`."""
        while self.last < up_to:
            found = await self._messages.after(self.last + 1, up_to, None, READ_BYTES)
            for message in found:
                await self._skip(message.seq - 1)
                self._take(message)
            if not found:
                await self._skip(up_to)

    async def _skip(self, up_to: int) -> None:
        """Messages up to here were deleted, or are damaged."""
        if up_to > self.last:
            await self._missing(self.last + 1, up_to)
            self.last = max(self.last, up_to)

    async def _run(self) -> None:
        while True:
            try:
                await self._connection.retry(self._follow, timeout=None)
                self._connection.require_verification()  # a consumer is lost with its server, or with its stream
            except JournalError as error:
                _log.warning("cannot follow the commits of other daemons", error=str(error))
                await asyncio.sleep(HEARTBEAT)

    async def _follow(self) -> None:
        """Run until the consumer is lost."""
        clock = asyncio.get_running_loop().time
        number = self._connection.connections
        self._last_message_at = clock()
        end = await self._connection.push(
            self._messages.stream, self.last + 1, self._messages.everything, HEARTBEAT, self._arrived
        )
        try:
            while (
                clock() - self._last_message_at < SILENCE
                and self._connection.connections == number
                and self._connection.connected
            ):
                await asyncio.sleep(HEARTBEAT / 4)
        finally:
            await end()

    async def _arrived(self, message: Msg) -> None:
        self._last_message_at = asyncio.get_running_loop().time()
        if message.headers is not None and "Status" in message.headers:
            return
        seq = message.metadata.sequence.stream
        if seq > self.last + 1:
            try:
                await self.fill(seq - 1)
            except (AwayError, JournalError):
                self._last_message_at = 0.0  # gives up this consumer; the next one starts after `last`
                return
        self._take(StoredMessage(seq, message.subject, message.data))

    def _take(self, message: StoredMessage) -> None:
        if message.seq > self.last:
            self.last = message.seq
            self._deliver(message)
