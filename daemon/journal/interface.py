"""The journal's interface: the durable, ordered log of events, and what it keeps of each stream.

One `Commit` is one stream's lines m+1…n in full: their events, the pieces of their output bodies, the tail (or the
snapshot that replaces it) and the statistics; it is stored wholly or not at all. Readers see commits in `seq` order.
The ingest side (`ingest.py`) makes commits, the hub (`hub.py`) publishes what has been committed and reads back what a
slow subscriber missed. `journal_sqlite.py` implements this on one SQLite file, for one daemon, and `journal_nats.py`
on NATS JetStream, for many.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from tooltap.normalizers.core.items import OutputPiece
from tooltap.normalizers.stream.bounds import Produced
from tooltap.protocol.filters import Filter
from tooltap.protocol.stats import Statistics
from tooltap.protocol.tapped import Direction

__all__ = [
    "REMEMBER_STREAMS_MS",
    "Commit",
    "Committed",
    "Journal",
    "JournalError",
    "NotEndedError",
    "OutputSlice",
    "PlaceError",
    "StoredEvent",
    "StoredStream",
    "StreamConflictError",
    "StreamInfo",
    "StreamState",
    "TailRecord",
]

StreamState: TypeAlias = Literal["open", "suspended", "ended"]

REMEMBER_STREAMS_MS = 90 * 24 * 3600 * 1000
"""How long the position of an ended stream outlives its last commit, at least."""


class JournalError(Exception):
    """The journal cannot be opened or written; the message is one sentence for the user."""


class PlaceError(ValueError):
    """No journal can be at the place that was named; the message is one sentence for the user."""


class StreamConflictError(Exception):
    """A commit did not start where the stored stream ends: another publisher has taken the stream over."""


class NotEndedError(Exception):
    """What is to be deleted is still being written; the message is one sentence for the user."""


class StoredEvent(NamedTuple):
    seq: int
    body: bytes
    """The encoded event without `seq`: what goes out is `with_seq(seq, body)` and a newline."""


class TailRecord(msgspec.Struct, array_like=True, omit_defaults=True):
    """One thing that changed a stream's parser since its last snapshot."""

    kind: Literal["line", "long", "lost", "close"]
    t: int | None = None
    direction: Direction | None = None
    line: bytes = b""
    """The line, or the head of a long one."""
    size: int = 0
    """Bytes of a long line, or of the lost lines."""
    lines: int = 0
    """How many lines were lost."""
    reason: str = ""
    """Of a loss or a close."""
    left_out: bool = False
    """Of a line: another stream tells what it says, so that it gave no events."""


class StreamInfo(msgspec.Struct, kw_only=True):
    """What a stream was opened with, and how far it has come."""

    stream: str
    asked_dialect: str = "auto"
    """The dialect the publisher asked for."""
    dialect: str | None = None
    """The dialect in force; None while `auto` has not decided."""
    provider: str | None = None
    session: str | None = None
    agent: str | None = None
    parent: str | None = None
    mcp_servers: tuple[str, ...] = ()
    state: StreamState = "open"
    lines: int = 0
    crc: int = 0
    """CRC-32 of line `crc_line`, the last line received whole (lost and over-long ones have none)."""
    crc_line: int = 0
    ids: int = 0
    """CRC-32 over the ids of all events so far: what a rebuilt parser gives again is compared with it."""
    last_session: str | None = None
    """Session of the last event."""
    agent_version: str | None = None
    first_t: int | None = None
    """Time of the first line."""
    last_t: int | None = None
    """Time of the last line, or of the end that its publisher said."""
    statistics: Statistics
    updated: int = 0
    """Milliseconds since the epoch of the last commit."""
    position: int = 0
    """Where a journal that many daemons share had the stream's last commit when it was loaded: who goes on from there
    is refused when another daemon has committed since."""


class StoredStream(NamedTuple):
    info: StreamInfo
    snapshot: bytes | None
    snapshot_lines: int
    """Lines the snapshot has seen; the tail goes on from there."""
    tail: list[TailRecord]


class Commit(NamedTuple):
    """Lines m+1…n of one stream."""

    info: StreamInfo
    """The stream as it is after these lines."""
    base_lines: int
    """m: what the stored stream must have, else `StreamConflictError`."""
    outputs: Sequence[Produced | OutputPiece]
    """In order. Partials among them are not stored; they are published in their place."""
    tail: Sequence[TailRecord]
    snapshot: bytes | None = None
    """Replaces snapshot and tail; this commit's own tail records are part of it."""


class Committed(NamedTuple):
    """The outputs of a commit that is durable, and the `seq` of each (None for partials and pieces, which have
    none)."""

    outputs: Sequence[Produced | OutputPiece]
    seqs: list[int | None]


class OutputSlice(NamedTuple):
    data: bytes
    offset: int
    """In the unit asked for."""
    total: int
    """Of the whole body, in the unit asked for."""
    mime_type: str


class Journal(ABC):
    """All methods may be called from the event loop; none blocks it."""

    id: str
    """Random, made with the journal; a cursor of another journal is told apart by it."""

    def __init__(self) -> None:
        self.on_commit: Callable[[list[Committed]], None] = lambda _: None
        """Called in the event loop, in `seq` order, with what has been committed."""
        self._reads = self._commits = self._transactions = self._events = 0
        """For `statistics`."""

    @property
    @abstractmethod
    def oldest(self) -> int:
        """`seq` of the oldest event kept; `latest + 1` if there is none."""

    @property
    @abstractmethod
    def latest(self) -> int:
        """`seq` of the newest event; 0 in a new journal."""

    @property
    @abstractmethod
    def expired(self) -> int:
        """The highest `seq` that retention has deleted, else 0. Only up to here may events be missing: older ones of
        streams that have not ended are kept."""

    @abstractmethod
    async def commit(self, commit: Commit) -> None:
        """Returns when durable; waits while the journal cannot be reached. Raises `StreamConflictError`,
        `JournalError`."""

    @abstractmethod
    async def listen(self) -> int:
        """Before a subscription begins: gives the `seq` up to which `on_commit` has been called, which is no older than
        the question; for what follows it is called. Raises `JournalError`."""

    @abstractmethod
    def rest(self) -> None:
        """Nobody subscribes any more: `on_commit` need not be called until `listen` is."""

    @abstractmethod
    async def read(
        self, after: int, wanted: Filter | None = None, *, up_to: int | None = None, max_bytes: int = 262_144
    ) -> tuple[list[StoredEvent], int]:
        """Events with `seq` > `after`, at least one if there is one; and the `seq` up to which all was looked at."""

    @abstractmethod
    async def read_back(
        self, before: int, wanted: Filter | None = None, *, limit: int, max_bytes: int = 262_144
    ) -> tuple[list[StoredEvent], int]:
        """Events with `seq` < `before`, newest first, at most `limit` and about `max_bytes` of them, at least one if
        there is one; and the `seq` down to which all was looked at, `oldest` or less where there is nothing more."""

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
        """Streams that are not ended, have had no commit since `before` (ms since the epoch), and that no other daemon
        looks after."""
        # One stays `open` when a commit of its session failed.
        left = [*await self.streams("suspended"), *await self.streams("open")]
        return [one.stream for one in reversed(left) if one.updated <= before]

    @abstractmethod
    async def streams_of(self, session: str) -> list[StreamInfo]:
        """The streams that have events of this session."""

    @abstractmethod
    async def suspend_all(self) -> int:
        """At start-up: every open stream is suspended; gives how many."""

    @abstractmethod
    async def sessions(self, *, limit: int = 100, before: int | None = None) -> list[dict[str, Any]]:
        """Newest first, by last `seq`: `{session, provider, agentVersion?, model?, title?, cwd?, state, firstSeq,
        lastSeq, firstTs?, lastTs?, events, calls, streams[], costUsd?, inputTokens?, outputTokens?}`; `before`: a
        `lastSeq`."""

    @abstractmethod
    async def open_calls(
        self, session: str | None = None, stream: str | None = None
    ) -> dict[str, list[dict[str, Any]]]:
        """`{calls: [{stream, session, callId, name, seq, …}], permissions: […]}`: what has no result or answer yet."""

    @abstractmethod
    async def output(
        self, output_id: str, offset: int, length: int, unit: Literal["bytes", "lines"]
    ) -> OutputSlice | None: ...

    @abstractmethod
    async def expire(self, before: int, max_bytes: int | None = None) -> int:
        """Retention: delete the events of streams that ended and have had no commit since `before` (ms since the
        epoch), and of those that ended first as long as more than `max_bytes` are kept; a bounded number at a time,
        between which others commit. Gives how many went."""

    @abstractmethod
    async def remove_session(self, session: str) -> int:
        """Delete a session, its events and their bodies, and what ended streams keep of their lines; gives how many
        events went. Raises `NotEndedError` while a stream of it has not ended."""

    def statistics(self) -> dict[str, int]:
        """For `stats`, of this run: `reads` (calls of `read`), `commits`, `transactions`, `events`; each
        journal adds more, `bytes` on disk at least."""
        return {
            "reads": self._reads,
            "commits": self._commits,
            "transactions": self._transactions,
            "events": self._events,
        }

    @abstractmethod
    async def close(self) -> None: ...
