"""Reading the messages of a journal: its events, forwards and backwards, whole commits, output bodies, and a live feed
of new commits.

Batches are read from any replica of the stream, which is fast but may lag slightly behind. So if a batch is empty, the
leader is asked whether there is more. A server cut off by a partition may believe for a while that it is the leader. So
messages that were committed count as missing only if the answering server has later ones (`after`).

JetStream reads forwards only. To read backwards, a window of messages is read from its beginning, and its newest
matching events are kept. If there are none, the next window is twice as long.

The chunks of output bodies are in the messages of their stream. One pass over the stream builds an index of where each
chunk is. The indexes of the most recently used streams are cached, and every request brings them up to date.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Literal, NamedTuple

import msgspec
from nats.aio.msg import Msg

from tooltap.daemon.journal.interface import MAX_SLICE, JournalError, OutputSlice, StoredEvent, whole_lines
from tooltap.daemon.journal.nats.connection import AwayError, Connection, GoneError, StoredMessage
from tooltap.daemon.journal.nats.message import (
    BLOCK_BYTES,
    EVENTS_A_MESSAGE,
    CommitPart,
    DamagedError,
    decode_part,
    end_of,
    events_of,
    read_rest,
    token,
    unpacked,
)
from tooltap.daemon.journal.nats.state import matches
from tooltap.daemon.system.logs import get_logger
from tooltap.protocol.filters import Filter

BATCH_BYTES = 4_194_304
FEED_BYTES = 1_048_576
"""Bytes of a batch that the feed reads."""

_log = get_logger("journal")


class CommitMessages(NamedTuple):
    """One commit, reassembled."""

    first: int
    last: int
    """Sequences of its first and last message."""
    parts: list[CommitPart]

    @property
    def rest(self) -> bytes:
        return b"".join([part.rest for part in self.parts])

    @property
    def part_bytes(self) -> int:
        return len(self.parts[0].rest)


class Messages:
    """The messages of the journal. `on_damage` is called with the first and last sequence of a range of unreadable
    messages."""

    def __init__(self, connection: Connection, on_damage: Callable[[int, int], None]) -> None:
        self.on_damage = on_damage
        self._connection = connection
        self.stream = connection.place.name
        self.everything = f"{self.stream}.event.>"

    def subject(self, stream: str) -> str:
        return f"{self.stream}.event.{token(stream)}"

    async def read(self, first: int, last: int, stream: str | None, max_bytes: int) -> list[StoredMessage] | None:
        """Call `after` with retries; None if the journal was replaced meanwhile. Raises `JournalError`."""
        journals = self._connection.journals

        async def ask() -> list[StoredMessage] | None:
            return await self.after(first, last, stream, max_bytes) if self._connection.journals == journals else None

        return await self._connection.retry(ask)

    async def after(self, first: int, last: int, stream: str | None, max_bytes: int) -> list[StoredMessage]:
        """Messages in `first` to `last`, about `max_bytes`, at least one if there is one. The caller knows that `last`
        was stored; a server without it counts as unreachable. Raises `AwayError`, `JournalError`."""
        if first > last:
            return []
        subject = self.everything if stream is None else self.subject(stream)
        found = await self._connection.read(self.stream, first, subject, max_bytes)
        if not found and (one := await self._next(first, last, subject)) is not None:
            found = [one]
        return [message for message in found if message.seq <= last]

    async def _next(self, first: int, last: int, subject: str) -> StoredMessage | None:
        found = await self._connection.next(self.stream, first, subject)
        if found is None:
            await self.prove(last)
            found = await self._connection.next(self.stream, first, subject)
        return found

    async def prove(self, seq: int) -> None:
        """Raise `GoneError` if the server ends before this message: it lags behind its cluster, or has lost data.
        Raises `AwayError`, `JournalError`."""
        if await self.last_seq() < seq:
            raise GoneError("the server has lost part of the journal")

    async def last_seq(self) -> int:
        """Sequence of the newest message. Raises `AwayError`, `JournalError`."""
        return int((await self._connection.api(f"STREAM.INFO.{self.stream}"))["state"]["last_seq"])

    async def message(self, seq: int) -> StoredMessage | None:
        """The message with this sequence, or None. Raises `JournalError`."""
        found = await self._connection.retry(self._connection.next, self.stream, seq, self.everything)
        return found if found is not None and found.seq == seq else None

    async def last(self, stream: str) -> StoredMessage | None:
        """The stream's last message. Raises `AwayError`, `JournalError`."""
        return await self._connection.last(self.stream, self.subject(stream))

    def part(self, message: StoredMessage) -> CommitPart | None:
        """Decode a message; None if it is damaged."""
        try:
            return decode_part(message.data)
        except DamagedError:
            self.on_damage(message.seq, message.seq)
            return None

    async def commits(self, stream: str, first: int, last: int) -> AsyncIterator[CommitMessages]:
        """A stream's commits in messages `first` to `last`, which is known to exist. Incomplete commits, with a deleted
        or damaged message, are skipped. Raises `JournalError`."""
        parts: list[CommitPart] = []
        while found := await self.read(first, last, stream, BATCH_BYTES):
            for message in found:
                part = self.part(message)
                if part is None:
                    parts = []
                    continue
                if part.index == len(parts):
                    parts.append(part)
                if part.is_last:
                    if len(parts) == part.count:
                        yield CommitMessages(message.seq - part.index, message.seq, parts)
                    parts = []
            first = found[-1].seq + 1


# -- events ----------------------------------------------------------------------------------------------------------

WINDOW, LONGEST_WINDOW = 32, 65_536
"""Initial and longest window when reading backwards, in messages."""


def _only_stream(wanted: Filter) -> str | None:
    """The stream if the filter selects a single one, else None. A single stream is read by its own subject."""
    return wanted.stream[0] if wanted.stream and len(wanted.stream) == 1 else None


class Read(NamedTuple):
    events: list[StoredEvent]
    searched: int
    """The `seq` up to which the journal was searched, or down to which."""
    missing: list[tuple[int, int]]
    """Ranges of missing messages, first to last, inclusive. If a single stream was read, its own missing messages are
    somewhere in these ranges."""


async def read(messages: Messages, after: int, end: int, wanted: Filter, max_bytes: int) -> Read:
    """Implements `Journal.read`, up to `end`. Reads whole messages: the last one may exceed `max_bytes`. Raises
    `JournalError`."""
    first, last = max((after + 1) // EVENTS_A_MESSAGE, 1), end // EVENTS_A_MESSAGE
    stream = _only_stream(wanted)
    events: list[StoredEvent] = []
    missing: list[tuple[int, int]] = []
    while after < end and not events:
        found = await messages.read(first, last, stream, 2 * max_bytes)
        if found is None:
            return Read([], end, [])
        if not found:
            if stream is None:
                missing.append((first, last))
            return Read(events, end, missing)
        size = 0
        for message in found:
            if stream is None and message.seq > first:
                missing.append((first, message.seq - 1))
            elif message.before is not None and message.before >= first:  # the stream had more before it
                missing.append((first, message.before))
            part = messages.part(message)
            for stored in () if part is None else events_of(message.seq, part.events):
                if after < stored.seq <= end and matches(wanted, stored):
                    events.append(stored)
                    size += len(stored.body)
            first = message.seq + 1
            if size >= max_bytes:
                break
        after = min(end_of(first - 1), end)
    return Read(events, after, missing)


async def read_back(messages: Messages, before: int, oldest: int, wanted: Filter, limit: int, max_bytes: int) -> Read:
    """Implements `Journal.read_back`, down to `oldest`. Missing messages are in the result only if all streams were
    read. Raises `JournalError`."""
    window = WINDOW
    stream = _only_stream(wanted)
    missing: list[tuple[int, int]] = []
    while before > oldest:
        last = (before - 1) // EVENTS_A_MESSAGE
        first = max(last - window + 1, oldest // EVENTS_A_MESSAGE)
        newest = _Newest(limit, max_bytes)
        position = first
        while found := await messages.read(max(position, 1), last, stream, 2 * max_bytes):
            for message in found:
                if stream is None and message.seq > max(position, 1):
                    missing.append((max(position, 1), message.seq - 1))
                position = message.seq + 1
                part = messages.part(message)
                for stored in () if part is None else events_of(message.seq, part.events):
                    if stored.seq < before and matches(wanted, stored):
                        newest.add(stored)
        if stream is None and found is not None and max(position, 1) <= last:
            missing.append((max(position, 1), last))
        if newest.events:
            searched = newest.events[0].seq if newest.dropped else max(first * EVENTS_A_MESSAGE, oldest)
            return Read(list(newest.events)[::-1], searched, missing)
        before = first * EVENTS_A_MESSAGE
        window = min(2 * window, LONGEST_WINDOW)
    return Read([], before, missing)


class _Newest:
    """A bounded buffer that keeps the events added last: at most `limit`, about `max_bytes`."""

    def __init__(self, limit: int, max_bytes: int) -> None:
        self.events: deque[StoredEvent] = deque()
        self.dropped = False
        self._limit = limit
        self._max_bytes = max_bytes
        self._size = 0

    def add(self, event: StoredEvent) -> None:
        self.events.append(event)
        self._size += len(event.body)
        while len(self.events) > self._limit or self._size - len(self.events[0].body) >= self._max_bytes:
            self._size -= len(self.events.popleft().body)
            self.dropped = True


# -- output bodies ---------------------------------------------------------------------------------------------------

STREAMS_IN_MEMORY = 64


class Location(NamedTuple):
    """Location of one block of an output body: chunks are indexed in blocks of `BLOCK_BYTES`."""

    start: int
    """Offset in the body. `newlines`: number of newlines in the body before it. `size`: uncompressed bytes."""
    newlines: int
    size: int
    message: int
    """Sequence of the commit's first message."""
    part_bytes: int
    """Bytes of the commit's rest (see `message.py`) per message; only the last message with a part of it may have
    fewer."""
    offset: int
    """Offset in the commit's rest."""
    stored: int
    """Stored bytes; fewer than `size` if compressed."""


class Body(msgspec.Struct):
    mime_type: str
    size: int = 0
    newlines: int = 0
    terminated: bool = False
    locations: list[Location] = []


class BodyIndex(msgspec.Struct):
    """Index of the output bodies of one stream, up to message `message`."""

    message: int = 0
    bodies: dict[str, Body] = {}


class Outputs:
    def __init__(self, connection: Connection, messages: Messages) -> None:
        self._connection = connection
        self._messages = messages
        self._streams: OrderedDict[str, BodyIndex] = OrderedDict()

    async def read(
        self, output_id: str, offset: int, length: int, unit: Literal["bytes", "lines"]
    ) -> OutputSlice | None:
        """Implements `Journal.output`. An `output_id` is `<stream>:<line>:<output>`."""
        stream = output_id.rsplit(":", 2)[0]
        if (body := (await self._index(stream)).bodies.get(output_id)) is None:
            return None
        if (found := await self._slice(body, offset, length, unit)) is None:
            # Retention has deleted it since it was indexed; it may have been stored again.
            self.forget_stream(stream)
            if (body := (await self._index(stream)).bodies.get(output_id)) is not None:
                found = await self._slice(body, offset, length, unit)
        return found

    async def _slice(self, body: Body, offset: int, length: int, unit: Literal["bytes", "lines"]) -> OutputSlice | None:
        total = body.size if unit == "bytes" else body.newlines + (body.size > 0 and not body.terminated)
        data = await (self._bytes if unit == "bytes" else self._lines)(body, offset, length)
        return None if data is None else OutputSlice(data, offset, total, body.mime_type)

    def forget(self) -> None:
        """Forget all bodies: the journal was replaced."""
        self._streams.clear()

    def forget_stream(self, stream: str) -> None:
        """Forget the bodies of a stream that begins again."""
        self._streams.pop(stream, None)

    async def _index(self, stream: str) -> BodyIndex:
        index = self._streams.setdefault(stream, BodyIndex())
        self._streams.move_to_end(stream)
        if len(self._streams) > STREAMS_IN_MEMORY:
            self._streams.popitem(last=False)
        last = await self._connection.retry(self._messages.last, stream)
        async for commit in self._messages.commits(stream, index.message + 1, 0 if last is None else last.seq):
            if commit.last > index.message:  # else a concurrent request has indexed it
                index.message = commit.last
                with suppress(DamagedError):  # its chunks are as good as not there
                    _add(index, commit)
        return index

    async def _bytes(self, body: Body, offset: int, length: int) -> bytes | None:
        """A slice of at most `MAX_SLICE` bytes; None if a part of it was deleted or is damaged."""
        end = min(offset + min(length, MAX_SLICE), body.size)
        found: list[bytes] = []
        for location in body.locations:
            first, last = max(offset, location.start), min(end, location.start + location.size)
            if first < last:
                data = await self._cut(location, first - location.start, last - location.start)
                if data is None:
                    return None
                found.append(data)
        return b"".join(found)

    async def _cut(self, location: Location, first: int, last: int) -> bytes | None:
        if location.stored == location.size:
            return await self._stored(location, location.offset + first, location.offset + last)
        packed = await self._stored(location, location.offset, location.offset + location.stored)
        return None if packed is None else unpacked(packed, location.size)[first:last]

    async def _stored(self, location: Location, start: int, end: int) -> bytes | None:
        found: list[bytes] = []
        for number in range(start // location.part_bytes, (end - 1) // location.part_bytes + 1):
            message = await self._messages.message(location.message + number)
            if message is None:
                return None
            before = number * location.part_bytes
            if (part := self._messages.part(message)) is None:
                return None
            found.append(part.rest[max(start - before, 0) : end - before])
        return b"".join(found)

    async def _lines(self, body: Body, offset: int, count: int) -> bytes | None:
        """At most `count` whole lines, as many as fit into a slice; the head of the first line if that does not fit."""
        start = await self._start_of_line(body, offset)
        if start is None or count <= 0:
            return b""
        data = await self._bytes(body, start, MAX_SLICE)
        if data is None:
            return None
        return whole_lines(data, count)

    async def _start_of_line(self, body: Body, line: int) -> int | None:
        """Byte offset of a line (0-based); None if there is no such line."""
        if line == 0:
            return 0
        location = next((one for one in reversed(body.locations) if one.newlines < line), None)
        data = None if location is None else await self._cut(location, 0, location.size)
        if location is None or data is None:
            return None
        lines = data.split(b"\n", line - location.newlines)
        return location.start + len(data) - len(lines[-1]) if len(lines) > line - location.newlines else None


def _add(index: BodyIndex, commit: CommitMessages) -> None:
    whole = commit.rest
    rest, offset = read_rest(whole)
    for chunk in rest.chunks:
        body = index.bodies.setdefault(chunk.output_id, Body(chunk.mime_type))
        for number, begin in enumerate(range(0, chunk.size, BLOCK_BYTES)):
            size = min(BLOCK_BYTES, chunk.size - begin)
            stored = chunk.blocks[number] if chunk.blocks else size
            location = Location(body.size, body.newlines, size, commit.first, commit.part_bytes, offset, stored)
            data = unpacked(whole[offset : offset + stored], size)
            body.locations.append(location)
            body.size += size
            body.newlines += data.count(b"\n")
            body.terminated = data.endswith(b"\n")
            offset += stored


HEARTBEAT = 1.0
SILENCE = 3.5
"""Seconds without a message or heartbeat after which the consumer is considered lost."""


class Feed:
    """Live feed of the commits of all daemons: every message of the journal after `last`, exactly once and in order.

    The server pushes the messages. A push consumer may skip some (it was lost with its server, or the client was too
    slow), so gaps in the sequence are detected and filled by reads. A consumer without heartbeats, or of an earlier
    connection, is replaced.

    `deliver` is called with each message; it must not raise. `missing` is called with the first and last sequence of
    messages that no longer exist; it may raise `AwayError` and `JournalError`."""

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
            found = await self._messages.after(self.last + 1, up_to, None, FEED_BYTES)
            for message in found:
                await self._skip(message.seq - 1)
                self._take(message)
            if not found:
                await self._skip(up_to)

    async def _skip(self, up_to: int) -> None:
        """Report the messages up to `up_to` as missing, and advance past them."""
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
        """Run one push consumer until it is lost."""
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
