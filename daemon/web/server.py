"""The web gateway: an HTTP server in the daemon's event loop, and its application, all endpoints behind the guard."""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tooltap.daemon.system.connections import Shares
from tooltap.daemon.system.http_server import HttpConnection, HttpServer
from tooltap.daemon.system.logs import Trouble, get_logger
from tooltap.daemon.system.loop import name_task
from tooltap.daemon.system.tcp import url_of
from tooltap.daemon.web.api import api, otlp
from tooltap.daemon.web.http.guard import PATIENCE, Guard, Origins
from tooltap.daemon.web.http.logins import Logins
from tooltap.daemon.web.http.requests import HANDLERS
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.http.token import why_not_readable
from tooltap.daemon.web.page import page
from tooltap.daemon.web.page.login import login_page
from tooltap.daemon.web.page.page import warm_up

KEEP_ALIVE = 75
"""Seconds until an idle connection is closed."""
FINISHING = 1
"""Seconds that responses in progress get to finish when the daemon stops."""

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
        path = self._web.token_path
        self._logins = Logins(
            path.with_name(f"{path.name}-logins-{port}"), hmac.digest(token.encode(), b"outputs", "sha256"), self._web
        )
        self._token = token
        self._trouble = Trouble(_log, "programs cannot read the token", "programs can read the token again")
        self._answers: Counter[int] = Counter()
        self._server = HttpServer(
            _counted(
                application(services, token=token, logins=self._logins, new_link=self.new_link, host=host, port=port),
                self._answers,
            ),
            keep_alive=KEEP_ALIVE,
            finishing=FINISHING,
            protocol=partial(
                BrowserConnection,
                shares=Shares(self._web.connections, self._web.client_connections),
                patience=PATIENCE,
            ),
        )

    def new_link(self) -> str:
        """Return a one-time link that logs a browser in, and expires soon. The code follows `#`: browsers do not send
        that part."""
        return f"{self.url}/#login={self._logins.new_code()}"

    async def run(self) -> None:
        """Serve until `stop`."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.to_thread.run_sync, warm_up)
                await self._server.serve(sockets=[self._listening])
        except* OSError as group:
            _log.error("the web gateway failed", reason=str(group.exceptions[0]))
        except* Exception as group:
            _log.error("the web gateway failed", exc_info=group)
        finally:
            self._stopped.set()

    async def check_files(self) -> None:
        """Log it if programs cannot read the token, and write the logins again if their file is gone: called every few
        seconds. Raises `OSError`."""
        if problem := why_not_readable(self._web.token_path, self._token):
            self._trouble.begin(problem)
        else:
            self._trouble.end()
        await self._logins.renew_file()

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
            **({} if self._trouble.problem is None else {"problem": self._trouble.problem}),
            "logins": len(self._logins.alive()),
            "connections": len(self._server.server_state.connections),
            "feeds": len(self._services.feeds),
            "otlp": self._services.otlp.statistics(),
            "answers": {str(status): number for status, number in sorted(self._answers.items())},
        }


def _counted(application: ASGIApp, answers: Counter[int]) -> ASGIApp:
    """Wrap an application to count its responses by status."""

    async def counted(scope: Scope, receive: Receive, send: Send) -> None:
        name_task(f"page {scope.get('method', '')} {scope.get('path', '')}")

        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start":
                answers[message["status"]] += 1
            await send(message)

        await application(scope, receive, counting)

    return counted


def application(
    services: Services, *, token: str, logins: Logins, new_link: Callable[[], str], host: str, port: int
) -> ASGIApp:
    """Assemble the ASGI application. `new_link` makes a link that logs a browser in; `host` and `port`: where the
    server listens."""
    web = services.config.web
    routes = [
        *api.routes(services, logins, new_link),
        *otlp.routes(services.otlp),
        *page.routes(services, logins),
    ]
    endpoints = Starlette(routes=routes, exception_handlers=HANDLERS)
    endpoints.router.redirect_slashes = False  # an address with a slash too many is not found
    guarded = Guard(
        endpoints,
        token=token,
        logins=logins,
        login_page=login_page,
        hosts=(host, *web.hosts),
        any_address=web.allow_remote,
        cookie=f"tooltap-{port}",
        cookie_seconds=int(web.login_lifetime),
        patience=PATIENCE,
    )
    return Origins(guarded, web.origins)


class BrowserConnection(HttpConnection):
    """A browser's connection, which is closed if the browser stalls while it takes a response: uvicorn limits only the
    time that a connection is idle."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
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
