"""Deleting on NATS: streams that ended long ago, more than `max_bytes`, and removed sessions.

A stream is deleted as a whole: first its messages, later its row. One that has not ended is never touched, nor is one
of a pinned session. By age expires what only taps have sent: a session that was read from an agent's own store is kept,
with all its streams. By size, the sessions whose events happened first go first, each as a whole. Limits of the server
(`max_bytes` of the URL, or what its operator has set) apply as well: they delete the oldest messages, whatever those
are.

A purge is several requests, and the daemon may die between any two of them. So their order is: raise `expired`, mark
the row as expired together with the range to delete (`Row.purge`), delete the messages, remove the mark. Readers may
report a gap for events that still exist, but never miss events without a gap; and a daemon that finds the mark later
completes the purge. The row is written with its expected sequence, and the purge stops at the last message seen, so a
concurrent commit of another daemon is not lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import NamedTuple

import msgspec

from tooltap.daemon.journal.interface import CorruptError, JournalError, NotEndedError, without_content
from tooltap.daemon.journal.nats.connection import AwayError, Connection
from tooltap.daemon.journal.nats.events import Messages
from tooltap.daemon.journal.nats.message import end_of
from tooltap.daemon.journal.nats.state import OwnRow, Row, State
from tooltap.daemon.system.logs import faults
from tooltap.normalizers.stream.reset import place_of
from tooltap.protocol.stats import Removed, RetentionStatistics


class Retention(NamedTuple):
    """Deletes streams. Calls raise `AwayError` and `JournalError`."""

    connection: Connection
    messages: Messages
    state: State
    load: Callable[[str], Awaitable[object]]
    """Loads a stream, and so brings its row up to date."""

    async def expire(
        self,
        before: int,
        forget_before: int,
        max_bytes: int | None,
        pinned: Collection[str],
        now: int,
        removed: Callable[[RetentionStatistics], None],
    ) -> None:
        """Implements `Journal.expire`; also deletes expired rows older than `forget_before`, save those of session
        files. `pinned`: sessions that are kept; `now`: ms since the epoch; `removed`: called after each stream with
        what was deleted, according to its row. An error of one stream does not affect the others."""
        begun = None
        is_too_long = await self._is_too_long(max_bytes)
        rows = await self.state.rows()
        streams = Counter(session for row in rows for session in row.sessions)
        for row, place, is_kept in _in_order(rows, pinned):
            info = row.info
            if row.expired and not row.purge:
                if info.updated < forget_before and not info.followed:
                    await self.state.forget(info.stream)
                continue
            is_old = max(info.updated, place.happened) < before and not is_kept
            is_due = is_old or is_too_long or (place.session is not None and place.session == begun)
            is_pinned = not row.sessions.keys().isdisjoint(pinned)
            if info.state != "ended" or not (row.purge or (is_due and not is_pinned)):
                continue
            begun = begun if is_old else place.session
            try:
                if (events := await self._purge(row)) is not None:
                    streams.subtract(list(row.sessions))
                    sessions = sum(not streams[one] for one in row.sessions)
                    oldest, newest = _times(row)
                    gone = Removed(sessions=sessions, events=events, oldest=oldest, newest=newest, at=now)
                    by_size = RetentionStatistics(size=gone, size_limit=max_bytes)
                    removed(RetentionStatistics(age=gone) if is_old else by_size)
                    is_too_long = await self._is_too_long(max_bytes)
            except Exception as error:
                if isinstance(error, AwayError | JournalError) and not isinstance(error, CorruptError):
                    raise  # the server's trouble
                what = "a stream could not be deleted; it is tried again later"
                faults.note(what, place_of(error), error, stream=row.info.stream)

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
        return sum([await self._purge(row) or 0 for row in rows])

    async def _is_too_long(self, max_bytes: int | None) -> bool:
        if max_bytes is None:
            return False
        return int((await self.connection.api(f"STREAM.INFO.{self.messages.stream}"))["state"]["bytes"]) > max_bytes

    async def _purge(self, listed: Row) -> int | None:
        """Delete the messages of an ended stream; returns the number of deleted events, or None if it was left."""
        stream = listed.info.stream
        stored = await self.state.get(stream)
        last = await self.messages.last(stream)
        if stored is None:
            return None
        row = stored.row
        if last is not None and last.seq != row.message:
            await self.load(stream)  # it was resumed, or its last daemon died before it wrote the row
            return None
        if last is not None:
            await self.state.raise_expired(end_of(last.seq))
            # Up to `last`, not what another daemon is committing at this moment.
            row = msgspec.structs.replace(row, expired=True, purge=last.seq + 1)
        own = OwnRow(row, stored.entry)
        if last is not None and not await self.state.put(own):
            return None
        if row.purge:
            await self.connection.api(
                f"STREAM.PURGE.{self.messages.stream}", filter=self.messages.subject(stream), seq=row.purge
            )
        info = without_content(row.info)
        left = msgspec.structs.replace(row, info=info, expired=True, purge=0, sessions={}, calls={})
        await self.state.put(OwnRow(left, own.entry))
        return sum(session.events for session in row.sessions.values()) if row.purge else 0


def _times(row: Row) -> tuple[int | None, int | None]:
    """When the oldest and the newest event of a stream's sessions happened, in ms since the epoch."""
    sessions = row.sessions.values()
    first = [one.first_ts for one in sessions if one.first_ts is not None]
    last = [one.last_ts for one in sessions if one.last_ts is not None]
    return min(first, default=None), max(last, default=None)


class _Place(NamedTuple):
    """The place of a stream in the order in which streams are deleted."""

    happened: int
    """Time of the latest event of its sessions, in ms since the epoch."""
    session: str | None
    """The session of this event."""
    updated: int
    stream: str


def _in_order(rows: Iterable[Row], pinned: Collection[str]) -> list[tuple[Row, _Place, bool]]:
    """Rows in the order in which they are deleted, each with its place, and whether age does not matter: it is, or
    has a session that is, of a store, or pinned."""
    rows = list(rows)
    latest: dict[str, int] = {}
    kept = set(pinned)
    for row in rows:
        for name, session in row.sessions.items():
            latest[name] = max(latest.get(name, 0), session.last_ts or 0)
        if row.info.followed and not row.expired:
            kept |= {*row.sessions, row.info.last_session or row.info.session or ""}
    found = []
    for row in rows:
        happened, name = max(((latest[name], name) for name in row.sessions), default=(0, ""))
        place = _Place(happened or row.info.updated, name or None, row.info.updated, row.info.stream)
        found.append((row, place, row.info.followed or not kept.isdisjoint(row.sessions)))
    found.sort(key=lambda one: (one[1].happened, one[1].session or "", *one[1][2:]))
    return found
