"""The gateway's server: a reverse proxy in front of a model's server, which forwards everything unchanged and without
delay, and copies it to a tap. When it is stopped, it closes the conversations.

The path of a request is appended to the server's URL. Only hop-by-hop headers and the gateway's key are removed. When a
client disconnects, its request is cancelled. When the server aborts an answer, the gateway aborts it, too. Requests
that are not admitted are neither forwarded nor tapped.

A request for a WebSocket is refused with 426: forwarded without its hop-by-hop headers, it would be another request,
whose answer says nothing about WebSockets. Codex 0.171 falls back to plain requests at once after 426, and after no
other answer. Other upgrades are only offers (`h2c` of Java), and are left out.
"""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from functools import partial
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

import anyio
import httpx
import orjson
from anyio.to_thread import run_sync

from tooltap.daemon.system.connections import Shares, allow_open_files
from tooltap.daemon.system.foreground import OnStop
from tooltap.daemon.system.http_server import HttpConnection, HttpServer
from tooltap.daemon.system.listener import Listener
from tooltap.daemon.system.logs import configure, get_logger
from tooltap.daemon.system.tcp import Address, is_loopback, listen, url_of
from tooltap.daemon.taps.delivery.outbox import SpoolLimits, StreamOptions
from tooltap.daemon.taps.delivery.tap import Tap, report_problems
from tooltap.daemon.taps.gateway.admission import Admission, Admitted, RefusedError
from tooltap.daemon.taps.gateway.conversations import Conversations, Place, agent_of, provider_of
from tooltap.daemon.taps.gateway.exchange import GatewayTap, Watch, api_of
from tooltap.daemon.taps.gateway.histories import session_named

KEEP_ALIVE = 75
"""Seconds until an idle connection is closed."""
PATIENCE = 60.0
"""Timeout in seconds for the head of a request."""
FINISHING = 5
"""Seconds for answers in progress to finish when the gateway stops."""
FILES = 16_384
"""Limit of file descriptors: an exchange with its conversation needs seven."""

_log = get_logger("gateway")


class GatewayError(Exception):
    """The gateway cannot start; the message is a sentence for the user."""


class GatewayOptions(NamedTuple):
    upstream: str
    address: Address | Path
    """TCP address to listen at, or path of a Unix socket."""
    allow_remote: bool
    hosts: tuple[str, ...]
    """Accepted host names of this machine, in addition to those of loopback."""
    key: str | None
    """Key for clients that are not known to be our own user's; None at a Unix socket, which admits no others."""
    socket: Path
    """The daemon's socket."""
    spool: SpoolLimits
    provider: str | None
    conversations: int
    """Limit of open conversations, not counting those that wait for an answer."""
    idle: float
    """Seconds after which an unused conversation is closed."""
    memory_bytes: int
    """Limit in bytes for the undelivered lines of each conversation, and for all data queued for the tap."""
    line_bytes: int
    """Longest request or answer that is recorded whole, in bytes."""
    connections: int
    """Limit of connections of all clients together."""
    client_connections: int
    """Limit of connections per user of this machine, or per address of other machines."""


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
    """Listen; yields the socket, and log fields that state where. Raises `ListenError`."""
    if isinstance(options.address, Path):
        with Listener(options.address) as listener:
            yield listener.socket, {"socket": str(listener.path)}
    else:
        with listen(options.address, allow_remote=options.allow_remote) as listening:
            yield listening, {"url": url_of(listening)}


def _tap(options: GatewayOptions, upstream: httpx.URL) -> GatewayTap:
    def begin(dialect: str, place: Place) -> Tap:
        provider = options.provider or place.client or provider_of(upstream, place.model)
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


# -- the proxy --------------------------------------------------------------------------------------------------------

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]

CONNECT = 30.0
"""Timeout in seconds for connecting to the server. There is none for its answer."""
REUSE = 2.0
"""Seconds for which an idle connection to the server may be reused: less than the server's keep-alive, because a
request on a connection that is just being closed fails. vLLM and others keep connections open for 5 s."""
UPGRADE_REQUIRED = 426
BAD_GATEWAY = 502
_JSON = b"application/json"
_CLOSE = (b"connection", b"close")
"""Header of the response to a refused request, whose rest is not read."""

NO_WEBSOCKETS = "it forwards no WebSockets; use plain requests"

_SESSION = (b"x-opencode-session", b"x-session-affinity")
"""Headers with the agent's session: OpenCode (1.18) sends one of them, depending on the model's provider."""
_HOP_BY_HOP = {
    b"connection",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
}


class Gateway:
    """The ASGI application of the gateway."""

    def __init__(self, upstream: httpx.URL, tap: GatewayTap, admission: Admission) -> None:
        self._upstream = upstream
        self._tap = tap
        self._admission = admission
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=REUSE)
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(None, connect=CONNECT), limits=limits, trust_env=not is_loopback(upstream.host)
        )
        self._client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        try:
            admitted = self._admission.check(scope)
        except RefusedError as error:
            await _refuse(send, None, error.status, str(error), _CLOSE)
            return
        if _wants_websocket(admitted.headers):
            await _refuse(send, None, UPGRADE_REQUIRED, NO_WEBSOCKETS, (b"upgrade", b"HTTP/1.1"), _CLOSE)
            return
        api = api_of(scope["method"], unquote(admitted.path.decode()))
        watch: Watch | None = None
        if api is not None:
            client = agent_of(_header(admitted.headers, b"user-agent"))
            session = next(filter(None, (_header(admitted.headers, name) for name in _SESSION)), "")
            coding = _header(admitted.headers, b"content-encoding")
            watch = self._tap.watch(api, coding, client, session_named(session))
        upload = _Upload(receive, watch)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(upload.cancel_when_left, tasks.cancel_scope)
                await self._pass(self._request(scope, admitted, upload), send, watch)
                tasks.cancel_scope.cancel()
        except Exception:
            _log.exception("a request failed")
        finally:
            if watch is not None:
                watch.finished()

    async def close(self) -> None:
        await self._client.aclose()

    # -- inner workings -----------------------------------------------------------------------------------------

    def _request(self, scope: MutableMapping[str, Any], admitted: Admitted, upload: _Upload) -> httpx.Request:
        target = _joined(self._upstream.raw_path, admitted.path)
        if scope["query_string"]:
            target += b"?" + scope["query_string"]
        headers = _end_to_end(admitted.headers)
        has_body = any(name in (b"content-length", b"transfer-encoding") for name, _ in admitted.headers)
        if not has_body:
            upload.is_taken.set()
        return httpx.Request(
            scope["method"],
            self._upstream.copy_with(raw_path=target),
            headers=[(name, value) for name, value in headers if name != b"host"],
            content=upload.chunks() if has_body else None,
        )

    async def _pass(self, request: httpx.Request, send: Send, watch: Watch | None) -> None:
        try:
            response = await self._client.send(request, stream=True)
        except httpx.TransportError as error:
            reason = str(error) or type(error).__name__
            _log.warning("the server cannot be reached", upstream=str(self._upstream), reason=reason)
            await _refuse(send, watch, BAD_GATEWAY, f"{self._upstream} cannot be reached: {reason}")
            return
        try:
            if watch is not None:
                headers = response.headers
                kind, coding = headers.get("content-type", ""), headers.get("content-encoding", "")
                watch.response_started(response.status_code, kind, coding)
            await _start(send, response.status_code, _end_to_end(response.headers.raw))
            async for data in response.aiter_raw():
                if watch is not None:
                    watch.response_data(data)
                await send({"type": "http.response.body", "body": data, "more_body": True})
            if watch is not None:
                watch.ended("server", complete=True)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except httpx.TransportError as error:
            # The answer has no end now, so our server closes the client's connection.
            reason = str(error) or type(error).__name__
            _log.warning("the server broke off an answer", reason=reason)
            if watch is not None:
                watch.ended("server", complete=False, problem=reason)
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()


class _Upload:
    """The body of a request."""

    def __init__(self, receive: Receive, watch: Watch | None) -> None:
        self._receive = receive
        self._watch = watch
        self.is_taken = anyio.Event()
        """Set when the body is complete, or its rest will not be read."""

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            while True:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    self.is_taken.set()
                    await anyio.sleep_forever()  # for `cancel_when_left`
                if data := message["body"]:
                    if self._watch is not None:
                        self._watch.request_data(data)
                    yield data
                if not message["more_body"]:
                    if self._watch is not None:
                        self._watch.request_complete()
                    return
        finally:
            self.is_taken.set()

    async def cancel_when_left(self, scope: anyio.CancelScope) -> None:
        """Cancel `scope` when the client disconnects."""
        await self.is_taken.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if self._watch is not None:
            self._watch.ended("client", complete=False)
        scope.cancel()


async def _start(send: Send, status: int, headers: Headers) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _refuse(send: Send, watch: Watch | None, status: int, reason: str, *headers: tuple[bytes, bytes]) -> None:
    """Respond with an error of the gateway, in OpenAI's format."""
    body = orjson.dumps({"error": {"message": f"tooltap gateway: {reason}", "type": "gateway_error", "code": status}})
    if watch is not None:
        watch.response_started(status, _JSON.decode(), "")
        watch.response_data(body)
        watch.ended("tap", complete=True)
    await _start(send, status, [(b"content-type", _JSON), (b"content-length", b"%d" % len(body)), *headers])
    await send({"type": "http.response.body", "body": body, "more_body": False})


_VERSION = re.compile(rb"/v\d[\w.]*\Z")


def _joined(base: bytes, path: bytes) -> bytes:
    """Append a request's path to that of the server. A version that both have, as base URLs of clients do, is one."""
    base = base.rstrip(b"/")
    version = _VERSION.search(base)
    return base + (path.removeprefix(version[0]) if version and path.startswith(version[0] + b"/") else path)


def _wants_websocket(headers: Headers) -> bool:
    protocols = _header(headers, b"upgrade").lower().split(",")
    return any(protocol.strip().partition("/")[0] == "websocket" for protocol in protocols)


def _end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers that are not hop-by-hop."""
    headers = list(headers)
    named = {
        name.strip().lower() for key, value in headers if key.lower() == b"connection" for name in value.split(b",")
    }
    return [(key, value) for key, value in headers if key.lower() not in _HOP_BY_HOP | named]


def _header(headers: Headers, name: bytes) -> str:
    return ",".join(value.decode("latin-1") for key, value in headers if key == name)
