"""Rebuild a stream from its messages: what its parser is rebuilt from, and its row, brought up to date.

The subject's last message is the stream's position. If retention or a limit of the server has deleted messages that the
parser needs, only the position is left, and the stream continues with a fresh parser. If all messages are deleted, the
row has the position.

The row is read before the last message, so it can be older than the messages but not newer. What it lacks is read
from the messages.
"""

from __future__ import annotations

import msgspec

from tooltap.daemon.journal.interface import StoredStream, StreamInfo
from tooltap.daemon.journal.nats.link import Link
from tooltap.daemon.journal.nats.log import CommitMessages, Log
from tooltap.daemon.journal.nats.message import CommitPart, DamagedError, events_of, read_rest
from tooltap.daemon.journal.nats.rows import Row, read_event
from tooltap.daemon.journal.nats.state import OwnRow, State
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.inputs import Input
from tooltap.protocol.stats import Statistics

__all__ = ["Loaded", "advance", "load"]


class Loaded(msgspec.Struct):
    own: OwnRow
    stored: StoredStream
    position: int
    """Sequence of the last message, 0 if there is none."""
    advanced: bool
    """The row was behind."""


async def load(link: Link, log: Log, state: State, stream: str) -> Loaded | None:
    """None for an unknown stream. Waits while the server is away. Raises `JournalError`."""
    found = await link.retry(state.get, stream, timeout=None)
    last = await link.retry(log.last, stream, timeout=None)
    if last is None:
        if found is None or found.row.message > await link.retry(log.last_seq, timeout=None):
            return None  # the row is of a journal that was here before
        found.row.since = found.row.message = 0
        return Loaded(OwnRow(found.row, found.entry), _stored(found.row, 0, _Parser()), 0, False)
    part, first = log.part(last), last.seq
    if part is None:
        part, first = await _last_intact(log, stream, last.seq)
    # A row that is ahead of the messages is of a journal that had more of them.
    if found is None or found.row.expired or found.row.message > last.seq:
        row = Row(info=_info(stream, part))
    else:
        row = found.row
    own = OwnRow(row, 0 if found is None else found.entry)
    since = last.seq + 1 if part is None else part.since or first - part.index
    known = row.message
    parser = _Parser()
    async for commit in log.commits(stream, min(since, known + 1), last.seq):
        if commit.first >= since:
            parser.add(commit, since)
        if commit.last > known:
            _project(own, commit)
    row.message = last.seq
    return Loaded(own, _stored(row, last.seq, parser), last.seq, last.seq > known)


def _info(stream: str, part: CommitPart | None) -> StreamInfo:
    """If nothing of the stream can be read, it starts again from the beginning."""
    if part is None:
        return StreamInfo(stream=stream, statistics=Statistics(stream=stream, dialect="auto", provider=""))
    return part.stream_info()


async def _last_intact(log: Log, stream: str, last: int) -> tuple[CommitPart | None, int]:
    """The last part of the stream's last commit that can be read, and its sequence: the stream continues there."""
    part, seq = None, 0
    async for commit in log.commits(stream, 1, last):
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
    """What a parser is rebuilt from, as far as it is still stored."""

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


def _project(own: OwnRow, commit: CommitMessages) -> None:
    stored = [one for index, part in enumerate(commit.parts) for one in events_of(commit.first + index, part.events)]
    read = [(one.seq, Produced.of(event, one.body)) for one in stored if (event := read_event(one)) is not None]
    own.projection.apply(own.row.info.stream, read)
    advance(own, commit.first, commit.parts[-1], commit.parts[-1].stream_info())


def _stored(row: Row, position: int, parser: _Parser) -> StoredStream:
    """An open stream may be open at another daemon. It is returned as suspended, so that whoever resumes it starts with
    a commit, which fences out the other daemon."""
    info = msgspec.convert(msgspec.to_builtins(row.info), StreamInfo)  # a deep copy
    info.position = position
    if info.state == "open":
        info.state = "suspended"
    if not parser.complete:
        parser = _Parser()
    return StoredStream(info, parser.snapshot, parser.snapshot_lines, parser.tail)
