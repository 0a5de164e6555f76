"""Rebuilding the state of a stream's parser, and its row, from the messages of the stream.

The subject's last message is the stream's position. If retention or a limit of the server has deleted messages that the
parser needs, only the position remains, and the stream continues with a fresh parser. If all messages are deleted, the
row has the position. The row is read before the last message, so it can be older than the messages but not newer. It is
brought up to date from newer messages.

If the second JetStream stream is lost, all rows are rebuilt: they are derived from messages only. The last expired
`seq` is lost with that stream. So all missing messages then count as expired: the reason for their deletion is unknown.

Rows of a dead daemon are brought up to date by other daemons, and by its successor. A daemon that is killed may not
have written its last commits into the rows. If its publishers do not come back, nobody loads these streams, although
they may still have to be closed, or wait for views.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Container
from typing import Any
from urllib.parse import unquote

import msgspec

from tooltap.daemon.journal.interface import JournalError, StoredStream, StreamInfo, without_content
from tooltap.daemon.journal.nats.connection import Connection
from tooltap.daemon.journal.nats.events import CommitMessages, Messages
from tooltap.daemon.journal.nats.message import CommitPart, DamagedError, end_of, events_of, read_rest
from tooltap.daemon.journal.nats.requests import Requests
from tooltap.daemon.journal.nats.state import OwnRow, Row, State, read_event
from tooltap.daemon.system.logs import get_logger
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.inputs import Input
from tooltap.protocol.stats import Statistics

_log = get_logger("journal")
MOST_DETAILS = 1_000_000
"""Most deleted messages for which the server is asked for a list."""


class Loaded(msgspec.Struct):
    """A stream as read by `load`."""

    own: OwnRow
    stored: StoredStream
    position: int
    """Sequence of the last message, 0 if there is none."""
    advanced: bool
    """True if the row was behind the messages."""


async def load(
    connection: Connection, messages: Messages, state: State, requests: Requests, stream: str
) -> Loaded | None:
    """Read a stream and bring its row up to date. None for an unknown stream. Waits while the server is away. Raises
    `JournalError`."""
    found = await connection.retry(state.get, stream, timeout=None)
    last = await connection.retry(messages.last, stream, timeout=None)
    if last is None:
        if found is None or found.row.message > await connection.retry(messages.last_seq, timeout=None):
            return None  # the row is of a journal that was here before
        found.row.since = found.row.message = 0
        if found.row.expired:  # the daemon that deleted the messages may have died before it wrote this
            found.row.purge, found.row.sessions, found.row.calls = 0, {}, {}
            found.row.info = without_content(found.row.info)
        return Loaded(OwnRow(found.row, found.entry), _stored(found.row, 0, _Parser()), 0, False)
    part, first = messages.part(last), last.seq
    if part is None:
        part, first = await _last_intact(messages, stream, last.seq)
    # A row that is ahead of the messages is of a journal that had more of them.
    if found is None or found.row.expired or found.row.message > last.seq:
        row = Row(info=_info(stream, part))
    else:
        row = found.row
    own = OwnRow(row, 0 if found is None else found.entry)
    since = last.seq + 1 if part is None else part.since or first - part.index
    known = row.message
    parser = _Parser()
    async for commit in messages.commits(stream, min(since, known + 1), last.seq):
        if commit.first >= since:
            parser.add(commit, since)
        if commit.last > known:
            await _project(own, commit, requests, connection)
    row.message = last.seq
    return Loaded(own, _stored(row, last.seq, parser), last.seq, last.seq > known)


def _info(stream: str, part: CommitPart | None) -> StreamInfo:
    """The info stored in a message; for None, the info of a new stream, which starts again from the beginning."""
    if part is None:
        return StreamInfo(stream=stream, statistics=Statistics(stream=stream, dialect="auto", provider=""))
    return part.stream_info()


async def _last_intact(messages: Messages, stream: str, last: int) -> tuple[CommitPart | None, int]:
    """The last message of the stream's last intact commit, and its sequence, where the stream continues; (None, 0) if
    there is none."""
    part, seq = None, 0
    async for commit in messages.commits(stream, 1, last):
        part, seq = commit.parts[-1], commit.last
    return part, seq


def advance(own: OwnRow, first: int, last: CommitPart, info: StreamInfo) -> None:
    """Record in the row that it includes the commit whose first message is `first`."""
    row = own.row
    row.info, row.expired = info, False
    row.message = first + last.index
    row.since = last.since or first
    row.owner = last.commit.partition("/")[0]
    if info.state == "ended":
        own.projection.end_stream(info.stream)


class _Parser:
    """Collects the snapshot and tail of a parser from commits, as far as these still exist."""

    def __init__(self) -> None:
        self.snapshot: bytes | None = None
        self.snapshot_lines = 0
        self.tail: list[Input] = []
        self.complete = False

    def add(self, commit: CommitMessages, since: int) -> None:
        self.complete = self.complete or commit.first == since
        try:
            rest, _ = read_rest(commit.rest)
        except DamagedError:
            self.complete = False
            return
        if rest.snapshot is not None:
            self.snapshot, self.tail = rest.snapshot, []
            self.snapshot_lines = commit.parts[-1].stream_info().lines
        self.tail += rest.tail


async def _project(own: OwnRow, commit: CommitMessages, requests: Requests, connection: Connection) -> None:
    stored = [one for index, part in enumerate(commit.parts) for one in events_of(commit.first + index, part.events)]
    read = [(one.seq, Produced.of(event, one.body)) for one in stored if (event := read_event(one)) is not None]
    stream = own.row.info.stream
    compared = await connection.retry(requests.compared, stream, [event for _, event in read], timeout=None)
    own.projection.apply(stream, read, compared.forks, compared.copies)
    advance(own, commit.first, commit.parts[-1], commit.parts[-1].stream_info())


def _stored(row: Row, position: int, parser: _Parser) -> StoredStream:
    """Make the result of `load_stream`. An open stream, which another daemon may serve, is returned as suspended: so
    resuming it begins with a commit, which fences out the other daemon."""
    info = msgspec.convert(msgspec.to_builtins(row.info), StreamInfo)  # a deep copy
    info.position, info.expired = position, row.expired
    if info.state == "open":
        info.state = "suspended"
    if not parser.complete:
        parser = _Parser()
    return StoredStream(info, parser.snapshot, parser.snapshot_lines, parser.tail)


async def rebuild_rows(connection: Connection, messages: Messages, state: State, requests: Requests) -> int:
    """Rebuild the rows of all streams that have messages, and the claims of requests. Returns the number of rows.
    Raises `JournalError`."""
    await connection.retry(_raise_expired, connection, messages, state)
    streams = [stream async for stream in _streams(connection, messages)]
    for stream in streams:
        await connection.retry(requests.restore, stream)
    # Now that all claims are known, so are all forks.
    return sum([await _bring_row_up(connection, messages, state, requests, stream) for stream in streams])


class CatchUp:
    """Brings rows of dead daemons up to date."""

    def __init__(self, connection: Connection, messages: Messages, state: State, requests: Requests) -> None:
        self._connection = connection
        self._messages = messages
        self._state = state
        self._requests = requests
        self._alive: set[str] = set()
        self._is_due = False

    async def at_start(self) -> None:
        """Bring all rows up to date: this daemon's predecessor may have died, but still count as alive."""
        try:
            await self.bring_up(())
        except JournalError as error:  # rows are hints
            _log.warning("cannot look for leftovers of an earlier daemon", reason=str(error))
            self._is_due = True

    async def bring_up_rows(self) -> None:
        """Bring rows up to date if another daemon has died since the last call. Raises `JournalError`."""
        alive = await self._connection.retry(self._state.alive)
        if self._is_due or self._alive - alive:
            await self.bring_up(() if self._is_due else alive)
        self._alive, self._is_due = alive, False

    async def bring_up(self, alive: Container[str]) -> None:
        """Bring the rows up to date of streams that are new, or that no daemon of `alive` has. Raises
        `JournalError`."""
        rows = {row.info.stream: row for row in await self._connection.retry(self._state.rows)}
        async for stream in _streams(self._connection, self._messages):
            if (row := rows.get(stream)) is not None:
                if row.owner in alive or (row.info.state == "ended" and not row.info.rewriting):
                    continue
                last = await self._connection.retry(self._messages.last, stream)
                if last is None or last.seq <= row.message:
                    continue
            await _bring_row_up(self._connection, self._messages, self._state, self._requests, stream)


async def _bring_row_up(
    connection: Connection, messages: Messages, state: State, requests: Requests, stream: str
) -> bool:
    loaded = await load(connection, messages, state, requests, stream)
    return loaded is not None and loaded.advanced and await connection.retry(state.put, loaded.own)


async def _streams(connection: Connection, messages: Messages) -> AsyncIterator[str]:
    """All streams that have messages."""
    offset = 0
    while True:
        info = await connection.retry(_subjects, connection, messages, offset)
        subjects = info["state"].get("subjects") or {}
        for subject in subjects:
            yield unquote(subject.rpartition(".")[2])
        offset += len(subjects)
        if not subjects or offset >= info.get("total", 0):
            break


async def missing(connection: Connection, messages: Messages) -> list[int]:
    """Sequences of deleted messages between the first and the last; empty if there are more than `MOST_DETAILS`. Raises
    `AwayError`, `JournalError`."""
    known = (await connection.api(f"STREAM.INFO.{messages.stream}"))["state"]
    if not 0 < known.get("num_deleted", 0) <= MOST_DETAILS:
        return []
    details = (await connection.api(f"STREAM.INFO.{messages.stream}", deleted_details=True))["state"]
    return details.get("deleted") or []


async def _subjects(connection: Connection, messages: Messages, offset: int) -> dict[str, Any]:
    return await connection.api(f"STREAM.INFO.{messages.stream}", subjects_filter=messages.everything, offset=offset)


async def _raise_expired(connection: Connection, messages: Messages, state: State) -> None:
    first = (await connection.api(f"STREAM.INFO.{messages.stream}"))["state"]["first_seq"]
    if last := max([first - 1, *await missing(connection, messages)]):
        await state.raise_expired(end_of(last))
