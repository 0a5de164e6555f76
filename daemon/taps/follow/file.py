"""One followed file: finds its stream in the journal, and ingests what the file has beyond it.

The journal is the only memory of the position: it counts the bytes and lines of a stream, in the same transaction as
their events. So each line takes effect once, also after a crash. The CRC of the last line shows whether the file is
still the same. If not, it is a new input and gets a stream of its own, with the CRC of its first line in the id.

A `.jsonl` file grows by lines. A `.json` file is a document that the agent rewrites as a whole: each version is one
line of its stream, and the parser emits only what is new in it.

Lines whose events another stream covers are left out (`coverage.py`). So are lines from before the follower started,
unless the user asked for backfill. They still count for the position.
"""

from __future__ import annotations

import itertools
import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import orjson
from anyio import to_thread

from tooltap.daemon.ingest.connection import IngestConnection
from tooltap.daemon.ingest.live_stream import Normalized
from tooltap.daemon.ingest.streams import Streams
from tooltap.daemon.journal.interface import Journal, StreamInfo
from tooltap.daemon.system.clock import Clock
from tooltap.daemon.taps.follow.coverage import Span, leaves_out, spans
from tooltap.daemon.taps.follow.places import Root
from tooltap.daemon.taps.follow.portions import Portion, Request
from tooltap.daemon.taps.follow.reading import Position, ReplacedError, find_moved, position_after, read_from, read_head
from tooltap.daemon.taps.follow.settings import Follow
from tooltap.daemon.taps.stream_ids import real_path_id
from tooltap.normalizers.core.items import Context, Item, OutputChunk, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.normalizers.wire.framing import HEAD_BYTES, LongLine, Splitter
from tooltap.protocol.events import decode
from tooltap.protocol.frames import DaemonFrame, ErrorFrame, Ingest

__all__ = ["FollowedFile", "NotYetError", "Setting", "is_document", "open_file", "read_to"]

SESSION_BYTES = 1024 * 1024
"""Bytes at the beginning of a file that are searched for the session's id."""
RETRY = 0.5
PORTION_TURNS = 16
"""Another process normalizes as many bytes at once as this many turns read. The results are in memory until they are
committed. Less than one turn is read in this process, which takes about as long as to have it done."""


class NotYetError(Exception):
    """It is undecided what to read of the file; try again in `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all followed files share."""

    streams: Streams
    journal: Journal
    follow: Follow
    line_bytes: int
    suspend_timeout_ms: int
    started: int
    """When the follower started, in ms since the epoch."""
    clock: Clock


def is_document(path: str) -> bool:
    return path.endswith(".json")


def read_to(info: StreamInfo) -> int:
    """Return how many bytes of its file a stream has read: the bytes of its lines, and a newline for each."""
    return info.statistics.bytes + info.statistics.lines


async def open_file(
    path: str, root: Root, setting: Setting, *, settled: bool, failed: Callable[[ErrorFrame], None]
) -> FollowedFile | None:
    """Open a file, resuming its stream if it has one; None while the file has no whole line. `settled`: a new file has
    had its waiting time. `failed` is called when lines cannot be committed, or another publisher takes over the stream.

    Raises `NotYetError`, `OSError`, `FrameError`, `JournalError`.
    """
    limit = setting.line_bytes if is_document(path) else SESSION_BYTES
    head, mtime = await to_thread.run_sync(read_head, path, limit)
    lines = [head] if is_document(path) else head.split(b"\n")[:-1]
    if not lines or (is_document(path) and not _is_object(head)):
        return None
    stream, info, position = await _find_stream(path, lines[0], setting)
    if info is None and not settled and setting.clock() - mtime < setting.follow.grace * 1000:
        raise NotYetError(setting.follow.grace)
    if stream in setting.streams.connections:  # another publisher sends this file
        raise NotYetError(RETRY)
    match = root.match(path)
    in_folder_of = match.groupdict().get("session") if match is not None else None
    session = (info.last_session or info.session if info else None) or in_folder_of
    session = session or _session_of(lines, root.place.dialect)
    first_t = mtime if info is None or info.first_t is None else info.first_t
    await _covered(setting, session, stream, first_t)
    request = Ingest(stream=stream, framing="tapped", dialect=root.place.dialect, session=session)

    def send(frame: DaemonFrame) -> None:
        if isinstance(frame, ErrorFrame):
            failed(frame)

    ingest = await setting.streams.open(request, send)
    file = FollowedFile(path, ingest, session, first_t, position, mtime, setting)
    file.is_backfill = info is None and not is_document(path) and mtime < setting.started
    return file


async def _find_stream(path: str, first: bytes, setting: Setting) -> tuple[str, StreamInfo | None, Position]:
    """Find the stream that has read this file, or a new one. Returns its id, its information, and the position."""
    base = real_path_id(path)
    other = f"{base}~{zlib.crc32(first):08x}"
    for stream in itertools.chain((base, other), (f"{other}~{number}" for number in itertools.count(2))):
        stored = await setting.journal.load_stream(stream)
        if stored is None:
            return stream, None, Position()
        info = stored.info
        if is_document(path):
            return stream, info, Position()
        try:
            crc = info.crc if info.crc_line == info.lines else None
            return stream, info, await to_thread.run_sync(position_after, path, read_to(info), crc)
        except ReplacedError:
            continue
    raise AssertionError("there is always one more number")


def _session_of(lines: Sequence[bytes], dialect: str) -> str | None:
    """Return the provider's session id: that of the first event with one."""
    normalizer = StreamNormalizer(Context(stream="head"), dialect)
    outputs = (output for line in lines for output in normalizer.feed(line))
    sessions = (output.session for output in outputs if isinstance(output, Produced))
    return next((session for session in sessions if session != "head"), None)


async def _covered(setting: Setting, session: str | None, stream: str, first_t: int) -> list[Span]:
    """Return what other streams cover of the file. Raises `NotYetError` while that is undecided."""
    if session is None:
        return []
    others = await setting.journal.streams_of(session)
    covered = spans(others, stream, first_t, int(setting.follow.grace * 1000))
    if covered is None:
        raise NotYetError(RETRY)
    return covered


class FollowedFile:
    """An open file, made by `open_file`. Call `turn` when there may be more to read, and `close` in the end."""

    def __init__(
        self,
        path: str,
        ingest: IngestConnection,
        session: str | None,
        first_t: int,
        position: Position,
        mtime: int,
        setting: Setting,
    ) -> None:
        self.path = path
        self._ingest = ingest
        self._session = session
        self._first_t = first_t
        self._position = position
        self._mtime = mtime
        self._setting = setting
        self._splitter = Splitter(setting.line_bytes)
        self._horizon = setting.started if setting.follow.backfill_seconds == 0 else 0
        self.is_backfill = False
        """Whether the file is new to the journal and old by itself: others may normalize it."""

    @property
    def over(self) -> bool:
        """Another publisher has taken over the stream, or the journal failed."""
        return self._ingest.over.is_set()

    @property
    def at_rest(self) -> bool:
        """Nothing has been written for so long that its stream need not stay open."""
        return self._setting.clock() - self._mtime > self._setting.suspend_timeout_ms

    async def turn(self) -> bool:
        """Ingest the next part of what is new. Return whether there is more. Raises like `open_file`, and
        `ReplacedError`."""
        covered = await self._covered()
        read = self._read_document if is_document(self.path) else self._read_lines
        return await read(self._leave_out(covered))

    async def request(self) -> Request | None:
        """What another process is to normalize next; None if the rest is for `turn`. Raises like `open_file`."""
        live = self._ingest.live
        if not self.is_backfill or live.info.state == "ended":
            return None
        size = await to_thread.run_sync(os.path.getsize, self.path)
        if size - self._position.offset < self._setting.follow.turn_bytes:
            return None
        return Request(
            self.path,
            self._position,
            PORTION_TURNS * self._setting.follow.turn_bytes,
            live.normalizer.context,
            live.normalizer.dump(),
            live.info.agent_version,
            await self._covered(),
            self._horizon,
        )

    async def adopt(self, request: Request, portion: Portion | None) -> None:
        """Ingest what another process has made of the request. If it has failed, or something has changed since, this
        and everything later is read by `turn`. Raises like `open_file`."""
        live = self._ingest.live
        is_current = live.info.state == "open" and self._position == request.position
        if portion is None or not is_current or await self._covered() != request.covered:
            self.is_backfill = False
            return
        outputs = [one if isinstance(one, OutputChunk) else Produced.of(decode(one), one) for one in portion.outputs]
        await self._ingest.adopt(
            Normalized(portion.state, outputs, portion.mtime, portion.crc, portion.found, portion.watched)
        )
        self._position, self._mtime = portion.after, portion.mtime

    async def finish_moved(self) -> None:
        """Read a replaced file to its end, if it was only renamed."""
        moved = await to_thread.run_sync(find_moved, self.path, self._position.inode)
        if moved is not None:
            self.path = moved
            while await self.turn():
                pass

    async def close(self) -> None:
        """Leave the stream. The journal has the position."""
        last = self._splitter.finish()
        if isinstance(last, bytes) and _is_object(last):  # a whole line whose newline is missing
            await self._ingest.take([last], self._mtime, self._leave_out([]))
        if self.at_rest and not self.over:
            await self._ingest.end("suspended-too-long")
        await self._ingest.finish()

    # -- inner workings -----------------------------------------------------------------------------------------

    async def _covered(self) -> list[Span]:
        session = self._ingest.live.info.last_session or self._session
        return await _covered(self._setting, session, self._ingest.stream, self._first_t)

    async def _read_lines(self, leave_out: Callable[[Sequence[Item]], bool]) -> bool:
        limit = self._setting.follow.turn_bytes
        data, self._position, self._mtime = await to_thread.run_sync(read_from, self.path, self._position, limit)
        await self._ingest.take(self._splitter.feed(data), self._mtime, leave_out)
        return len(data) == limit

    async def _read_document(self, leave_out: Callable[[Sequence[Item]], bool]) -> bool:
        limit = self._setting.line_bytes
        data, self._mtime = await to_thread.run_sync(read_head, self.path, limit + 1)
        info = self._ingest.live.info
        if len(data) > limit:
            await self._ingest.take([LongLine(data[:HEAD_BYTES], len(data))], self._mtime, leave_out)
        elif not (info.lines == info.crc_line > 0 and info.crc == zlib.crc32(data)) and _is_object(data):
            await self._ingest.take([data], self._mtime, leave_out)
        return False

    def _leave_out(self, covered: Sequence[Span]) -> Callable[[Sequence[Item]], bool]:
        return leaves_out(self._ingest.live.normalizer.statistics, self._horizon, covered)


def _is_object(data: bytes) -> bool:
    """Say whether the bytes are one whole JSON object. The beginning of one is not."""
    if not data.rstrip().endswith(b"}"):
        return False
    try:
        return isinstance(orjson.loads(data), dict)
    except orjson.JSONDecodeError:
        return False
