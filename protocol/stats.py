"""The statistics of a stream: in the `done` frame, in `stats`, and in `--stats-json`."""

from __future__ import annotations

import msgspec

__all__ = ["LoopStatistics", "Removed", "RetentionStatistics", "Stall", "Statistics"]

MAX_NAMES = 1_000
"""Most distinct names per table; further ones are counted under `…`."""
LONGEST_NAME = 128
"""Most characters of a name in a table."""


class Statistics(msgspec.Struct, kw_only=True, rename="camel"):
    """The counts of a whole stream: always, `lines = with_events + unparsed + sum(skipped)`."""

    stream: str
    dialect: str
    provider: str
    lines: int = 0
    """Lines that have a class, not counting those that are held until the dialect is recognised."""
    with_events: int = 0
    """Lines that produced events, or content of a later event."""
    unparsed: int = 0
    skipped: dict[str, int] = {}
    """Reason -> lines; each dialect has a fixed set of reasons."""
    events: int = 0
    """Events, without partials."""
    kinds: dict[str, int] = {}
    tools: dict[str, int] = {}
    """Canonical name -> calls."""
    raw_tools: dict[str, int] = {}
    """Name on the wire -> calls."""
    extensions: dict[str, int] = {}
    """Method that the protocol does not define, but allows -> lines that were skipped because of that."""
    bytes: int = 0
    """Bytes of the lines, without newlines."""
    repaired: int = 0
    """Lines that were read although they are not valid JSON in UTF-8 with unique keys."""

    def count_skip(self, reason: str, lines: int = 1) -> None:
        """Count lines without events. `reason`: the reason for skipping them, or `unparsed`."""
        if reason == "unparsed":
            self.unparsed += lines
        else:
            _count(self.skipped, reason, lines)

    def count_extension(self, method: str) -> None:
        """Count a line of an extension of the protocol."""
        _count(self.extensions, method)

    def adjust(self, kind: str, tool: str | None, raw_tool: str | None, by: int) -> None:
        """Count an event (`by` 1), or take its count back (-1)."""
        self.events += by
        _count(self.kinds, kind, by)
        if kind == "tool-call":
            _count(self.tools, str(tool), by)
            _count(self.raw_tools, str(raw_tool), by)

    def count_call(self, tool: str | None, raw_tool: str | None) -> None:
        """Count a call under its tool's names, the canonical one and the one on the wire."""
        _count(self.tools, str(tool))
        _count(self.raw_tools, str(raw_tool))


def _count(table: dict[str, int], name: str, number: int = 1) -> None:
    """Add to the number under a name in a bounded table."""
    name = name[:LONGEST_NAME]
    if name not in table and len(table) >= MAX_NAMES:
        name = "…"
    table[name] = table.get(name, 0) + number
    if not table[name]:
        del table[name]


class Removed(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """What retention has removed."""

    sessions: int = 0
    """Sessions of which nothing is left."""
    events: int = 0
    bodies: int = 0
    """Output bodies, with those of removed events. On NATS always 0: bodies go with their events."""
    bytes: int = 0
    """Length of these events and bodies, uncompressed. On NATS always 0."""
    oldest: int | None = None
    newest: int | None = None
    """When the oldest and the newest of it happened, in milliseconds since the epoch. An output body that was removed
    before its event counts with the latest event of its session."""
    at: int | None = None
    """When something was removed last, in milliseconds since the epoch."""

    def plus(self, other: Removed) -> Removed:
        """The sum of both."""
        times = [one for one in (self.oldest, self.newest, other.oldest, other.newest) if one is not None]
        return Removed(
            sessions=self.sessions + other.sessions,
            events=self.events + other.events,
            bodies=self.bodies + other.bodies,
            bytes=self.bytes + other.bytes,
            oldest=min(times, default=None),
            newest=max(times, default=None),
            at=max((one for one in (self.at, other.at) if one is not None), default=None),
        )


class RetentionStatistics(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """`journal.retention` in the reply to `stats`: what retention has removed since the journal was created."""

    age: Removed = Removed()
    """Because of `retention_days`."""
    size: Removed = Removed()
    """Because of `retention_bytes`."""
    size_limit: int | None = None
    """`retention_bytes` when something was removed last because of it."""

    def plus(self, other: RetentionStatistics) -> RetentionStatistics:
        """The sum of both. `other`: the later one."""
        return RetentionStatistics(
            age=self.age.plus(other.age),
            size=self.size.plus(other.size),
            size_limit=self.size_limit if other.size_limit is None else other.size_limit,
        )


class Stall(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """A turn of the daemon's event loop that took too long; during it, no client got a reply."""

    what: str
    """The work in this turn: a stream and a line, a commit, a request, a page; `unknown` if it was not labeled."""
    ms: int
    cpu_ms: int
    """Processor time of the turn. Much less than `ms` means that the machine, or another thread of the daemon, was
    busy."""
    at: int
    """End of the turn in milliseconds since the epoch."""
    place: str
    """The innermost calls in the code, if they were sampled; else empty."""


class LoopStatistics(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """`loop` in the reply to `stats`: stalls of the daemon's event loop of more than `limitMs`, since it started."""

    limit_ms: int
    stalls: int
    longest: Stall | None
    recent: list[Stall]
    """The newest first."""


class BackfillStatistics(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """`following.backfill` in the reply to `stats`: session files from before the start of the daemon that are to be
    read."""

    files: int
    files_done: int
    """Number of these files that have been read, or cannot be read."""
    bytes: int
    """Bytes to read of these files, as of when they were found."""
    bytes_done: int
    complete: bool
    """Whether all folders have been listed, and all files in them are done."""


class FollowStatistics(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """`following` in the reply to `stats`: the session files of agents. It is absent if none are followed."""

    files: int
    """Number of session files found."""
    open: int
    """Number of these files that are open."""
    waiting: int
    """Number of these files that wait to be read."""
    agents: dict[str, int]
    """Agent that has stored sessions -> number of its files."""
    backfill: BackfillStatistics
    unwatched: dict[str, str] = {}
    """Folder that the system cannot watch, so that it is listed periodically -> reason. Empty if there is none."""
    remote: dict[str, str] = {}
    """Folder of which a part is on a file system that does not report what other machines change, so that it is also
    listed periodically -> type of the file system. Empty if there is none."""
    unreadable: dict[str, str] = {}
    """Session file that cannot be read -> reason. At most 100, and empty if there is none."""
    delays: dict[str, float] = {}
    """Folder that is listed periodically -> most seconds until a change in it is noticed."""
    latest: dict[str, int] = {}
    """Folder that has more folders than can be watched -> how many of them are: those written last. A change in these
    is noticed at once."""
