"""The journal's interface: the durable, ordered store of events, and what it stores of each stream.

One `Commit` is lines m+1…n of one stream, complete: their events, the chunks of their output bodies, the tail (or the
snapshot that replaces it) and the statistics. It is stored entirely or not at all. Readers see commits in `seq` order.

`daemon/ingest` makes commits. `daemon/hub` publishes what was committed, and reads back what a subscriber has missed.
The implementations are `daemon/journal/sqlite` (one file, one daemon) and `daemon/journal/nats` (NATS JetStream, many
daemons); `open.py` chooses between them.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from tooltap.daemon.sessions.listing import ANY_SESSION, SessionFilter, SessionOrder, SessionPlace
from tooltap.normalizers.core.items import OutputChunk, Produced
from tooltap.protocol.events import EventHead, head_of
from tooltap.protocol.filters import ALL_EVENTS, Filter
from tooltap.protocol.frames import UsageRequest
from tooltap.protocol.inputs import Input
from tooltap.protocol.replies import StreamState, UsageResult
from tooltap.protocol.stats import Statistics

Role: TypeAlias = Literal["owner", "guest"]
"""`owner`: of a session, a stream reports everything; `guest`: only what the owner, a session file, cannot report."""

REMEMBER_STREAMS_MS = 90 * 24 * 3600 * 1000
"""Least time in ms for which the position of an ended stream is retained after its last commit."""


class JournalError(Exception):
    """The journal cannot be opened or written; the message is one sentence for the user."""


class CorruptError(JournalError):
    """The requested part is damaged in the journal; the message is one sentence for the user."""


class UnstorableError(JournalError):
    """The journal cannot store this commit, because of what is in it."""


class PlaceError(ValueError):
    """The name of a journal is wrong; the message is one sentence for the user."""


class StreamConflictError(Exception):
    """A commit does not start where the stored stream ends: another publisher has taken the stream over."""


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
        """Return an event that has this `seq`, with the head that it has already."""
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
    """What the publisher says that the agent was asked, until a snapshot remembers that an event has it."""
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
    roles: dict[str, Role] = {}
    """Session -> what this stream reports of it. Empty for streams of session files."""
    followed: bool = False
    """Whether it is what an agent has stored, also where the agent prints the same dialect."""
    missing_at: int | None = None
    """A session file: the latest time at which it is known not to have existed, in ms since the epoch."""
    last_reported_ts: int | None = None
    """A session file: time of the latest line whose events were ingested, in ms since the epoch, unless they are only
    what a tap of the session does not report; -1: there is none. The gateway: when the model answered; None: not
    yet."""
    prompts: list[tuple[str, str]] = []
    """Ids and beginnings of the latest prompts that this stream has reported, and that another stream may repeat."""
    pending_displays: list[str] = []
    """Encoded events that wait for the display of their result, before they are committed: see
    `sessions/joining.py`."""
    rewriting: dict[str, str] = {}
    """Ids of results for which a command makes a view -> the daemon that was to run it (`views/rewriter.py`)."""
    repeated: list[str] = []
    """Ids of other streams' prompts that this stream has left out, each for one of its own."""
    statistics: Statistics
    updated: int = 0
    """Milliseconds since the epoch of the last commit."""
    position: int = 0
    """In a journal that many daemons share: where the stream's last commit was when it was loaded. A commit based on it
    is refused when another daemon has committed since."""


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
    """In order. Partials are published in their place and not stored."""
    tail: Sequence[Input]
    snapshot: bytes | None = None
    """Replaces snapshot and tail. It covers the tail records of this commit."""


class Committed(NamedTuple):
    """The outputs of a durable commit, and the `seq` of each. Partials and chunks of output bodies have None."""

    outputs: Sequence[Produced | OutputChunk]
    seqs: list[int | None]


def drop_fields(outputs: Sequence[Produced | OutputChunk]) -> None:
    """Free what only the projections need of events, which are stored now. Subscribers need the rest."""
    for output in outputs:
        if isinstance(output, Produced):
            output.fields = None


MOST_GAPS = 10_000
"""Ranges in memory. Beyond this, those that are closest to each other become one: it names events that are intact too,
and hides none that is damaged."""


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
        """Add a range, which may overlap others. Whether it was not wholly known."""
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
        """The ranges between two `seq`, cut to them."""
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
    """In the requested unit."""
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
    """All methods may be called from the event loop; none blocks it."""

    id: str
    """Random, created with the journal. It distinguishes a cursor of this journal from one of another. It changes where
    a journal that is elsewhere was replaced: see `on_reset`."""

    def __init__(self) -> None:
        self.corrupt = Gaps()
        """The events known to be damaged. After a `read` it has all damaged ones among those that were
        searched; subscribers get notices about them."""
        self.on_commit: Callable[[list[Committed]], None] = lambda _: None
        """Called in the event loop, in `seq` order, with what was committed."""
        self.daemon = os.urandom(6).hex()
        """This daemon, among those that share the journal or had it before."""
        self.on_reset: Callable[[], None] = lambda: None
        """Called in the event loop when the journal was replaced by another one: `id` is a new one, and no `seq`
        means what it meant."""
        self.on_skip: Callable[[int], None] = lambda _: None
        """Called in the event loop: `on_commit` will not be called for events up to this `seq`, which are deleted or
        damaged, or was and has failed."""
        self._reads = self._commits = self._transactions = self._events = 0
        """For `statistics`."""

    @property
    @abstractmethod
    def oldest(self) -> int:
        """`seq` of the oldest event stored; `latest + 1` if there is none."""

    @property
    @abstractmethod
    def latest(self) -> int:
        """`seq` of the newest event; 0 in a new journal."""

    @property
    @abstractmethod
    def last_expired(self) -> int:
        """The highest `seq` that retention has deleted, or 0. Up to here events may be missing, after it none are.
        Events of streams that have not ended are retained even below it."""

    @abstractmethod
    async def commit(self, commit: Commit) -> None:
        """Return when the commit is durable; wait while the journal cannot be reached. Raises `StreamConflictError`,
        `JournalError`."""

    @abstractmethod
    async def listen(self) -> int:
        """Start calling `on_commit`, before a subscription begins. Returns the `seq` up to which `on_commit` has been
        called or will not be called; it covers all that was committed before this call. Raises `JournalError`."""

    @abstractmethod
    def stop_listening(self) -> None:
        """No subscription is left: `on_commit` need not be called until the next `listen`."""

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

    @abstractmethod
    async def load_stream(self, stream: str) -> StoredStream | None: ...

    @abstractmethod
    async def streams(self, state: StreamState | None = None, limit: int | None = None) -> list[StreamInfo]:
        """Newest commit first."""

    @abstractmethod
    async def count_streams(self, *states: StreamState) -> int: ...

    async def abandoned(self, before: int) -> list[str]:
        """Streams that have not ended, have had no commit since `before` (ms since the epoch), and that no other daemon
        serves."""
        # A stream stays `open` when a commit of its connection failed.
        left = [*await self.streams("suspended"), *await self.streams("open")]
        return [one.stream for one in reversed(left) if one.updated <= before]

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
        """Newest first: `tooltap.protocol.replies.Session` as JSON objects. `before`: the place of the last session of
        the page before, as `place_of` returns it."""

    @abstractmethod
    async def count_sessions(self, wanted: SessionFilter = ANY_SESSION) -> dict[str, dict[str, int]]:
        """Number of sessions of each `status`, `provider` and `project`."""

    @abstractmethod
    async def usage(self, request: UsageRequest) -> UsageResult:
        """Sums of what sessions used and cost."""

    @abstractmethod
    async def open_calls(
        self, session: str | None = None, stream: str | None = None
    ) -> dict[str, list[dict[str, Any]]]:
        """`{calls: [{stream, session, callId, name, seq, …}], permissions: […]}`: those without a result or answer
        yet."""

    @abstractmethod
    async def output(
        self, output_id: str, offset: int, length: int, unit: Literal["bytes", "lines"]
    ) -> OutputSlice | None: ...

    async def daemons(self) -> set[str]:
        """The daemons that use the journal now, this one among them. Raises `JournalError`."""
        return {self.daemon}

    @abstractmethod
    async def load_note(self, name: str) -> bytes | None:
        """The bytes stored last under this name; None if there are none."""

    @abstractmethod
    async def store_note(self, name: str, data: bytes) -> None:
        """Store a few bytes that are no events, in place of what the name had; return when they are durable. Raises
        `JournalError`."""

    @abstractmethod
    async def expire(self, before: int, max_bytes: int | None = None) -> int:
        """Retention: delete the events of ended streams that have had no commit since `before` (ms since the epoch) and
        are not `followed`, and those of the streams that ended first while more than `max_bytes` are stored. Works in
        bounded steps, so that commits need not wait. Returns how many events were deleted."""

    @abstractmethod
    async def remove_session(self, session: str) -> int:
        """Delete a session: its events, their output bodies, and the lines its streams retain. Returns how many events
        were deleted. Raises `NotEndedError` while one of its streams has not ended."""

    async def scrub(self, share: float) -> int:
        """Verify all that is stored, in `share` of the time, and return how many damages there are. A journal whose
        server does that by itself does nothing."""
        return 0

    @property
    def problem(self) -> str:
        """One sentence: what the journal waits for, or why it cannot store anything; empty if all is well."""
        return ""

    def stop_waiting(self) -> None:  # noqa: B027 -- only a journal that is elsewhere waits
        """The daemon is about to end: whoever waits for a journal that cannot be reached gets a `JournalError` now."""

    def statistics(self) -> dict[str, int]:
        """For `stats`, since startup: `reads` (calls of `read`), `commits`, `transactions`, `events`. Each journal adds
        more, at least `bytes` on disk."""
        return {
            "reads": self._reads,
            "commits": self._commits,
            "transactions": self._transactions,
            "events": self._events,
        }

    @abstractmethod
    async def close(self) -> None: ...
