"""The web gateway's server: runs in the daemon's event loop, and cuts off clients that do not go on."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import anyio
from uvicorn.protocols.http.h11_impl import H11Protocol

from tooltap.daemon.http_server import HttpServer
from tooltap.daemon.logs import get_logger
from tooltap.daemon.tcp import url_of
from tooltap.daemon.web.app import application
from tooltap.daemon.web.services import Services

_log = get_logger("web")

__all__ = ["WebServer"]

KEEP_ALIVE = 75
"""Seconds for which a browser may keep a connection that it does not use."""
FINISHING = 1
"""Seconds for answers that are under way when the daemon stops."""


class WebServer:
    """Serves on a socket that listens."""

    def __init__(self, services: Services, listening: socket.socket, token: str) -> None:
        self._services = services
        self._listening = listening
        self._web = services.config.web
        self._stopped = anyio.Event()
        host, port = listening.getsockname()[:2]
        self.url = url_of(listening)
        self.link = f"{self.url}/?token={token}"
        """Who opens it is let in."""
        self._server = HttpServer(
            application(services, token=token, host=host, port=port),
            keep_alive=KEEP_ALIVE,
            finishing=FINISHING,
            protocol=_protocol(self._web.connections, self._web.patience),
        )

    async def run(self) -> None:
        """Until `stop`."""
        try:
            await self._server.serve(sockets=[self._listening])
        except Exception:
            _log.exception("the web gateway failed")
        finally:
            self._stopped.set()

    def stop(self) -> None:
        """Feeds end, so that their connections do; other answers have a moment to be completed."""
        self._services.feeds.stop()
        self._server.stop()

    async def wait_stopped(self) -> None:
        await self._stopped.wait()

    def abort(self) -> None:
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()

    def statistics(self) -> dict[str, Any]:
        state = self._server.server_state
        return {
            "url": self.url,
            "tokenFile": str(self._web.token_path),
            "connections": len(state.connections),
            "feeds": len(self._services.feeds),
            "requests": state.total_requests,
        }


def _protocol(connections: int, patience: float) -> type[H11Protocol]:
    """As many connections as there may be, each as patient."""

    class Bounded(_Bounded):
        most = connections
        seconds = patience

    return Bounded


class _Bounded(H11Protocol):
    """One connection. Its client is waited for in two places: for the rest of a request's head, and until it takes what
    it was sent; neither may last."""

    most: int
    seconds: float
    _waiting: asyncio.TimerHandle | None = None
    """For the rest of a head."""
    _stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.abort()
        else:
            self._await_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._waiting is None:
            self._await_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stuck = self.loop.call_later(self.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)
        if self._stuck is not None:
            self._stuck.cancel()

    def _await_head(self) -> None:
        self._waiting = self.loop.call_later(self.seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
