"""A whole journal as JSON lines, for `tooltap journal export`: all events, the gaps between them, and output bodies.

An archive begins with the state of every stream and the pinned sessions, in lines that `importing.py` reads back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Literal, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from tooltap.daemon.journal.interface import (
    MAX_SLICE,
    OUTPUT_ID,
    CorruptError,
    Gaps,
    OutputSlice,
    RemovedBody,
    StoredEvent,
    StreamInfo,
)
from tooltap.protocol.events import with_seq
from tooltap.protocol.frames import Gap, encode_frame


class ReadableJournal(Protocol):
    """The part of a journal that `json_lines` needs."""

    corrupt: Gaps

    @property
    def latest(self) -> int: ...
    @property
    def last_expired(self) -> int: ...
    async def read(self, after: int, *, up_to: int | None = None) -> tuple[list[StoredEvent], int]: ...
    async def output(
        self, output_id: str, offset: int, length: int, unit: Literal["bytes", "lines"]
    ) -> OutputSlice | None: ...
    async def removed_bodies(self, output_ids: Collection[str]) -> dict[str, RemovedBody]: ...
    async def streams(self) -> list[StreamInfo]: ...
    async def pinned(self) -> frozenset[str]: ...


class StreamLine(msgspec.Struct, tag_field="op", tag="stream"):
    """The state of a stream when the archive was begun."""

    info: StreamInfo


class PinnedLine(msgspec.Struct, tag_field="op", tag="pinned"):
    """The sessions that retention never deletes."""

    sessions: list[str]


class OutputLine(msgspec.Struct, tag_field="op", tag="output", rename="camel", kw_only=True):
    """A part of an output body: its bytes as `text`, or in base64 as `b64` if they are not UTF-8."""

    output_id: str
    offset: int
    total: int | UnsetType = UNSET
    """Bytes of the whole body."""
    mime_type: str | UnsetType = UNSET
    text: str | UnsetType = UNSET
    b64: bytes | UnsetType = UNSET
    error: Literal["corrupt", "removed"] | UnsetType = UNSET
    """The rest of the body cannot be read, or retention has removed it."""
    removed: RemovedBody | UnsetType = UNSET
    """How retention has removed it, where that is noted."""


async def archive_lines(journal: ReadableJournal) -> AsyncIterator[bytes]:
    """All that a journal needs to continue with these sessions: `StreamLine`, `PinnedLine`, then `json_lines` with
    bodies. Raises `JournalError`."""
    for info in await journal.streams():
        if not info.expired:
            yield msgspec.json.encode(StreamLine(info)) + b"\n"
    yield msgspec.json.encode(PinnedLine(sorted(await journal.pinned()))) + b"\n"
    async for line in json_lines(journal, bodies=True):
        yield line


async def json_lines(journal: ReadableJournal, *, bodies: bool) -> AsyncIterator[bytes]:
    """Event lines in order, each with its newline. Missing events are replaced by a `gap` frame. With `bodies`, the
    parts of an output body follow the first event that refers to it: `{"op":"output",…}`. Raises `JournalError`."""
    after, latest, expired = 0, journal.latest, 0
    written: set[bytes] = set()
    while after < latest:
        events, searched = await journal.read(after, up_to=latest)
        # Asked after the events: what retention has just taken from them is not above it.
        if max(after, expired) < journal.last_expired:
            first, expired = max(after, expired) + 1, journal.last_expired
            yield encode_frame(Gap(from_=first, to=expired, reason="retention"))
        gaps = journal.corrupt.within(after + 1, searched)
        for event in events:
            while gaps and gaps[0][0] < event.seq:
                first, last = gaps.pop(0)
                yield encode_frame(Gap(from_=first, to=last, reason="corrupt"))
            yield with_seq(event.seq, event.body) + b"\n"
            for encoded in OUTPUT_ID.findall(event.body) if bodies else ():
                if encoded not in written:
                    written.add(encoded)
                    async for line in _body(journal, msgspec.json.decode(encoded, type=str)):
                        yield line
        for first, last in gaps:
            yield encode_frame(Gap(from_=first, to=last, reason="corrupt"))
        after = searched


async def _body(journal: ReadableJournal, output_id: str) -> AsyncIterator[bytes]:
    offset, total = 0, 1
    while offset < total:
        try:
            part = await journal.output(output_id, offset, MAX_SLICE, "bytes")
        except CorruptError:
            yield msgspec.json.encode(OutputLine(output_id=output_id, offset=offset, error="corrupt")) + b"\n"
            return
        if part is None:
            removed = (await journal.removed_bodies((output_id,))).get(output_id, UNSET)
            line = OutputLine(output_id=output_id, offset=offset, error="removed", removed=removed)
            yield msgspec.json.encode(line) + b"\n"
            return
        total = part.total
        line = OutputLine(output_id=output_id, offset=offset, total=total, mime_type=part.mime_type)
        try:
            line.text = part.data.decode()
        except UnicodeDecodeError:
            line.b64 = part.data
        yield msgspec.json.encode(line) + b"\n"
        offset += len(part.data)
        if not part.data:
            return
