"""What asyncio reports of a socket that fails, as one sentence in the log.

The event loop finds these failures itself, when it accepts, reads or writes, and nobody awaits them. By itself it would
print a traceback. A connection that cannot be watched any more would stay open for ever, so it is closed.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tooltap.daemon.system.logs import get_logger

__all__ = ["report_failure"]

_log = get_logger("server")


def report_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The event loop's exception handler. Anything but a failure of the system is a bug, logged with a traceback."""
    error, message = context.get("exception"), context["message"]
    if not isinstance(error, OSError):
        _log.error("a callback failed", message=message, exc_info=error)
        return
    transport = context.get("transport") or _transport_of(context.get("handle"))
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()
    what = "a connection cannot be accepted for now" if "accept" in message else "a connection failed"
    _log.warning(what, reason=error.strerror or str(error))


def _transport_of(handle: asyncio.Handle | None) -> object:
    """The transport whose method the loop has called. The loop tells it only in what it prints."""
    return getattr(getattr(handle, "_callback", None), "__self__", None)
