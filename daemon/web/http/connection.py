"""A browser's connection, which is closed if the browser stalls while it takes a response.

uvicorn limits only the time that a connection is idle.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tooltap.daemon.system.connections import Shares
from tooltap.daemon.system.http_server import HttpConnection


class BrowserConnection(HttpConnection):
    """`patience`: seconds a client may stall; `options`: for uvicorn."""

    def __init__(self, *, shares: Shares, patience: float, **options: Any) -> None:
        super().__init__(shares=shares, patience=patience, **options)
        self._taking: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._taking = self._give_up_later()

    def resume_writing(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._taking is not None:
            self._taking.cancel()
        super().connection_lost(exc)
