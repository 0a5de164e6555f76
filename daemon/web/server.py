"""The HTTP server of the web gateway, in the daemon's event loop."""

from __future__ import annotations

import socket
from collections import Counter
from functools import partial
from typing import Any

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tooltap.daemon.system.http_server import HttpServer
from tooltap.daemon.system.logs import get_logger
from tooltap.daemon.system.tcp import url_of
from tooltap.daemon.web.application import application
from tooltap.daemon.web.http.connection import BrowserConnection
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page.page import warm_up

__all__ = ["WebServer"]

KEEP_ALIVE = 75
"""Seconds until an idle connection is closed."""
FINISHING = 1
"""Seconds that responses in progress get when the daemon stops."""

_log = get_logger("web")


class WebServer:
    """Serves on a listening socket."""

    def __init__(self, services: Services, listening: socket.socket, token: str) -> None:
        self._services = services
        self._listening = listening
        self._web = services.config.web
        self._stopped = anyio.Event()
        host, port = listening.getsockname()[:2]
        self.url = url_of(listening)
        self.link = f"{self.url}/?token={token}"
        """The URL with the token: a browser that opens it may enter."""
        self._answers: Counter[int] = Counter()
        self._server = HttpServer(
            _counted(application(services, token=token, host=host, port=port), self._answers),
            keep_alive=KEEP_ALIVE,
            finishing=FINISHING,
            protocol=partial(BrowserConnection, most=self._web.connections, patience=self._web.patience),
        )

    async def run(self) -> None:
        """Serve until `stop`."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.to_thread.run_sync, warm_up)
                await self._server.serve(sockets=[self._listening])
        except Exception:
            _log.exception("the web gateway failed")
        finally:
            self._stopped.set()

    def stop(self) -> None:
        """End all feeds, and so their connections. Other responses get `FINISHING` seconds."""
        self._services.feeds.stop()
        self._server.stop()

    async def wait_stopped(self) -> None:
        await self._stopped.wait()

    def abort(self) -> None:
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()

    def statistics(self) -> dict[str, Any]:
        return {
            "url": self.url,
            "tokenFile": str(self._web.token_path),
            "connections": len(self._server.server_state.connections),
            "feeds": len(self._services.feeds),
            "answers": {str(status): number for status, number in sorted(self._answers.items())},
        }


def _counted(application: ASGIApp, answers: Counter[int]) -> ASGIApp:
    """Wrap an application to count its responses by status."""

    async def counted(scope: Scope, receive: Receive, send: Send) -> None:
        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start":
                answers[message["status"]] += 1
            await send(message)

        await application(scope, receive, counting)

    return counted
