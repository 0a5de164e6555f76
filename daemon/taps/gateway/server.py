"""The gateway's server: listens, serves until it is stopped, and then closes the conversations."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import anyio
import httpx
from anyio.to_thread import run_sync

from tooltap.daemon.system.connections.quotas import Shares
from tooltap.daemon.system.foreground import OnStop
from tooltap.daemon.system.http_server import HttpConnection, HttpServer
from tooltap.daemon.system.listener import Listener
from tooltap.daemon.system.logs import configure, get_logger
from tooltap.daemon.system.open_files import allow_open_files
from tooltap.daemon.system.tcp import Address, listen, url_of
from tooltap.daemon.taps.delivery.outbox import SpoolLimits, StreamOptions
from tooltap.daemon.taps.delivery.tap import Tap, report_problems
from tooltap.daemon.taps.gateway.admission import Admission
from tooltap.daemon.taps.gateway.conversations import Conversations, Place
from tooltap.daemon.taps.gateway.forward import Gateway
from tooltap.daemon.taps.gateway.provider import provider_of
from tooltap.daemon.taps.gateway.tap import GatewayTap

KEEP_ALIVE = 75
"""Seconds until an idle connection is closed."""
PATIENCE = 60.0
"""Seconds for the head of a request."""
FINISHING = 5
"""Seconds that answers in progress get when the gateway stops."""
FILES = 16_384
"""File descriptors: seven for each of many simultaneous exchanges with their conversations."""

_log = get_logger("gateway")


class GatewayError(Exception):
    """The gateway cannot start; the message is a sentence for the user."""


class GatewayOptions(NamedTuple):
    upstream: str
    address: Address | Path
    """Where to listen; a path is that of a Unix socket."""
    allow_remote: bool
    hosts: tuple[str, ...]
    """Names of this machine by which clients may ask, besides the loopback ones."""
    key: str | None
    """What clients give that are not known to be our own user's; None at a Unix socket, which has no others."""
    socket: Path
    """The daemon's socket."""
    spool: SpoolLimits
    provider: str | None
    conversations: int
    """How many stay open, besides those that wait for an answer."""
    idle: float
    """Seconds after which an unused conversation is closed."""
    memory_bytes: int
    """Limit for the undelivered lines of each conversation, and for all data that waits to be read."""
    line_bytes: int
    """Longest request or answer that is recorded whole."""
    connections: int
    """How many there may be."""
    client_connections: int
    """How many of one user, or of one address of other machines."""


async def serve_gateway(options: GatewayOptions, on_stop: OnStop) -> None:
    """Serve until stopped. Raises `GatewayError` and `ListenError`."""
    upstream = _upstream(options.upstream)
    with _listening(options) as (listening, place):
        configure()
        allow_open_files(FILES)
        tap = _tap(options, upstream)
        admission = Admission(options.key, hosts=options.hosts, any_address=options.allow_remote)
        gateway = Gateway(upstream, tap, admission)
        shares = Shares(options.connections, options.client_connections)
        connection = partial(HttpConnection, shares=shares, patience=PATIENCE)
        server = HttpServer(gateway, keep_alive=KEEP_ALIVE, finishing=FINISHING, protocol=connection)
        on_stop(server.stop)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(report_problems, lambda: tap.problem)
                _log.info("listening", **place, upstream=str(upstream))
                await server.serve(sockets=[listening])
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await gateway.close()
                await run_sync(tap.close)


@contextmanager
def _listening(options: GatewayOptions) -> Iterator[tuple[socket.socket, dict[str, str]]]:
    """Listen, and say where. Raises `ListenError`."""
    if isinstance(options.address, Path):
        with Listener(options.address) as listener:
            yield listener.socket, {"socket": str(listener.path)}
    else:
        with listen(options.address, allow_remote=options.allow_remote) as listening:
            yield listening, {"url": url_of(listening)}


def _tap(options: GatewayOptions, upstream: httpx.URL) -> GatewayTap:
    def begin(dialect: str, place: Place) -> Tap:
        provider = options.provider or provider_of(upstream, place.model)
        stream = StreamOptions(place.stream, dialect, provider, place.session, agent=place.call, parent=place.call)
        return Tap(stream, options.socket, options.spool, max_bytes=options.memory_bytes)

    conversations = Conversations(begin, options.conversations)
    return GatewayTap(conversations, max_bytes=options.memory_bytes, max_line=options.line_bytes, idle=options.idle)


def _upstream(url: str) -> httpx.URL:
    """Parse the URL of the server. Raises `GatewayError`."""
    try:
        upstream = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise GatewayError(f"{url!r} is not a URL: {error}") from None
    if upstream.scheme not in ("http", "https") or not upstream.host or upstream.query or upstream.userinfo:
        raise GatewayError(f"{url!r} is not the URL of a server, such as http://127.0.0.1:11434")
    return upstream
