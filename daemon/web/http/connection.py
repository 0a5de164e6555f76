"""A browser's connection, which is closed if the browser stalls.

A client can stall in two places: while it sends the head of a request, and while it takes a response. uvicorn limits
neither, only the time that a connection is idle.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tooltap.daemon.system.http_server import HttpConnection

__all__ = ["BrowserConnection"]


class BrowserConnection(HttpConnection):
    """`most`: how many connections there may be; `patience`: seconds a client may stall; `options`: for uvicorn."""

    def __init__(self, *, most: int, patience: float, **options: Any) -> None:
        super().__init__(**options)
        self._most = most
        self._patience = patience
        self._head: asyncio.TimerHandle | None = None
        """Runs until the head of a request is complete."""
        self._taking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._most:
            transport.abort()
        else:
            self._head = self._give_up_later()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting_for_head()
        elif self._head is None:
            self._head = self._give_up_later()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._taking = self._give_up_later()

    def resume_writing(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting_for_head()
        if self._taking is not None:
            self._taking.cancel()
        super().connection_lost(exc)

    def _give_up_later(self) -> asyncio.TimerHandle:
        return self.loop.call_later(self._patience, self.transport.abort)

    def _stop_waiting_for_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None
