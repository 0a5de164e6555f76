"""Deleting on NATS: streams that ended long ago, more than `max_bytes`, and removed sessions.

A stream is deleted as a whole: first its messages, later its row. What may be deleted, in what order, and what only
together says `expiring.py`. Limits of the server (`max_bytes` of the URL, or what its operator has set) apply as well:
they delete the oldest messages, whatever those are.

A purge is several requests, and the daemon may die between any two of them. So their order is: raise `expired`, mark
the rows of a group as expired together with the range to delete (`Row.purge`), and then, for each of them, delete the
messages and remove the mark. Readers may report a gap for events that still exist, but never miss events without a gap;
and a daemon that finds a mark later marks the rest of the group, and completes the purge. A row is written with its
expected sequence, and the purge stops at the last message seen, so a concurrent commit of another daemon is not lost.

Rows may lack the last commits. So just before a group is marked, each daemon is asked whether it has committed anything
of the group's sessions that the stored rows lack; for one that does not answer, the messages tell. If there is
anything, the group is left. What is committed later, while the group is marked and deleted, begins its session anew.
Nobody asks a daemon that was cut off for `DEAD_AFTER`, and has committed again before its first heartbeat; and the rows
of ended streams that a dead daemon has resumed are not brought up to date, save those of the group itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from tooltap.daemon.journal.expiring import ListedStream, expiring
from tooltap.daemon.journal.interface import CorruptError, JournalError, NotEndedError, StreamInfo, without_content
from tooltap.daemon.journal.nats.connection import AwayError, Connection
from tooltap.daemon.journal.nats.events import Messages
from tooltap.daemon.journal.nats.message import EVENTS_A_MESSAGE
from tooltap.daemon.journal.nats.state import OwnRow, Row, State
from tooltap.daemon.system.logs import faults
from tooltap.normalizers.stream.reset import place_of
from tooltap.protocol.stats import Removed, RetentionStatistics

T = TypeVar("T")
QUESTION = b"unwritten "
"""What the question to other daemons begins with; the sessions follow."""
PATIENCE = 2.0
"""Seconds within which another daemon has to answer."""

_names = msgspec.msgpack.Decoder(list[str])


def decode_question(request: bytes) -> list[str] | None:
    """The sessions that a daemon asks about; None for another request."""
    return _names.decode(request.removeprefix(QUESTION)) if request.startswith(QUESTION) else None


def encode_answer(sessions: Iterable[str]) -> bytes:
    return msgspec.msgpack.encode(sorted(sessions))


def _decode_answer(answer: bytes | None) -> list[str] | None:
    """None if there is no answer, or it is of a version that does not know the question."""
    try:
        return None if answer is None else _names.decode(answer)
    except msgspec.MsgspecError:
        return None


class Retention(NamedTuple):
    """Deletes streams. Calls raise `AwayError` and `JournalError`."""

    connection: Connection
    messages: Messages
    state: State
    load: Callable[[str], Awaitable[object]]
    """Loads a stream, and so brings its row up to date."""
    daemon: str
    ask: Callable[[str, bytes, float], Awaitable[bytes | None]]
    """Asks another daemon (`Journal.ask_daemon`)."""
    unwritten: Callable[[Collection[str]], set[str]]
    """Those of some sessions of which this daemon has committed something that the stored rows may lack."""
    bring_up: Callable[[Container[str]], Awaitable[None]]
    """Brings up to date the rows of all streams that none of some daemons has (`CatchUp.bring_up`)."""

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
        since = self.state.read_up_to
        rows = {row.info.stream: row for row in await self.state.rows()}
        for row in rows.values():
            if row.expired and not row.purge and row.info.updated < forget_before and not row.info.followed:
                await self.state.forget(row.info.stream)
        sessions = Counter(session for row in rows.values() for session in row.sessions)
        is_too_long = await self._is_too_long(max_bytes)
        groups = [
            (group.is_old, [rows.pop(stream) for stream in group.streams])
            for group in expiring(_listed(rows.values()), before, pinned)
        ]
        # Those that are marked, and of which another stream has been resumed since.
        groups += [(False, [row]) for row in rows.values() if row.purge]
        for is_old, its in groups:
            if not (is_old or is_too_long or any(row.purge for row in its)):
                continue
            for row, own in zip(its, await self._mark_all(its, since), strict=False):
                if (events := await self._contained(row, self._purge(own))) is not None:
                    sessions.subtract(list(row.sessions))
                    ended = sum(not sessions[one] for one in row.sessions)
                    oldest, newest = _times(row)
                    gone = Removed(sessions=ended, events=events, oldest=oldest, newest=newest, at=now)
                    by_size = RetentionStatistics(size=gone, size_limit=max_bytes)
                    removed(RetentionStatistics(age=gone) if is_old else by_size)
            is_too_long = await self._is_too_long(max_bytes)

    async def remove_session(self, session: str) -> int:
        """Implements `Journal.remove_session`, but raises `JournalError` if a stream also has other sessions."""
        since = self.state.read_up_to
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
        found = [own for row in rows if (own := await self._examine(row)) is not None]
        if await self._has_gone_on(found, since):
            raise NotEndedError(f"session {session} has not ended: something of it was committed just now")
        marked = [own for own in found if await self._mark(own)]
        return sum([await self._purge(own) for own in marked])

    async def _is_too_long(self, max_bytes: int | None) -> bool:
        if max_bytes is None:
            return False
        return int((await self.connection.api(f"STREAM.INFO.{self.messages.stream}"))["state"]["bytes"]) > max_bytes

    async def _mark_all(self, rows: Sequence[Row], since: int) -> list[OwnRow]:
        """Mark the streams of a group; none if one of them was left, or one of their sessions goes on. `since`: as in
        `_has_gone_on`."""
        found: list[OwnRow] = []
        for row in rows:
            own = await self._contained(row, self._examine(row))
            if own is None:
                return []
            found.append(own)
        if await self._contained(rows[0], self._has_gone_on(found, since)) is not False:
            return []
        for number, (row, own) in enumerate(zip(rows, found, strict=True)):
            if not await self._contained(row, self._mark(own)):
                for before, other in zip(rows[:number], found, strict=False):
                    unmarked = msgspec.structs.replace(other.row, expired=before.expired, purge=before.purge)
                    await self.state.put(OwnRow(unmarked, other.entry))
                return []
        return found

    async def _has_gone_on(self, found: Sequence[OwnRow], since: int) -> bool:
        """Whether anything is committed of the streams since they were examined, or anything of their sessions that is
        not in the listed rows. `since`: entry of a row before these."""
        rows = [own.row for own in found]
        sessions = set[str]().union(*(sessions_named(row.info, row.sessions) for row in rows))
        if sessions and await self._is_elsewhere(sessions, {row.info.stream for row in rows}, since):
            return True
        for row in rows:
            last = await self.messages.last(row.info.stream)
            if last is not None and last.seq >= row.purge:
                return True
        return False

    async def _is_elsewhere(self, sessions: set[str], streams: Container[str], since: int) -> bool:
        """Whether anything of the sessions is committed that is in no row yet, or is in a row after the entry `since`
        of another stream than `streams`."""
        others = sorted(await self.state.alive() - {self.daemon})
        question = QUESTION + msgspec.msgpack.encode(sorted(sessions))
        answers = await asyncio.gather(*(self.ask(one, question, PATIENCE) for one in others))
        unwritten = {one: _decode_answer(answer) for one, answer in zip(others, answers, strict=True)}
        if self.unwritten(sessions) or any(unwritten.values()):
            return True
        if None in unwritten.values():
            await self.bring_up({self.daemon} | {one for one, names in unwritten.items() if names is not None})
        return any(
            row.info.stream not in streams and not sessions.isdisjoint(sessions_named(row.info, row.sessions))
            for row in await self.state.rows_after(since)
        )

    async def _examine(self, listed: Row) -> OwnRow | None:
        """The row that marks an ended stream as deleted; None if it is left."""
        stream = listed.info.stream
        stored = await self.state.get(stream)
        last = await self.messages.last(stream)
        if stored is None or stored.row.info.state != "ended":
            return None
        row = stored.row
        if last is not None and last.seq != row.message:
            await self.load(stream)  # it was resumed, or its last daemon died before it wrote the row
            return None
        if last is not None:
            # Up to `last`, not what another daemon is committing at this moment.
            row = msgspec.structs.replace(row, expired=True, purge=last.seq + 1)
        return OwnRow(row, stored.entry)

    async def _mark(self, own: OwnRow) -> bool:
        """Mark a stream; False if it has gone on. One without messages needs no mark."""
        if not own.row.purge:
            return True
        await self.state.raise_expired(own.row.purge * EVENTS_A_MESSAGE - 1)
        return await self.state.put(own)

    async def _purge(self, own: OwnRow) -> int:
        """Delete the messages of a marked stream; returns the number of deleted events."""
        row = own.row
        if row.purge:
            await self.connection.api(
                f"STREAM.PURGE.{self.messages.stream}", filter=self.messages.subject(row.info.stream), seq=row.purge
            )
        info = without_content(row.info)
        left = msgspec.structs.replace(row, info=info, expired=True, purge=0, sessions={}, calls={})
        await self.state.put(OwnRow(left, own.entry))
        return sum(session.events for session in row.sessions.values()) if row.purge else 0

    async def _contained(self, row: Row, work: Awaitable[T]) -> T | None:
        """Return what the work on a stream returns; None if it fails for a reason that concerns this stream alone."""
        try:
            return await work
        except Exception as error:
            if isinstance(error, AwayError | JournalError) and not isinstance(error, CorruptError):
                raise  # the server's trouble
            what = "a stream could not be deleted; it is tried again later"
            faults.note(what, place_of(error), error, stream=row.info.stream)
            return None


def sessions_named(info: StreamInfo, sessions: Iterable[str]) -> set[str]:
    """The sessions of a stream. `sessions`: those that have events in it; the session of a file counts without any."""
    of_file = info.last_session or info.session
    return {*sessions, *([of_file] if info.followed and of_file is not None else [])}


def _times(row: Row) -> tuple[int | None, int | None]:
    """When the oldest and the newest event of a stream's sessions happened, in ms since the epoch."""
    sessions = row.sessions.values()
    first = [one.first_ts for one in sessions if one.first_ts is not None]
    last = [one.last_ts for one in sessions if one.last_ts is not None]
    return min(first, default=None), max(last, default=None)


def _listed(rows: Iterable[Row]) -> Iterator[ListedStream]:
    """The streams that are stored, and those whose deletion was begun."""
    stored = [row for row in rows if row.purge or not row.expired]
    latest: dict[str, int] = {}
    for row in stored:
        for name, session in row.sessions.items():
            latest[name] = max(latest.get(name, 0), session.last_ts or 0)
    for row in stored:
        info = row.info
        sessions = {name: latest.get(name, 0) for name in sessions_named(info, row.sessions)}
        yield ListedStream(info.stream, info.state == "ended", info.followed, info.updated, sessions)
