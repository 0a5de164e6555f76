"""An HTTP server in the event loop of a process that also does other work, and that stops on request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["HttpConnection", "HttpServer"]


class HttpConnection(H11Protocol):
    """One client's connection."""

    def send_400_response(self, msg: str) -> None:
        """uvicorn 0.54 replies 400 to bytes that are not HTTP even when it has begun a response, which fails."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()


class HttpServer(uvicorn.Server):
    """`application`: ASGI. `keep_alive`: seconds that a client may keep an unused connection open. `finishing`: seconds
    that responses may take after `stop`."""

    def __init__(
        self,
        application: Any,
        *,
        keep_alive: int,
        finishing: int,
        protocol: Callable[..., HttpConnection] = HttpConnection,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                application,
                http=protocol,  # type: ignore[arg-type]  # uvicorn only calls it
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="critical",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                timeout_keep_alive=keep_alive,
                timeout_graceful_shutdown=finishing,
            )
        )
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._stopping.set()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self._stopping.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process: uvicorn would end it by the signal, before its work is done."""
        yield
