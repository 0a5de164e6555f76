"""The gateway's tap: processes exchanges in a thread of its own, so that the proxy never waits for it.

The data that waits for the thread is bounded. Without room the rest of an exchange is dropped, and its stream gets a
loss.
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

OVERFLOW = "the gateway's tap did not keep up"
LOOK = 1.0
"""Seconds between checks for idle conversations."""

_log = get_logger("gateway")


class GatewayTap:
    """`max_bytes`: limit for waiting data; `max_line`: longest line that is recorded whole; `idle`: seconds after
    which an unused conversation is closed."""

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
        """Begin an exchange. `coding`: the request's `Content-Encoding`."""
        return Watch(self, Exchange(api, self._conversations, coding, self._max_line))

    def post(self, size: int, work: Callable[[], None]) -> bool:
        """Hand work to the thread. `size`: bytes that the work holds. Return False if there is no room for them."""
        with self._lock:
            if size and self._waiting + size > self._max_bytes:
                return False
            self._waiting += size
        self._work.put((size, work))
        return True

    @property
    def problem(self) -> str | None:
        """Why no lines reach the daemon at the moment."""
        return self._conversations.problem

    def close(self) -> None:
        """Process what waits, and close all conversations."""
        self._work.put(None)
        self._thread.join()
        self._conversations.close()

    def _run(self) -> None:
        checked = time.monotonic()
        while True:
            try:
                item = self._work.get(timeout=LOOK)
            except queue.Empty:
                pass
            else:
                if item is None:
                    return
                self._do(*item)
            if time.monotonic() - checked > LOOK:
                checked = time.monotonic()
                self._conversations.close_idle(self._idle)

    def _do(self, size: int, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:
            _log.exception("an exchange could not be processed")
        finally:
            with self._lock:
                self._waiting -= size


class Watch:
    """The proxy's side of one exchange. Its methods never raise or wait; see `Exchange`."""

    def __init__(self, tap: GatewayTap, exchange: Exchange) -> None:
        self._tap = tap
        self._exchange = exchange
        self._lost = 0
        self._lost_lines = 0

    def request_data(self, data: bytes) -> None:
        self._pass(self._exchange.request_data, data)

    def request_complete(self) -> None:
        self._tap.post(0, partial(self._exchange.request_complete, wall_clock()))

    def response_started(self, kind: str, coding: str) -> None:
        self._tap.post(0, partial(self._exchange.response_started, wall_clock(), kind, coding))

    def response_data(self, data: bytes) -> None:
        self._pass(self._exchange.response_data, data)

    def finished(self) -> None:
        lines = max(1, self._lost_lines) if self._lost else 0
        self._tap.post(0, partial(self._exchange.finished, wall_clock(), lines, self._lost, OVERFLOW))

    def _pass(self, read: Callable[[int, bytes], None], data: bytes) -> None:
        if not self._lost and self._tap.post(len(data), partial(read, wall_clock(), data)):
            return
        if not self._lost:
            self._tap.post(0, partial(self._exchange.cut, wall_clock()))
        self._lost += len(data)
        self._lost_lines += data.count(b"\n")
