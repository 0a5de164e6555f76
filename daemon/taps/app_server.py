"""The tap of `attach codex`: joins the threads of a Codex app-server that others use, over its control socket
(`ControlSocket` in the catalog).

Codex' TUI leaves its work to an app-server of the user, which takes further clients at a Unix socket: a WebSocket, one
JSON-RPC message in each text message. The tap joins every thread that is loaded (`thread/resume`), and each that is
loaded later; from then on it gets the messages about them, and the requests that are still open. It answers none by
itself.

A thread that has no turn yet cannot be joined; that is tried again when it becomes active. The id of the request says
when the tap has heard of the thread: a turn that has ended since, and before the thread is joined, is read whole. A
thread that is loaded when the tap connects to a server for which it has waited is known since that server has begun.
Threads that Codex makes for itself, such as one for a title, are ephemeral, and are left out: what is about a thread
that was not joined is not tapped. What the tap asks for itself is not tapped either, only what it gets about a thread
that it joins.

The requests of a server have numbers, which a new server uses again. So each server is a stream of its own. That of a
server which has ended is ended when the next one is there. As with other servers, what was said while nobody was
connected is lost: the stream has a loss of one line in its place.

What the daemon has for Codex is written between two messages, once: its id is noted first. An answer is only written
while its request is open on this connection. A new connection gets the open requests again with their threads; an
answer waits for that. If others answer in the same moment, Codex takes the first answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import orjson
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync
from websockets.asyncio.client import ClientConnection, unix_connect
from websockets.exceptions import ConnectionClosed, ConnectionClosedOK, WebSocketException
from websockets.frames import CloseCode

from tooltap import __version__
from tooltap.daemon.system.foreground import OnStop
from tooltap.daemon.system.listener import peer_uid
from tooltap.daemon.system.logs import configure, get_logger
from tooltap.daemon.system.sanitize import one_line
from tooltap.daemon.taps.attach import CONNECT, ENDED, RETRY_FIRST, RETRY_MOST, AttachError, Noted, run_attachment
from tooltap.daemon.taps.delivery.delivery import WriteToAgent
from tooltap.daemon.taps.delivery.tap import Tap
from tooltap.normalizers.wire.framing import MAX_LINE_BYTES
from tooltap.normalizers.wire.values import first_string, record, strings
from tooltap.protocol.answers import SINCE, ForAgent, request_key, response_key

ROOT = 0
SETTLED = 2.0
"""Age in seconds of the socket before it is used: Codex reports its first client to the model's provider."""
SILENCE = 30.0
"""Seconds between two pings, and for the answer to one."""
CLOSING = 1.0
"""Seconds for the server to take part in closing a connection."""
JOINING = 5.0
"""Seconds from the beginning of a connection in which an answer waits for its request to be sent again."""
TRIES = 6
"""Number of attempts to join a thread that has just become active."""
WRITTEN = ("turn/start", "turn/steer", "turn/interrupt")
"""Methods of the requests that are written for the daemon."""
MOST_KNOWN = 10_000
"""Most threads, and most open requests, that a connection keeps. Later threads are not joined, and nobody can answer
later requests."""
LONGEST_ID = 1_000
"""Most characters of the id of a thread, or of the key of a request; longer ones are treated like later ones."""
QUEUED = 1
"""Frames, each of up to `MAX_LINE_BYTES`, that may wait before no more is read."""
UNREAD = 8 * 1024 * 1024
"""Most bytes that wait to be read by a server which sends more."""
LONGEST_REASON = 300
"""Most characters of why something is no server."""
OWN = "attach-"
"""Prefix of the ids of the tap's own requests."""

_log = get_logger("attach")


class Instance(NamedTuple):
    """One run of an app-server."""

    path: Path
    """Its socket."""
    mark: str
    """Differs between two runs with the same path."""

    @property
    def stream(self) -> str:
        """The stream id of the server."""
        name = f"{os.path.realpath(self.path)}\0{self.mark}"
        return f"attach-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"


OpenTap = Callable[[Instance, WriteToAgent], Awaitable[tuple[Tap, bool]]]
"""Opens the tap of a server, and says whether that resumes a stream."""


async def follow_app_server(product: str, path: Path, noted: Path, open_tap: OpenTap, on_stop: OnStop) -> None:
    """Tap the app-server at the socket until stopped, and every later one at the same path. `noted`: file for the ids
    of what was written. Raises `AttachError` if the socket is no app-server's."""
    configure()
    await run_attachment(_Attachment(product, path, Noted(noted), open_tap), on_stop)


class _Attachment:
    def __init__(self, product: str, path: Path, noted: Noted, open_tap: OpenTap) -> None:
        self._product = product
        self._path = path
        self._noted = noted
        self._open_tap = open_tap
        self._loop = asyncio.get_running_loop()
        self._began = time.time()
        """Seconds since the epoch. A socket that is younger is that of a server for which this has waited."""
        self._instance: Instance | None = None
        self._tap: Tap | None = None
        self._connection: _Connection | None = None
        self._last_seen = 0.0
        """End of the last connection, monotonic seconds."""
        self._wait = RETRY_FIRST
        self._view = "full"
        """How much of the running turn is asked for when a thread is joined."""

    @property
    def problem(self) -> str | None:
        """The reason why no lines reach the daemon at the moment, or None."""
        return None if self._tap is None else self._tap.problem

    async def run(self) -> None:
        """Connect, and reconnect with backoff, until cancelled. Raises `AttachError`."""
        while True:
            seen = _mark(self._path)
            try:
                await self._follow()
                reason = f"{self._product} has closed the connection"
            except FileNotFoundError:
                await self._end()
                reason = f"there is no socket {self._path}: no {self._product} runs that others can join"
            except ConnectionRefusedError:
                await self._end()
                reason = f"nobody listens at {self._path}: {self._product} has ended"
            except _NoServerError as error:
                why_not = one_line(str(error), LONGEST_REASON)
                raise AttachError(f"{self._path} is no socket of {self._product}: {why_not}") from None
            except ConnectionClosed as error:
                reason = str(error)
                if error.sent is not None and error.sent.code == CloseCode.MESSAGE_TOO_BIG:
                    reason = f"{self._product} has sent a message of more than {MAX_LINE_BYTES} bytes"
                    self._view = "notLoaded"
            except (OSError, _RefusedError) as error:
                reason = str(error) or type(error).__name__
            _log.warning("not attached", socket=str(self._path), reason=reason, retry_seconds=self._wait)
            await self._pause(seen)

    async def _pause(self, seen: str | None) -> None:
        """Wait before the next attempt. A server whose socket is another one than that which was `seen` before the last
        attempt is joined soon, however long the wait would be: its first turn may be about to begin."""
        with anyio.move_on_after(self._wait):
            await anyio.sleep(RETRY_FIRST)
            while _mark(self._path) == seen:
                await anyio.sleep(RETRY_FIRST)
            self._wait = RETRY_FIRST
            return
        self._wait = min(2 * self._wait, RETRY_MOST)

    async def _follow(self) -> None:
        """Use one connection to its end. Raises `AttachError`, `OSError`, and the errors of websockets."""
        await self._wait_until_settled()
        instance = _instance(self._path)
        created = self._path.stat().st_mtime
        was_awaited = instance != self._instance and created >= self._began
        async with _connected(self._path) as socket:
            _log.info("attached", socket=str(self._path))
            since = created if was_awaited else time.time()
            tap = await self._tap_of(instance)
            began = time.monotonic()
            try:
                async with anyio.create_task_group() as tasks:
                    self._connection = _Connection(socket, tap, tasks, self._view, since)
                    await self._connection.run()
                    tasks.cancel_scope.cancel()
            except ExceptionGroup as errors:
                raise errors.exceptions[0] from None
            finally:
                self._connection = None
                self._last_seen = time.monotonic()
                if self._last_seen - began > RETRY_MOST:
                    self._wait = RETRY_FIRST

    async def _wait_until_settled(self) -> None:
        """Raises `OSError`."""
        age = time.time() - self._path.stat().st_mtime
        await anyio.sleep(min(max(SETTLED - age, 0.0), SETTLED))

    async def _tap_of(self, instance: Instance) -> Tap:
        """Return the tap of the server, after recording a loss for the time without a connection."""
        product, tap = self._product, self._tap
        if tap is not None and instance == self._instance:
            away = time.monotonic() - self._last_seen
            tap.lose(1, 0, f"not connected to {product} for {away:.1f} s, what it said meanwhile is unknown")
            return tap
        await self._end()
        self._instance = instance
        self._tap, is_resumed = await self._open_tap(instance, self.write)
        if is_resumed:
            self._tap.lose(1, 0, f"not attached to {product}, what it said meanwhile is unknown")
        return self._tap

    async def _end(self) -> None:
        """End the stream of a server that has ended, and with it what that server has asked."""
        if self._tap is not None:
            tap, self._tap = self._tap, None
            if (problem := await run_sync(tap.finish)) is not None:
                _log.warning("not all lines were delivered", reason=problem)

    # -- to Codex -----------------------------------------------------------------------------------------------------

    async def write(self, frame: ForAgent) -> str | None:
        """Write a frame. Called in any event loop. Return None if it is written, else a sentence for the user, which
        says so if that is unknown."""
        if self._loop.is_closed():
            return f"{self._product} cannot be reached: {ENDED}"
        try:
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._write(frame), self._loop))
        except asyncio.CancelledError:
            return self._unknown(ENDED)

    async def _write(self, frame: ForAgent) -> str | None:
        product = self._product
        if (connection := self._connection) is None:
            return f"{product} cannot be reached"
        message = None if frame.path is not None or "\n" in frame.line else _decoded(frame.line)
        if message is None or not (frame.answers or message.get("method") in WRITTEN):
            return f"nothing like this is written to {product}"
        if frame.answers != response_key(message) or not await connection.is_open(frame.answers):
            return f"it was answered elsewhere, or {product} does not know it any more"
        if (why_not := self._noted.add(frame.id)) is None:
            return await self._send(connection, frame)
        return self._unknown(ENDED) if why_not is ENDED else why_not

    async def _send(self, connection: _Connection, frame: ForAgent) -> str | None:
        try:
            await connection.write(frame)
        except ConnectionClosed as error:
            return self._unknown(str(error))
        return None

    def _unknown(self, reason: str) -> str:
        return f"it is unknown whether {self._product} has got it: {reason}"


class _NoServerError(Exception):
    """What listens is no WebSocket server, or another than is wanted."""


class _Client(ClientConnection):
    """A connection that is lost if the server sends, and does not read what it gets: pings are answered at once."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.get_write_buffer_size() > UNREAD:
            self.transport.abort()


@asynccontextmanager
async def _connected(path: Path) -> AsyncIterator[ClientConnection]:
    """Yield a connection to the server, and close it at the end. Raises `AttachError` if another user listens, before
    anything is sent; `OSError`, `_NoServerError`, and `ConnectionClosed`."""
    joined = _joined(path)
    try:
        connection = await unix_connect(
            uri="ws://localhost/",
            sock=joined,
            create_connection=_Client,
            compression=None,  # few bytes could become many large messages
            max_size=MAX_LINE_BYTES,
            max_queue=QUEUED,
            open_timeout=CONNECT,
            close_timeout=CLOSING,
            ping_interval=SILENCE,
            ping_timeout=SILENCE,
        )
    except BaseException as error:
        joined.close()
        if isinstance(error, WebSocketException | EOFError | ValueError):  # ValueError: it leads elsewhere
            raise _NoServerError(str(error)) from None
        raise
    try:
        yield connection
    finally:
        with anyio.CancelScope(shield=True):  # a stop that interrupts the handshake would leave the socket open
            await connection.close()


def _joined(path: Path) -> socket.socket:
    """Return a connected socket whose other end is of this user, or of root. What is at the path may be replaced after
    `_instance` has looked at it. Raises `AttachError` and `OSError`."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.setblocking(False)
        connection.connect(os.path.realpath(path))  # the link may be longer than an address can be
        if peer_uid(connection) not in (os.geteuid(), ROOT):
            raise AttachError(f"what is listening at {path} belongs to another user")
    except BaseException:
        connection.close()
        raise
    return connection


def _instance(path: Path) -> Instance:
    """Raises `AttachError` and `OSError`."""
    state = path.stat()
    if state.st_uid not in (os.geteuid(), ROOT):
        raise AttachError(f"{path} belongs to another user")
    return Instance(path, _mark_of(state))


def _mark(path: Path) -> str | None:
    """The mark of the server at a path, or None without one."""
    try:
        return _mark_of(path.stat())
    except OSError:
        return None


def _mark_of(state: os.stat_result) -> str:
    return f"{state.st_ino} {state.st_mtime_ns}"


class _RefusedError(Exception):
    """The server refuses what no client can do without."""


class _Thread:
    """A thread of the server. `since`: when the tap has heard of it, in seconds since the epoch."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.is_joined = False
        self.is_asked = False
        """Whether an attempt to join it is under way."""
        self.tries = 0
        """Number of attempts since it became active."""


class _Connection:
    """One connection to the server. `tap`: gets what is said. `view`: how much of a running turn is asked for. `since`:
    when the tap has heard of the threads that are loaded, in seconds since the epoch."""

    def __init__(self, socket: ClientConnection, tap: Tap, tasks: TaskGroup, view: str, since: float) -> None:
        self._view = view
        self._since = since
        self._socket = socket
        self._tap = tap
        self._tasks = tasks
        self._asked: dict[str, str | None] = {}
        """Id of an own request that has no response yet -> the thread that it joins."""
        self._number = 0
        self._threads: dict[str, _Thread] = {}
        self._own: set[str] = set()
        """Threads that Codex made for itself."""
        self._open: set[str] = set()
        """Keys of the server's requests that nobody has answered."""
        self._heard: set[str] = set()
        """Keys of the requests that this connection has heard of, open or not."""
        self._news = anyio.Event()
        """Set when a key is added to those."""
        self._joined_by = anyio.current_time() + JOINING

    async def is_open(self, key: str | None) -> bool:
        """Whether a request of the server may be answered; True for what answers none. For one that was open before
        this connection, wait until it is sent again."""
        if key is None:
            return True
        with anyio.CancelScope(deadline=self._joined_by):
            while key not in self._heard:
                await self._news.wait()
        return key in self._open

    async def write(self, frame: ForAgent) -> None:
        """Raises `ConnectionClosed`."""
        self._open.discard(frame.answers or "")
        self._tap.put([frame.line.encode()], "in")  # before Codex says anything about it
        await self._socket.send(frame.line)

    async def run(self) -> None:
        """Raises `ConnectionClosed` and `_RefusedError`."""
        client = {"name": "tooltap", "title": "tooltap", "version": __version__}
        await self._ask("initialize", {"clientInfo": client, "capabilities": {"experimentalApi": True}})
        while (text := await self._receive()) is not None:
            message = _decoded(text)
            if message is None or await self._take(message):
                self._tap.put([text.replace("\n", " ").encode()], "out")

    async def _receive(self) -> str | None:
        """Return the next message; None if the server has closed the connection. Raises `ConnectionClosed`.

        Each fragment is read when it comes: the `recv` of older releases of websockets keeps an object of every one,
        also of those without a byte."""
        text = BytesIO()
        try:
            async for fragment in self._socket.recv_streaming(decode=False):
                text.write(fragment)
        except ConnectionClosedOK:
            return None
        return text.getvalue().decode(errors="replace")

    async def _ask(self, method: str, params: dict[str, Any], thread: str | None = None, note: str = "") -> None:
        """`note`: ends the id of the request."""
        self._number += 1
        request_id = f"{OWN}{method}-{self._number}{note}"
        self._asked[request_id] = thread
        await self._socket.send(orjson.dumps({"id": request_id, "method": method, "params": params}).decode())

    async def _take(self, message: dict[str, Any]) -> bool:
        """Read a message, and return whether it is tapped."""
        method, params = message.get("method"), record(message.get("params"))
        if method is None:
            return await self._read_response(message)
        if (key := request_key(message)) is not None and "id" in message and _has_room(self._open, key):
            self._open.add(key)
            self._hear(key)
        if method == "serverRequest/resolved":
            key = str(request_key({"method": "", "id": params.get("requestId")}))
            self._open.discard(key)
            self._hear(key)
        thread = record(params.get("thread"))
        thread_id = first_string(params, "threadId") or first_string(thread, "id")
        if thread_id is None:
            return True
        if thread.get("ephemeral") is True and _has_room(self._own, thread_id):
            self._own.add(thread_id)
        status = record(params.get("status")).get("type")
        if method == "thread/closed":
            self._own.discard(thread_id)
            closed = self._threads.pop(thread_id, None)
            return closed is not None and closed.is_joined
        if method == "thread/started" or (method == "thread/status/changed" and status == "active"):
            await self._join(thread_id, is_news=True)
        if method == "thread/started" and first_string(thread, "parentThreadId") in self._threads:
            return thread_id not in self._own
        return thread_id in self._threads and self._threads[thread_id].is_joined

    def _hear(self, key: str) -> None:
        if _has_room(self._heard, key):
            self._heard.add(key)
            self._news.set()
            self._news = anyio.Event()

    async def _read_response(self, message: dict[str, Any]) -> bool:
        request_id, result = message.get("id"), record(message.get("result"))
        if not isinstance(request_id, str) or request_id not in self._asked:
            return True  # to what was written for the daemon
        thread_id = self._asked.pop(request_id)
        if thread_id is not None:
            return self._read_joined(thread_id, is_joined="result" in message)
        if "result" not in message:
            raise _RefusedError(first_string(record(message.get("error")), "message") or "it refuses")
        if "data" in result:
            for loaded in strings(result["data"]):
                await self._join(loaded, is_news=True, since=self._since)
            if cursor := first_string(result, "nextCursor"):
                await self._ask("thread/loaded/list", {"cursor": cursor})
        else:
            await self._socket.send('{"method":"initialized"}')
            await self._ask("thread/loaded/list", {})
        return False

    # -- joining threads ----------------------------------------------------------------------------------------------

    async def _join(self, thread_id: str, *, is_news: bool = False, since: float | None = None) -> None:
        """Join a thread, unless that is done. `is_news`: there is a new reason to try it; `since`: as in `_Thread`, if
        the tap does not know the thread yet; now, by default."""
        if thread_id in self._own or not _has_room(self._threads, thread_id) or len(self._asked) >= MOST_KNOWN:
            return
        thread = self._threads.setdefault(thread_id, _Thread(time.time() if since is None else since))
        if is_news:
            thread.tries = 0
        if thread.is_joined or thread.is_asked:
            return
        thread.is_asked = True
        thread.tries += 1
        page = {"limit": 1, "sortDirection": "desc", "itemsView": self._view}
        params = {"threadId": thread_id, "excludeTurns": True, "initialTurnsPage": page}
        await self._ask("thread/resume", params, thread_id, f"{SINCE}{int(thread.since * 1000)}")

    def _read_joined(self, thread_id: str, *, is_joined: bool) -> bool:
        thread = self._threads.get(thread_id)
        if thread is None:
            return False
        thread.is_joined, thread.is_asked = is_joined, False
        if not is_joined and thread.tries < TRIES:
            self._tasks.start_soon(self._join_later, thread_id, RETRY_FIRST * 2**thread.tries)
        return is_joined

    async def _join_later(self, thread_id: str, seconds: float) -> None:
        await anyio.sleep(seconds)
        if thread_id in self._threads:
            await self._join(thread_id)


def _has_room(known: Collection[str], name: str) -> bool:
    """Whether a name of the server's may be kept with those that are known."""
    return len(name) <= LONGEST_ID and (len(known) < MOST_KNOWN or name in known)


def _decoded(text: str) -> dict[str, Any] | None:
    try:
        message = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return message if isinstance(message, dict) else None
