"""An HTTP server in the event loop of a process that does other things as well, and that stops when it is told to."""

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
    """One client's."""

    def send_400_response(self, msg: str) -> None:
        """uvicorn 0.54 answers what is no HTTP also where it has begun to answer, or has done so: that fails."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()


class HttpServer(uvicorn.Server):
    """`application`: ASGI. `keep_alive`: seconds for which a client may keep a connection that it does not use.
    `finishing`: seconds for answers that are under way when it is told to stop."""

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
                http=protocol,  # type: ignore[arg-type]  # it is called, no more
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
        """Signals are left to the process: uvicorn would end it by the signal, before its work is done."""
        yield
