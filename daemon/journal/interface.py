"""The journal's interface: the durable, ordered store of events, and what it stores of each stream.

One `Commit` is lines m+1…n of one stream, complete: their events, the chunks of their output bodies, the tail (or the
snapshot that replaces it) and the statistics. It is stored entirely or not at all. Readers see commits in `seq` order.

`daemon/ingest` makes commits. `daemon/hub` publishes what was committed, and reads back what a subscriber has missed.
The implementations are `daemon/journal/sqlite` (one file, one daemon) and `daemon/journal/nats` (NATS JetStream, many
daemons); `open.py` chooses between them.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from tooltap.daemon.sessions.listing import ANY_SESSION, SessionFilter, SessionOrder, SessionPlace
from tooltap.daemon.system.clock import iso_time
from tooltap.normalizers.core.answers import Outcome
from tooltap.normalizers.core.items import OutputChunk, Produced
from tooltap.protocol.answers import ForAgent
from tooltap.protocol.events import EventHead, head_of
from tooltap.protocol.filters import ALL_EVENTS, Filter
from tooltap.protocol.frames import ChangedFilesRequest, UsageRequest
from tooltap.protocol.inputs import Input
from tooltap.protocol.replies import ChangedFilesResult, StreamState, UsageResult
from tooltap.protocol.stats import RetentionStatistics, Statistics

Role: TypeAlias = Literal["owner", "guest"]
"""The role of a stream in a session. `owner`: it reports everything; `guest`: only events that the owner, a session
file, cannot report."""

REMEMBER_STREAMS_MS = 90 * 24 * 3600 * 1000
"""Least time in ms for which the position of an ended stream is retained after its last commit."""


NEWEST = 2**63 - 1
"""The largest `seq` there can be. Reading back from it also finds what other daemons have just committed."""
PINS = "pinned"
"""Name of the note that has the pinned sessions."""
MOST_PINS = 10_000
REMOVED = "removed"
"""Name of the note that has what retention has removed (`RetentionStatistics`)."""


class JournalError(Exception):
    """The journal cannot be opened or written; the message is one sentence for the user."""


class CorruptError(JournalError):
    """The requested part is damaged in the journal; the message is one sentence for the user."""


class UnstorableError(JournalError):
    """The journal cannot store this commit because of its content."""


class PlaceError(ValueError):
    """The name of a journal is wrong; the message is one sentence for the user."""


class StreamConflictError(Exception):
    """A commit does not start where the stored stream ends: another publisher has taken the stream over."""


class DeletedError(StreamConflictError):
    """What a commit continues was deleted since its stream was loaded."""


class NotEndedError(Exception):
    """A session to be deleted is still being written; the message is one sentence for the user."""


class _Stored(NamedTuple):
    seq: int
    body: bytes
    """The encoded event without `seq`. Clients get `with_seq(seq, body)` and a newline."""


class StoredEvent(_Stored):
    """An event of the journal: `(seq, body)`."""

    @classmethod
    def of(cls, seq: int, event: Produced | StoredEvent) -> StoredEvent:
        """Give an event this `seq`, reusing its decoded head."""
        stored = cls(seq, event.body)
        stored.__dict__["head"] = event.head
        return stored

    @property
    def head(self) -> EventHead:
        """The head of the event, decoded once. Raises `msgspec.DecodeError`."""
        head: EventHead | None = self.__dict__.get("head")
        if head is None:
            head = self.__dict__["head"] = head_of(self.body)
        return head


class Dispatch(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """An answer, a prompt or an interrupt that was journaled for the agent of a stream."""

    id: str
    """Id of its frame."""
    what: Literal["answer", "prompt", "interrupt", "raw"]
    """`raw`: what a program has worded itself; only told of."""
    session: str
    by: str
    """Who sent it, and how it came."""
    ts: int
    """When it was journaled, in ms since the epoch."""
    frame: ForAgent | None
    """What the publisher is to write; None once it has written it."""
    masked: bool = False
    """Secrets in the frame are masked, as in all that is stored: only the daemon that journaled it can send it."""
    key: str | None = None
    """Prompts: the key by which the client sends it only once."""
    permission_id: str = ""
    """Answers: the request, and what was chosen."""
    seq: int = 0
    """`seq` of the event that asks."""
    call_id: str | None = None
    agent: str | None = None
    """The subagent that asks, the call that spawned it, and its turn."""
    parent: str | None = None
    turn: str | None = None
    responds: str | None = None
    """`response_key` of the agent's request."""
    outcome: Outcome = "allowed"
    option_id: str | None = None
    remembers: str | None = None
    """What will be allowed, or denied, from now on."""
    settled: Literal["", "answered", "expired"] = ""
    """How the agent's question has ended, while the publisher has not said whether it has written this answer."""


class UnsaidBody(NamedTuple):
    """Bytes of an output body: fields of `OutputChunk`."""

    output_id: str
    offset: int
    data: bytes
    mime_type: str


class Unsaid(msgspec.Struct, frozen=True):
    """A call of a session file that was left out while taps of the session ran (`sessions/unsaid.py`)."""

    call_id: str
    name: str
    session: str
    taps: list[str]
    """The streams that may report it."""
    events: list[str] = []
    """Its encoded events: the call, and what follows."""
    bodies: list[UnsaidBody] = []
    """The output bodies that they name."""
    lines: list[str] = []
    """The places, as in ids of events, of lines of which nothing else was ingested."""
    is_stopped: bool = True
    """It has no result, or one that says it was stopped."""


class RemotePosition(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How far a stream of another machine's daemon has been read from there (`taps/remotes/reading.py`)."""

    journal: str = ""
    """Id of the remote's journal; only in the stream that has the position in the whole journal."""
    epoch: int = 0
    """How often that journal was replaced, or set back."""
    seq: int = 0
    """The last `seq` that was read, in that journal."""
    line: int = 0
    """The highest line of an event until then."""
    first: str = ""
    """Id of the stream's first event that is stored here."""
    again: bool = False
    """The remote is reading the stream again, from its beginning: what is here up to `line` comes once more."""
    gap: int = 0
    """The last `seq` that was reported as missing."""


class StreamInfo(msgspec.Struct, kw_only=True):
    """The options a stream was opened with, and its position."""

    stream: str
    asked_dialect: str = "auto"
    """The dialect the publisher asked for."""
    dialect: str | None = None
    """The dialect in use; None while `auto` has not recognised it."""
    provider: str | None = None
    session: str | None = None
    agent: str | None = None
    parent: str | None = None
    mcp_servers: tuple[str, ...] = ()
    prompt: str | None = None
    """The prompt of the agent as the publisher states it; None once a snapshot records that an event contains it."""
    state: StreamState = "open"
    lines: int = 0
    crc: int = 0
    """CRC-32 of line `crc_line`, the last line that was received whole. Lost and over-long lines have none."""
    crc_line: int = 0
    ids: int = 0
    """CRC-32 over the ids of all events so far, also of those left out. A rebuilt parser must arrive at the same
    value."""
    last_session: str | None = None
    """Session of the last event."""
    agent_version: str | None = None
    first_t: int | None = None
    """Time of the first line."""
    last_t: int | None = None
    """Time of the last line, or of the end that its publisher sent."""
    started: int | None = None
    """Start of the agent, in ms since the epoch, if the publisher says so."""
    cwd: str | None = None
    """The folder in which the agent was started, if the publisher says so."""
    roles: dict[str, Role] = {}
    """Session -> role of this stream in it. Empty for streams of session files."""
    begins: dict[str, int] = {}
    """Session -> start of the turn, in ms since the epoch, in whose middle the tap has joined it. Telemetry: time of
    the first event that it has reported of the session."""
    followed: bool = False
    """True for a stream read from an agent's own store, even if the agent also prints this dialect."""
    path: str | None = None
    """A session file: where it was when it was read last. A path that is not UTF-8 is a `file:` URL."""
    head: str | None = None
    """A session file of lines: hash of its first line. Files with the same session and first line are one stream."""
    copied: int = 0
    """A session file: how many bytes at its beginning another stream has read from a copy of it; their events are left
    out."""
    missing_at: int | None = None
    """A session file: the latest time at which it is known not to have existed, in ms since the epoch."""
    last_reported_ts: int | None = None
    """Session files: time of the latest line that was ingested in full, because no tap of the session covers it, in ms
    since the epoch; -1: none yet. Gateway: time of the model's latest answer; None: none yet. Telemetry: time of the
    latest event that it has reported."""
    prompts: list[tuple[str, str]] = []
    """Ids and beginnings of the latest prompts that this stream has reported, and that another stream may repeat."""
    pending_displays: list[str] = []
    """Encoded events held back from the commit until the display of their result arrives: see
    `sessions/joining.py`."""
    rewriting: dict[str, str] = {}
    """Ids of results whose view is made by a command -> the daemon that is to run it (`views/rewriter.py`)."""
    repeated: list[str] = []
    """Ids of other streams' prompts; for each, one equal prompt of this stream was left out as a repetition."""
    unsaid: list[Unsaid] = []
    """Session files: calls that were left out because taps cover them, while these may not have reported them."""
    own_calls: dict[str, str] = {}
    """Session files: call that no tap had reported -> its inferred result, which a later one replaces."""
    shared_ids: list[str] = []
    """Session files: taps that have reported a call under the id that it has in the file."""
    left_out: bool = False
    """The events of a session file's latest line were left out, because a tap reports them, or they are too old."""
    remote: RemotePosition | None = None
    """A stream that is read from another machine's daemon: how far. It has no lines, and no publisher here."""
    restored: int | None = None
    """While `tooltap journal import` restores the stream: how many of its events it has written."""
    unsettled: bool = False
    """Something is held back, or a turn may have ended: to be settled if the stream stays silent."""
    daemon: str = ""
    """The daemon to which the publisher is, or was last, connected."""
    takes_answers: bool = False
    """Whether that publisher writes to its agent what clients send."""
    answers: dict[str, Dispatch] = {}
    """Pending permission -> the answer that was the first."""
    sent: dict[str, Dispatch] = {}
    """Prompts and interrupts by id: those that are not delivered, and the latest that have a key."""
    told: int = 0
    """Number of notices that no line caused: about answers, prompts, interrupts and telemetry that was replaced."""
    statistics: Statistics
    updated: int = 0
    """Milliseconds since the epoch of the last commit."""
    expired: bool = False
    """True if retention has deleted the events, and only the position is left."""
    forgotten: bool = False
    """True if what its lines said was deleted since its last commit, by retention or with a session."""
    position: int = 0
    """In a journal shared by many daemons: position of the stream's last commit when the stream was loaded. A commit
    based on it is refused if another daemon has committed since (optimistic locking)."""


def without_content(info: StreamInfo) -> StreamInfo:
    """What is left of a stream whose lines are deleted: its position, without what the lines said."""
    return msgspec.structs.replace(
        info,
        prompt=None,
        begins={},
        prompts=[],
        pending_displays=[],
        rewriting={},
        repeated=[],
        unsaid=[],
        own_calls={},
        shared_ids=[],
        answers={},
        sent={},
        forgotten=True,
    )


class _Read(msgspec.Struct):
    bytes: int = 0
    lines: int = 0


class FilePosition(msgspec.Struct):
    """What `StreamInfo` says of how far a session file was read: fields of the same names."""

    stream: str
    statistics: _Read
    asked_dialect: str = "auto"
    dialect: str | None = None
    lines: int = 0
    last_t: int | None = None
    followed: bool = False
    path: str | None = None
    updated: int = 0


class StoredStream(NamedTuple):
    info: StreamInfo
    snapshot: bytes | None
    snapshot_lines: int
    """Lines that the snapshot covers; the tail continues there."""
    tail: list[Input]


class Commit(NamedTuple):
    """Lines m+1…n of one stream."""

    info: StreamInfo
    """The stream as it is after these lines."""
    base_lines: int
    """m: the number of lines that the stored stream must have, else `StreamConflictError`."""
    outputs: Sequence[Produced | OutputChunk]
    """Outputs of the lines, in order. Partials are published in their place, but not stored."""
    tail: Sequence[Input]
    snapshot: bytes | None = None
    """Replaces snapshot and tail. It covers the tail records of this commit. A commit that reopens an ended stream has
    one: what was stored may have been deleted since the stream was loaded."""
    remembers: bool = False
    """It is made by a parser that remembers what earlier lines said. If that was deleted, the journal raises
    `DeletedError`."""


class Committed(NamedTuple):
    """The outputs of a durable commit, and the `seq` of each. Partials and chunks of output bodies have None."""

    outputs: Sequence[Produced | OutputChunk]
    seqs: list[int | None]


class RemovedBody(msgspec.Struct, frozen=True):
    """How retention has removed an output body whose event is still there."""

    line: int
    """Line of the stream that it is of. Of a stream: the last line of which a body was removed."""
    at: int
    """When, in ms since the epoch."""
    limit: int
    """`retention_bytes` at that time."""

    @property
    def reason(self) -> str:
        """`was removed on 2026-11-29 to keep the journal under 1,000,000 bytes (retention_bytes)`."""
        day = (iso_time(self.at) or "")[:10]
        return f"was removed on {day} to keep the journal under {self.limit:,} bytes (retention_bytes)"


OUTPUT_ID = re.compile(rb'"outputId":("(?:[^"\\]|\\.)+")')
"""The id of an output body in an encoded event, as a JSON string."""


def output_ids(body: bytes) -> list[str]:
    """The ids of the output bodies of an encoded event."""
    return [msgspec.json.decode(one, type=str) for one in dict.fromkeys(OUTPUT_ID.findall(body))]


_PLACE_OF_OUTPUT = re.compile(r"(.+):([0-9]{1,15})[cd]?:o[0-9]+")


def place_of_output(output_id: str) -> tuple[str, int] | None:
    """Stream and line of an output body of a journal; None for another id."""
    match = _PLACE_OF_OUTPUT.fullmatch(output_id)
    return None if match is None else (match[1], int(match[2]))


def decode_pins(note: bytes | None) -> frozenset[str]:
    """The sessions of the note `PINS`."""
    return frozenset() if note is None else _pins_decoder.decode(note)


_pins_decoder = msgspec.json.Decoder(frozenset[str])


def decode_removed(note: bytes | None) -> RetentionStatistics:
    """What retention has removed, of the note `REMOVED`."""
    return RetentionStatistics() if note is None else _removed_decoder.decode(note)


_removed_decoder = msgspec.json.Decoder(RetentionStatistics)


def drop_fields(outputs: Sequence[Produced | OutputChunk]) -> None:
    """Free the decoded fields of stored events: only projections need them, subscribers do not."""
    for output in outputs:
        if isinstance(output, Produced):
            output.fields = None


MOST_GAPS = 10_000
"""Most ranges in memory. Beyond this, the two closest are merged: the result covers some intact events, but no damaged
event is missed."""


class Gaps:
    """Ranges of `seq` whose events are damaged: found so far, or recorded by a repair. They are disjoint and in order,
    each from a first to a last `seq`, inclusive."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._firsts, self._lasts, strict=True)

    @property
    def events(self) -> int:
        """Number of `seq` that are in a range."""
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    def add(self, first: int, last: int) -> bool:
        """Add a range, which may overlap others. Returns True if any part of it is new."""
        start = bisect_left(self._lasts, first - 1)
        end = bisect_right(self._firsts, last + 1)
        if start < end and self._firsts[start] <= first and last <= self._lasts[start]:
            return False
        if start < end:
            first, last = min(first, self._firsts[start]), max(last, self._lasts[end - 1])
        self._firsts[start:end], self._lasts[start:end] = [first], [last]
        if len(self._firsts) > MOST_GAPS:
            self._join_closest()
        return True

    def within(self, first: int, last: int) -> list[tuple[int, int]]:
        """The ranges between two `seq`, inclusive, clipped to these bounds."""
        if not self._firsts or first > last:
            return []
        start, end = bisect_left(self._lasts, first), bisect_right(self._firsts, last)
        return [
            (max(one, first), min(other, last))
            for one, other in zip(self._firsts[start:end], self._lasts[start:end], strict=True)
        ]

    def _join_closest(self) -> None:
        distances = [first - last for first, last in zip(self._firsts[1:], self._lasts, strict=False)]
        closest = distances.index(min(distances))
        del self._firsts[closest + 1], self._lasts[closest]


MAX_SLICE = 1024 * 1024
"""Longest slice of an output body that one reply holds, in bytes."""


class OutputSlice(NamedTuple):
    data: bytes
    offset: int
    """Offset of the data in the body, in the requested unit."""
    total: int
    """Length of the whole body, in the requested unit."""
    mime_type: str


def whole_lines(data: bytes, count: int) -> bytes:
    """At most `count` whole lines of the next `MAX_SLICE` bytes; the head of the first line if it is longer than
    that."""
    lines = data.split(b"\n", count)
    if len(lines) > count:
        return data[: len(data) - len(lines[-1])]
    if len(data) < MAX_SLICE:
        return data
    return data[: data.rfind(b"\n") + 1] or data


def count_lines(data: bytes) -> int:
    """Newlines, plus one for an unterminated last line."""
    return data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))


class Journal(ABC):
    """Interface of a journal. All methods may be called from the event loop; none blocks it."""

    id: str
    """Random id, created with the journal. It distinguishes cursors of this journal from those of another. It changes
    when a remote journal is replaced: see `on_reset`."""

    def __init__(self) -> None:
        from anyio import Lock  # takes long to import, and the configuration is checked without a journal

        self.corrupt = Gaps()
        """The events known to be damaged. A `read` adds all damaged events in the range that it searched; subscribers
        get notices about them."""
        self.on_commit: Callable[[list[Committed]], None] = lambda _: None
        """Called in the event loop with new commits, in `seq` order."""
        self.daemon = os.urandom(6).hex()
        """Random id of this daemon among those that share the journal or used it before."""
        self.on_reset: Callable[[], None] = lambda: None
        """Called in the event loop when the journal was replaced by another one: `id` has changed, and every earlier
        `seq` is invalid."""
        self.on_ask: Callable[[bytes], Awaitable[bytes]] | None = None
        """Answers requests of other daemons that use the journal. Must not raise."""
        self.on_skip: Callable[[int], None] = lambda _: None
        """Called in the event loop with a `seq`: up to it, `on_commit` will not be called again. Events not passed to
        it are deleted or damaged, or its call failed."""
        self._reads = self._commits = self._transactions = self._events = 0
        """Counters for `statistics`."""
        self._pinning = Lock()
        self.removed = RetentionStatistics()
        """What retention has removed since the journal was created."""

    @property
    @abstractmethod
    def oldest(self) -> int:
        """`seq` of the oldest event stored, or that should be: what is missing before it is damaged, not deleted. If
        there is none, `latest + 1`."""

    @property
    @abstractmethod
    def latest(self) -> int:
        """`seq` of the newest event; 0 in a new journal."""

    @property
    @abstractmethod
    def last_expired(self) -> int:
        """The highest `seq` that retention has deleted, or 0. Only events up to it may be missing, and not all are:
        events of streams that have not ended are retained."""

    @abstractmethod
    async def commit(self, commit: Commit) -> None:
        """Return when the commit is durable; wait while the journal cannot be reached. A stream that was deleted since
        it was loaded continues, but not that of a session file, which is to be read again as a whole. Raises
        `StreamConflictError`, `JournalError`."""

    @abstractmethod
    async def listen(self) -> int:
        """Start calling `on_commit`, before a subscription begins. Returns a `seq` that covers all earlier commits:
        `on_commit` is called only for events after it. Raises `JournalError`."""

    @abstractmethod
    def stop_listening(self) -> None:
        """Stop calling `on_commit` (optional) until the next `listen`: no subscription is left."""

    @abstractmethod
    async def read(
        self, after: int, wanted: Filter = ALL_EVENTS, *, up_to: int | None = None, max_bytes: int = 262_144
    ) -> tuple[list[StoredEvent], int]:
        """Events with `seq` > `after`, at least one if there is one; and the `seq` up to which the journal was
        searched."""

    @abstractmethod
    async def read_back(
        self, before: int, wanted: Filter = ALL_EVENTS, *, limit: int, max_bytes: int = 262_144
    ) -> tuple[list[StoredEvent], int]:
        """Events with `seq` < `before`, newest first: at most `limit`, about `max_bytes`, at least one if there is one;
        and the `seq` down to which the journal was searched, `oldest` or less where nothing is left."""

    @abstractmethod
    async def event(self, seq: int) -> StoredEvent | None: ...

    async def is_stored(self, seq: int) -> bool:
        """Return whether an event was not deleted; it may be damaged. Raises `JournalError`."""
        try:
            return await self.event(seq) is not None
        except CorruptError:
            return True

    @abstractmethod
    async def load_stream(self, stream: str) -> StoredStream | None: ...

    @abstractmethod
    async def streams(self, state: StreamState | None = None, limit: int | None = None) -> list[StreamInfo]:
        """Streams, newest commit first."""

    async def file_positions(self) -> list[FilePosition]:
        """How far each stream has read, newest commit first, also of streams that are not of files."""
        return [msgspec.convert(one, FilePosition, from_attributes=True) for one in await self.streams()]

    @abstractmethod
    async def count_streams(self, *states: StreamState, followed: bool | None = None) -> int:
        """How many streams are in one of these states. `followed`: count only those of followed session files, or only
        others."""

    @abstractmethod
    async def abandoned(self, before: int) -> list[str]:
        """Streams that have not ended, have had no commit since `before` (ms since the epoch), and that no other daemon
        serves: suspended ones, and those that have stayed `open` because a commit of their connection failed."""

    @abstractmethod
    async def streams_of(self, session: str) -> list[StreamInfo]:
        """The streams that have events of this session."""

    @abstractmethod
    async def suspend_all(self) -> int:
        """At startup: suspend every open stream; returns how many."""

    @abstractmethod
    async def sessions(
        self,
        *,
        limit: int = 100,
        before: SessionPlace | None = None,
        order: SessionOrder = "seq",
        wanted: SessionFilter = ANY_SESSION,
    ) -> list[dict[str, Any]]:
        """One page of sessions, newest first: `tooltap.protocol.replies.Session` as JSON objects. `before`: the place
        of the last session of the previous page, as returned by `place_of`."""

    @abstractmethod
    async def count_sessions(self, wanted: SessionFilter = ANY_SESSION) -> dict[str, dict[str, int]]:
        """Number of sessions of each `status`, `provider` and `project`."""

    @abstractmethod
    async def remotes(self) -> list[str]:
        """Names of the remotes that sessions come from, sorted."""

    @abstractmethod
    async def usage(self, request: UsageRequest) -> UsageResult:
        """Totals of tokens and cost of sessions."""

    @abstractmethod
    async def changed_files(self, request: ChangedFilesRequest) -> ChangedFilesResult:
        """The files that sessions changed."""

    @abstractmethod
    async def open_calls(
        self, session: str | None = None, stream: str | None = None
    ) -> dict[str, list[dict[str, Any]]]:
        """Calls without a result and permission requests without a response:
        `{calls: [{stream, session, callId, name, seq, …}], permissions: […]}`."""

    @abstractmethod
    async def output(
        self, output_id: str, offset: int, length: int, unit: Literal["bytes", "lines"]
    ) -> OutputSlice | None: ...

    async def removed_bodies(self, output_ids: Collection[str]) -> dict[str, RemovedBody]:
        """Those of these output bodies that retention has removed before their events. Raises `JournalError`."""
        return {}

    @property
    def removals(self) -> int:
        """A number that changes whenever `removed_bodies` may say more; 0: it says nothing."""
        return self.removed.size.bodies

    async def note_removed(self, output_id: str, removed: RemovedBody) -> None:
        """Note how retention has removed an output body elsewhere, whose event is imported. A journal that removes no
        bodies drops this. Raises `JournalError`."""
        return

    async def ask_daemon(self, daemon: str, request: bytes, timeout: float) -> bytes | None:
        """Send a request to another daemon that uses the journal, which answers it with its `on_ask`. Returns the
        answer; None if that daemon does not answer within `timeout` seconds."""
        return None

    async def is_current(self, info: StreamInfo) -> bool:
        """Whether a stream that this daemon has loaded, or begun, as `info` has no commits of other daemons since.
        Raises `JournalError`."""
        return True

    async def daemons(self) -> set[str]:
        """The daemons that use the journal now, this one among them. Raises `JournalError`."""
        return {self.daemon}

    @abstractmethod
    async def load_note(self, name: str) -> bytes | None:
        """The note last stored under this name, or None."""

    @abstractmethod
    async def store_note(self, name: str, data: bytes) -> None:
        """Store a note, a few bytes that are not an event, replacing an earlier one of this name. Returns when it is
        durable. Raises `JournalError`."""

    @abstractmethod
    async def expire(self, before: int, max_bytes: int | None = None) -> int:
        """Retention: delete the groups of streams that `expiring` names: those that are old by `before`, and others
        while more than `max_bytes` are stored. A journal may first delete output bodies of the older half of these.
        Works in bounded steps, so that commits are not held up. Logs what it has removed, and adds it to `removed`,
        also if it is interrupted. Returns the number of deleted events."""

    def _say_removed(self, removed: RetentionStatistics) -> None:
        """Log what a run of retention has removed; nothing if that is nothing."""
        from tooltap.daemon.system.logs import get_logger  # commands that only name a journal need no logs

        log = get_logger("journal")
        for setting, one in (("retention_days", removed.age), ("retention_bytes", removed.size)):
            if one.at is not None:
                times = {"oldest": iso_time(one.oldest), "newest": iso_time(one.newest)}
                figures = {name: getattr(one, name) for name in ("sessions", "events", "bodies", "bytes")}
                log.info("retention has removed events or output bodies", setting=setting, **figures, **times)

    @abstractmethod
    async def forget_expired(self, stream: str) -> bool:
        """Forget the position of a stream whose events retention has deleted, so that it begins again. Returns whether
        there was one."""

    async def pinned(self) -> frozenset[str]:
        """The sessions that retention keeps. Raises `JournalError`."""
        return decode_pins(await self.load_note(PINS))

    async def pin(self, session: str, *, pinned: bool) -> None:
        """Pin or unpin a session. Raises `JournalError`, also if more than `MOST_PINS` would be pinned."""
        async with self._pinning:
            pins = await self.pinned()
            changed = pins | {session} if pinned else pins - {session}
            if len(changed) > MOST_PINS:
                raise JournalError(f"{MOST_PINS:,} sessions are pinned; unpin one first")
            if changed != pins:
                await self.store_note(PINS, msgspec.json.encode(sorted(changed)))

    @abstractmethod
    async def remove_session(self, session: str) -> int:
        """Delete a session: its events, their output bodies, and the raw lines of its streams. Returns the number of
        deleted events. Raises `NotEndedError` while one of its streams has not ended."""

    async def scrub(self, share: float) -> int:
        """Verify everything stored, working for `share` (0 to 1) of the time; returns the number of damaged parts. A
        no-op if the journal's server verifies its own storage."""
        return 0

    async def can_store(self, size: int) -> bool:
        """Whether `size` bytes can be stored now, which is found out by storing them for a moment; False if only a
        commit can tell."""
        return False

    @property
    def problem(self) -> str:
        """One sentence on what the journal waits for, or why it cannot store anything; empty if all is well."""
        return ""

    @property
    def files(self) -> list[Path]:
        """The files with what is stored; none if that is on a server."""
        return []

    def check_files(self) -> None:  # noqa: B027 -- only a journal in a file has some
        """Log it if the journal's files are not where they were: called every few seconds."""

    def stop_waiting(self) -> None:  # noqa: B027 -- only a journal that is elsewhere waits
        """Fail all calls that wait for an unreachable journal with a `JournalError`: the daemon is shutting down."""

    def statistics(self) -> dict[str, int]:
        """Counters since startup, for the `stats` reply: `reads` (calls of `read`), `commits`, `transactions`,
        `events`. Implementations add more, at least `bytes` on disk."""
        return {
            "reads": self._reads,
            "commits": self._commits,
            "transactions": self._transactions,
            "events": self._events,
        }

    @abstractmethod
    async def close(self) -> None: ...
