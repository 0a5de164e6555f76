"""The daemon as a process: its event loop, signals, reloading the configuration, and termination."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable
from functools import partial

from tooltap.daemon.app import RELOADED, SHUTDOWN_GRACE, SHUTDOWN_TIMEOUT, Daemon
from tooltap.daemon.config import Config, ConfigError
from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.server.server import report_failure
from tooltap.daemon.system.connections import allow_open_files
from tooltap.daemon.system.foreground import ForcedEnd, OnStop, run_until_stopped
from tooltap.daemon.system.listener import ListenError
from tooltap.daemon.system.logs import configure, get_logger
from tooltap.daemon.system.loop import Watchdog, name_task
from tooltap.daemon.system.processes import share_arenas
from tooltap.daemon.system.services import notify_ready

SPARE_FILES = 64
"""File descriptors reserved for everything other than connections."""

_log = get_logger("daemon")


def run(
    config: Config,
    ready: Callable[[], None] = lambda: None,
    reload: Callable[[], Config] | None = None,
    show_link: Callable[[Callable[[], str]], None] = lambda new_link: None,
    log: int | None = None,
) -> None:
    """Run a daemon in this process until SIGTERM or SIGINT. `reload` is called on SIGHUP and returns the new
    configuration; `show_link` is called with a function that makes a login link for a browser; `log`: descriptor
    of the file that the log goes to, in place of stderr. Raises `ListenError`,
    `JournalError`, `ConfigError`, and, after SIGINT, `KeyboardInterrupt`."""
    share_arenas()
    configure(config.log_level, log)
    watchdog = Watchdog(config.stall_seconds)
    forced_end = ForcedEnd(SHUTDOWN_TIMEOUT + SHUTDOWN_GRACE)
    browsers = config.web.connections if config.web.enabled else 0
    allow_open_files(config.max_connections + browsers + SPARE_FILES)
    run_until_stopped(
        partial(_run, config, watchdog, ready, reload, show_link), new_loop=watchdog.new_loop, on_signal=forced_end.arm
    )


async def _run(
    config: Config,
    watchdog: Watchdog,
    ready: Callable[[], None],
    reload: Callable[[], Config] | None,
    show_link: Callable[[Callable[[], str]], None],
    on_stop: OnStop,
) -> None:
    name_task("the daemon's start and end")
    daemon = Daemon(config, watchdog)
    on_stop(daemon.stop)
    if reload is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, _reload, daemon, reload)

    def listening() -> None:
        if daemon.web is not None:
            show_link(daemon.web.new_link)
        notify_ready()
        ready()
        # What starting made stays. From here on garbage is what connections leave, and commands collect it late.
        gc.freeze()
        gc.collect()

    asyncio.get_running_loop().set_exception_handler(report_failure)
    try:
        await daemon.run(listening)
    except ExceptionGroup as group:  # of its tasks
        known, unknown = group.split((JournalError, ListenError, ConfigError))
        if known is None or unknown is not None:
            raise
        raise _first(known) from None


def _first(group: ExceptionGroup) -> Exception:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first


def _reload(daemon: Daemon, read: Callable[[], Config]) -> None:
    try:
        daemon.apply(read())
    except ConfigError as error:
        _log.error("the configuration is unchanged", reason=str(error))
    else:
        _log.info("configuration reloaded", takes_effect=f"{', '.join(RELOADED)}; the rest at the next start")
