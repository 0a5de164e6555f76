"""One followed file: finds its stream in the journal, and ingests the lines after those already ingested.

The position is stored only in the journal, which counts the bytes and lines of a stream in the same transaction as
their events. So each line takes effect once, also after a crash. The CRC of the last line shows whether the file is
still the same. If not, it is a new input and gets its own stream, with the CRC of its first line in the id.

A stream belongs to a session, not to a path: agents' folders are renamed, copied and synchronized. A file at an unknown
path that has the session and the first line of a known stream, and the stream's last line at its position, continues
this stream (`relate`). While the stream's earlier file is still there and at least as long, the other one waits: one
stream reads one file at a time, and the longest wins. If both have gone on differently, the other is a new stream, and
what it has in common with the first is left out.

A `.jsonl` file grows by lines, and so does a session in a database. A `.json` file is a document that the agent
rewrites as a whole, and what is composed of several files of a session is one, too: each version is one line of its
stream, and the parser emits only what is new in it.

Lines whose events another stream covers are left out (`overlap.py`). So are lines from before the follower started,
unless the user asked for backfill. They still count for the position.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import orjson
from anyio import to_thread

from tooltap.daemon.ingest.connection import IngestConnection
from tooltap.daemon.ingest.offload import Normalized
from tooltap.daemon.ingest.streams import Streams
from tooltap.daemon.journal.interface import FilePosition, Journal, NotEndedError, StreamInfo
from tooltap.daemon.sessions.joining import is_file, names_session
from tooltap.daemon.sessions.listing import SessionFilter
from tooltap.daemon.sessions.unsaid import CallsOfTaps, Said
from tooltap.daemon.system.clock import Clock
from tooltap.daemon.taps.delivery.announcement import announced
from tooltap.daemon.taps.follow.backfill_worker import Portion, Request
from tooltap.daemon.taps.follow.overlap import OwnFiles, Span, covering, keeps, own_files, spans
from tooltap.daemon.taps.follow.settings import Follow
from tooltap.daemon.taps.follow.stores import (
    Database,
    Files,
    Position,
    Reader,
    ReplacedError,
    Root,
    as_text,
    common_lines,
    find_moved,
    from_text,
    read_note,
)
from tooltap.daemon.taps.stream_ids import real_path_id
from tooltap.normalizers.catalog.dialect import Store
from tooltap.normalizers.catalog.registry import provider_of_fork
from tooltap.normalizers.core.items import Context, Item, OutputChunk, Produced
from tooltap.normalizers.stream.normalizer import Keep, StreamNormalizer
from tooltap.normalizers.wire.framing import HEAD_BYTES, LongLine, Splitter
from tooltap.protocol.events import decode
from tooltap.protocol.frames import DaemonFrame, ErrorFrame, Ingest
from tooltap.traces.recording.compressed import is_compressed

SESSION_BYTES = 1024 * 1024
"""Bytes at the beginning of a file that are searched for the session's id."""
SESSION_LINES = 1_000
TURN_BYTES = 65_536
"""Most bytes read from one file in a turn."""
GRACE = 1.0
"""Seconds for which a new file waits for an unannounced stream of the same session (not from `run` or `proxy`)."""
TOLERANCE = 2.0
"""Seconds by which timestamps in a file and in such a stream may differ."""
PATIENCE = 30.0
"""Most seconds after the start of an agent by `run` or `proxy` for which files of such agents wait until its stream
names its session."""
RETRY = 0.2
CLOCK_STEP = 20
"""Milliseconds by which the time of a file's last change may lag the clock."""
COPIED = 60_000
"""Milliseconds after its last line after which a file's change is that of a copy."""
PORTION_TURNS = 16
"""Size of a portion for a backfill worker, in turns (`TURN_BYTES`); its results are in memory until they are committed.
Less than one turn is read in this process, which is as fast."""


class NotYetError(Exception):
    """It is not yet known which lines of the file to ingest; retry in `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Settings and services shared by all followed files."""

    streams: Streams
    journal: Journal
    follow: Follow
    line_bytes: int
    suspend_timeout_ms: int
    started: int
    """When the follower started, in ms since the epoch."""
    clock: Clock
    spool: str
    """Folder of the announcements of taps."""
    socket: str
    """Socket of this daemon, as named in announcements."""
    whole: set[str]
    """Streams that are read from their beginning whatever `follow.backfill` says: retention had deleted them."""


class HeldError(Exception):
    """The stream is being read from another path."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path


class Seen(NamedTuple):
    """Times known of a file when it is opened, in ms since the epoch."""

    since: int
    """Time at which the file was first reported."""
    absent: int | None
    """A time at which the file did not exist yet, if known."""


def read_to(info: StreamInfo | FilePosition, store: Store) -> int:
    """Return the position up to which a stream has read: rows of a database, or bytes of a file (lines and
    newlines)."""
    return info.lines if store.database else info.statistics.bytes + info.statistics.lines


def path_of(info: StreamInfo | FilePosition) -> str | None:
    """Return the path of the file that a stream has read last."""
    return None if info.path is None else from_text(info.path)


async def open_file(
    path: str, root: Root, setting: Setting, *, seen: Seen, failed: Callable[[ErrorFrame], None]
) -> FollowedFile | None:
    """Open a file, resuming its stream if it has one; None while the file has no whole line, or another file has all
    that it has. `failed` is called when lines cannot be committed, or another publisher takes over the stream.

    Raises `NotYetError`, `HeldError`, `OSError`, `FrameError`, `JournalError`.
    """
    if await to_thread.run_sync(root.was_copied, path):
        return None
    reader, is_document = root.reader, root.is_document(path)
    limit = setting.line_bytes + 1 if is_document else SESSION_BYTES
    head, mtime = await to_thread.run_sync(reader.head, path, limit)
    lines = [head] if is_document else head.split(b"\n")[:-1]
    if not lines or (is_document and len(head) < limit and not _is_whole(head)):
        return None
    start = await _find_stream(path, lines, root, setting)
    if start is None:
        return None
    stream, info, position, copied, session, agent = start
    if info is None:
        _wait_for_streams(seen, mtime, setting)
    await _wait_for_taps(root, mtime, setting)
    if (owner := setting.streams.connections.get(stream)) is not None:
        if (other := path_of(owner.live.info)) not in (None, path):
            raise HeldError(other)
        raise NotYetError(RETRY)  # another publisher sends this file
    first_t = mtime if info is None or info.first_t is None else info.first_t
    await _taps_of(setting, session, stream)
    parent = None if info is None else info.parent
    if agent is not None and parent is None:
        parent = await _parent_of(path, root, session, agent, setting)
    request = Ingest(
        stream=stream,
        framing="tapped",
        dialect=root.place.dialect,
        provider=provider_of_fork(root.agent),
        session=session,
        agent=agent,
        parent=parent,
    )

    def send(frame: DaemonFrame) -> None:
        if isinstance(frame, ErrorFrame):
            failed(frame)

    ingest = await setting.streams.open(request, send, followed=True)
    if info is None:
        has_copies = isinstance(reader, Database) and reader.older(path) is not None  # lines of before it existed
        ingest.live.info.missing_at = None if has_copies else seen.absent
        ingest.live.info.last_reported_ts = -1
        ingest.live.info.copied = copied
    ingest.live.info.path = as_text(path)
    if not is_document:
        ingest.live.info.head = _head_of(lines[0])
    try:
        file = FollowedFile(path, root, reader, ingest, session, first_t, position, mtime, setting)
    except Exception:  # a stream that has an owner is not opened again
        await ingest.finish()
        raise
    is_new = info is None and not copied and stream not in setting.whole
    file.is_backfill = is_new and isinstance(reader, Files) and not is_document and mtime < setting.started
    return file


class Start(NamedTuple):
    """The stream of a file, and where it continues in the file."""

    stream: str
    info: StreamInfo | None
    """None for a new stream."""
    position: Position
    copied: int
    """For a new stream: bytes at the beginning that another stream has read."""
    session: str | None
    agent: str | None


async def _find_stream(path: str, lines: Sequence[bytes], root: Root, setting: Setting) -> Start | None:
    """Find the stream that has read this file, here or elsewhere, or a new one. None if another file has all that this
    one has."""
    match = root.match(path)
    matched = match.groupdict().get("session") if match is not None else None
    in_folder_of = None if matched is None else as_text(matched)
    base = real_path_id(path)
    other = f"{base}~{zlib.crc32(lines[0]):08x}"
    copied = 0
    tried = set[str]()
    for stream in itertools.chain((base, other), (f"{other}~{number}" for number in itertools.count(2))):
        stored = await setting.journal.load_stream(stream)
        if stored is None:
            break
        tried.add(stream)
        if stored.info.expired:
            if not await to_thread.run_sync(_has_more, path, lines[0], stored.info, root):
                return None
            if await _begins_again(stored.info, setting):
                break
        relation = await to_thread.run_sync(relate, path, stored.info, root)
        if relation.waits:
            return None
        if relation.position is not None:
            return await _known(stored.info, relation.position, lines, in_folder_of, root)
        copied = max(copied, relation.common)
    named, agent = await to_thread.run_sync(_session_of, lines, root.place.dialect)
    session = in_folder_of or named
    if named is not None:
        for info in await _files_of(named, agent, root, setting):
            if info.stream in tried:
                continue
            own = path_of(info)
            if own != path and not _may_be(path, lines[0], info, root):
                if own is not None and root.has_copied(own):  # as other lines, and the dialect knows what it has read
                    return await _known(info, Position(), lines, in_folder_of, root)
                continue
            relation = await to_thread.run_sync(relate, path, info, root)
            if relation.waits:
                return None
            if relation.position is not None:
                return await _known(info, relation.position, lines, in_folder_of, root)
            copied = max(copied, relation.common)
    return Start(stream, None, Position(), copied, session, agent)


async def _known(
    info: StreamInfo, position: Position, lines: Sequence[bytes], in_folder_of: str | None, root: Root
) -> Start:
    session, agent = info.last_session or info.session or in_folder_of, info.agent
    if session is None:
        session, agent = await to_thread.run_sync(_session_of, lines, root.place.dialect)
    return Start(info.stream, info, position, 0, session, agent)


async def _files_of(session: str, agent: str | None, root: Root, setting: Setting) -> list[StreamInfo]:
    """Return the streams of session files that this session, or this subagent of it, has; also those of which nothing
    is committed yet."""
    found = {one.stream: one for one in await setting.journal.streams_of(session)}
    for stream, owner in setting.streams.connections.items():
        if session in (owner.live.info.last_session, owner.live.info.session):
            found.setdefault(stream, owner.live.info)
    wanted = (True, root.place.dialect, agent)
    return [one for one in found.values() if (one.followed, one.asked_dialect, one.agent) == wanted]


def _may_be(path: str, first: bytes, info: StreamInfo, root: Root) -> bool:
    """Return whether a file may be the one that a stream of its session has read. A document has no first line that
    stays: it must be the same, or have the name of one that is gone."""
    if not root.is_document(path):
        return info.head in (None, _head_of(first))
    if info.crc_line == info.lines and info.crc == zlib.crc32(first):
        return True
    own = path_of(info)
    return own is not None and os.path.basename(own) == os.path.basename(path) and not os.path.exists(own)


def _has_more(path: str, first: bytes, info: StreamInfo, root: Root) -> bool:
    """Return whether a file has something that its stream has not read. Blocks. Raises `OSError`."""
    if root.is_document(path):
        return info.crc != zlib.crc32(first)
    if isinstance(root.reader, Database) or is_compressed(path):
        here = _position_in(path, info, root)
        return here is None or bool(root.reader.read_from(path, here, 1).data)
    return read_to(info, root.place) - _size_of(path) not in (0, 1)


async def _begins_again(info: StreamInfo, setting: Setting) -> bool:
    """Forget the position of a stream whose session retention has deleted. Returns whether it was forgotten. Raises
    `JournalError`."""
    if not (info.expired and info.followed) or await is_listed(info, setting.journal):
        return False
    setting.whole.add(info.stream)
    return await setting.journal.forget_expired(info.stream)


async def is_listed(info: StreamInfo, journal: Journal) -> bool:
    """Return whether the journal has events of a stream's session. Raises `JournalError`."""
    session = info.last_session or info.session
    return session is not None and bool(await journal.sessions(limit=1, wanted=SessionFilter(session=(session,))))


class Relation(NamedTuple):
    """What a file has to do with a stream that has read this file or a similar one."""

    position: Position | None = None
    """Where the stream continues in the file; None: it does not."""
    waits: bool = False
    """True if the stream has all of the file, and reads another one."""
    common: int = 0
    """Bytes of whole lines at the beginning that are also in the stream's own file."""


def relate(path: str, info: StreamInfo, root: Root) -> Relation:
    """Compare a file with a stream. Blocks. Raises `OSError`."""
    reader = root.reader
    own = path_of(info)
    own = own if own != path else None
    if root.is_document(path):
        is_shorter = own is not None and _size_of(own) >= max(_size_of(path), 1)
        return Relation(waits=True) if is_shorter else Relation(Position())
    here = _position_in(path, info, root)
    if own is None:
        return Relation(here)
    if isinstance(reader, Database):
        is_there = os.path.exists(os.path.dirname(own))
        if is_there and here is not None and not reader.read_from(path, here, 1).data:
            return Relation(waits=True)
        return Relation(here)
    if _size_of(own) == 0 or _position_in(own, info, root) is None:
        return Relation(here)
    if here is not None and os.path.samefile(own, path):  # the system chooses which of two links it reports
        return Relation(waits=True) if _size_of(path) <= here.offset else Relation(here)
    if here is not None and (is_compressed(path) or is_compressed(own)):
        return Relation(waits=True) if _size_of(own) >= _size_of(path) else Relation(here)
    common, is_whole = common_lines(path, own)
    # What follows the position may differ, and nothing of it need be read yet.
    continues = here is not None and not is_whole and common_lines(own, path)[1]
    return Relation(here if continues else None, is_whole, common)


def _position_in(path: str, info: StreamInfo, root: Root) -> Position | None:
    """Return the position at which a stream continues in a file; None if it has not read this file so far."""
    crc = info.crc if info.crc_line == info.lines else None
    try:
        return root.reader.position_after(path, read_to(info, root.place), crc)
    except (ReplacedError, FileNotFoundError):
        return None


def _size_of(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _head_of(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()[:16]


def _session_of(lines: Sequence[bytes], dialect: str) -> tuple[str | None, str | None]:
    """Return the provider's session id, as in the first event that has one; and the subagent, if the whole file is
    about a single one. Reads no further than until both are certain."""
    normalizer = StreamNormalizer(Context(stream="head"), dialect)
    session: str | None = None
    agents = set[str | None]()
    for line in lines[:SESSION_LINES]:
        for event in normalizer.feed(line):
            if isinstance(event, Produced):
                if not event.replay:
                    agents.add(event.agent)
                if session is None and event.session != "head":
                    session = event.session
        if session is not None and (None in agents or len(agents) > 1):
            return session, None
    return session, agents.pop() if len(agents) == 1 else None


async def _parent_of(path: str, root: Root, session: str | None, agent: str, setting: Setting) -> str | None:
    """Return the id of the call that started a subagent, if known from a file beside its own, or from another stream.
    Raises `JournalError`."""
    if root.place.note is not None:
        suffix, key = root.place.note
        noted = await to_thread.run_sync(read_note, os.path.splitext(path)[0] + suffix, key)
        if noted is not None:
            return noted
    return None if session is None else await setting.streams.subagents.call_of(session, agent)


def _wait_for_streams(seen: Seen, mtime: int, setting: Setting) -> None:
    """Check that a new file has been there long enough (`GRACE`) for an unannounced stream. Raises `NotYetError`."""
    left = min(seen.since, mtime) + int(GRACE * 1000) - setting.clock()
    if left > 0:
        raise NotYetError(left / 1000)


async def _wait_for_taps(root: Root, mtime: int, setting: Setting) -> None:
    """Check that the file cannot be of a tapped agent that has not named its session yet. Raises `NotYetError`."""
    limit = setting.clock() - int(PATIENCE * 1000)
    for one in announced(setting.spool, setting.socket):
        if one.agent in ("", root.agent) and mtime >= one.started - CLOCK_STEP and one.started > limit:
            connection = setting.streams.connections.get(one.stream)
            stored = None if connection is not None else await setting.journal.load_stream(one.stream)
            info = connection.live.info if connection is not None else stored.info if stored is not None else None
            if info is None or not names_session(info):
                raise NotYetError(RETRY)


async def _taps_of(setting: Setting, session: str | None, stream: str) -> list[StreamInfo]:
    """Return the other streams of a session. Raises `NotYetError` while their roles in it are undecided."""
    if session is None:
        return []
    stored = await setting.journal.streams_of(session)
    connected = (one.live.info for one in setting.streams.connections.values())
    others = covering(connected, (one for one in stored if one.stream != stream), session)
    if others is None:
        raise NotYetError(RETRY)
    return others


class FollowedFile:
    """An open file, made by `open_file`. Call `turn` when there may be more to read, and `close` in the end."""

    def __init__(
        self,
        path: str,
        root: Root,
        reader: Reader,
        ingest: IngestConnection,
        session: str | None,
        first_t: int,
        position: Position,
        mtime: int,
        setting: Setting,
    ) -> None:
        self.path = path
        self._root = root
        self._reader = reader
        self._ingest = ingest
        self._session = session
        self._first_t = first_t
        self._position = position
        self._mtime = self._mtime_at_first = mtime
        self._setting = setting
        self._stated: int | None = None
        """The latest time that a line just read states, in ms since the epoch; None if none does."""
        self._calls_of_taps = CallsOfTaps(setting.journal)
        self._own_files = own_files(path, root.place.subagents)
        self._own = OwnFiles(self._own_files)
        older = reader.older(path) if isinstance(reader, Database) else None
        self._older = None if older is None else real_path_id(older)
        self._splitter = Splitter(setting.line_bytes)
        is_whole = ingest.stream in setting.whole
        self._horizon = setting.started if setting.follow.backfill_seconds == 0 and not is_whole else 0
        ingest.is_behind = True
        self.is_backfill = False
        """Whether backfill workers may normalize the file: it has not changed since the start of the daemon, and was
        not in the journal."""

    @property
    def over(self) -> bool:
        """True if another publisher has taken over the stream, or the journal failed."""
        return self._ingest.over.is_set()

    @property
    def stream(self) -> str:
        return self._ingest.stream

    @property
    def offset(self) -> int:
        """Position up to which the file was read: bytes, or rows of a database."""
        return self._position.offset

    @property
    def at_rest(self) -> bool:
        """True if the file has not changed for so long that its stream need not stay open."""
        return self._setting.clock() - self._last_written > self._setting.suspend_timeout_ms

    @property
    def silence(self) -> float:
        """How long the agent has written nothing, in seconds."""
        return (self._setting.clock() - self._last_written) / 1_000

    @property
    def unchanged(self) -> float:
        """How long the file has not changed, in seconds."""
        return (self._setting.clock() - self._mtime) / 1_000

    @property
    def is_asking(self) -> bool:
        """Whether the agent waits for an answer, so that the file is silent for as long as nobody gives one."""
        return self.silence <= self._setting.follow.answer_timeout and self._ingest.live.normalizer.is_asking

    @property
    def _last_written(self) -> int:
        """When the agent wrote the last line, in ms since the epoch: when the file changed, or as the line states it
        if the file had changed long after that when it was opened, because it was copied."""
        stated = self._stated
        is_copied = stated is not None and self._mtime == self._mtime_at_first and self._mtime >= stated + COPIED
        return self._mtime if stated is None or not is_copied else stated

    async def turn(self) -> bool:
        """Ingest the next part of what is new: about `TURN_BYTES` of lines, or the whole document. Returns whether
        there is more. Raises like `open_file`, and `ReplacedError`."""
        self._ingest.is_behind = True
        streams = self._setting.streams
        was_due = streams.is_due(self._ingest.live.info)
        more = await (self._read_document() if self._root.is_document(self.path) else self._read_lines())
        # What the agent has stored before its tap ended is to be read before calls are compared.
        more = more or (not was_due and streams.is_due(self._ingest.live.info))
        self._ingest.is_behind = more
        if not more:
            self._ingest.settle_later(self.silence)
            streams.report_unsaid(self._ingest.live.info)
        return more

    async def request(self) -> Request | None:
        """Return the next request for a backfill worker, or None if `turn` must be called instead. Raises like
        `open_file`."""
        live = self._ingest.live
        if not self.is_backfill or live.info.state == "ended" or self._names_nothing:
            return None
        size = await to_thread.run_sync(os.path.getsize, self.path)
        if size - self._position.offset < TURN_BYTES or (await self._covered())[0]:
            return None
        return Request(
            self.path,
            self._position,
            PORTION_TURNS * TURN_BYTES,
            live.normalizer.context,
            live.normalizer.dump(),
            live.info.agent_version,
            self._horizon,
            live.info.agent,
            self._own_files,
        )

    @property
    def _names_nothing(self) -> bool:
        """Whether no line so far names a session, nor does the file's place."""
        return self._session is None and self._ingest.live.info.last_session is None

    async def adopt(self, request: Request, portion: Portion | None) -> None:
        """Ingest the portion that a backfill worker returned for the request. If the worker failed (None), or the state
        has changed meanwhile, the portion is discarded, and `turn` reads it and everything after it. Raises like
        `open_file`."""
        live = self._ingest.live
        is_current = live.info.state == "open" and self._position == request.position
        if portion is None or not is_current or (await self._covered())[0]:
            self.is_backfill = False
            return
        outputs = [one if isinstance(one, OutputChunk) else Produced.of(decode(one), one) for one in portion.outputs]
        try:
            await self._ingest.adopt(
                Normalized(
                    portion.state, outputs, portion.mtime, portion.crc, portion.found, portion.watched, portion.failures
                ),
                is_last=portion.is_last,
            )
        except msgspec.MsgspecError:
            self.is_backfill = False
            return
        self._position, self._mtime = portion.after, portion.mtime
        self._note_times(outputs)
        live.info.last_reported_ts = max(
            (one.ts for one in outputs if isinstance(one, Produced) and one.ts), default=live.info.last_reported_ts
        )

    async def finish_moved(self) -> None:
        """Read a replaced file to its end, if it was only renamed."""
        moved = await to_thread.run_sync(find_moved, self.path, self._position.inode)
        if moved is not None:
            self.path = moved
            while await self.turn():
                pass

    async def close(self) -> None:
        """Release the stream. Its position is in the journal."""
        try:
            last = self._splitter.finish()
            if isinstance(last, bytes) and _is_object(last):  # a whole line whose newline is missing
                try:
                    keep = await self._keep(self._mtime)
                except NotYetError:  # the line is read when the file is opened again
                    pass
                else:
                    await self._ingest.take([last], self._mtime, keep)
            if self.at_rest and not self.over and not self.is_asking:
                await self._ingest.end("suspended-too-long")
        finally:
            await self._ingest.finish()

    # -- inner workings -----------------------------------------------------------------------------------------

    async def _withdraw_telemetry(self, session: str | None, mtime: int) -> None:
        """Delete what telemetry alone has reported of the session, which the file is about to report. Raises
        `NotYetError`."""
        if session is None:
            return
        try:
            if await self._setting.streams.withdraw_telemetry(session, mtime):
                self._horizon = 0
                await self._ingest.tell_replaced(session)
        except NotEndedError:
            raise NotYetError(RETRY) from None

    async def _covered(self) -> tuple[list[Span], dict[str, StreamInfo]]:
        """Return the time spans covered by other streams of the session, and these streams. Raises `NotYetError`."""
        session = self._ingest.live.info.last_session or self._session
        others = await _taps_of(self._setting, session, self._ingest.stream)
        if session is None:
            return [], {}
        if self._ingest.live.info.copied:
            others = [one for one in others if not is_file(one)]
        others = [one for one in others if not one.copied]
        tolerance = int(TOLERANCE * 1000)
        agent, older = self._ingest.live.info.agent, self._older
        covered = spans(others, session, self._ingest.stream, self._first_t, tolerance, agent=agent, older=older)
        if covered is None:
            raise NotYetError(RETRY)
        return covered, {one.stream: one for one in others}

    async def _keep(self, mtime: int) -> Keep:
        """Return the filter for the items of lines just read; `mtime`: time of the file's last change. The lines must
        be fed at once. Raises `NotYetError`."""
        await _wait_for_taps(self._root, mtime, self._setting)
        said: Mapping[str, Mapping[str, Said]] = {}
        live = self._ingest.live
        if not live.normalizer.statistics.events:
            await self._withdraw_telemetry(live.info.last_session or self._session, mtime)
        covered, others = await self._covered()
        if taps := [one.tap for one in covered if one.tap is not None]:
            session = live.info.last_session or self._session or ""
            said = {tap: await self._calls_of_taps.of(session, tap) for tap in taps}
            covered, others = await self._covered()  # of now: nothing else runs until the lines are fed
        now = self._setting.clock()
        keep = keeps(live.info, live.normalizer.statistics, self._horizon, covered, others, mtime, now, self._own, said)

        def noted(items: list[Item]) -> list[Item]:
            self._note_times(items)
            return _understood(keep(items), live.info.stream)

        return noted

    def _note_times(self, outputs: Iterable[Item]) -> None:
        for one in outputs:
            if isinstance(one, Produced) and one.ts is not None and (self._stated is None or one.ts > self._stated):
                self._stated = one.ts

    async def _read_lines(self) -> bool:
        common = self._ingest.live.info.copied - self._position.offset
        limit = min(TURN_BYTES, common) if common > 0 else TURN_BYTES
        data, position, mtime = await to_thread.run_sync(self._reader.read_from, self.path, self._position, limit)
        keep: Keep | None = _leave_out if common > 0 else await self._keep(mtime) if data else None
        self._position, self._mtime = position, mtime
        await self._ingest.take(self._splitter.feed(data), mtime, keep)
        return len(data) >= limit

    async def _read_document(self) -> bool:
        limit = self._setting.line_bytes
        data, mtime = await to_thread.run_sync(self._reader.head, self.path, limit + 1)
        keep = await self._keep(mtime)
        self._mtime = mtime
        info = self._ingest.live.info
        if len(data) > limit:
            await self._ingest.take([LongLine(data[:HEAD_BYTES], len(data))], mtime, keep)
        elif not (info.lines == info.crc_line > 0 and info.crc == zlib.crc32(data)) and _is_whole(data):
            await self._ingest.take([data], mtime, keep)
        return False


def _leave_out(items: list[Item]) -> list[Item]:
    return []


def _understood(items: list[Item], stream: str) -> list[Item]:
    """Leave out lines that were not understood, while nothing in the file names a session: such a file is none of a
    session. They count as unparsed all the same."""
    return [one for one in items if not isinstance(one, Produced) or one.kind != "unparsed" or one.session != stream]


def _is_whole(data: bytes) -> bool:
    """Return whether the bytes are one complete document: a JSON object, or a list of some."""
    if not data.rstrip().endswith((b"}", b"]")):
        return False
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))


def _is_object(data: bytes) -> bool:
    """Return whether the bytes are one complete JSON object."""
    if not data.rstrip().endswith(b"}"):
        return False
    try:
        return isinstance(orjson.loads(data), dict)
    except orjson.JSONDecodeError:
        return False
