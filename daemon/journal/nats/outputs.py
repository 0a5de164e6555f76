"""Output bodies, read from the commits that hold their chunks.

Chunks are in the messages of their stream. One pass through the stream finds where each is. This index stays in memory
for the streams read last, and every request brings it up to date.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from typing import Literal, NamedTuple

import msgspec

from tooltap.daemon.journal.interface import OutputSlice
from tooltap.daemon.journal.nats.link import Link
from tooltap.daemon.journal.nats.log import CommitMessages, Log
from tooltap.daemon.journal.nats.message import BLOCK_BYTES, DamagedError, read_rest, unpacked
from tooltap.daemon.journal.slices import MAX_SLICE, whole_lines

__all__ = ["Outputs"]

STREAMS_IN_MEMORY = 64


class Place(NamedTuple):
    """Where a part of a body is stored. A longer chunk is indexed in parts of `BLOCK_BYTES`."""

    start: int
    """Offset in the body. `newlines`: those of the body before it."""
    newlines: int
    size: int
    message: int
    """Sequence of the commit's first message."""
    part_bytes: int
    """Bytes of the rest in each message of the commit, except the last that has any."""
    offset: int
    """Offset in the commit's rest."""
    stored: int
    """Bytes there: fewer than `size` if they are compressed."""


class Body(msgspec.Struct):
    mime_type: str
    size: int = 0
    newlines: int = 0
    terminated: bool = False
    places: list[Place] = []


class Index(msgspec.Struct):
    """The bodies of one stream, up to message `message`."""

    message: int = 0
    bodies: dict[str, Body] = {}


class Outputs:
    def __init__(self, link: Link, log: Log) -> None:
        self._link = link
        self._log = log
        self._streams: OrderedDict[str, Index] = OrderedDict()

    async def read(
        self, output_id: str, offset: int, length: int, unit: Literal["bytes", "lines"]
    ) -> OutputSlice | None:
        """As `Journal.output`. An output's id is `<stream>:<line>:<output>`."""
        stream = output_id.rsplit(":", 2)[0]
        body = (await self._index(stream)).bodies.get(output_id)
        if body is None:
            return None
        if unit == "bytes":
            data = await self._bytes(body, offset, length)
            return None if data is None else OutputSlice(data, offset, body.size, body.mime_type)
        total = body.newlines + (body.size > 0 and not body.terminated)
        data = await self._lines(body, offset, length)
        return None if data is None else OutputSlice(data, offset, total, body.mime_type)

    def forget(self) -> None:
        """The journal was replaced."""
        self._streams.clear()

    async def _index(self, stream: str) -> Index:
        index = self._streams.setdefault(stream, Index())
        self._streams.move_to_end(stream)
        if len(self._streams) > STREAMS_IN_MEMORY:
            self._streams.popitem(last=False)
        last = await self._link.retry(self._log.last, stream)
        async for commit in self._log.commits(stream, index.message + 1, 0 if last is None else last.seq):
            if commit.last > index.message:  # else a concurrent request has indexed it
                index.message = commit.last
                with suppress(DamagedError):  # its chunks are as good as not there
                    _add(index, commit)
        return index

    async def _bytes(self, body: Body, offset: int, length: int) -> bytes | None:
        """A slice of at most `MAX_SLICE` bytes; None if it was deleted."""
        end = min(offset + min(length, MAX_SLICE), body.size)
        found: list[bytes] = []
        for place in body.places:
            first, last = max(offset, place.start), min(end, place.start + place.size)
            if first < last:
                data = await self._cut(place, first - place.start, last - place.start)
                if data is None:
                    return None
                found.append(data)
        return b"".join(found)

    async def _cut(self, place: Place, first: int, last: int) -> bytes | None:
        if place.stored == place.size:
            return await self._stored(place, place.offset + first, place.offset + last)
        packed = await self._stored(place, place.offset, place.offset + place.stored)
        return None if packed is None else unpacked(packed, place.size)[first:last]

    async def _stored(self, place: Place, start: int, end: int) -> bytes | None:
        found: list[bytes] = []
        for number in range(start // place.part_bytes, (end - 1) // place.part_bytes + 1):
            message = await self._log.message(place.message + number)
            if message is None:
                return None
            before = number * place.part_bytes
            if (part := self._log.part(message)) is None:
                return None
            found.append(part.rest[max(start - before, 0) : end - before])
        return b"".join(found)

    async def _lines(self, body: Body, offset: int, count: int) -> bytes | None:
        """As many whole lines as fit into a slice; the head of the first if it does not fit."""
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
        place = next((one for one in reversed(body.places) if one.newlines < line), None)
        data = None if place is None else await self._cut(place, 0, place.size)
        if place is None or data is None:
            return None
        lines = data.split(b"\n", line - place.newlines)
        return place.start + len(data) - len(lines[-1]) if len(lines) > line - place.newlines else None


def _add(index: Index, commit: CommitMessages) -> None:
    whole = commit.rest
    rest, offset = read_rest(whole)
    for chunk in rest.chunks:
        body = index.bodies.setdefault(chunk.output_id, Body(chunk.mime_type))
        for number, begin in enumerate(range(0, chunk.size, BLOCK_BYTES)):
            size = min(BLOCK_BYTES, chunk.size - begin)
            stored = chunk.blocks[number] if chunk.blocks else size
            place = Place(body.size, body.newlines, size, commit.first, commit.part_bytes, offset, stored)
            data = unpacked(whole[offset : offset + stored], size)
            body.places.append(place)
            body.size += size
            body.newlines += data.count(b"\n")
            body.terminated = data.endswith(b"\n")
            offset += stored
