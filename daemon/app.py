"""The daemon as one object: opens everything, runs until it is stopped, and shuts down without losing anything.

A shutdown stops following and accepts no more connections. Within `shutdown_timeout` it commits what publishers have
sent, lets clients read what was written to them, and lets commands finish their views. Then it cancels what is left.
The journal is closed last, after every task that may commit.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import anyio
import msgspec
from anyio.abc import TaskGroup

from tooltap import __version__
from tooltap.daemon.config import Config, ConfigError
from tooltap.daemon.hub.hub import Hub
from tooltap.daemon.ingest.streams import Streams
from tooltap.daemon.journal.interface import Journal, StreamState
from tooltap.daemon.journal.open import open_journal
from tooltap.daemon.server.output_cache import OutputCache
from tooltap.daemon.server.requests import Requests
from tooltap.daemon.server.server import Server
from tooltap.daemon.system.clock import wall_clock
from tooltap.daemon.system.foreground import OnStop, run_until_stopped
from tooltap.daemon.system.listener import Listener
from tooltap.daemon.system.logs import configure, get_logger
from tooltap.daemon.system.open_files import allow_open_files
from tooltap.daemon.system.paths import spool_path
from tooltap.daemon.system.readiness import notify_ready
from tooltap.daemon.system.tcp import listen, parse_address
from tooltap.daemon.taps.drain import Drain
from tooltap.daemon.taps.follow.follower import Follower
from tooltap.daemon.views.results import Policy
from tooltap.daemon.views.rewriter import Rewriter
from tooltap.daemon.views.rules import Rules
from tooltap.daemon.web.http.token import load_token
from tooltap.traces.drift.baselines import PACKAGED, load
from tooltap.traces.drift.drift import Drift, Finding
from tooltap.traces.recording.writer import TraceWriter

if TYPE_CHECKING:  # its packages are an extra
    from tooltap.daemon.web.server import WebServer

__all__ = ["Daemon", "run"]

DAY_MS = 24 * 3600 * 1000
STREAMS_LISTED = 1_000
"""Streams that `stats` lists: those with the newest commits."""
CLOSING_PERIOD = 15.0
"""Seconds that a suspended stream may be closed too late."""
EXPIRY_PERIOD = 15.0
"""Seconds that an expired output may stay in memory."""
SPARE_FILES = 64
"""File descriptors for everything that is not a connection."""

_log = get_logger("daemon")


class Daemon:
    """`run` serves until `stop` is called."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._policy = Policy(Rules(config.tools))
        self._rewriter: Rewriter
        self.journal: Journal
        self.hub: Hub
        self.server: Server
        self.web: WebServer | None = None
        self._token = ""
        """The token for browsers."""
        self._streams: Streams
        self._trace: TraceWriter | None = None
        self._drift = Drift(
            lambda dialect: load(PACKAGED, dialect),
            thorough=False,
            silent_lines=config.silent_lines,
            on_new=_log_drift,
        )
        self._follower: Follower | None = None
        self._following = anyio.CancelScope()
        self._drain: Drain
        self._outputs: OutputCache
        self._stopping = anyio.Event()
        self._started = time.monotonic()

    def stop(self) -> None:
        self._stopping.set()

    def apply(self, config: Config) -> None:
        """Apply the settings that may change while the daemon runs: how results are shown."""
        self._policy.rules = Rules(config.tools)
        self._rewriter.bounds = config.rewriting

    async def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serve; `ready` is called when clients can connect. Raises `ListenError`, `JournalError` and `ConfigError`."""
        config = self.config
        with Listener(config.socket_path) as listener, self._listen_to_browsers() as browsers:
            self.journal = await open_journal(config.journal_place, config.durability)
            trace = self._trace = TraceWriter.from_environment(
                os.environ,
                lambda sentence: _log.warning("trace", problem=sentence),
                file_bytes=config.trace_file_bytes,
                total_bytes=config.trace_total_bytes,
                buffer_bytes=config.trace_buffer_bytes,
            )
            try:
                async with anyio.create_task_group() as tasks:
                    await self._start(listener, browsers, tasks)
                    _log.info(
                        "listening",
                        socket=str(listener.path),
                        journal=str(config.journal_place),
                        pid=os.getpid(),
                        **({} if self.web is None else {"web": self.web.url}),
                    )
                    ready()
                    await self._stopping.wait()
                    _log.info("shutting down")
                    self._following.cancel()
                    if self.web is not None:
                        self.web.stop()
                    with anyio.move_on_after(config.shutdown_timeout):
                        await self.server.stop()
                        await self._rewriter.finish()
                        if self.web is not None:
                            await self.web.wait_stopped()
                    self._rewriter.stop()
                    self.server.abort()
                    if self.web is not None:
                        self.web.abort()
                    tasks.cancel_scope.cancel()
            finally:
                if trace is not None:
                    trace.close()
                with anyio.CancelScope(shield=True):
                    await self.journal.close()
        _log.info("stopped")

    async def statistics(self) -> dict[str, Any]:
        """The reply to `stats`."""
        journal, hub = self.journal, self.hub
        # First: if the follower is idle, everything it has read is in the journal.
        following = {} if self._follower is None else {"following": self._follower.statistics()}
        streams = await journal.streams(limit=STREAMS_LISTED)
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
                "expired": journal.expired,
                **journal.statistics(),
            },
            "streams": {state: await journal.count_streams(state) for state in get_args(StreamState)},
            "perStream": [
                {"state": one.state, "updated": one.updated, **msgspec.to_builtins(one.statistics)} for one in streams
            ],
            "connections": {"open": self.server.connections, "publishing": len(self._streams.connections)},
            "drift": msgspec.to_builtins(self._drift.report()),
            **following,
            **({"web": self.web.statistics()} if self.web is not None else {}),
            "spools": self._drain.statistics(),
            "outputs": self._outputs.statistics(),
            "rewriting": self._rewriter.statistics(),
            "subscribers": [one.statistics() for one in hub.subscriptions],
            "trace": None if self._trace is None else self._trace.statistics(),
            "limits": {
                key: value
                for key, value in msgspec.to_builtins(self.config).items()
                if isinstance(value, int | float | dict) and key != "tools"
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
        self.hub = Hub(self.journal, tasks, recent_bytes=config.recent_bytes)
        self.journal.on_commit = self.hub.publish
        await self.journal.suspend_all()
        self._rewriter = Rewriter(
            config.rewriting, config.stream, tasks, lambda stream, outputs: self._streams.add_view(stream, outputs)
        )
        self._streams = Streams(
            self.journal,
            tasks,
            limits=config.stream,
            snapshot_bytes=config.snapshot_bytes,
            in_flight_bytes=config.ingest_bytes,
            suspend_timeout_ms=int(config.suspend_timeout * 1000),
            max_streams=config.max_streams,
            partials_wanted=lambda: self.hub.partials_wanted,
            trace=self._trace,
            drift=self._drift,
            policy=self._policy,
            rewrite=self._rewriter.put,
        )
        self._drain = Drain(self._streams, listener.path, spool_path())
        self._outputs = OutputCache(self.journal.id, max_bytes=config.output_bytes, ttl=config.output_ttl)
        requests = Requests(self.journal, self._outputs, statistics=self.statistics, end_stream=self._streams.end)
        self.server = Server(config, self.hub, requests, self._streams, tasks)
        if browsers is not None:
            self._serve_browsers(browsers, requests, tasks)
        await self.server.start(listener)
        tasks.start_soon(_repeat, min(config.suspend_timeout / 4, CLOSING_PERIOD), self._close_overdue)
        if config.follow.agents:
            self._follower = Follower(
                self._streams,
                self.journal,
                config.follow,
                line_bytes=config.stream.line_bytes,
                suspend_timeout_ms=int(config.suspend_timeout * 1000),
                # A trace takes the lines from the commits.
                jobs=config.follow.processes if self._trace is None else 1,
            )
            tasks.start_soon(self._run_follower, self._follower)
        tasks.start_soon(_repeat, config.drain_interval, self._drain.run)
        tasks.start_soon(_repeat, min(config.output_ttl, EXPIRY_PERIOD), self._outputs.sweep)
        tasks.start_soon(_repeat, config.retention_interval, self._expire)
        if self._trace is not None:
            _log.info("tracing", file=str(self._trace.path))

    def _serve_browsers(self, listening: socket.socket, requests: Requests, tasks: TaskGroup) -> None:
        from tooltap.daemon.web.http.feed import Feeds
        from tooltap.daemon.web.http.services import Services
        from tooltap.daemon.web.server import WebServer

        feeds = Feeds(self.hub, self.config)
        services = Services(self.config, self.journal, self.hub, requests, feeds, self.statistics)
        self.web = WebServer(services, listening, self._token)
        tasks.start_soon(self.web.run)

    async def _run_follower(self, follower: Follower) -> None:
        with self._following:
            await follower.run()

    async def _close_overdue(self) -> None:
        if closed := await self._streams.close_overdue():
            _log.info("suspended streams closed", streams=closed)

    async def _expire(self) -> None:
        config = self.config
        before = wall_clock() - int(config.retention_days * DAY_MS) if config.retention_days else 0
        if deleted := await self.journal.expire(before, config.retention_bytes or None):
            _log.info("old events deleted", events=deleted)


async def _repeat(period: float, work: Callable[[], Awaitable[None] | None]) -> None:
    while True:
        try:
            if (running := work()) is not None:
                await running
        except Exception:
            _log.exception("periodic work failed", work=str(work))
        await anyio.sleep(period)


def _log_drift(finding: Finding) -> None:
    _log.warning("an agent's output has drifted", **msgspec.structs.asdict(finding))


def run(
    config: Config,
    ready: Callable[[], None] = lambda: None,
    reload: Callable[[], Config] | None = None,
    show_link: Callable[[str], None] = lambda link: None,
) -> None:
    """Run a daemon in this process until SIGTERM or SIGINT. `reload` reads the configuration again, on SIGHUP;
    `show_link` is called with the link that lets a browser in. Raises `ListenError`, `JournalError`, `ConfigError`,
    and, after SIGINT, `KeyboardInterrupt`."""
    configure(config.log_level)
    browsers = config.web.connections if config.web.enabled else 0
    allow_open_files(config.max_connections + browsers + SPARE_FILES)
    run_until_stopped(partial(_run, config, ready, reload, show_link))


async def _run(
    config: Config,
    ready: Callable[[], None],
    reload: Callable[[], Config] | None,
    show_link: Callable[[str], None],
    on_stop: OnStop,
) -> None:
    daemon = Daemon(config)
    on_stop(daemon.stop)
    if reload is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, _reload, daemon, reload)

    def listening() -> None:
        if daemon.web is not None:
            show_link(daemon.web.link)
        notify_ready()
        ready()
        # What starting made stays. From here on garbage is what connections leave, and commands collect it late.
        gc.freeze()
        gc.collect()

    await daemon.run(listening)


def _reload(daemon: Daemon, read: Callable[[], Config]) -> None:
    try:
        daemon.apply(read())
    except ConfigError as error:
        _log.error("the configuration is unchanged", reason=str(error))
    else:
        _log.info("configuration reloaded", takes_effect="tools and rewriting; the rest at the next start")
