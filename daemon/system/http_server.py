"""An HTTP server (uvicorn) that shares its event loop with other work, and stops on request."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tooltap.daemon.system.connections import Acceptor, Peer, Shares, peer_of

HEAD_BYTES = 65_536
"""Longest head of a request, in bytes."""


class HttpConnection(H11Protocol):
    """One client's connection, counted in `shares`. `patience`: timeout in seconds for the head of a request, which
    uvicorn does not have. Requests have the `Peer` in their scope, as `scope["state"]["peer"]`."""

    conn: StrictConnection

    def __init__(self, *, shares: Shares, patience: float, **options: Any) -> None:
        super().__init__(**options)
        self.conn = StrictConnection(HEAD_BYTES)
        self._shares = shares
        self._patience = patience
        self._head: asyncio.TimerHandle | None = None
        """Timer for the head of a request; None while no head is awaited."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer: Peer = peer_of(transport.get_extra_info("socket"))
        self.app_state = {**self.app_state, "peer": peer}
        if self._shares.take(self, peer):
            self._head = self._give_up_later()
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting_for_head()
        elif self._head is None:
            self._head = self._give_up_later()

    def connection_lost(self, exc: Exception | None) -> None:
        self._shares.leave(self)
        self._stop_waiting_for_head()
        super().connection_lost(exc)

    def give_way(self) -> None:
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Reply 400, or just close if a response has begun: there uvicorn 0.54 would fail."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(self.conn.mistake or msg)
        else:
            self.transport.close()

    def _give_up_later(self) -> asyncio.TimerHandle:
        return self.loop.call_later(self._patience, self.transport.abort)

    def _stop_waiting_for_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None


class HttpServer(uvicorn.Server):
    """A uvicorn server. `application`: ASGI application. `keep_alive`: seconds until an idle connection is closed.
    `finishing`: seconds for pending responses after `stop`. `protocol` makes an `HttpConnection`."""

    def __init__(
        self,
        application: Any,
        *,
        keep_alive: int,
        finishing: int,
        protocol: Callable[..., HttpConnection],
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
        self._acceptors: list[Acceptor] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        self._acceptors = [Acceptor(one, self._connection) for one in sockets or ()]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for acceptor in self._acceptors:
            acceptor.close()
        await super().shutdown(sockets)

    def _connection(self) -> asyncio.Protocol:
        """Make the protocol of a new connection, like uvicorn's `startup` does."""
        make: Any = self.config.http_protocol_class
        protocol: asyncio.Protocol = make(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol

    def stop(self) -> None:
        self.should_exit = True
        self._stopping.set()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self._stopping.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do not install uvicorn's signal handlers: they would end the process before its other work is done."""
        yield


# -- requests ---------------------------------------------------------------------------------------------------------

_END = re.compile(rb"\n\r?\n")
_LENGTH = re.compile(rb"[0-9]{1,19}")


class StrictConnection(h11.Connection):
    """The server side of an h11 connection, strict against request smuggling: refuses requests with ambiguous framing.

    h11 is lenient where RFC 9112 permits it: it accepts repeated lengths that agree, prefers `Transfer-Encoding` to a
    length, and joins folded lines. A server that forwards requests must not: the next server may disagree about where a
    request ends, and take the rest of it for another request.
    """

    mistake = ""
    """The reason why a request was refused, a sentence for its sender."""

    def __init__(self, max_head: int) -> None:
        super().__init__(h11.SERVER, max_head)

    def next_event(self) -> Any:
        head = self.trailing_data[0] if self.their_state is h11.IDLE else b""
        event = super().next_event()
        if isinstance(event, h11.Request) and (mistake := _mistake_in(head)):
            self.mistake = mistake
            raise h11.RemoteProtocolError(mistake)
        return event


def _mistake_in(data: bytes) -> str:
    """The reason to refuse a request, or "". `data` begins with a head that h11 accepts."""
    end = _END.search(data)
    assert end is not None
    lines = data[: end.start()].split(b"\n")
    if end[0] != b"\n\r\n" or not all(line.endswith(b"\r") for line in lines):
        return "a line of a request ends with CR and LF"
    if any(line.startswith((b" ", b"\t")) for line in lines[1:]):
        return "a header of a request is one line"
    lengths = [value for name, value in _fields(lines[1:]) if name == b"content-length"]
    codings = [value for name, value in _fields(lines[1:]) if name == b"transfer-encoding"]
    if lengths and codings:
        return "a request has a Content-Length or a Transfer-Encoding, not both"
    if len(lengths) > 1 or not all(_LENGTH.fullmatch(length) for length in lengths):
        return "a request has one Content-Length, which is a number"
    if codings and lines[0].rstrip().endswith(b"HTTP/1.0"):
        return "a request with a Transfer-Encoding is one of HTTP/1.1"
    return ""


def _fields(lines: list[bytes]) -> list[tuple[bytes, bytes]]:
    pairs = (line.partition(b":") for line in lines)
    return [(name.lower(), value.strip()) for name, _, value in pairs]
