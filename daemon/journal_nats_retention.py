"""Retention on NATS: a stream that ended long ago loses its messages, later its row too.

What belongs to a stream that has not ended is never touched. One daemon at a time does the work. Limits of the server
(`max_bytes`, or what its operator has set) come on top: they take the oldest messages, whatever they are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from tooltap.daemon.journal_nats_link import Link
from tooltap.daemon.journal_nats_log import Log
from tooltap.daemon.journal_nats_message import end_of
from tooltap.daemon.journal_nats_state import Kept, State

__all__ = ["expire"]


async def expire(
    link: Link, log: Log, state: State, load: Callable[[str], Awaitable[object]], before: int, forget_before: int
) -> int:
    """`load` brings a stream's row up to date. Times are as in `Journal.expire`; gives how many events went, as far as
    the rows know. Raises `AwayError`, `JournalError`."""
    expired = 0
    for row in await state.rows():
        stream = row.info.stream
        if row.expired:
            if row.info.updated < forget_before:
                await state.forget(stream)
            continue
        if row.info.state != "ended" or row.info.updated >= before:
            continue
        stored = await state.get(stream)
        last = await log.last(stream)
        if stored is None:
            continue
        if last is not None and last.seq != stored.row.message:
            await load(stream)  # its last daemon died before it wrote the row
            continue
        row = stored.row
        events = sum(session.events for session in row.sessions.values())
        left = msgspec.structs.replace(row, expired=True, names=set(), sessions={}, calls={})
        if last is not None:
            await state.raise_expired(end_of(last.seq))
        if await state.put(Kept(left, stored.entry)) and last is not None:
            # Not what another daemon has committed in this moment.
            await link.api(f"STREAM.PURGE.{log.stream}", filter=log.subject(stream), seq=last.seq + 1)
            expired += events
    return expired
