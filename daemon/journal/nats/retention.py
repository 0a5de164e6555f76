"""Deleting on NATS: streams that ended long ago, more than `max_bytes`, and removed sessions.

A stream is deleted as a whole: first its messages, later its row. One that has not ended is never touched. Limits of
the server (`max_bytes` of the URL, or what its operator has set) apply as well: they delete the oldest messages,
whatever those are. A stream that was read from an agent's own store does not expire by age.

A purge is several requests, and the daemon may die between any two of them. So their order is: raise `expired`, mark
the row as expired together with the range to delete (`Row.purge`), delete the messages, remove the mark. Readers may
report a gap for events that still exist, but never miss events without a gap; and a daemon that finds the mark later
completes the purge. The row is written with its expected sequence, and the purge stops at the last message seen, so a
concurrent commit of another daemon is not lost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from tooltap.daemon.journal.interface import CorruptError, JournalError, NotEndedError
from tooltap.daemon.journal.nats.connection import AwayError, Connection
from tooltap.daemon.journal.nats.events import Messages
from tooltap.daemon.journal.nats.message import end_of
from tooltap.daemon.journal.nats.state import OwnRow, Row, State
from tooltap.daemon.system.logs import faults
from tooltap.normalizers.stream.reset import place_of


class Retention(NamedTuple):
    """Deletes streams. Calls raise `AwayError` and `JournalError`."""

    connection: Connection
    messages: Messages
    state: State
    load: Callable[[str], Awaitable[object]]
    """Loads a stream, and so brings its row up to date."""

    async def expire(self, before: int, forget_before: int, max_bytes: int | None) -> int:
        """Implements `Journal.expire`; also deletes expired rows older than `forget_before`. Returns the number of
        deleted events according to the rows. An error of one stream does not affect the others."""
        expired = 0
        is_too_long = await self._is_too_long(max_bytes)
        for row in sorted(await self.state.rows(), key=lambda row: row.info.updated):
            try:
                if deleted := await self._expire(row, before, forget_before, is_too_long=is_too_long):
                    expired += deleted
                    is_too_long = await self._is_too_long(max_bytes)
            except Exception as error:
                if isinstance(error, AwayError | JournalError) and not isinstance(error, CorruptError):
                    raise  # the server's trouble
                what = "a stream could not be deleted; it is tried again later"
                faults.note(what, place_of(error), error, stream=row.info.stream)
        return expired

    async def _expire(self, row: Row, before: int, forget_before: int, *, is_too_long: bool) -> int:
        info = row.info
        if row.expired and not row.purge:
            if info.updated < forget_before:
                await self.state.forget(info.stream)
        elif info.state == "ended":
            is_too_old = info.updated < before and not info.followed
            if row.purge or is_too_old or is_too_long:
                return await self._purge(row)
        return 0

    async def remove_session(self, session: str) -> int:
        """Implements `Journal.remove_session`, but raises `JournalError` if a stream also has other sessions."""
        rows = [row for row in await self.state.rows() if session in row.sessions]
        for row in rows:
            stream = row.info.stream
            if row.info.state != "ended":
                raise NotEndedError(f"session {session} has not ended: its stream {stream} is {row.info.state}")
            if others := sorted(row.sessions.keys() - {session}):
                raise JournalError(
                    f"session {session} shares stream {stream} with session {others[0]}: a journal on NATS deletes"
                    " whole streams"
                )
        return sum([await self._purge(row) for row in rows])

    async def _is_too_long(self, max_bytes: int | None) -> bool:
        if max_bytes is None:
            return False
        return int((await self.connection.api(f"STREAM.INFO.{self.messages.stream}"))["state"]["bytes"]) > max_bytes

    async def _purge(self, listed: Row) -> int:
        """Delete the messages of an ended stream; returns the number of deleted events."""
        stream = listed.info.stream
        stored = await self.state.get(stream)
        last = await self.messages.last(stream)
        if stored is None:
            return 0
        row = stored.row
        if last is not None and last.seq != row.message:
            await self.load(stream)  # it was resumed, or its last daemon died before it wrote the row
            return 0
        if last is not None:
            await self.state.raise_expired(end_of(last.seq))
            # Up to `last`, not what another daemon is committing at this moment.
            row = msgspec.structs.replace(row, expired=True, purge=last.seq + 1)
        own = OwnRow(row, stored.entry)
        if last is not None and not await self.state.put(own):
            return 0
        if row.purge:
            await self.connection.api(
                f"STREAM.PURGE.{self.messages.stream}", filter=self.messages.subject(stream), seq=row.purge
            )
        left = msgspec.structs.replace(row, expired=True, purge=0, sessions={}, calls={})
        await self.state.put(OwnRow(left, own.entry))
        return sum(session.events for session in row.sessions.values()) if row.purge else 0
