"""The registry of streams being published, independent of sockets: their owners, takeover, resuming, and closing
abandoned streams.

`Streams.open` answers a publisher's `ingest` frame with an `IngestConnection`. One connection owns a stream. A second
connection for the same stream takes over, and uncommitted lines of the first are discarded: they were not acknowledged
to its publisher. A stream is always resumed by rebuilding it from the journal, within one daemon just as after a
restart, so that there is one code path for both.

The lock per stream makes load, takeover and open atomic: between loading a stream and owning it, nobody else in this
daemon commits to it.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup

from tooltap.daemon.ingest.connection import IngestConnection, Setting, contained, ingesting, settle_rewrites
from tooltap.daemon.ingest.live_stream import (
    SNAPSHOT_FORMAT,
    Late,
    LiveStream,
    Parent,
    Snapshot,
    StreamTrace,
    context_of,
    ids_of,
    load_normalizer,
    masked_prompt,
)
from tooltap.daemon.ingest.offload import Offload
from tooltap.daemon.ingest.refusals import Refusals
from tooltap.daemon.ingest.settling import Settling, is_of_journal
from tooltap.daemon.ingest.unstored import Unstored
from tooltap.daemon.journal.interface import (
    Commit,
    Journal,
    JournalError,
    NotEndedError,
    StoredStream,
    StreamConflictError,
    StreamInfo,
)
from tooltap.daemon.sessions.joining import (
    DISPLAY_TOOLS,
    Displays,
    Joining,
    is_tap,
    is_telemetry,
    remove_reported,
    take_held,
)
from tooltap.daemon.sessions.projection import HOOKS
from tooltap.daemon.sessions.questions import Questions, Settled
from tooltap.daemon.sessions.repository import Repositories
from tooltap.daemon.sessions.subagents import Spawned, Subagents
from tooltap.daemon.sessions.unsaid import CallsOfTaps, Said, take_unsaid
from tooltap.daemon.system.clock import Clock, wall_clock
from tooltap.daemon.system.logs import Trouble, faults, get_logger
from tooltap.daemon.system.loop import TimeSlices, Work
from tooltap.daemon.views.results import Policy, Rewrite, StreamViews
from tooltap.daemon.views.rewriter import Outcomes
from tooltap.normalizers.catalog.registry import UnknownDialectError
from tooltap.normalizers.core.items import Limits, Produced
from tooltap.normalizers.core.state import OpenCall, PendingPermission
from tooltap.normalizers.stream.normalizer import AUTO, Output, StreamNormalizer
from tooltap.normalizers.stream.reset import LeftOpen, place_of
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.frames import DaemonFrame, FrameError, Ingest
from tooltap.protocol.inputs import Close, Line, Lost, Settle, each
from tooltap.protocol.stats import Statistics
from tooltap.traces.drift.drift import Drift
from tooltap.traces.recording.writer import TraceWriter

ATTEMPTS = 3
"""Attempts to change a stored stream if other daemons that share the journal commit to it meanwhile."""
SNAPSHOT_BYTES = 1024 * 1024
"""A stream's tail is replaced by a snapshot when it has more bytes than this and than four times the last snapshot."""
IN_FLIGHT_BYTES = 256 * 1024
"""Most bytes of a publisher that are read but not yet committed."""
DISPLAY_PATIENCE = 5.0
"""Seconds for which a report of `tooltap mcp` waits for the agent's own result, if the agent is tapped or followed."""
DIALOG_MS = 12 * 60 * 60 * 1_000
"""For how long the dialog of an agent may be open whose hook has only told of it."""
SETTLE_SECONDS = 3.0
"""Seconds of silence after which a stream is settled."""
STREAMS_RESTORED = 1_000
"""Most streams examined by `restore`: those with the newest commits."""

_log = get_logger("streams")


class Streams:
    """The streams being published.

    `tasks` runs the commits, which outlive their connections. `snapshot_bytes`: a tail longer than this is replaced by
    a snapshot. `max_streams`: limit of publishers' streams that have not ended; beyond it, a new one is refused.
    `drift` observes all lines. `policy`: how results are shown. `missing_views` makes the missing views of a resumed
    stream. `agents` returns the names of agents that are followed or about to be tapped. `display_patience`: seconds
    for which events of display servers wait for agents' results (`sessions/joining.py`). `settle_seconds`: silence
    after which a stream is settled, while `run_settling` runs. `masks`: mask secrets. The other options are those of
    `Setting`.
    """

    def __init__(
        self,
        journal: Journal,
        tasks: TaskGroup,
        *,
        limits: Limits,
        snapshot_bytes: int = SNAPSHOT_BYTES,
        in_flight_bytes: int = IN_FLIGHT_BYTES,
        suspend_timeout_ms: int = 15 * 60 * 1000,
        settle_seconds: float = SETTLE_SECONDS,
        max_streams: int = 20_000,
        clock: Clock = wall_clock,
        partials_wanted: Callable[[], bool] = lambda: False,
        trace: TraceWriter | None = None,
        drift: Drift | None = None,
        policy: Policy | None = None,
        rewrite: Callable[[Sequence[Rewrite]], None] = lambda _: None,
        asked: Callable[[Commit, bool], None] = lambda commit, is_first: None,
        missing_views: Callable[[StreamInfo], Awaitable[None]] | None = None,
        agents: Callable[[], Iterable[str]] = tuple,
        display_patience: float = DISPLAY_PATIENCE,
        offload: Offload | None = None,
        masks: bool = False,
    ) -> None:
        self.connections: dict[str, IngestConnection] = {}
        """Stream -> the connection that owns it."""
        self.subagents = Subagents(journal)
        self.refusals = Refusals(journal)
        self._tasks = tasks
        self._journal = journal
        self._limits = limits
        self._snapshot_bytes = snapshot_bytes
        self._suspend_timeout_ms = suspend_timeout_ms
        self._unclosed = Trouble(
            _log, "suspended streams cannot be closed; it is tried again", "suspended streams are closed again"
        )
        self._max_streams = max_streams
        self._clock = clock
        self._drift = drift
        self._policy, self._masks = policy, masks
        self._offload = offload or Offload()
        self._missing_views = missing_views
        self._locks: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()
        self._display_patience = display_patience
        self._displays = Displays(
            lambda: {*agents(), *self._tapped()},
            lambda stream, call_id: tasks.start_soon(self._take_held, stream, call_id, False),
            lambda stream, call_id: tasks.start_soon(self._report_held, stream, call_id),
        )
        self._awaited: set[tuple[str, anyio.Event]] = set()
        """Sessions that are waited for, each with what is set when it is reported."""
        self._questions = Questions(
            journal,
            lambda settled: tasks.start_soon(self._settle_question, settled),
            lambda session: tasks.start_soon(self._find_call, session),
        )
        self._settling = Settling(settle_seconds, self._settle)
        self.read_on: Callable[[str], bool] = lambda _: False
        """Lets the file of a stream be read to its end, which reports its calls (`report_unsaid`); False if no file of
        the stream is open."""
        self._setting = Setting(
            journal=journal,
            clock=clock,
            line_bytes=limits.line_bytes,
            in_flight_bytes=in_flight_bytes,
            joining=Joining(
                journal,
                lambda: [one.live.info for one in self.connections.values()],
                self._providers,
                self._displays,
            ),
            repositories=Repositories(),
            commit_soon=lambda connection: tasks.start_soon(connection.commit_all),
            on_over=self._forget,
            reload=self._reload,
            partials_wanted=partials_wanted,
            refusals=self.refusals,
            spawned=self._tie_agents,
            committed=self._committed,
            settling=self._settling,
            rewrite=rewrite,
            asked=asked,
            unstored=Unstored(),
            trace=trace,
            offload=self._offload,
            turns=TimeSlices(),
        )

    async def open(
        self, request: Ingest, send: Callable[[DaemonFrame], None], *, followed: bool = False
    ) -> IngestConnection:
        """Start, resume or take over a stream; `ingesting` is the first frame sent. The caller feeds it what it
        receives, and must `finish` it whatever happens. `followed`: it is of a session file that is followed; however
        many there are, none is refused, and that it is open is committed with its first lines. Raises `FrameError` and
        `JournalError`."""
        stream = request.stream or secrets.token_hex(8)
        async with self._lock(stream):
            owner = self.connections.get(stream)
            stored = await self._load(stream, request)
            if owner is not None:  # which may have committed more meanwhile, and be over
                await owner.supersede()
                stored = await self._load(stream, request)
            if stored is None:
                if not followed:
                    await self._check_room(stream)
                live = self._new(stream, request)
                live.info.followed = followed
            else:
                live = await self._resume(stored)
                if stored.info.rewriting and self._missing_views is not None:
                    left = msgspec.structs.replace(stored.info)  # copied: `live` marks more results in `stored.info`
                    self._tasks.start_soon(self._make_missing_views, self._missing_views, left)
                if request.parent is not None and live.info.parent is None:
                    live.apply(Parent(request.parent, self._clock()))
            send(ingesting(live, new=stored is None))
            connection = IngestConnection(live, request, send, self._setting)
            self.connections[stream] = connection
            connection.start(commits=not followed)
            return connection

    async def end(self, stream: str) -> Statistics:
        """End a stream, with or without an owner, and return its statistics. Raises `FrameError`, `JournalError`."""
        async with self._lock(stream):
            if (owner := self.connections.get(stream)) is not None:
                if (statistics := await owner.end()) is None:
                    raise JournalError(f"the end of stream {stream} could not be written")
                return statistics
            stored = await self._journal.load_stream(stream)
            if stored is None:
                raise FrameError("not-found", f"there is no stream {stream!r}")
            _check_is_local(stored)
            return await self._close(stored, "end")

    async def with_stream(
        self,
        stream: str,
        by_owner: Callable[[IngestConnection], Awaitable[bool]],
        stored_commit: Callable[[StoredStream], Awaitable[Commit | None]],
    ) -> bool:
        """Change a stream, with or without an owner. `by_owner` changes it through its connection, and returns whether
        that succeeded. Otherwise the stream is loaded, and the commit that `stored_commit` returns (None: no change) is
        committed, unless another daemon that shares the journal keeps committing to the stream. Returns whether a
        commit was made here. Raises `JournalError`."""
        async with self._lock(stream):
            owner = self.connections.get(stream)
            if owner is not None and await by_owner(owner):
                return False
            for _ in range(ATTEMPTS):
                stored = await self._journal.load_stream(stream)
                if stored is None or stored.info.remote is not None:
                    return False
                if (commit := await stored_commit(stored)) is None:
                    return False
                with suppress(StreamConflictError):
                    await self._journal.commit(commit)
                    return True
        return False

    async def to_agent(self, stream: str, payload: Any, by: str) -> None:
        """Send a payload to the agent of a stream; `by`: who sends it. Returns when its publisher has accepted it.
        Raises `FrameError`."""
        if (owner := self.connections.get(stream)) is None:
            raise FrameError("no-publisher", f"no publisher of stream {stream!r} is connected")
        await owner.to_agent(payload, by)

    async def settle_views(self, stream: str, outcomes: Outcomes) -> None:
        """Journal the outcomes of commands that make views of the stream's results. Does nothing if they are known, or
        the stream was deleted. Raises `JournalError`."""

        async def settled(stored: StoredStream) -> Commit | None:
            outputs = settle_rewrites(stored.info, outcomes)
            return None if outputs is None else Commit(stored.info, stored.info.lines, outputs, ())

        await self.with_stream(stream, lambda owner: owner.settle_views(outcomes), settled)

    async def restore(self) -> None:
        """At startup: resume waiting for agents' results of display tools, and for the silence of streams. Raises
        `JournalError`."""
        for info in await self._journal.streams(limit=STREAMS_RESTORED):
            if info.unsettled and info.state == "suspended":
                self._settling.add(info.stream, (self._clock() - info.updated) / 1_000)
            self.report_unsaid(info)
            if info.pending_displays:
                with contained("what a display tool has shown is lost", stream=info.stream):
                    self._displays.remember(info)
        await self._questions.restore()

    async def wait_for_session(self, session: str) -> None:
        """Return when the journal has events of a session. Raises `JournalError`."""
        awaited = session, anyio.Event()
        self._awaited.add(awaited)
        try:
            if not await self._journal.streams_of(session):
                await awaited[1].wait()
        finally:
            self._awaited.discard(awaited)

    async def withdraw_telemetry(self, session: str, written: int) -> bool:
        """Delete what telemetry has reported of a session, unless something else has reported some of it, or it began
        after the session's file was `written` last (ms since the epoch). Returns whether anything was deleted. Raises
        `NotEndedError` while telemetry of the session is being stored, and `JournalError`."""
        telemetry = await self._journal.streams_of(session)
        began = min((one.begins[session] for one in telemetry if session in one.begins), default=None)
        if not all(map(is_telemetry, telemetry)) or began is None or began > written:
            return False
        for one in telemetry:
            if one.stream in self.connections:
                raise NotEndedError(f"telemetry of session {session} is being stored")
            try:
                await self.end(one.stream)
            except StreamConflictError:
                raise NotEndedError(f"another daemon stores telemetry of session {session}") from None
        await remove_reported(self._journal, session)
        _log.info("what telemetry has reported of a session was deleted: its file is read", session=session)
        return True

    async def set_parent(self, stream: str, parent: str) -> None:
        """Journal the id of the call that started the agent of a stream. Raises `JournalError`."""
        rewrites: list[Rewrite] = []

        async def with_parent(stored: StoredStream) -> Commit | None:
            if stored.info.parent is not None:
                return None
            live = await self._resume(stored)
            live.apply(Parent(parent, self._clock()))
            commit = live.take(self._clock())
            rewrites[:] = live.take_rewrites()
            return commit

        if await self.with_stream(stream, lambda owner: owner.set_parent(parent), with_parent):
            self._setting.rewrite(rewrites)

    async def run_settling(self) -> None:
        """Settle streams as they become silent. Runs until cancelled."""
        await self._settling.run()

    async def _settle(self, stream: str) -> None:
        """Settle a silent stream, with or without an owner. Raises `JournalError`."""
        done: list[tuple[LiveStream, Commit]] = []

        async def settled(stored: StoredStream) -> Commit | None:
            if stored.info.state != "suspended" or not stored.info.unsettled:  # another daemon may have it
                return None
            live = await self._resume(stored)
            live.apply(Settle(self._clock()))
            if self._setting.joining.concerns(live):
                await self._setting.joining.join(live)
            commit = live.take(self._clock())
            done[:] = [(live, commit)]
            return commit

        if await self.with_stream(stream, lambda owner: owner.settle(), settled) and self._setting.trace is not None:
            for live, commit in done:
                StreamTrace(self._setting.trace, live).add(commit)

    async def close_overdue(self) -> int:
        """Close the streams whose publishers have not come back; returns how many. Call this regularly. One that cannot
        be closed is tried again the next time."""
        now = self._clock()
        deadline, dialogs = now - self._suspend_timeout_ms, now - DIALOG_MS
        closed = 0
        for stream in await self._journal.abandoned(deadline):
            with contained("a suspended stream could not be closed", stream=stream):
                try:
                    closed += await self._close_if_overdue(stream, deadline, dialogs)
                    self._unclosed.end()
                except JournalError as error:
                    if not is_of_journal(error):
                        raise
                    self._unclosed.begin(str(error))
        return closed

    async def _close_if_overdue(self, stream: str, deadline: int, dialogs: int) -> bool:
        async with self._lock(stream):
            stored = await self._journal.load_stream(stream)
            if stored is None or (stored.info.asked_dialect == HOOKS and stored.info.updated > dialogs):
                return False
            if stored.info.updated > deadline or stream in self.connections or stored.info.remote is not None:
                return False
            try:
                await self._close(stored, "suspended-too-long")
            except StreamConflictError:  # another daemon has resumed it
                return False
            return True

    async def suspend_all(self) -> None:
        """At shutdown: commit what was received, and send every publisher its position."""
        async with anyio.create_task_group() as tasks:
            for connection in list(self.connections.values()):
                tasks.start_soon(_suspend, connection)

    def is_due(self, info: StreamInfo) -> bool:
        """Say whether a file's stream keeps calls whose taps have ended."""
        return any(all(map(self._may_have_ended, one.taps)) for one in info.unsaid)

    def report_unsaid(self, info: StreamInfo) -> None:
        """Report the calls that a file's stream keeps, and that no tap has reported, if their taps have ended."""
        if self.is_due(info):
            self._tasks.start_soon(self._report_unsaid, info.stream)

    # -- inner workings -----------------------------------------------------------------------------------------

    def _may_have_ended(self, stream: str) -> bool:
        owner = self.connections.get(stream)
        return owner is None or owner.live.info.state == "ended"

    async def _report_unsaid(self, stream: str) -> None:
        calls = CallsOfTaps(self._journal)

        async def said_of(info: StreamInfo) -> dict[tuple[str, str], Mapping[str, Said]]:
            said = {}
            for session, tap in {(one.session, tap) for one in info.unsaid for tap in one.taps}:
                stored = await self._journal.load_stream(tap)  # what it has committed, whoever owns it
                if stored is None or stored.info.state == "ended":
                    said[session, tap] = await calls.of(session, tap)
            return said

        async def by_owner(owner: IngestConnection) -> bool:
            return await owner.report_unsaid(await said_of(owner.live.info))

        async def without_owner(stored: StoredStream) -> Commit | None:
            live = await self._resume(stored)
            outputs = take_unsaid(live.info, live.normalizer.statistics, await said_of(live.info))
            if outputs is None:
                return None
            live.apply(Late(outputs))
            return live.take(self._clock())

        with contained("calls that only a session file has are not reported", stream=stream):
            try:
                await self.with_stream(stream, by_owner, without_owner)
            except JournalError as error:
                _log.warning("calls that only a session file has are not reported", stream=stream, reason=str(error))

    def _committed(self, live: LiveStream, commit: Commit) -> None:
        self._questions.note(live.info.asked_dialect, commit.outputs)
        if self._awaited:
            reported = {one.session for one in commit.outputs if isinstance(one, Produced)}
            for session, event in self._awaited:
                if session in reported:
                    event.set()
        self._note_end(commit.info)

    def _note_end(self, info: StreamInfo) -> None:
        """Look for calls that a tap which has ended has not reported."""
        if info.state == "ended" and "owner" in info.roles.values():
            self._tasks.start_soon(self._find_unsaid, [one for one, role in info.roles.items() if role == "owner"])

    async def _find_unsaid(self, sessions: Sequence[str]) -> None:
        # If the journal cannot be read, the next line of the file or the next start of the daemon finds them.
        with contained("calls that only a session file has were not found"), suppress(JournalError):
            for session in sessions:
                stored = {one.stream: one for one in await self._journal.streams_of(session)}
                live = {stream: one.live.info for stream, one in self.connections.items()}
                for info in {**stored, **live}.values():
                    # The file may have results that are not read yet.
                    if any(one.session == session for one in info.unsaid) and not self.read_on(info.stream):
                        self.report_unsaid(info)

    async def _make_missing_views(self, make: Callable[[StreamInfo], Awaitable[None]], info: StreamInfo) -> None:
        try:
            await make(info)
        except JournalError as error:
            _log.warning("missing views are made later", stream=info.stream, reason=str(error))
        except Exception as error:
            faults.note("missing views are made later", place_of(error), error, stream=info.stream)

    def _tapped(self) -> Iterable[str]:
        """Return the agents that are being tapped."""
        infos = [one.live for one in self.connections.values() if is_tap(one.live.info)]
        return {provider for live in infos if (provider := live.normalizer.statistics.provider)}

    def _providers(self) -> dict[str, str]:
        """Return the connected streams of agents, each with its provider."""
        lives = [one.live for one in self.connections.values() if one.live.info.asked_dialect != DISPLAY_TOOLS]
        return {live.info.stream: live.normalizer.statistics.provider for live in lives}

    async def _report_held(self, stream: str, call_id: str) -> None:
        """Report the held events of a display tool's call, unless an agent's result takes them over in time."""
        await anyio.sleep(self._display_patience)
        with contained("cannot report what a display tool has shown", stream=stream):
            if self._displays.forget(stream, call_id):
                await self._take_held(stream, call_id, True)

    async def _take_held(self, stream: str, call_id: str, report: bool) -> None:
        """Remove the held events of a call from a stream, and report them if `report`."""

        async def by_owner(owner: IngestConnection) -> bool:
            await owner.wait_for_offload()
            taken = take_held(owner.live.info, owner.live.normalizer.statistics, call_id, report=report)
            return await owner.add_view(taken)

        async def without_owner(stored: StoredStream) -> Commit | None:
            taken = take_held(stored.info, stored.info.statistics, call_id, report=report)
            return Commit(stored.info, stored.info.lines, taken, ())

        try:
            await self.with_stream(stream, by_owner, without_owner)
        except JournalError as error:
            _log.warning("cannot report what a display tool has shown", stream=stream, reason=str(error))
        except Exception as error:
            faults.note("cannot report what a display tool has shown", place_of(error), error, stream=stream)

    def _tie_agents(self, live: LiveStream) -> None:
        """Tie subagents to the calls that started them: those named in the stream's last commit, and the stream's own
        agent."""
        spawned = live.take_spawned()
        self.subagents.remember([one for one in spawned if one.is_kept])
        known = self.subagents.unstated(live)
        if spawned or known:
            self._tasks.start_soon(self._tie, spawned, known)

    async def _tie(self, spawned: Sequence[Spawned], known: Sequence[tuple[str, Spawned]]) -> None:
        try:
            certain = [one for one in spawned if one.is_kept or await self.subagents.is_reported(one)]
            self.subagents.remember(certain)
            for stream, one in [*known, *await self.subagents.streams_of(certain)]:
                with contained("cannot store the parent of an agent", stream=stream):
                    await self.set_parent(stream, one.call_id)
        except JournalError as error:
            _log.warning("cannot store the parents of agents", reason=str(error))
        except Exception as error:
            faults.note("cannot store the parents of agents", place_of(error), error)

    async def _find_call(self, session: str) -> None:
        """Find the calls that the questions of hooks are about."""
        # If the journal cannot be read, only the end of the turn settles the question.
        with contained("the call that a hook asks about was not found", session=session), suppress(JournalError):
            await self._questions.find_call(session)

    async def _settle_question(self, settled: Settled) -> None:
        """End the question of a hook, which was answered elsewhere, by taking its stream over. A hook that still waits
        ends then."""
        with contained("the question of a hook was not settled", stream=settled.stream):
            try:
                request = Ingest(stream=settled.stream, framing="tapped", dialect=HOOKS)
                connection = await self.open(request, lambda _: None)
                try:
                    if settled.outcome is not None:
                        line = {"type": "hook/settled", "id": settled.permission_id, "outcome": settled.outcome}
                        await connection.take([msgspec.json.encode(line)], self._clock(), None)
                    await connection.end()
                finally:
                    await connection.finish()
            except (FrameError, JournalError) as error:
                _log.warning("the question of a hook was not settled", stream=settled.stream, reason=str(error))

    def _lock(self, stream: str) -> anyio.Lock:
        lock = self._locks.get(stream)
        if lock is None:
            lock = self._locks[stream] = anyio.Lock()
        return lock

    def _forget(self, connection: IngestConnection) -> None:
        if self.connections.get(connection.stream) is connection:
            del self.connections[connection.stream]
            self._displays.end(connection.stream)

    async def _load(self, stream: str, request: Ingest) -> StoredStream | None:
        stored = await self._journal.load_stream(stream)
        if stored is not None:
            _check_is_local(stored)
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
        end, close = Work("end of stream", stored.info.stream), Close(self._clock(), reason)
        if live.is_long_to_close:
            await self._offload.in_thread(str(end), partial(live.apply, close))
        else:
            with end:
                live.apply(close)
        if self._setting.joining.concerns(live):
            await self._setting.joining.join(live)
        commit = live.take(self._clock())
        await self._journal.commit(commit)
        self._setting.rewrite(live.take_rewrites())
        self._note_end(commit.info)
        if self._setting.trace is not None:
            StreamTrace(self._setting.trace, live).add(commit)
        return live.statistics

    async def _check_room(self, stream: str) -> None:
        """Check that one more stream is allowed. Raises `FrameError`."""
        if await self._journal.count_streams("open", "suspended", followed=False) >= self._max_streams:
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
            started=request.started,
            cwd=request.cwd,
            prompt=masked_prompt(request.prompt) if self._masks else request.prompt,
            statistics=Statistics(stream=stream, dialect=request.dialect, provider=request.provider or ""),
        )
        try:
            return self._begin(info)
        except UnknownDialectError as error:
            raise FrameError("unknown-dialect", str(error)) from None

    async def _reload(self, stream: str, declared: StreamInfo) -> LiveStream:
        """Rebuild a stream from the journal; as `declared` if the journal does not know it. Raises `JournalError`."""
        stored = await self._journal.load_stream(stream)
        return self._begin(declared) if stored is None else await self._resume(stored)

    def _begin(self, info: StreamInfo) -> LiveStream:
        """Create a live stream without lines. Raises `UnknownDialectError`."""
        return LiveStream(
            info,
            StreamNormalizer(context_of(info, self._limits), info.asked_dialect),
            committed_state=None,
            snapshot_bytes=self._snapshot_bytes,
            drift=self._drift,
            views=self._views(),
            masks=self._masks,
        )

    def _views(self) -> StreamViews | None:
        return None if self._policy is None else StreamViews(self._policy, self._limits, self._journal.daemon)

    async def _resume(self, stored: StoredStream) -> LiveStream:
        return await resume(
            self._journal,
            stored,
            limits=self._limits,
            snapshot_bytes=self._snapshot_bytes,
            now=self._clock(),
            drift=self._drift,
            views=self._views(),
            masks=self._masks,
        )


def _check_is_local(stored: StoredStream) -> None:
    """Raises `FrameError` for a stream that is read from another machine."""
    if stored.info.remote is not None:
        stream = stored.info.stream
        raise FrameError("stream-exists", f"stream {stream} is of another machine: only its daemon writes it")


async def _suspend(connection: IngestConnection) -> None:
    with contained("a stream could not be suspended", stream=connection.stream):
        await connection.suspend()


# -- rebuilding a stream ----------------------------------------------------------------------------------------------

_snapshot_decoder = msgspec.msgpack.Decoder(Snapshot)


async def resume(
    journal: Journal,
    stored: StoredStream,
    *,
    limits: Limits,
    snapshot_bytes: int,
    now: int,
    drift: Drift | None = None,
    views: StreamViews | None = None,
    masks: bool = False,
) -> LiveStream:
    """Rebuild a stream from the journal: load its snapshot, then feed it its tail with the stored times.

    The tail was committed with its events, so the events that the parser emits for it are discarded, after a
    comparison: lines, dialect and the checksum over event ids must equal the committed ones. Only then will the parser
    treat the next line like the original parser. The checksum covers every event, also those that were left out because
    another stream reports them.

    If the comparison fails (the parser was upgraded in between, or retention deleted the state), a fresh parser
    continues at the next line and emits a reset. The reset is written with the stream's next commit: loading an ended
    stream changes nothing.

    Lines that `auto` held when the stream was stored have emitted nothing yet. If a newer sniffer recognises them now,
    their events are new, and are kept.
    """
    if views is not None:
        try:
            await views.restore(journal, stored.info.stream)
        except JournalError:
            raise
        except Exception as error:  # a view that shows a call's input is not made
            faults.note("open calls could not be read for views", place_of(error), error, stream=stored.info.stream)
    # In a thread: a long tail takes time, and other streams must not wait for it.
    try:
        rebuilt = await anyio.to_thread.run_sync(_rebuild, stored, limits)
    except Exception as error:
        faults.note("a stream could not be rebuilt", place_of(error), error, stream=stored.info.stream)
        rebuilt = None
    if rebuilt is not None:
        normalizer, outputs = rebuilt
        return LiveStream(
            stored.info,
            normalizer,
            committed_state=stored.info.state,
            snapshot_bytes=snapshot_bytes,
            tail_bytes=sum(len(one.line) for record in stored.tail for one in each(record) if isinstance(one, Line)),
            snapshot_size=len(stored.snapshot or b""),
            outputs=outputs,
            drift=drift,
            views=views,
            masks=masks,
        )
    normalizer = _fresh(stored.info, limits)
    rows = await journal.open_calls(stream=stored.info.stream)
    try:
        outputs = normalizer.restart(stored.info.lines, stored.info.statistics, _left_open(stored.info, rows), now)
    except Exception as error:  # what was open stays so in the journal until the stream ends
        faults.note("what a stream had open could not be closed", place_of(error), error, stream=stored.info.stream)
        normalizer = _fresh(stored.info, limits)
        outputs = normalizer.restart(stored.info.lines, stored.info.statistics, LeftOpen(), now)
    return LiveStream(
        stored.info,
        normalizer,
        committed_state=stored.info.state,
        snapshot_bytes=snapshot_bytes,
        outputs=outputs,
        needs_snapshot=True,
        drift=drift,
        views=views,
        masks=masks,
    )


def _rebuild(stored: StoredStream, limits: Limits) -> tuple[StreamNormalizer, list[Output]] | None:
    """Rebuild the normalizer, and its outputs that are not committed; None if it differs from the original one."""
    info = stored.info
    context = context_of(info, limits)
    ids = 0
    try:
        if stored.snapshot is None:
            normalizer = StreamNormalizer(context, info.asked_dialect)
        else:
            snapshot = _snapshot_decoder.decode(stored.snapshot)
            if snapshot.format != SNAPSHOT_FORMAT:
                return None
            normalizer = load_normalizer(snapshot.normalizer, context)
            ids = snapshot.ids
    except (msgspec.MsgspecError, UnknownDialectError):
        return None
    outputs: list[Output] = []
    for record in stored.tail:
        for one in each(record):
            outputs += _feed(normalizer, one)
    if normalizer.lines != info.lines:
        return None
    if info.lines and not info.statistics.lines:
        # All lines were held for sniffing and none has emitted anything. What they emit now is new.
        return normalizer, outputs
    # A line that raised only then, or only now: the ids are equal, but on one side the event is `unparsed`.
    is_misread = normalizer.statistics.unparsed != info.statistics.unparsed
    if normalizer.dialect != info.dialect or ids_of(outputs, ids) != info.ids or is_misread:
        return None
    normalizer.statistics = info.statistics
    return normalizer, []


def _feed(normalizer: StreamNormalizer, record: Line | Lost | Close | Settle) -> list[Output]:
    match record:
        case Line():
            line = record.line if record.size is None else LongLine(record.line, record.size)
            return normalizer.feed(line, record.t, record.direction)
        case Lost():
            return normalizer.lost(record.lines, record.bytes, record.reason, record.t)
        case Close():
            return normalizer.close(record.reason, record.t, record.process)
        case Settle():
            return normalizer.settle(record.t)


def _fresh(info: StreamInfo, limits: Limits) -> StreamNormalizer:
    try:
        return StreamNormalizer(context_of(info, limits), info.dialect or info.asked_dialect)
    except UnknownDialectError:  # its package is no longer installed
        return StreamNormalizer(context_of(info, limits), AUTO)


def _left_open(info: StreamInfo, rows: dict[str, list[dict[str, Any]]]) -> LeftOpen:
    calls = {
        row["callId"]: msgspec.convert(
            {**row, "id": row["callId"], "raw_name": row.get("rawToolName", row["name"])}, OpenCall
        )
        for row in rows["calls"]
    }
    permissions = {
        row["permissionId"]: PendingPermission(
            session=row["session"], call_id=row.get("callId"), turn=row.get("turn"), agent=row.get("agent")
        )
        for row in rows["permissions"]
    }
    return LeftOpen(calls, permissions, session=info.last_session)
