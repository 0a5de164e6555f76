"""Sources of exported events: a session of the journal, or a file. Both are bounded, and yield events with bodies.

    source = JournalSource(journal, session, part, bodies, redaction)
    async for batch in source:          # of `(event, its output bodies)`, and of `DamagedRange`
        ...
    source.is_cut                       # the session has more than an export may have

`FileSource` reads a recording or event lines. `Bodies` decides which output bodies go into the file.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, TypeAlias

import anyio
import msgspec

from tooltap.daemon.export.anonymity import Anonymizer
from tooltap.daemon.export.redaction import Redaction, masked_event, masked_output
from tooltap.daemon.journal.interface import Journal, StoredEvent
from tooltap.daemon.sessions.listing import SessionFilter
from tooltap.daemon.sessions.stored import SessionEvents
from tooltap.daemon.views.select import LaterViews, whole_body
from tooltap.normalizers.core.items import Context, OutputChunk
from tooltap.normalizers.stream.normalizer import Output, StreamNormalizer
from tooltap.normalizers.wire.framing import LongLine, Splitter
from tooltap.protocol.events import AnyEvent, Message, ToolResult, ToolUpdate, decode
from tooltap.protocol.filters import Filter
from tooltap.traces.recording.reader import RecordingFeed


class ExportedBody(NamedTuple):
    data: bytes
    mime_type: str


class Bodies:
    """Decides which output bodies go into the file, within limits, and counts the others."""

    def __init__(self, max_each: int, max_all: int) -> None:
        self._max_each = max_each
        self._left = max_all
        self.left_out = 0
        self.left_out_bytes = 0

    def has_room(self, size: int) -> bool:
        """Return whether a body of this size goes into the file; if not, count it as left out."""
        if size <= min(self._max_each, self._left):
            self._left -= size
            return True
        self.left_out += 1
        self.left_out_bytes += size
        return False


class MissingRange(NamedTuple):
    """Events that are missing: from a first to a last `seq`, inclusive. Some may be of the session."""

    first: int
    last: int
    is_deleted: bool = False
    """Whether retention has deleted them; else they are damaged in the journal."""

    @property
    def words(self) -> str:
        if self.is_deleted and self.first < self.last:
            return f"events between {self.first:,} and {self.last:,} were not kept"
        if self.is_deleted:
            return f"event {self.first:,} was not kept"
        what = f"event {self.first:,} is" if self.first == self.last else f"events {self.first:,} to {self.last:,} are"
        return f"{what} damaged in the journal"

    @property
    def sentence(self) -> str:
        return f"{self.words.capitalize()}."


class DeletedMeanwhile:
    """Finds out whether events of a session were deleted while it is read, in the order of their `seq`.

    `last_expired` does not tell of a deletion below it, and sessions lie side by side in the journal. But a
    session is deleted from the first event of each of its streams on. While these are stored, what was read is whole.

    `is_stored`: returns whether the event with this `seq` is stored. What it raises passes through.
    """

    def __init__(self, is_stored: Callable[[int], Awaitable[bool]]) -> None:
        self._is_stored = is_stored
        self._firsts: dict[tuple[str, str], int] = {}
        """Stream and session -> `seq` of the first event that was read."""
        self._whole = self._last = 0
        self._has_found = False

    def read(self, event: AnyEvent) -> None:
        """Note an event that was read."""
        self._last = event.seq or 0
        self._whole = self._whole or self._last
        self._firsts.setdefault((event.stream, event.session), self._last)

    async def look(self, expired: int) -> MissingRange | None:
        """Return where events may be missing; once. `expired`: the highest `seq` that is known to be deleted."""
        if self._has_found or self._whole >= expired:
            return None
        for first in self._firsts.values():
            if first <= expired and not await self._is_stored(first):
                self._has_found = True
                return MissingRange(self._whole + 1, expired, is_deleted=True)
        self._whole = self._last
        return None


class SessionWriter(Protocol):
    """Writes the events of a session, or of a recording. Each method returns the text to write next."""

    def add(self, event: AnyEvent, bodies: Mapping[str, ExportedBody]) -> str:
        """Add an event with a `seq`. `bodies`: the output bodies to which it refers that have room, by output id."""

    def add_gap(self, gap: MissingRange) -> str:
        """Note that events are missing. Before the first event the text is empty, and comes with that event's."""

    def end(self, *remarks: str) -> Iterator[str]:
        """Complete the file, in parts. `remarks`: sentences on it, such as how many secrets are masked."""


class Exporter(SessionWriter, Protocol):
    """A format with a file for each session."""

    ENDING: ClassVar[str]
    """Of the names of its files, without the dot."""
    HAS_BODIES: ClassVar[bool]
    """Whether the file has images and long outputs."""

    def __init__(self, title: str, *, bodies: Bodies) -> None:
        """`title`: of the session. `bodies`: counts what was too large for the file."""


class Collection(Protocol):
    """A format whose file has all sessions that were selected, and which writes the file itself. Its methods raise
    `OSError`."""

    ENDING: ClassVar[str]
    IS_FOLDER: ClassVar[bool]
    """Whether it writes several files, in a folder."""

    def __init__(self, path: Path, *, max_text: int, masked: bool) -> None:
        """`path`: of a new file, or of an empty folder, which is put in its place when it is complete. `max_text`:
        maximum bytes of a text, an input or an output. `masked`: whether secrets are masked."""

    def source(self, name: str, stated: Mapping[str, Any] | None) -> SessionWriter:
        """Begin the next session of a daemon, or the next recording. `stated`: the session as the daemon describes it.
        What is returned writes to the collection: its texts are empty, and its `end` yields sentences for the user
        about what it left out."""

    def finish(self, *remarks: str) -> None:
        """Complete the file. `remarks`: as in `Exporter.end`."""


def body_ids(event: AnyEvent) -> Iterator[tuple[str, int, str]]:
    """Yield `(output id, bytes, MIME type)` of each body that the event refers to; 0 bytes if it does not say."""
    for ref in (event.outputs or {}).values():
        yield ref.output_id, ref.bytes, ref.mime_type
    for one in (event.attachments or []) if isinstance(event, Message | ToolResult) else []:
        if one.output_id is not None:
            yield one.output_id, one.bytes or 0, one.mime_type
    display = event.display if isinstance(event, ToolResult | ToolUpdate) else None
    if display is not None and display.output_id is not None:
        yield display.output_id, display.bytes or 0, display.mime_type or "text/plain"


class FileSource:
    """Iterates over `(event, its output bodies)`. Events are numbered from 1; bodies are held on disk until needed.

    `stream`: the stream id of a recording. `chunks`: the bytes of the file; whatever they raise passes through. `mask`:
    removes secrets from the bytes of an event or a body; its second argument says which. `names` replaces names.
    """

    def __init__(
        self,
        stream: str,
        chunks: Iterable[bytes],
        bodies: Bodies,
        mask: Callable[[bytes, str], bytes],
        names: Anonymizer | None = None,
    ) -> None:
        self._chunks = chunks
        self._bodies = bodies
        self._mask = mask
        self._names = names
        self._seq = 0
        self._normalizer = StreamNormalizer(Context(stream=stream))
        self._feed = RecordingFeed(self._normalizer)
        self._directory = tempfile.TemporaryDirectory(prefix="tooltap-export-")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._directory.cleanup()

    def __iter__(self) -> Iterator[tuple[AnyEvent, dict[str, ExportedBody]]]:
        for event in self._events():
            self._seq += 1
            event.seq = self._seq
            yield event, self._bodies_of(event)

    def _events(self) -> Iterator[AnyEvent]:
        splitter = Splitter(self._normalizer.context.limits.line_bytes)
        lines = self._lines(splitter)
        first = next(lines, None)
        if first is None:
            return
        event = self._event(first)
        if event is not None:
            yield event
            yield from (event for line in lines if (event := self._event(line)) is not None)
            return
        yield from self._store_bodies(self._feed.feed([first]))
        for line in lines:
            yield from self._store_bodies(self._feed.feed([line]))
        yield from self._store_bodies(self._feed.close())

    def _lines(self, splitter: Splitter) -> Iterator[bytes | LongLine]:
        for chunk in self._chunks:
            yield from splitter.feed(chunk)
        last = splitter.finish()
        if last is not None:
            yield last

    def _store_bodies(self, produced: Iterable[Output]) -> Iterator[AnyEvent]:
        """Write all output bodies to disk, then yield the events."""
        events: list[AnyEvent] = []
        for output in produced:
            if isinstance(output, OutputChunk):
                with self._body_file(output.output_id).open("r+b" if output.offset else "wb") as file:
                    file.seek(output.offset)
                    file.write(output.data)
            else:
                events.append(self._masked(output.body, self._seq + len(events) + 1))
        yield from events

    def _bodies_of(self, event: AnyEvent) -> dict[str, ExportedBody]:
        found: dict[str, ExportedBody] = {}
        for output_id, size, mime_type in body_ids(event):
            path = self._body_file(output_id)
            length = path.stat().st_size if path.exists() else None
            if self._bodies.has_room(size if length is None else length) and length is not None:
                data = masked_output(path.read_bytes(), self._masks(f"output {output_id}"), self._names)
                found[output_id] = ExportedBody(data, mime_type)
        return found

    def _body_file(self, output_id: str) -> Path:
        return Path(self._directory.name) / hashlib.sha256(output_id.encode()).hexdigest()

    def _event(self, line: bytes | LongLine) -> AnyEvent | None:
        """Parse a line as an event; None if it is not one."""
        if isinstance(line, LongLine) or not line.strip():
            return None
        try:
            decode(line)
        except (msgspec.ValidationError, msgspec.DecodeError):
            return None
        return self._masked(line, self._seq + 1)

    def _masked(self, body: bytes, number: int) -> AnyEvent:
        return masked_event(body, self._masks(f"event {number}"), self._names)

    def _masks(self, where: str) -> Callable[[bytes], bytes]:
        return lambda data: self._mask(data, where)


READ = 262_144
"""Bytes of events that are read at a time."""
MAX_BYTES = 67_108_864
"""Bytes of events in an export; `tooltap export` has no such limit."""
CONVERSATION = ("message", "turn")


Batch: TypeAlias = list[tuple[AnyEvent, dict[str, ExportedBody]] | MissingRange]
"""In order. The first batch has an event."""


class ExportedPart(NamedTuple):
    """The part of a session to export."""

    first: int = 0
    last: int | None = None
    """`first` to `last`: a range of `seq`."""
    content: Literal["all", "conversation"] = "all"
    """`conversation`: only messages between the user and the agent, without calls and subagents."""

    def has(self, stored: StoredEvent) -> bool:
        return self.content == "all" or stored.head.agent is None


class JournalSource:
    def __init__(
        self, journal: Journal, session: str, part: ExportedPart, bodies: Bodies, redaction: Redaction
    ) -> None:
        self._journal = journal
        self._name = session
        self._session: dict[str, Any]
        """The session's row, or at least its id."""
        self._wanted = Filter(kind=CONVERSATION if part.content == "conversation" else None)
        self._part = part
        self._bodies = bodies
        self._redaction = redaction
        self.is_cut = False
        self.is_damaged = False
        """Whether events are damaged in the journal that may be of the part."""

    async def __aiter__(self) -> AsyncIterator[Batch]:
        """Raises `JournalError`."""
        self._session = await described(self._journal, self._name)
        stored = SessionEvents(self._journal, [self._session])
        last = self._journal.latest if self._part.last is None else min(self._part.last, self._journal.latest)
        reached, left = max(self._part.first - 1, self._journal.oldest - 1), MAX_BYTES
        views = await self._later_views(stored, reached)
        batch: Batch = []
        has_begun = False
        expired = self._journal.last_expired
        meanwhile = DeletedMeanwhile(self._journal.is_stored)
        while reached < last:
            begun = reached
            events, reached = await stored.read(reached, self._wanted, up_to=last, max_bytes=READ)
            left -= sum(len(one.body) for one in events)
            if left < 0:
                self.is_cut = True
                return
            decoded = await anyio.to_thread.run_sync(self._decoded, events, views)
            gaps = deque(MissingRange(*gap) for gap in self._journal.corrupt.within(begun + 1, reached))
            self.is_damaged = self.is_damaged or bool(gaps)
            if has_begun and max(expired, begun) < self._journal.last_expired:  # deleted meanwhile
                expired = self._journal.last_expired
                batch.append(MissingRange(begun + 1, min(expired, reached), is_deleted=True))
            if not has_begun and decoded and (gap := await self._deleted(decoded[0].seq or 0)) is not None:
                batch.append(gap)
            for event in decoded:
                while gaps and gaps[0].first < (event.seq or 0):
                    batch.append(gaps.popleft())
                batch.append((event, await self._bodies_of(event)))
                meanwhile.read(event)
            batch += gaps
            if (gap := await meanwhile.look(self._journal.last_expired)) is not None:
                batch.append(gap)
            has_begun = has_begun or bool(decoded)
            if has_begun and batch:
                yield batch
                batch = []

    async def _deleted(self, first: int) -> MissingRange | None:
        """What retention has deleted at the beginning of the session, if the part has it. `first`: `seq` of the first
        event that is left."""
        if (first_seq := self._session.get("firstSeq")) is None:
            return None
        begun, last = max(first_seq, self._part.first), min(self._journal.last_expired, first - 1)
        if begun <= last and not await self._journal.is_stored(first_seq):
            return MissingRange(begun, last, is_deleted=True)
        return None

    async def _later_views(self, stored: SessionEvents, reached: int) -> LaterViews:
        """Read the views that commands made of results, also those after the last event of the part."""
        views = LaterViews()
        if self._part.content == "conversation":
            return views
        wanted = msgspec.structs.replace(self._wanted, kind=("tool-update",))
        while reached < self._journal.latest:
            updates, reached = await stored.read(reached, wanted, max_bytes=READ)
            for one in updates:
                if isinstance(event := decode(one.body), ToolUpdate) and event.display is not None:
                    views.note(self._masked(one))
        return views

    def _decoded(self, events: list[StoredEvent], views: LaterViews) -> list[AnyEvent]:
        return [views.put(self._masked(one)) for one in events if self._part.has(one) and not views.is_given(one.head)]

    def _masked(self, stored: StoredEvent) -> AnyEvent:
        redaction = self._redaction
        event = masked_event(stored.body, lambda body: redaction.mask(body, stored.seq), redaction.names)
        event.seq = stored.seq
        return event

    def _masked_output(self, data: bytes, seq: int | None) -> bytes:
        return masked_output(data, lambda body: self._redaction.mask(body, seq), self._redaction.names)

    async def _bodies_of(self, event: AnyEvent) -> dict[str, ExportedBody]:
        found: dict[str, ExportedBody] = {}
        for output_id, size, mime_type in body_ids(event):
            if not self._bodies.has_room(size):
                continue
            data = await whole_body(self._journal, output_id)
            if data is not None:
                masked = await anyio.to_thread.run_sync(self._masked_output, data, event.seq)
                found[output_id] = ExportedBody(masked, mime_type)
        return found


async def described(journal: Journal, session: str) -> dict[str, Any]:
    """Return a session's row; only its id if it has none, because it is damaged. Raises `JournalError`."""
    rows = await journal.sessions(limit=1, wanted=SessionFilter(session=(session,)))
    return rows[0] if rows else {"session": session}


async def learn_names(journal: Journal, session: str, names: Anonymizer) -> None:
    """Learn the names in a session, of `MAX_BYTES` of its events. Raises `JournalError`."""
    stored = await SessionEvents.of(journal, (session,))
    reached, left = journal.oldest - 1, MAX_BYTES
    while reached < journal.latest and left > 0:
        events, reached = await stored.read(reached, up_to=journal.latest, max_bytes=READ)
        left -= sum(len(one.body) for one in events)
        await anyio.to_thread.run_sync(_learn, names, events)


def _learn(names: Anonymizer, events: list[StoredEvent]) -> None:
    for one in events:
        names.learn(one.body)
