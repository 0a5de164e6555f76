"""Reads what passes through the gateway, in a thread of its own: the proxy waits for nothing of it.

What waits for the thread is bounded. Where there is no room, the rest of an exchange is dropped, which its stream says.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from functools import partial

from tooltap.daemon.system.clock import wall_clock
from tooltap.daemon.system.logs import get_logger
from tooltap.daemon.taps.gateway.conversations import Conversations
from tooltap.daemon.taps.gateway.exchange import API, Exchange

__all__ = ["GatewayTap", "Watch"]

OVERFLOW = "the gateway's tap did not keep up"
LOOK = 1.0
"""Seconds between looks at which conversations are idle."""

_log = get_logger("gateway")


class GatewayTap:
    """`max_bytes`: that wait to be read; `max_line`: of a line that is kept whole; `idle`: seconds after which a
    conversation is over."""

    def __init__(self, conversations: Conversations, *, max_bytes: int, max_line: int, idle: float) -> None:
        self._conversations = conversations
        self._max_bytes = max_bytes
        self._max_line = max_line
        self._idle = idle
        self._work: queue.SimpleQueue[tuple[int, Callable[[], None]] | None] = queue.SimpleQueue()
        self._waiting = 0
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="gateway-tap", daemon=True)
        self._thread.start()

    def watch(self, api: API, coding: str) -> Watch:
        """An exchange that begins. `coding`: the request's `Content-Encoding`."""
        return Watch(self, Exchange(api, self._conversations, coding, self._max_line))

    def post(self, size: int, work: Callable[[], None]) -> bool:
        """Have the thread do it; `size`: bytes that it keeps until then. False if there is no room for them."""
        with self._lock:
            if size and self._waiting + size > self._max_bytes:
                return False
            self._waiting += size
        self._work.put((size, work))
        return True

    @property
    def problem(self) -> str | None:
        """Why lines do not get through at the moment."""
        return self._conversations.problem

    def close(self) -> None:
        """Read what waits, and end all conversations."""
        self._work.put(None)
        self._thread.join()
        self._conversations.close()

    def _run(self) -> None:
        looked = time.monotonic()
        while True:
            try:
                item = self._work.get(timeout=LOOK)
            except queue.Empty:
                pass
            else:
                if item is None:
                    return
                self._do(*item)
            if time.monotonic() - looked > LOOK:
                looked = time.monotonic()
                self._conversations.close_idle(self._idle)

    def _do(self, size: int, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:
            _log.exception("an exchange was not read")
        finally:
            with self._lock:
                self._waiting -= size


class Watch:
    """One exchange, as the proxy sees it pass. Nothing here raises or waits; see `Exchange`."""

    def __init__(self, tap: GatewayTap, exchange: Exchange) -> None:
        self._tap = tap
        self._exchange = exchange
        self._lost = 0
        self._lost_lines = 0

    def sent(self, data: bytes) -> None:
        self._pass(self._exchange.sent, data)

    def asked(self) -> None:
        self._tap.post(0, partial(self._exchange.asked, wall_clock()))

    def answered(self, kind: str, coding: str) -> None:
        self._tap.post(0, partial(self._exchange.answered, wall_clock(), kind, coding))

    def received(self, data: bytes) -> None:
        self._pass(self._exchange.received, data)

    def over(self) -> None:
        lines = max(1, self._lost_lines) if self._lost else 0
        self._tap.post(0, partial(self._exchange.over, wall_clock(), lines, self._lost, OVERFLOW))

    def _pass(self, read: Callable[[int, bytes], None], data: bytes) -> None:
        if not self._lost and self._tap.post(len(data), partial(read, wall_clock(), data)):
            return
        if not self._lost:
            self._tap.post(0, partial(self._exchange.cut, wall_clock()))
        self._lost += len(data)
        self._lost_lines += data.count(b"\n")
