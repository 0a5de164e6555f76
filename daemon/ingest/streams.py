"""The streams being published, apart from the socket: who may write to which, and when an abandoned one is closed.

`Streams.open` answers a publisher's `ingest` frame with an `IngestConnection`. One connection owns a stream. A second
connection for the same stream takes over, and what the first one had not committed is discarded: its publisher has not
been acknowledged for it. Whoever resumes a stream rebuilds it from the journal, within one daemon just as after a
restart, so that there is one way to resume and the tests of one cover the other.

The lock per stream makes load, takeover and open one step: between loading a stream and owning it, nobody else in this
daemon commits to it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from weakref import WeakValueDictionary

import anyio
from anyio.abc import TaskGroup

from tooltap.daemon.ingest.connection import IngestConnection, Setting
from tooltap.daemon.ingest.live_stream import LiveStream, context_of
from tooltap.daemon.ingest.resume import resume
from tooltap.daemon.ingest.tracing import StreamTrace
from tooltap.daemon.journal.interface import (
    Commit,
    Journal,
    JournalError,
    StoredStream,
    StreamConflictError,
    StreamInfo,
)
from tooltap.daemon.system.clock import Clock, wall_clock
from tooltap.daemon.views.results import Policy, Rewrite, StreamViews
from tooltap.normalizers.catalog.registry import UnknownDialectError
from tooltap.normalizers.core.items import Limits
from tooltap.normalizers.stream.normalizer import Output, StreamNormalizer
from tooltap.protocol.frames import DaemonFrame, FrameError, Ingest, Ingesting
from tooltap.protocol.stats import Statistics
from tooltap.traces.drift.drift import Drift
from tooltap.traces.recording.writer import TraceWriter

__all__ = ["Streams"]

VIEW_ATTEMPTS = 3


class Streams:
    """`tasks` runs the commits, which outlive their connections. `snapshot_bytes`: a tail longer than this is replaced
    by a snapshot. `max_streams`: when so many streams have not ended, a new one is refused. `drift` observes all lines.
    `policy`: how results are shown. The other options are those of `Setting`."""

    def __init__(
        self,
        journal: Journal,
        tasks: TaskGroup,
        *,
        limits: Limits,
        snapshot_bytes: int = 1024 * 1024,
        in_flight_bytes: int = 256 * 1024,
        suspend_timeout_ms: int = 15 * 60 * 1000,
        max_streams: int = 20_000,
        clock: Clock = wall_clock,
        partials_wanted: Callable[[], bool] = lambda: False,
        trace: TraceWriter | None = None,
        drift: Drift | None = None,
        policy: Policy | None = None,
        rewrite: Callable[[Sequence[Rewrite]], None] = lambda _: None,
    ) -> None:
        self.connections: dict[str, IngestConnection] = {}
        """Stream -> the connection that owns it."""
        self._journal = journal
        self._limits = limits
        self._snapshot_bytes = snapshot_bytes
        self._suspend_timeout_ms = suspend_timeout_ms
        self._max_streams = max_streams
        self._clock = clock
        self._drift = drift
        self._policy = policy
        self._locks: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()
        self._setting = Setting(
            journal=journal,
            clock=clock,
            line_bytes=limits.line_bytes,
            in_flight_bytes=in_flight_bytes,
            commit_soon=lambda connection: tasks.start_soon(connection.commit_all),
            on_over=self._forget,
            partials_wanted=partials_wanted,
            rewrite=rewrite,
            trace=trace,
        )

    async def open(self, request: Ingest, send: Callable[[DaemonFrame], None]) -> IngestConnection:
        """Start, resume or take over a stream; `ingesting` is the first frame sent. The caller feeds it what it
        receives, and must `finish` it whatever happens. Raises `FrameError` and `JournalError`."""
        stream = request.stream or secrets.token_hex(8)
        async with self._lock(stream):
            stored = await self._load(stream, request)
            if (owner := self.connections.get(stream)) is not None:
                await owner.supersede()
                stored = await self._load(stream, request)
            if stored is None:
                await self._check_room(stream)
                live = self._new(stream, request)
            else:
                live = await self._resume(stored)
            send(_ingesting(live, new=stored is None))
            connection = IngestConnection(live, request.framing, send, self._setting)
            self.connections[stream] = connection
            connection.start()
            return connection

    async def end(self, stream: str) -> Statistics:
        """End a stream, whoever owns it, and return its statistics. Raises `FrameError`, `JournalError`."""
        async with self._lock(stream):
            if (owner := self.connections.get(stream)) is not None:
                if (statistics := await owner.end()) is None:
                    raise JournalError(f"the end of stream {stream} could not be written")
                return statistics
            stored = await self._journal.load_stream(stream)
            if stored is None:
                raise FrameError("not-found", f"there is no stream {stream!r}")
            return await self._close(stored, "end")

    async def add_view(self, stream: str, outputs: Sequence[Output]) -> None:
        """Journal a view of one of the stream's results, whoever owns the stream. Does nothing if the stream was
        deleted. Raises `JournalError`."""
        async with self._lock(stream):
            owner = self.connections.get(stream)
            if owner is not None and await owner.add_view(outputs):
                return
            for _ in range(VIEW_ATTEMPTS):
                stored = await self._journal.load_stream(stream)
                if stored is None:
                    return
                with suppress(StreamConflictError):  # a daemon that shares the journal has resumed it
                    await self._journal.commit(Commit(stored.info, stored.info.lines, outputs, ()))
                    return

    async def close_overdue(self) -> int:
        """Close the streams whose publishers have not come back; returns how many. Call this regularly."""
        deadline = self._clock() - self._suspend_timeout_ms
        closed = 0
        for stream in await self._journal.abandoned(deadline):
            async with self._lock(stream):
                stored = await self._journal.load_stream(stream)
                if stored is not None and stored.info.updated <= deadline and stream not in self.connections:
                    with suppress(StreamConflictError):  # another daemon has resumed it
                        await self._close(stored, "suspended-too-long")
                        closed += 1
        return closed

    async def suspend_all(self) -> None:
        """At shutdown: commit what was received, and send every publisher its position."""
        async with anyio.create_task_group() as tasks:
            for connection in list(self.connections.values()):
                tasks.start_soon(connection.suspend)

    # -- inner workings -----------------------------------------------------------------------------------------

    def _lock(self, stream: str) -> anyio.Lock:
        lock = self._locks.get(stream)
        if lock is None:
            lock = self._locks[stream] = anyio.Lock()
        return lock

    def _forget(self, connection: IngestConnection) -> None:
        if self.connections.get(connection.stream) is connection:
            del self.connections[connection.stream]

    async def _load(self, stream: str, request: Ingest) -> StoredStream | None:
        stored = await self._journal.load_stream(stream)
        if request.framing == "raw":  # raw bytes do not say where in the stream they belong
            lines = stored.info.lines if stored is not None else 0
            if request.from_ is None and (stored is not None or stream in self.connections):
                raise FrameError("stream-exists", f"stream {stream} exists; resume it with `from`: {lines}")
            if request.from_ not in (None, lines):
                raise FrameError("stream-exists", f"stream {stream} has {lines} lines, not {request.from_}")
        return stored

    async def _close(self, stored: StoredStream, reason: str) -> Statistics:
        """End a stream that no connection owns."""
        if stored.info.state == "ended":
            return stored.info.statistics
        live = await self._resume(stored)
        live.close(reason, self._clock())
        commit = live.take(self._clock())
        await self._journal.commit(commit)
        if self._setting.trace is not None:
            StreamTrace(self._setting.trace, live).add(commit)
        return live.statistics

    async def _check_room(self, stream: str) -> None:
        """Check that one more stream is allowed. Raises `FrameError`."""
        if await self._journal.count_streams("open", "suspended") >= self._max_streams:
            raise FrameError(
                "too-many-streams", f"stream {stream} is refused: {self._max_streams} streams have not ended; end some"
            )

    def _new(self, stream: str, request: Ingest) -> LiveStream:
        info = StreamInfo(
            stream=stream,
            asked_dialect=request.dialect,
            provider=request.provider,
            session=request.session,
            agent=request.agent,
            parent=request.parent,
            mcp_servers=request.mcp_servers,
            statistics=Statistics(stream=stream, dialect=request.dialect, provider=request.provider or ""),
        )
        try:
            normalizer = StreamNormalizer(context_of(info, self._limits), request.dialect)
        except UnknownDialectError as error:
            raise FrameError("unknown-dialect", str(error)) from None
        return LiveStream(
            info,
            normalizer,
            committed_state=None,
            snapshot_bytes=self._snapshot_bytes,
            drift=self._drift,
            views=self._views(),
        )

    def _views(self) -> StreamViews | None:
        return None if self._policy is None else StreamViews(self._policy, self._limits)

    async def _resume(self, stored: StoredStream) -> LiveStream:
        return await resume(
            self._journal,
            stored,
            limits=self._limits,
            snapshot_bytes=self._snapshot_bytes,
            now=self._clock(),
            drift=self._drift,
            views=self._views(),
        )


def _ingesting(live: LiveStream, *, new: bool) -> Ingesting:
    info = live.info
    return Ingesting(
        stream=info.stream,
        state="new" if new else "ended" if info.state == "ended" else "suspended",
        lines=info.lines,
        dialect=live.normalizer.dialect or info.asked_dialect,
        crc=f"{info.crc:08x}" if info.crc_line else None,
        crc_line=info.crc_line or None,
    )
