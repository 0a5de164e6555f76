"""A server of the Model Context Protocol on standard input and output, for tools and for resources.

Importing the protocol's SDK takes two seconds of processor time, and agents start this server for each of their
sessions, most of which never call it. So the few methods that it needs are here, and the tests use the SDK's
client.

It speaks both generations of the protocol. Up to 2025-11-25, a connection begins with a handshake, and the server
requests the client's roots when a call needs them. Since 2026-07-28, each request says what the client is and can do,
and the server answers a call that needs the roots by asking for them; the client then repeats the call with them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import orjson

from tooltap import __version__
from tooltap.daemon.taps.mcp.files import folder_of_uri

if TYPE_CHECKING:  # most servers end before they need it, and it takes half of their time
    import anyio
    from anyio.abc import TaskGroup

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
VERSIONS = ("2026-07-28",)
"""Versions without a handshake."""
META = "io.modelcontextprotocol/"
"""What the keys in `_meta` that the protocol defines begin with."""
CALLS = frozenset({"tools/call", "resources/read"})
"""Methods that take time."""
ROOTS = "roots"
ROOTS_TIMEOUT = 5.0
"""Seconds for a client of the older generation to name its roots."""
MAX_LINE = 16 * 1_048_576
"""Longest message in bytes. A longer one is refused."""
MAX_REQUESTS = 64
"""Most requests that have no answer yet. Others are refused."""
GRACE = 0.5
"""Seconds to answer what the client asked before it left: requests may come from a file."""
CHUNK = 65_536
PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602
BUSY, NO_VERSION = -32000, -32022

Object: TypeAlias = dict[str, Any]
RequestId: TypeAlias = str | int


class RequestError(Exception):
    """A request that is refused with an error of the protocol."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class _RootsNeededError(Exception):
    """The call needs the client's roots, which it has to send with the call."""


class Client(NamedTuple):
    """What a client says of itself. `info`: `name` and `version`, empty if it does not say."""

    capabilities: Object
    info: Object


class Call:
    """A call of a tool. `arguments` is whatever the client sent; `meta` is the `_meta` of the request."""

    def __init__(
        self, arguments: Any, meta: Object, client: Client, ask_roots: Callable[[], Awaitable[Object]]
    ) -> None:
        self.arguments = arguments
        self.meta = meta
        self.client = client
        self._ask_roots = ask_roots

    async def roots(self) -> list[Path] | None:
        """Return the client's roots that are folders; None if it has no roots. Call this before anything is done: the
        call may have to be repeated with them."""
        if "roots" not in self.client.capabilities:
            return None
        roots = (await self._ask_roots()).get("roots")
        uris = [str(root.get("uri", "")) for root in roots if isinstance(root, dict)] if isinstance(roots, list) else []
        return [folder for uri in uris if (folder := folder_of_uri(uri)) is not None]


class Tool(NamedTuple):
    """`described`: as in `tools/list`. `call` returns the result: `content`, `isError`, …"""

    described: Object
    call: Callable[[Call], Awaitable[Object]]


def said(text: str, *, is_error: bool = False) -> Object:
    """Return a result that is one text."""
    return {"content": [{"type": "text", "text": text}], "isError": is_error}


class Resources(NamedTuple):
    """Resources that a client can read. `templates`: as in `resources/templates/list`. `read` returns the contents of
    the resource with this URI; it raises `RequestError`."""

    templates: Sequence[Object]
    read: Callable[[str], Awaitable[list[Object]]]


class _Request(NamedTuple):
    id: RequestId
    method: str
    params: Object


class McpServer:
    """Serves tools, and resources if there are any, to the client at standard input and output.

    `greet` answers all that takes no time. It returns at the first call, and `run` goes on from there.
    """

    def __init__(self, tools: Mapping[str, Tool], resources: Resources | None = None) -> None:
        self._tools = tools
        self._resources = resources
        self._client = Client({}, {})
        self._running: dict[RequestId, anyio.CancelScope] = {}
        self._asked: dict[str, _Asked] = {}
        self._numbers = count(1)

    def greet(self) -> Iterator[bytes | None] | None:
        """Answer the client until it calls something. Returns the lines from there on; None if it has left."""
        lines = _lines()
        for line in lines:
            try:
                request = self._parsed(line)
            except RequestError as error:
                _write(_refusal(None, error))
                continue
            if request is not None:
                if request.method in CALLS:
                    return chain([line], lines)
                _write(_at_once(self._answered(request)))
        return None

    async def run(self, lines: Iterator[bytes | None]) -> None:
        """Serve until the client closes standard input. Requests that run then are cancelled if they do not end within
        `GRACE`."""
        import anyio
        from anyio import to_thread

        self._writing = anyio.Lock()
        async with anyio.create_task_group() as tasks:
            while (line := await to_thread.run_sync(next, lines, b"")) != b"":
                await self._receive(line, tasks)
            tasks.cancel_scope.deadline = anyio.current_time() + GRACE

    async def _receive(self, line: bytes | None, tasks: TaskGroup) -> None:
        import anyio

        try:
            request = self._parsed(line)
        except RequestError as error:
            await self._send(_refusal(None, error))
            return
        if request is None:
            return
        if len(self._running) >= MAX_REQUESTS:
            busy = RequestError(BUSY, f"{MAX_REQUESTS} requests have no answer yet")
            await self._send(_refusal(request.id, busy))
            return
        scope = self._running[request.id] = anyio.CancelScope()
        tasks.start_soon(self._serve, request, scope)

    def _parsed(self, line: bytes | None) -> _Request | None:
        """Read a message. Returns None unless it is a request. Raises `RequestError` if it is no message."""
        if line is None:
            raise RequestError(PARSE_ERROR, f"a message has more than {MAX_LINE} bytes")
        try:
            message = orjson.loads(line)
        except orjson.JSONDecodeError:
            raise RequestError(PARSE_ERROR, "a message is not JSON") from None
        if not isinstance(message, dict):
            raise RequestError(INVALID_REQUEST, "a message is not an object")
        request_id, method, params = message.get("id"), message.get("method"), _object(message, "params")
        if not isinstance(method, str):
            if isinstance(request_id, str) and (asked := self._asked.get(request_id)) is not None:
                asked.answer(message.get("result"))
            return None
        if "id" not in message:
            self._notified(method, params)
            return None
        if not isinstance(request_id, str | int) or isinstance(request_id, bool) or request_id in self._running:
            raise RequestError(INVALID_REQUEST, "the id of a request is missing, or in use")
        return _Request(request_id, method, params)

    def _notified(self, method: str, params: Object) -> None:
        request_id = params.get("requestId")
        if method == "notifications/cancelled" and isinstance(request_id, str | int) and request_id in self._running:
            self._running.pop(request_id).cancel()

    async def _serve(self, request: _Request, scope: anyio.CancelScope) -> None:
        """Answer a request, unless it is cancelled meanwhile. Its id is free when its answer is sent."""
        answer = b""
        try:
            with scope:
                answer = await self._answered(request)
        finally:
            if self._running.get(request.id) is scope:
                del self._running[request.id]
        if answer:
            await self._send(answer)

    async def _answered(self, request: _Request) -> bytes:
        try:
            result = await self._result(request.method, request.params)
        except RequestError as error:
            return _refusal(request.id, error)
        return _message({"id": request.id, "result": result})

    async def _result(self, method: str, params: Object) -> Object:
        meta = _object(params, "_meta")
        version = meta.get(f"{META}protocolVersion")
        if version is None:
            return await self._older(method, params, meta)
        if version not in VERSIONS:
            data = {"supported": [*VERSIONS], "requested": version}
            raise RequestError(NO_VERSION, "Unsupported protocol version", data)
        client = Client(_object(meta, f"{META}clientCapabilities"), _object(meta, f"{META}clientInfo"))
        responses = params.get("inputResponses")

        async def roots() -> Object:
            if not isinstance(responses, dict) or ROOTS not in responses:
                raise _RootsNeededError
            return _object(responses, ROOTS)

        try:
            result = {"resultType": "complete", **await self._answer(method, params, meta, client, roots)}
        except _RootsNeededError:
            result = {"resultType": "input_required", "inputRequests": {ROOTS: {"method": "roots/list"}}}
        if method in ("server/discover", "resources/read") or method.endswith("/list"):
            result |= {"cacheScope": "private", "ttlMs": 0}
        about = {f"{META}serverInfo": {"name": "tooltap", "version": __version__}}
        return result | {"_meta": _object(result, "_meta") | about}

    async def _older(self, method: str, params: Object, meta: Object) -> Object:
        """Answer a request of the generation with a handshake."""
        if method != "initialize":
            return await self._answer(method, params, meta, self._client, self._request_roots)
        self._client = Client(_object(params, "capabilities"), _object(params, "clientInfo"))
        wanted = params.get("protocolVersion")
        return {
            "protocolVersion": wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1],
            "capabilities": self._capabilities(),
            "serverInfo": {"name": "tooltap", "version": __version__},
        }

    async def _answer(
        self, method: str, params: Object, meta: Object, client: Client, roots: Callable[[], Awaitable[Object]]
    ) -> Object:
        if method == "server/discover":
            return {"supportedVersions": [*VERSIONS], "capabilities": self._capabilities()}
        if method == "ping":
            return {}
        if method == "tools/list":
            return {"tools": [tool.described for tool in self._tools.values()]}
        if method == "tools/call":
            name = params.get("name")
            if not isinstance(name, str):
                raise RequestError(INVALID_PARAMS, "`name` is not a string")
            if (tool := self._tools.get(name)) is None:  # a result, because models see no errors of the protocol
                return said(f"There is no tool {name}; there is {', '.join(self._tools)}.", is_error=True)
            return await tool.call(Call(params.get("arguments") or {}, meta, client, roots))
        if self._resources is not None:
            if method == "resources/list":
                return {"resources": []}  # there are too many: tools find them
            if method == "resources/templates/list":
                return {"resourceTemplates": [*self._resources.templates]}
            if method == "resources/read":
                return {"contents": await self._resources.read(str(params.get("uri")))}
        raise RequestError(NO_METHOD, "Method not found", method)

    def _capabilities(self) -> Object:
        return {"tools": {"listChanged": False}} | ({} if self._resources is None else {"resources": {}})

    async def _request_roots(self) -> Object:
        """Request the client's roots. An empty object if it does not name them."""
        import anyio

        request_id = f"roots-{next(self._numbers)}"
        asked = self._asked[request_id] = _Asked(anyio.Event())
        try:
            await self._send(_message({"id": request_id, "method": "roots/list"}))
            with anyio.move_on_after(ROOTS_TIMEOUT):
                await asked.answered.wait()
        finally:
            del self._asked[request_id]
        return asked.result

    async def _send(self, message: bytes) -> None:
        from anyio import to_thread

        async with self._writing:
            await to_thread.run_sync(_write, message)


class _Asked:
    """A request to the client. `answered` is set when it has answered."""

    def __init__(self, answered: anyio.Event) -> None:
        self.answered = answered
        self.result: Object = {}

    def answer(self, result: Any) -> None:
        self.result = result if isinstance(result, dict) else {}
        self.answered.set()


def _at_once(work: Coroutine[Any, Any, bytes]) -> bytes:
    """Return the result of a coroutine that waits for nothing, without an event loop."""
    try:
        work.send(None)
    except StopIteration as ended:
        return bytes(ended.value)
    raise RuntimeError("it waits")


def _refusal(request_id: RequestId | None, error: RequestError) -> bytes:
    about = {"code": error.code, "message": str(error)} | ({} if error.data is None else {"data": error.data})
    return _message({"id": request_id, "error": about})


def _message(message: Object) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", **message}) + b"\n"


def _lines() -> Iterator[bytes | None]:
    """Yield the lines of standard input; None for one that is longer than `MAX_LINE`."""
    line, is_too_long = bytearray(), False
    while data := os.read(sys.stdin.fileno(), CHUNK):
        *ended, rest = data.split(b"\n")
        for part in ended:
            line += part
            if is_too_long or len(line) > MAX_LINE:
                yield None
            elif line.strip():
                yield bytes(line)
            line, is_too_long = bytearray(), False
        line += rest
        if len(line) > MAX_LINE:
            line, is_too_long = bytearray(), True


def _write(data: bytes) -> None:
    """Write to standard output, unless the client no longer reads: then it is about to close standard input as well."""
    with suppress(BrokenPipeError):
        while data:
            data = data[os.write(sys.stdout.fileno(), data) :]


def _object(of: Object, key: str) -> Object:
    """Return the value of a key; an empty object if it is none."""
    value = of.get(key)
    return value if isinstance(value, dict) else {}
