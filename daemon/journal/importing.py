"""An archive is read back into a journal, for `tooltap journal import`.

A stream is restored with the position at which the archive was begun, so that its session file, if it is still there,
is read on from there. Events of later lines are left out: they come with their lines. A stream that the journal has is
left out as a whole, unless an earlier import was interrupted in it: `StreamInfo.restored` says where it continues.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from tooltap.daemon.journal.interface import (
    Commit,
    Journal,
    JournalError,
    RemovedBody,
    StreamConflictError,
    StreamInfo,
)
from tooltap.daemon.journal.json_lines import OutputLine, PinnedLine, StreamLine
from tooltap.normalizers.core.items import OutputChunk, Produced
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.events import decode
from tooltap.protocol.frames import Gap

BATCH_EVENTS = 500
BATCH_BYTES = 1024 * 1024
"""Most events and bytes of one commit, about."""

NO_STATE = b""
"""A snapshot from which no parser can be rebuilt."""

_SEQ = re.compile(rb'\{"seq":\d+,')
"""How the journal begins the line of an event."""
_lines = msgspec.json.Decoder(StreamLine | PinnedLine | OutputLine | Gap)


@dataclass
class Imported:
    """What an import has done."""

    streams: int = 0
    events: int = 0
    known: int = 0
    """Streams that the journal had."""
    missing: int = 0
    """Events that were missing when the archive was written."""
    later: int = 0
    """Events of lines that were read after the archive was begun: left out."""
    unread: int = 0
    """Lines that are not part of an archive."""


class _UnreadError(Exception):
    """The line is left out; the message says why."""


class _Restored:
    """A stream that is being restored."""

    def __init__(self, info: StreamInfo, have: int | None) -> None:
        self.info = info
        self.base = 0 if have is None else info.lines
        """Lines that the stored stream has."""
        self.skip = have or 0
        """Events that an earlier import has written."""
        self.written = self.skip


def begins_archive(line: bytes | LongLine) -> bool:
    """Return whether the first line is that of an archive. Another export begins with an event or a gap."""
    try:
        return isinstance(line, bytes) and isinstance(_lines.decode(line), StreamLine | PinnedLine)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False


class Importer:
    """Reads the lines of one archive into a journal that no publisher uses meanwhile. `unread` is called with the
    number of a line that cannot be read, and why."""

    def __init__(self, journal: Journal, unread: Callable[[int, str], None]) -> None:
        self.done = Imported()
        self._journal = journal
        self._unread = unread
        self._streams: dict[str, _Restored | None] = {}
        """None: the journal had it."""
        self._stream: _Restored | None = None
        """The stream of the latest event."""
        self._batch: list[Produced | OutputChunk] = []
        self._bytes = 0
        self._body = ""
        self._size = 0
        """The latest output body, and how much of it the journal has, or gets with the batch."""

    async def read(self, lines: Iterable[bytes | LongLine]) -> None:
        """Read all lines. Raises `JournalError`."""
        for number, line in enumerate(lines, 1):
            try:
                await self._read(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, _UnreadError) as error:
                self.done.unread += 1
                self._unread(number, str(error))
        await self._flush()
        for one in self._streams.values():
            if one is not None:
                await self._commit(one, [], last=True)
                self.done.streams += 1

    async def _read(self, line: bytes | LongLine) -> None:
        if isinstance(line, LongLine):
            raise _UnreadError(f"it has {line.size:,} bytes")
        if (head := _SEQ.match(line)) is not None:
            await self._event(b"{" + line[head.end() :])
            return
        fields = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        if "op" not in fields:  # another program has written the event anew
            fields.pop("seq", None)
            await self._event(msgspec.json.encode(fields))
            return
        match _lines.decode(line):
            case StreamLine(info):
                await self._begin(info)
            case PinnedLine(sessions):
                for session in sessions:
                    await self._journal.pin(session, pinned=True)
            case OutputLine() as part:
                await self._output(part)
            case Gap() as gap:
                self.done.missing += gap.to - gap.from_ + 1

    async def _begin(self, info: StreamInfo) -> None:
        stored = await self._journal.load_stream(info.stream)
        if stored is not None and await self._journal.forget_expired(info.stream):
            stored = None
        have = None if stored is None else stored.info.restored
        if stored is not None and have is None:
            self._streams[info.stream] = None
            self.done.known += 1
        else:
            self._streams[info.stream] = _Restored(info if stored is None else stored.info, have)

    async def _event(self, body: bytes) -> None:
        event = Produced.of(decode(body), body)
        stream = self._streams.get(event.stream)
        if stream is not self._stream or len(self._batch) >= BATCH_EVENTS or self._bytes >= BATCH_BYTES:
            await self._flush()
        self._stream = stream
        if event.stream not in self._streams or (stream is not None and event.fields.line > stream.info.lines):
            self.done.later += 1
            return
        if stream is None:
            return
        if stream.skip:
            stream.skip -= 1
            return
        self._batch.append(event)
        self._bytes += len(body)
        self.done.events += 1

    async def _output(self, part: OutputLine) -> None:
        if self._stream is None:
            return
        if isinstance(part.removed, RemovedBody):
            await self._journal.note_removed(part.output_id, part.removed)
        if not isinstance(part.mime_type, str):
            return
        if part.output_id != self._body:
            found = await self._journal.output(part.output_id, 0, 1, "bytes")
            self._body, self._size = part.output_id, 0 if found is None else found.total
        data = part.text.encode() if isinstance(part.text, str) else part.b64
        if isinstance(data, bytes) and part.offset == self._size:
            self._batch.append(OutputChunk(part.output_id, part.offset, data, part.mime_type))
            self._size += len(data)
            self._bytes += len(data)
            if self._bytes >= BATCH_BYTES:
                await self._flush()

    async def _flush(self) -> None:
        batch, self._batch, self._bytes = self._batch, [], 0
        if self._stream is not None and batch:
            await self._commit(self._stream, batch)

    async def _commit(self, stream: _Restored, outputs: list[Produced | OutputChunk], *, last: bool = False) -> None:
        stream.written += sum(isinstance(one, Produced) for one in outputs)
        info = msgspec.structs.replace(
            stream.info, state="ended" if last else "suspended", restored=None if last else stream.written
        )
        try:
            # An archive has no states of parsers. With none at all, a stream that has not ended would be damaged.
            await self._journal.commit(Commit(info, stream.base, outputs, (), NO_STATE))
        except StreamConflictError:
            raise JournalError(f"stream {info.stream} was written by a daemon meanwhile") from None
        stream.base = info.lines
