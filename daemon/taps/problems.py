"""Logs when a tap's lines no longer reach the daemon, and when they do again."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from tooltap.daemon.system.logs import get_logger

PERIOD = 1.0
"""Seconds between two checks."""

_log = get_logger("tap")


async def report_problems(problem: Callable[[], str | None]) -> None:
    """Run until cancelled. `problem` returns why lines wait, None while they do not."""
    reported: str | None = None
    while True:
        now = problem()
        if now is not None and reported is None:
            _log.warning("lines wait in the spool", reason=now)
        elif now is None and reported is not None:
            _log.info("lines are delivered again")
        reported = now
        await anyio.sleep(PERIOD)
