"""The socket's server: greets each connection, reads its frames, and serves a subscriber or a publisher.

Each connection has one task, which reads frames in order. The hub writes to subscribers. A client's error is answered
on its own connection and affects no other.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from tooltap import __version__
from tooltap.daemon.config import Config
from tooltap.daemon.hub import AT_INTERVAL, SUBSCRIBER_BYTES, Hub, Subscription
from tooltap.daemon.ingest.streams import IN_FLIGHT_BYTES, Streams
from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.server.connection import Connection
from tooltap.daemon.server.requests import Requests, failure
from tooltap.daemon.system.connections import Acceptor
from tooltap.daemon.system.listener import Listener, ListenError, peer_uid
from tooltap.daemon.system.logs import Trouble, get_logger
from tooltap.daemon.system.loop import name_task
from tooltap.protocol import PROTOCOL_VERSION, SCHEMA_VERSION
from tooltap.protocol.frames import (
    Ack,
    AnswerRequest,
    ClientFrame,
    DaemonFrame,
    ErrorCode,
    ErrorFrame,
    FrameError,
    Ingest,
    InterruptRequest,
    Reply,
    SendRequest,
    StoreRequest,
    Subscribe,
    Suspended,
    ToAgent,
    ToAgentRequest,
    Welcome,
    decode_client_frame,
)

_log = get_logger("server")

FRAME_BYTES = 256 * 1024
"""Longest control frame from a client, in bytes."""


class Server:
    def __init__(self, config: Config, hub: Hub, requests: Requests, streams: Streams, tasks: TaskGroup) -> None:
        self._config = config
        self._hub = hub
        self._requests = requests
        self._streams = streams
        self._tasks = tasks
        self._owner = os.geteuid()
        self._connections: set[Connection] = set()
        self._acceptor: Acceptor | None = None
        self._removed = Trouble(
            _log,
            "the socket was removed or replaced, and no client can connect",
            "the place of the socket is free again",
        )

    @property
    def connections(self) -> int:
        return len(self._connections)

    @property
    def problem(self) -> str | None:
        """The reason why no connection can be accepted at the moment, or None."""
        if self._removed.problem is not None:
            return self._removed.problem
        return None if self._acceptor is None else self._acceptor.trouble.problem

    def start(self, listener: Listener) -> None:
        """Start accepting connections. Raises `ListenError`."""
        try:
            self._acceptor = Acceptor(listener.socket, self._connection)
        except OSError as error:
            raise ListenError(f"cannot listen at {listener.path}: {error.strerror}") from error

    def renew(self, listener: Listener) -> None:
        """Listen again if the socket was removed. Connections that are open stay."""
        try:
            previous = listener.renew()
        except ListenError as error:
            self._removed.begin(str(error))
            return
        self._removed.end()
        if previous is not None and self._acceptor is not None:
            _log.warning("the socket was removed, and is there again", socket=str(listener.path))
            self._acceptor.close()
            self._acceptor = Acceptor(listener.socket, self._connection)

    async def stop(self) -> None:
        """Stop accepting connections, commit all received lines, and wait until clients have read what was written."""
        if self._acceptor is not None:
            self._acceptor.close()
        await self._streams.suspend_all()
        for connection in list(self._connections):
            connection.close()
        for connection in list(self._connections):
            await connection.wait_closed()

    def abort(self) -> None:
        for connection in list(self._connections):
            connection.abort()

    def _connection(self) -> Connection:
        read_limit = max(IN_FLIGHT_BYTES, FRAME_BYTES + 1)
        return Connection(self._accepted, read_limit=read_limit, write_limit=SUBSCRIBER_BYTES)

    def _accepted(self, connection: Connection) -> None:
        try:
            user = peer_uid(connection.socket)
        except OSError:  # the client is gone already
            connection.abort()
            return
        if user != self._owner:
            _refuse(connection, "forbidden", "this daemon serves its own user only")
        elif len(self._connections) >= self._config.max_connections:
            _refuse(connection, "too-many-connections", f"the daemon serves {self._config.max_connections} connections")
        else:
            self._connections.add(connection)
            self._tasks.start_soon(self._serve, connection)

    async def _serve(self, connection: Connection) -> None:
        try:
            await self._talk(connection)
        except JournalError as error:
            _refuse(connection, "journal", str(error))
        except OSError as error:
            _log.warning("a connection failed", reason=error.strerror or str(error))
            connection.abort()
        except Exception:
            _log.exception("a connection failed")
            _refuse(connection, "internal", "the connection failed; the daemon's log says why")
        finally:
            connection.close()
            await connection.wait_closed()
            self._connections.discard(connection)

    async def _talk(self, connection: Connection) -> None:
        connection.send(self._welcome())
        subscription: Subscription | None = None
        try:
            while True:
                try:
                    frame = await self._next_frame(connection)
                    if frame is None:
                        break
                    subscription = await self._handle(connection, frame, subscription)
                except FrameError as error:
                    await connection.drain()
                    connection.send(_reply_to(error))
                    if error.fatal:
                        return
            if subscription is not None:  # the client sends nothing more, but still reads
                await connection.wait_closed()
        finally:
            if subscription is not None:
                subscription.close()

    async def _next_frame(self, connection: Connection) -> ClientFrame | None:
        """The next frame; None at the end of input. Raises `FrameError`."""
        while (line := await connection.read_line(FRAME_BYTES)) is not None:
            if line.strip():
                return decode_client_frame(line)
        return None

    async def _handle(
        self, connection: Connection, frame: ClientFrame, subscription: Subscription | None
    ) -> Subscription | None:
        """Handle one frame; returns the connection's subscription, if any. Raises `FrameError`."""
        if isinstance(frame, Subscribe | Ingest) and subscription is not None:
            mistake = "this connection already carries a subscription; open another one"
            raise FrameError("wrong-mode", mistake, fatal=isinstance(frame, Ingest))
        if isinstance(frame, Subscribe):
            subscription = await self._hub.subscription(
                connection, frame, at_interval=AT_INTERVAL, read_bytes=4 * SUBSCRIBER_BYTES
            )
            subscription.start()
        elif isinstance(frame, Ingest):
            await serve_publisher(self._streams, connection, frame)
        else:
            if isinstance(frame, StoreRequest):
                reply = await self._requests.store(frame, connection.receive)
            else:
                if isinstance(frame, AnswerRequest | SendRequest | InterruptRequest | ToAgentRequest):
                    frame.by = f"{frame.by or 'a client'}, over the socket"
                reply = await self._requests.reply_to(frame)
            await connection.drain()
            connection.send(reply)
        return subscription

    def _welcome(self) -> Welcome:
        journal = self._hub.journal
        return Welcome(
            protocol=PROTOCOL_VERSION,
            schema=SCHEMA_VERSION,
            daemon=f"tooltap/{__version__}",
            journal=journal.id,
            oldest=journal.oldest,
            latest=journal.latest,
        )


def _reply_to(error: FrameError) -> ErrorFrame | Reply:
    if error.request_id is not None:
        return failure(error.request_id, error.code, str(error))
    return ErrorFrame(code=error.code, message=str(error))


def _refuse(connection: Connection, code: ErrorCode, message: str) -> None:
    connection.send(ErrorFrame(code=code, message=message))
    connection.close()


def report_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The event loop's exception handler. A socket error that no task awaits is logged in one sentence, and the
    connection is closed; anything else is a bug, logged with a traceback."""
    error, message = context.get("exception"), context["message"]
    if not isinstance(error, OSError):
        _log.error("a callback failed", message=message, exc_info=error)
        return
    transport = context.get("transport") or _transport_of(context.get("handle"))
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()
    what = "a connection cannot be accepted for now" if "accept" in message else "a connection failed"
    _log.warning(what, reason=error.strerror or str(error))


def _transport_of(handle: asyncio.Handle | None) -> object:
    """The transport whose method the loop has called. There is no public way to get it from a handle."""
    return getattr(getattr(handle, "_callback", None), "__self__", None)


# -- publishers -------------------------------------------------------------------------------------------------------

RECEIVE_BYTES = 65_536
"""Most bytes received and parsed at once, before other connections get a turn."""


async def serve_publisher(streams: Streams, connection: Connection, request: Ingest) -> None:
    """Serve a publisher until it leaves or loses its stream: pass bytes from the socket to an ingest connection, and
    its frames back. The socket is read only as fast as `feed` returns, which is the publisher's backpressure. Raises
    `FrameError` and `JournalError`."""
    name_task(f"stream {request.stream or ''}")
    outgoing = _Outgoing(connection)
    try:
        ingest = await streams.open(request, outgoing.send)
    except FrameError as error:
        error.fatal = True  # the client sends lines next, which cannot be read as frames
        raise
    try:
        while data := await connection.receive(RECEIVE_BYTES):
            await ingest.feed(data)
            await checkpoint()  # give other tasks a turn, even if more bytes are waiting
    finally:
        await ingest.finish()


class _Outgoing:
    """Sends frames to a publisher that may not read its acks: while the connection is not writable, only the latest ack
    is kept, as it implies the earlier ones."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._late: Ack | None = None
        connection.when_writable = self._catch_up

    def send(self, frame: DaemonFrame) -> None:
        if isinstance(frame, Ack) and not self._connection.writable:
            self._late = frame
            return
        if not isinstance(frame, ToAgent):  # all other frames imply what is acknowledged
            self._late = None
        self._connection.send(frame)
        if isinstance(frame, ErrorFrame | Suspended):  # the last frame
            self._connection.end_input()

    def _catch_up(self) -> None:
        if self._late is not None:
            self.send(self._late)
