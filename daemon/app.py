"""The daemon as one object: assembles and opens all parts, runs until stopped, and shuts down without losing data.

A shutdown stops following and accepts no more connections. Within `SHUTDOWN_TIMEOUT` it commits what publishers have
sent, lets clients read what was written to them, and lets commands finish their views. Then it cancels what is left.
The journal is closed last, after every task that may commit.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import anyio
import msgspec
from anyio.abc import TaskGroup

from tooltap import __version__
from tooltap.daemon.answers.automatic import RuleAnswers
from tooltap.daemon.config import Config
from tooltap.daemon.hub import RECENT_BYTES, Hub
from tooltap.daemon.ingest.answering import Answering
from tooltap.daemon.ingest.drift_findings import Findings
from tooltap.daemon.ingest.offload import HUGE_BYTES, LONG_BYTES, Offload
from tooltap.daemon.ingest.streams import DISPLAY_PATIENCE, SNAPSHOT_BYTES, Streams
from tooltap.daemon.journal.interface import Journal, JournalError, StreamInfo
from tooltap.daemon.journal.open import open_journal
from tooltap.daemon.notifications.notifier import Notifier
from tooltap.daemon.search.search import Search, place_of_index
from tooltap.daemon.server.requests import OUTPUT_CACHE_BYTES, OUTPUT_TTL, OutputCache, Requests
from tooltap.daemon.server.server import Server
from tooltap.daemon.sessions.prices import state
from tooltap.daemon.sessions.usage import bill
from tooltap.daemon.system.clock import ClockWatch, wall_clock
from tooltap.daemon.system.hard_links import HardLinks
from tooltap.daemon.system.listener import Listener
from tooltap.daemon.system.logs import Trouble, faults, get_logger, lines_left_out
from tooltap.daemon.system.loop import Watchdog
from tooltap.daemon.system.paths import spool_path
from tooltap.daemon.system.running_daemons import Record, RunningDaemon
from tooltap.daemon.system.tcp import listen, parse_address
from tooltap.daemon.taps.delivery.announcement import announced
from tooltap.daemon.taps.delivery.spool import QuarantineLimits
from tooltap.daemon.taps.drain import Drain
from tooltap.daemon.taps.follow.follower import Follower
from tooltap.daemon.taps.remotes.remotes import LOOK as LOOK_AT_REMOTES
from tooltap.daemon.taps.remotes.remotes import Remotes
from tooltap.daemon.taps.remotes.settings import file_of
from tooltap.daemon.telemetry.sender import Sender
from tooltap.daemon.views.results import Policy
from tooltap.daemon.views.rewriter import Rewriter
from tooltap.daemon.views.rules import Rules
from tooltap.daemon.web.http.token import load_token
from tooltap.normalizers.stream.reset import place_of
from tooltap.protocol.frames import FrameError, RereadRequest
from tooltap.protocol.replies import RereadResult, StreamState
from tooltap.traces.drift.baselines import PACKAGED, load
from tooltap.traces.drift.drift import SILENT_LINES, Drift, Finding
from tooltap.traces.recording.writer import TRACE_BUFFER_BYTES, TraceWriter

if TYPE_CHECKING:
    from tooltap.daemon.web.server import WebServer

DAY_MS = 24 * 3600 * 1000
STREAMS_LISTED = 1_000
"""Most streams that `stats` lists: those with the newest commits."""
CLOSING_PERIOD = 15.0
"""Seconds between searches for suspended streams to close."""
AGENTS_NAMED = 5
"""Most agents that one line of the log names."""
FINDINGS_PERIOD = 5.0
"""Seconds between checks for new drift findings to store."""
FINDINGS_PATIENCE = 0.2
"""Seconds for which a shutdown waits until the last drift findings are stored."""
CLOCK_TRUST = 3600.0
"""Seconds without a jump ahead of the clock before events are deleted for their age: a wrong clock may be set back."""
FILES_PERIOD = 2.0
"""Seconds between checks that the daemon's files and the socket are where they were, and have no other name."""
VIEWS_PERIOD = 60.0
"""Seconds between searches for missing views."""
FOLLOWING_RETRY = 5.0
"""Seconds after an error before following session files is restarted."""
EXPIRY_PERIOD = 15.0
"""Seconds between removals of expired display outputs from memory."""
DRAIN_INTERVAL = 5.0
"""Seconds between searches for spools that `run` and `proxy` have left behind."""
RETENTION_INTERVAL = 60.0
"""Seconds between runs of retention."""
SCRUB_SHARE = 0.1
"""Duty cycle of a verification of the journal: the share of the time for which it works; in the rest it sleeps."""
SHUTDOWN_TIMEOUT = 1.0
"""Seconds for which a shutdown waits for received lines to be committed and for clients to read."""
SHUTDOWN_GRACE = 0.7
"""Seconds after `SHUTDOWN_TIMEOUT` for closing the journal. After that, the process ends in any case."""
FIRST_SCRUB = 60.0
"""Seconds from the start to the first verification of the journal."""
RELOADED = ("answers", "notify", "otlp", "prices", "rewriting", "tools", "usage")
"""Tables of the configuration whose changes `Daemon.apply` lets take effect."""

_log = get_logger("daemon")


class Daemon:
    """The daemon: `run` serves until `stop` is called."""

    def __init__(self, config: Config, watchdog: Watchdog | None = None) -> None:
        self.config = config
        self._watchdog = watchdog or Watchdog(config.stall_seconds)
        self._policy = Policy(Rules(config.tools))
        self._rewriter: Rewriter
        self._rule_answers: RuleAnswers
        self._notifier: Notifier
        self._sender: Sender
        self.journal: Journal
        self.hub: Hub
        self.server: Server
        self.web: WebServer | None = None
        self._token = ""
        """The token that lets clients in over HTTP."""
        self._streams: Streams
        self._trace: TraceWriter | None = None
        self._drift_log = _DriftLog()
        self._drift = Drift(
            lambda dialect: load(PACKAGED, dialect),
            thorough=False,
            silent_lines=SILENT_LINES,
            on_alarm=self._drift_log.add,
        )
        self._findings: Findings
        self._follower: Follower | None = None
        self._following = anyio.CancelScope()
        self._drain: Drain
        self._remotes: Remotes
        self._hard_links = HardLinks(self._files)
        self._outputs: OutputCache
        self._search: Search
        self._stopping = anyio.Event()
        self._clock = ClockWatch()
        self._opening = anyio.CancelScope()
        self._started = time.monotonic()
        self._started_at = wall_clock()
        self._record: Record | None = None
        self._unrecorded = Trouble(_log, "the daemon is not recorded", "the daemon is recorded again")

    def stop(self) -> None:
        self._stopping.set()
        self._opening.cancel()

    def apply(self, config: Config) -> None:
        """Apply the settings of a reloaded configuration that take effect while the daemon runs: `RELOADED`."""
        self._policy.rules = Rules(config.tools)
        self._rewriter.bounds = config.rewriting
        self._notifier.rules = config.notify
        self._sender.settings = config.otlp
        self._rule_answers.apply(config.answers)
        bill(config.usage)
        state(config.prices)

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serve; `ready` is called when clients can connect. Raises `ListenError`, `JournalError` and `ConfigError`."""
        config = self.config
        bill(config.usage)
        state(config.prices)
        self._watchdog.is_reporting = False
        with self._watchdog, Listener(config.socket_path) as listener, self._listen_to_browsers() as browsers:
            with self._opening:  # its server may be away
                self.journal = await open_journal(config.journal_place, config.durability)
            if self._opening.cancelled_caught:
                return
            self._findings = Findings(self._drift, self.journal, __version__)
            self._search = Search(self.journal, place_of_index(config.journal_place), config.index_bytes)
            trace = self._trace = TraceWriter.from_environment(
                os.environ,
                lambda sentence: _log.warning("trace", problem=sentence),
                file_bytes=config.trace_file_bytes,
                total_bytes=config.trace_total_bytes,
                buffer_bytes=TRACE_BUFFER_BYTES,
            )
            try:
                async with anyio.create_task_group() as tasks:
                    await self._start(listener, browsers, tasks)
                    self._write_record()  # before anybody learns that it listens
                    _log.info(
                        "listening",
                        socket=str(listener.path),
                        journal=str(config.journal_place),
                        pid=os.getpid(),
                        **({} if self.web is None else {"web": self.web.url}),
                    )
                    self._watchdog.is_reporting = True
                    ready()
                    await self._stopping.wait()
                    _log.info("shutting down")
                    patience = 0.0 if self.journal.problem else SHUTDOWN_TIMEOUT / 2
                    hurrying = asyncio.get_running_loop().call_later(patience, self.journal.stop_waiting)
                    self._following.cancel()
                    if self.web is not None:
                        self.web.stop()
                    with anyio.move_on_after(SHUTDOWN_TIMEOUT):
                        await self.server.stop()
                        await self._rewriter.finish()
                        if self.web is not None:
                            await self.web.wait_stopped()
                    hurrying.cancel()
                    self._rewriter.stop()
                    self._notifier.stop()
                    self.server.abort()
                    if self.web is not None:
                        self.web.abort()
                    tasks.cancel_scope.cancel()
            finally:
                if self._record is not None:
                    self._record.close()
                if trace is not None:
                    trace.close()
                self._drift_log.tell()
                with anyio.CancelScope(shield=True):
                    with anyio.move_on_after(FINDINGS_PATIENCE):
                        await self._findings.store()
                    await self._search.close()
                    await self.journal.close()
        _log.info("stopped")

    def _following_statistics(self) -> dict[str, Any]:
        """The part `following` of the reply to `stats`; empty if nothing is followed."""
        return {} if self._follower is None else {"following": msgspec.to_builtins(self._follower.statistics())}

    async def _streams_listed(self, stream: str | None) -> list[StreamInfo]:
        if stream is None:
            return await self.journal.streams(limit=STREAMS_LISTED)
        stored = await self.journal.load_stream(stream)
        return [] if stored is None else [stored.info]

    async def statistics(self, *, with_streams: bool = True, stream: str | None = None) -> dict[str, Any]:
        """The reply to `stats`. `with_streams`: with `perStream`. `stream`: the only one in it."""
        journal, hub = self.journal, self.hub
        if not journal.problem:
            await self._streams.refusals.try_again()
        problem = journal.problem or self._streams.refusals.problem
        # First: if the follower is idle, everything it has read is in the journal.
        following = self._following_statistics()
        streams = await self._streams_listed(stream) if with_streams else []
        if not journal.problem:
            await self._findings.store()
        return {
            "version": __version__,
            "pid": os.getpid(),
            "uptimeMs": int((time.monotonic() - self._started) * 1000),
            "socket": str(self.config.socket_path),
            "journal": {
                "path": str(self.config.journal_place),
                "id": journal.id,
                "oldest": journal.oldest,
                "latest": journal.latest,
                "expired": journal.last_expired,
                "retention": msgspec.to_builtins(journal.removed),
                **({"problem": problem} if problem else {}),
                **journal.statistics(),
            },
            "streams": {state: await journal.count_streams(state) for state in get_args(StreamState)},
            **({"perStream": [_of_stream(one) for one in streams]} if with_streams else {}),
            "connections": {
                "open": self.server.connections,
                "publishing": len(self._streams.connections),
                **({} if self.server.problem is None else {"problem": self.server.problem}),
            },
            "loop": msgspec.to_builtins(self._watchdog.statistics()),
            "log": {"leftOut": lines_left_out()},
            "drift": msgspec.to_builtins(self._drift.report()),
            **following,
            **({"web": self.web.statistics()} if self.web is not None else {}),
            "spools": self._drain.statistics(),
            "outputs": self._outputs.statistics(),
            "search": self._search.statistics(),
            "rewriting": self._rewriter.statistics(),
            "notifying": self._notifier.statistics(),
            **self._sender.statistics(),
            "remotes": self._remotes.statistics(),
            "subscribers": [one.statistics() for one in hub.subscriptions],
            "errors": dict(faults.counts),
            "hardLinks": self._hard_links.statistics(),
            "trace": None if self._trace is None else self._trace.statistics(),
            "limits": {
                key: value
                for key, value in msgspec.to_builtins(self.config).items()
                if isinstance(value, int | float | dict) and key not in ("tools", "otlp")
            },
        }

    def _listen_to_browsers(self) -> AbstractContextManager[socket.socket | None]:
        """Raises `ListenError`."""
        web = self.config.web
        if not web.enabled:
            return nullcontext()
        self._token = load_token(web.token_path)
        return listen(parse_address(web.listen), allow_remote=web.allow_remote)

    async def _start(self, listener: Listener, browsers: socket.socket | None, tasks: TaskGroup) -> None:
        config = self.config
        socket = os.path.realpath(listener.path)
        self.hub = Hub(self.journal, tasks, recent_bytes=RECENT_BYTES)
        self.journal.on_commit = self.hub.publish
        self.journal.on_reset = self._restart
        self.journal.on_skip = self.hub.skip
        await self.journal.suspend_all()
        await self._findings.load()
        self._sender = Sender(self.journal, config.otlp)
        if config.otlp.url is not None:
            await self._sender.begin()  # before there is anything to send
        self._rewriter = Rewriter(
            self.journal,
            config.rewriting,
            config.stream.limits,
            tasks,
            lambda stream, outcomes: self._streams.settle_views(stream, outcomes),
        )
        self._streams = Streams(
            self.journal,
            tasks,
            limits=config.stream.limits,
            snapshot_bytes=SNAPSHOT_BYTES,
            suspend_timeout_ms=int(config.suspend_timeout * 1000),
            settle_seconds=config.settle_timeout,
            max_streams=config.max_streams,
            partials_wanted=lambda: self.hub.partials_wanted,
            trace=self._trace,
            drift=self._drift,
            policy=self._policy,
            rewrite=self._rewriter.put,
            asked=lambda commit, is_first: self._rule_answers.put(commit, is_first=is_first),
            missing_views=lambda info: self._rewriter.make_missing(self._policy.rules, [info]),
            agents=lambda: {*config.follow.followed, *(one.agent for one in announced(str(spool_path()), socket))},
            display_patience=DISPLAY_PATIENCE,
            offload=Offload(LONG_BYTES, HUGE_BYTES),
            masks=config.masks_journal,
        )
        await self._streams.restore()
        self._drain = Drain(self._streams, listener.path, spool_path(), QuarantineLimits())
        self._outputs = OutputCache(self.journal.id, max_bytes=OUTPUT_CACHE_BYTES, ttl=OUTPUT_TTL)
        answering = Answering(self.journal, self._streams.connections, wall_clock)
        self._rule_answers = RuleAnswers(
            self.journal, config.answers, tasks, lambda request: answering.answer(request, forwards=False)
        )
        requests = Requests(
            self.journal,
            self._outputs,
            self._search,
            statistics=self.statistics,
            following=self._following_statistics,
            end_stream=self._streams.end,
            to_agent=self._streams.to_agent,
            answering=answering,
            reread=self._reread,
            masks=config.masks_journal,
        )
        self._notifier = Notifier(
            self.journal, config.notify, lambda path: None if self.web is None else f"{self.web.url}{path}"
        )
        self._remotes = Remotes(
            self.journal, file_of(config.journal_place), tasks, config.remotes, masks=config.masks_journal
        )
        self.server = Server(config, self.hub, requests, self._streams, tasks)
        if browsers is not None:
            self._serve_browsers(browsers, requests, tasks)
        self.server.start(listener)
        closing_period = min(config.suspend_timeout / 4, CLOSING_PERIOD)
        tasks.start_soon(self._streams.run_settling, name="settling of streams")
        tasks.start_soon(_repeat, closing_period, self._close_overdue, name="closing of streams")
        if config.follow.agents:
            self._follower = Follower(
                self._streams,
                self.journal,
                config.follow,
                line_bytes=config.stream.line_bytes,
                suspend_timeout_ms=int(config.suspend_timeout * 1000),
                spool=spool_path(),
                socket=listener.path,
                # A trace takes the lines from the commits, and another process does not mask them.
                jobs=config.follow.processes if self._trace is None and not config.masks_journal else 1,
            )
            tasks.start_soon(self._run_follower, self._follower, name="follow")
        tasks.start_soon(_repeat, FILES_PERIOD, self.journal.check_files, name="files of the journal")
        tasks.start_soon(_repeat, FILES_PERIOD, self._hard_links.look, name="hard links")
        tasks.start_soon(_repeat, FILES_PERIOD, lambda: self.server.renew(listener), name="socket")
        tasks.start_soon(_repeat, FILES_PERIOD, self._renew_record, name="record of the daemon")
        tasks.start_soon(_repeat, VIEWS_PERIOD, self._make_missing_views, name="views that were not made")
        tasks.start_soon(_repeat, DRAIN_INTERVAL, self._drain.run, name="drain of spools")
        tasks.start_soon(_repeat, FINDINGS_PERIOD, self._keep_findings, name="findings of drift")
        tasks.start_soon(_repeat, min(OUTPUT_TTL, EXPIRY_PERIOD), self._outputs.sweep, name="display outputs")
        tasks.start_soon(_repeat, RETENTION_INTERVAL, self._expire, name="retention")
        tasks.start_soon(_repeat, LOOK_AT_REMOTES, self._remotes.look, name="list of remotes")
        tasks.start_soon(self._search.run, name="search index")
        tasks.start_soon(self._notifier.run, name="notifications")
        tasks.start_soon(self._sender.run, name="telemetry")
        if config.scrub_interval:
            tasks.start_soon(self._scrub, name="verification of the journal")
        if self._trace is not None:
            _log.info("tracing", file=str(self._trace.path))

    def _files(self) -> list[Path]:
        """The files with raw lines and events."""
        return [*self.journal.files, *([] if self._trace is None else [self._trace.path]), *self._drain.spools]

    def _restart(self) -> None:
        """Handle `Journal.on_reset`: the journal was replaced by another one."""
        self.hub.restart()
        self._write_record()

    def _write_record(self) -> None:
        """Record this daemon for programs that do not find its socket; without the record, they need
        `$TOOLTAP_SOCKET`."""
        running = RunningDaemon(
            socket=os.path.realpath(self.config.socket_path),
            page=None if self.web is None else self.web.url,
            pid=os.getpid(),
            started=self._started_at,
            journal=self.journal.id,
            version=__version__,
        )
        try:
            if self._record is None:
                self._record = Record(running)
            else:
                self._record.write(running)
        except OSError as error:
            self._unrecorded.begin(f"{error.filename}: {error.strerror}")
        else:
            self._unrecorded.end()

    def _renew_record(self) -> None:
        if self._record is None or not self._record.is_in_place():
            self._write_record()

    def _serve_browsers(self, listening: socket.socket, requests: Requests, tasks: TaskGroup) -> None:
        from tooltap.daemon.taps.otlp.receiver import Receiver
        from tooltap.daemon.web.http.feed import Feeds
        from tooltap.daemon.web.http.services import Services
        from tooltap.daemon.web.server import WebServer

        feeds = Feeds(self.hub)
        patience = self.config.follow.telemetry_wait if self.config.follow.agents else 0.0
        receiver = Receiver(self._streams, wall_clock, self.config.stream.line_bytes, patience)
        services = Services(self.config, self.journal, self.hub, requests, feeds, receiver, self.statistics)
        self.web = WebServer(services, listening, self._token)
        tasks.start_soon(self.web.run)
        tasks.start_soon(_repeat, FILES_PERIOD, self.web.check_files, name="files of the web gateway")

    async def _run_follower(self, follower: Follower) -> None:
        with self._following:
            while True:
                try:
                    await follower.run()
                except Exception as error:
                    faults.note("following began again", place_of(error), error)
                await anyio.sleep(FOLLOWING_RETRY)

    async def _reread(self, request: RereadRequest) -> RereadResult:
        if self._follower is None:
            raise FrameError("not-found", "this daemon follows no session files: start it with `--follow`")
        unknown = sorted(set(request.agent or ()) - {*self.config.follow.followed})
        if unknown:
            raise FrameError("not-found", f"this daemon does not follow {', '.join(unknown)}")
        return await self._follower.reread(request.session, request.agent)

    async def _make_missing_views(self) -> None:
        await self._rewriter.make_missing(self._policy.rules)

    async def _keep_findings(self) -> None:
        self._drift_log.tell()
        await self._findings.store_new()

    def _watch_clock(self) -> None:
        if jump := self._clock.look():
            hours = f"{abs(jump) / 3600:.1f} hours {'ahead' if jump > 0 else 'back'}"
            _log.warning("the clock has jumped; closing and deleting by age is paused", jump=hours)

    async def _close_overdue(self) -> None:
        self._watch_clock()
        if not self._clock.has_run(self.config.suspend_timeout):
            return  # the machine has slept, and publishers come back now
        if closed := await self._streams.close_overdue():
            _log.info("suspended streams closed", streams=closed)

    async def _expire(self) -> None:
        config = self.config
        self._watch_clock()
        is_trusted = bool(config.retention_days) and self._clock.has_run(CLOCK_TRUST)
        before = wall_clock() - int(config.retention_days * DAY_MS) if is_trusted else 0
        if await self.journal.expire(before, config.retention_bytes or None):
            self._search.note_deleted(soon=False)

    async def _scrub(self) -> None:
        await anyio.sleep(min(FIRST_SCRUB, self.config.scrub_interval))
        await _repeat(self.config.scrub_interval, self._verify)

    async def _verify(self) -> None:
        if damages := await self.journal.scrub(SCRUB_SHARE):
            _log.error("the journal is damaged: see `tooltap journal check`", damages=damages)


async def _repeat(period: float, work: Callable[[], Awaitable[None] | None]) -> None:
    reason = ""
    while True:
        try:
            if (running := work()) is not None:
                await running
            reason = ""
        except (OSError, JournalError) as error:  # the machine's trouble, said once until it is over
            if str(error) != reason:
                reason = str(error)
                _log.warning("periodic work failed", work=_name(work), reason=reason)
        except Exception as error:
            faults.note("periodic work failed", place_of(error), error, work=_name(work))
        await anyio.sleep(period)


def _of_stream(info: StreamInfo) -> dict[str, Any]:
    return {"state": info.state, "updated": info.updated, **msgspec.to_builtins(info.statistics)}


def _name(work: Callable[..., object]) -> str:
    return getattr(work, "__qualname__", str(work))


_LOGGED = ("severity", "kind", "dialect", "provider", "version", "place", "text", "example", "first")


class _DriftLog:
    """Logs drift: in one plain line for the user, whatever the number of findings, and each alarm for debugging."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._new: set[str] = set()
        """Agents with an alarm that the user was not told of."""

    def add(self, finding: Finding) -> None:
        """Log an alarm."""
        _log.debug("an agent's output has drifted", **{name: getattr(finding, name) for name in _LOGGED})
        if finding.provider not in self._told:
            self._new.add(finding.provider)

    def tell(self) -> None:
        """Name the agents whose output has drifted since the last call, each once in the life of the daemon."""
        new, self._new = self._new, set()
        if new:
            self._told |= new
            names = sorted(new)
            more = [f"{len(names) - AGENTS_NAMED} more"] if len(names) > AGENTS_NAMED else []
            agents = ", ".join([*names[:AGENTS_NAMED], *more])
            _log.warning(f"new to this version of tooltap: some output of {agents}; `tooltap drift` shows it")
