"""A whole journal as JSON lines, for `tooltap journal export`: all events, the gaps between them, and output bodies."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Literal, Protocol

import msgspec

from tooltap.daemon.journal.interface import MAX_SLICE, CorruptError, Gaps, OutputSlice, StoredEvent
from tooltap.protocol.events import with_seq
from tooltap.protocol.frames import Gap, encode_frame

_OUTPUT_ID = re.compile(rb'"outputId":("(?:[^"\\]|\\.)+")')


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


async def json_lines(journal: ReadableJournal, *, bodies: bool) -> AsyncIterator[bytes]:
    """Event lines in order, each with its newline. Missing events are replaced by a `gap` frame. With `bodies`, the
    parts of an output body follow the first event that refers to it: `{"op":"output",…}`. Raises `JournalError`."""
    after, latest = 0, journal.latest
    written: set[bytes] = set()
    if journal.last_expired:
        yield encode_frame(Gap(from_=1, to=journal.last_expired, reason="retention"))
    while after < latest:
        events, searched = await journal.read(after, up_to=latest)
        gaps = journal.corrupt.within(after + 1, searched)
        for event in events:
            while gaps and gaps[0][0] < event.seq:
                first, last = gaps.pop(0)
                yield encode_frame(Gap(from_=first, to=last, reason="corrupt"))
            yield with_seq(event.seq, event.body) + b"\n"
            for encoded in _OUTPUT_ID.findall(event.body) if bodies else ():
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
        head = {"op": "output", "outputId": output_id, "offset": offset}
        try:
            part = await journal.output(output_id, offset, MAX_SLICE, "bytes")
        except CorruptError:
            yield msgspec.json.encode({**head, "error": "corrupt"}) + b"\n"
            return
        if part is None:  # it has expired
            return
        total = part.total
        head |= {"total": total, "mimeType": part.mime_type}
        try:
            content = {"text": part.data.decode()}
        except UnicodeDecodeError:
            content = {"b64": b64encode(part.data).decode()}
        yield msgspec.json.encode({**head, **content}) + b"\n"
        offset += len(part.data)
        if not part.data:
            return
