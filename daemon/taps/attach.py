"""The tap of `attach`: reads the server-sent events of an agent's server (`EventServer` in the catalog); the data of
each is a line.

Such a server does not replay past events to a new client, so events during a disconnection are lost. The stream then
has a loss of one line in their place, because their number is unknown.

The server continues when the tap ends. So the stream does not end: it is suspended, and resumed by the next tap of the
server (`resume_tap`). A tap continues counting after the lines that the daemon has. If the earlier tap was killed, it
left a spool: these lines are delivered first, because they come before all new ones.

What the daemon has for the agent is posted to the server, with the same credentials, to no other paths than those that
take answers, prompts and interrupts (`EventServer.posts`).
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, Protocol

import anyio
import httpx
import msgspec
from anyio.to_thread import run_sync

from tooltap.daemon.client.asynchronous import connect, ingest
from tooltap.daemon.client.discovery import ConnectError, DaemonError, DisconnectedError
from tooltap.daemon.system.foreground import OnStop
from tooltap.daemon.system.logs import configure, get_logger
from tooltap.daemon.system.tcp import is_loopback
from tooltap.daemon.taps.delivery.delivery import KEPT_FRAMES, WriteToAgent
from tooltap.daemon.taps.delivery.outbox import SpoolLimits, StreamOptions
from tooltap.daemon.taps.delivery.spool import SUFFIX, Spool, SpoolError
from tooltap.daemon.taps.delivery.tap import Tap, report_problems
from tooltap.normalizers.catalog.dialect import EventServer
from tooltap.normalizers.wire.exchange import EventSplitter
from tooltap.normalizers.wire.framing import MAX_LINE_BYTES, LongLine
from tooltap.protocol.answers import ForAgent
from tooltap.traces.recording.own_file import private_folder
from tooltap.traces.recording.whole_file import whole_file

CONNECT = 10.0
NOTED = ".posted"
"""Suffix of the file with the ids of what was posted, beside the spools."""
ENDED = "the command was ended meanwhile"
RETRY_FIRST, RETRY_MOST = 0.2, 10.0
"""Seconds between attempts to connect."""

_DATA = b"data:"
_log = get_logger("attach")


class AttachError(Exception):
    """There is no event stream of the agent at the URL; the message is a sentence for the user."""


class Server(NamedTuple):
    """A server of an agent."""

    product: str
    """Name of the agent, for messages."""
    kind: EventServer
    url: str
    """URL of the server, or of its event stream."""


def stream_of(server: Server) -> str:
    """Return the stream id of the server. Raises `AttachError`."""
    source = _event_url(server).copy_with(userinfo=b"")
    return f"attach-{hashlib.sha256(str(source).encode()).hexdigest()[:16]}"


async def attach(
    server: Server, open_tap: Callable[[], Awaitable[tuple[Tap, bool]]], on_stop: OnStop, *, silence: float
) -> None:
    """Tap the server until stopped. `open_tap` is called when the server answers; it returns a tap, and whether that
    resumes a stream. `silence`: seconds without a byte after which a connection counts as dead. Raises `AttachError` if
    there is no server of the agent."""
    source = _event_url(server)
    configure()
    await run_attachment(_Attachment(server, source, open_tap, silence), on_stop)


class Attachment(Protocol):
    """Follows a server, whatever becomes of the connection."""

    @property
    def problem(self) -> str | None:
        """The reason why no lines reach the daemon at the moment, or None."""

    async def run(self) -> None:
        """Follow the server until cancelled. Raises `AttachError`."""


async def run_attachment(attachment: Attachment, on_stop: OnStop) -> None:
    """Follow a server until stopped, and report problems meanwhile. Raises `AttachError`."""
    with anyio.CancelScope() as running:
        on_stop(running.cancel)
        failures: list[AttachError] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(report_problems, lambda: attachment.problem)
            try:
                await attachment.run()
            except AttachError as error:
                failures.append(error)
                tasks.cancel_scope.cancel()
        if failures:
            raise failures[0]


class _Attachment:
    def __init__(
        self, server: Server, url: httpx.URL, open_tap: Callable[[], Awaitable[tuple[Tap, bool]]], silence: float
    ) -> None:
        self._server = server
        self._url = url
        self._name = str(url.copy_with(userinfo=b""))
        self._open_tap = open_tap
        self._tap: Tap | None = None
        self._timeout = httpx.Timeout(CONNECT, read=silence)
        self._last_seen: float | None = None
        """End of the last connection, monotonic seconds; None before that."""
        self._wait = RETRY_FIRST

    @property
    def problem(self) -> str | None:
        """The reason why no lines reach the daemon at the moment, or None."""
        return None if self._tap is None else self._tap.problem

    async def run(self) -> None:
        """Connect, and reconnect with backoff, until cancelled. Raises `AttachError` only for the first connection."""
        proxies = not is_loopback(self._url.host)
        auth = _credentials(self._server, self._url)
        async with httpx.AsyncClient(timeout=self._timeout, auth=auth, trust_env=proxies) as client:
            while True:
                try:
                    await self._follow(client)
                    reason = "the server has ended the stream"
                except httpx.HTTPError as error:
                    reason = str(error) or type(error).__name__
                except AttachError as error:
                    if self._last_seen is None:
                        raise
                    reason = str(error)
                _log.warning("not attached", url=self._name, reason=reason, retry_seconds=self._wait)
                await anyio.sleep(self._wait)
                self._wait = min(2 * self._wait, RETRY_MOST)

    async def _follow(self, client: httpx.AsyncClient) -> None:
        """Read one connection to its end. Raises `AttachError` and `httpx.HTTPError`."""
        async with client.stream("GET", self._url, headers={"Accept": "text/event-stream"}) as response:
            self._check(response)
            _log.info("attached", url=self._name)
            tap = await self._tap_after_gap()
            splitter = EventSplitter(MAX_LINE_BYTES)
            try:
                async for data in response.aiter_bytes():  # `aiter_lines` also splits at U+2028, which JSON may contain
                    self._wait = RETRY_FIRST
                    tap.put([line for one in splitter.feed(data) if (line := _data(one)) is not None], "out")
            finally:
                self._last_seen = time.monotonic()

    async def _tap_after_gap(self) -> Tap:
        """Return the tap, after recording a loss for the time without a connection."""
        if self._tap is None:
            self._tap, is_resumed = await self._open_tap()
            if is_resumed:
                self._tap.lose(1, 0, f"not attached to {self._server.product}, what it said meanwhile is unknown")
        elif self._last_seen is not None:
            away = time.monotonic() - self._last_seen
            reason = f"not connected to {self._server.product} for {away:.1f} s, what it said meanwhile is unknown"
            self._tap.lose(1, 0, reason)
        return self._tap

    def _check(self, response: httpx.Response) -> None:
        """Check that the response is an event stream. Raises `AttachError`."""
        if response.status_code == httpx.codes.UNAUTHORIZED:
            raise AttachError(f"{self._name} requires a password: set {self._server.kind.password} as for the server")
        kind = response.headers.get("content-type", "")
        if response.status_code != httpx.codes.OK or not kind.startswith("text/event-stream"):
            answer = f"{response.status_code} {kind}".strip()
            raise AttachError(f"{self._name} is not the event stream of {self._server.product}: it answers {answer}")


class Noted:
    """The ids of what was written to an agent's server, in a file, so that nothing is written twice, even if an earlier
    tap was killed before it could say that it had."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, name: str) -> str | None:
        """Note an id before it is written. Return why it must not be written: it is noted already, or cannot be."""
        try:
            private_folder(self._path.parent)  # the spooler may be about to create it, for the first line
            names: list[str] = []
            if self._path.exists():
                names = msgspec.json.decode(self._path.read_bytes(), type=list[str])
            if name in names:
                return ENDED
            with whole_file(self._path, 0o600) as file:
                file.write(msgspec.json.encode([*names, name][-KEPT_FRAMES:]))
        except (OSError, msgspec.MsgspecError) as error:
            return f"it cannot be noted in {self._path}: {error}"
        return None


class Poster:
    """Posts to a server what the daemon has for its agent. `noted`: the file in which the ids of what was posted are
    noted."""

    def __init__(self, server: Server, noted: Path) -> None:
        """Raises `AttachError` if the server has no URL."""
        self._server = server
        self._url = _event_url(server)
        self._noted = Noted(noted)

    async def post(self, frame: ForAgent) -> str | None:
        """Post a frame that this object has not posted. Return None if the server has taken it, else a sentence for the
        user, which says so if that is unknown."""
        path, _, query = (frame.path or "").partition("?")
        kind = self._server.kind
        if not kind.posts.fullmatch(path):
            return f"nothing is posted to {path or 'no path'}"
        if (why_not := self._noted.add(frame.id)) is not None:
            return self._unknown(ENDED) if why_not is ENDED else why_not
        prefix = self._url.path.removesuffix(kind.global_path).removesuffix(kind.path)
        url = self._url.copy_with(path=f"{prefix}{path}", query=query.encode() or self._url.query or None)
        return await self._post(url, frame.line.encode())

    async def _post(self, url: httpx.URL, body: bytes) -> str | None:
        product, auth = self._server.product, _credentials(self._server, url)
        proxies = not is_loopback(url.host)
        try:
            async with httpx.AsyncClient(timeout=CONNECT, auth=auth, trust_env=proxies) as client:
                response = await client.post(url, content=body, headers={"Content-Type": "application/json"})
        except httpx.ConnectError as error:
            return f"{product} cannot be reached: {error}"
        except httpx.HTTPError as error:
            return self._unknown(str(error) or type(error).__name__)
        if response.is_success:
            return None
        if response.status_code == httpx.codes.NOT_FOUND:
            return f"it was answered elsewhere, or {product} does not know it any more"
        if response.status_code == httpx.codes.UNAUTHORIZED:
            return f"{product} requires a password: set {self._server.kind.password} as for the server"
        return f"{product} has answered {response.status_code}"

    def _unknown(self, reason: str) -> str:
        return f"it is unknown whether {self._server.product} has got it: {reason}"


def _credentials(server: Server, url: httpx.URL) -> httpx.BasicAuth | None:
    """Return the credentials from the variables of the agent's server, unless the URL has some."""
    password = os.environ.get(server.kind.password)
    if url.userinfo or not password:
        return None
    return httpx.BasicAuth(os.environ.get(*server.kind.username), password)


def _event_url(server: Server) -> httpx.URL:
    """Return the URL of the event stream of a server. Raises `AttachError`."""
    try:
        url = httpx.URL(server.url)
    except httpx.InvalidURL as error:
        raise AttachError(f"{server.url!r} is not a URL: {error}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise AttachError(f"{server.url!r} is not the URL of a server, such as {server.kind.example}")
    path, end = url.path.rstrip("/"), server.kind.path
    return url.copy_with(path=path if path.endswith(end) else f"{path}{end}")


def _data(line: bytes | LongLine) -> bytes | LongLine | None:
    """Return the data of an event, as `EventSplitter` returns it; None for a line that is no field."""
    if isinstance(line, LongLine):
        head = _data(line.head)
        return LongLine(head, line.size - len(line.head) + len(head)) if isinstance(head, bytes) else None
    return line.removeprefix(_DATA).strip() if line.startswith(_DATA) else None


async def resume_tap(
    options: StreamOptions, socket: Path, spool: SpoolLimits, to_agent: WriteToAgent
) -> tuple[Tap, bool]:
    """Return a tap of the stream, and whether the stream has lines of an earlier tap. `to_agent`: writes to the agent.

    If the stream cannot be resumed now, the tap gets a stream of its own. Reasons: there is no daemon, another tap
    publishes the stream, or its spool is in use.
    """
    try:
        begin = await _lines_of(options, socket, spool.directory)
    except (ConnectError, DaemonError, DisconnectedError, SpoolError, OSError):
        begin = None
    if begin is None:
        other = options._replace(stream=f"{options.stream}-{os.urandom(4).hex()}")
        return Tap(other, socket, spool, to_agent=to_agent), False
    return Tap(options, socket, spool, begin=begin, to_agent=to_agent), begin > 0


async def _lines_of(options: StreamOptions, socket: Path, spools: Path) -> int | None:
    """Deliver the stream's spool, if there is one, and return the number of lines that the daemon then has; None if the
    stream cannot be resumed now."""
    async with connect(socket) as client:
        statistics = await client.request("stats", stream=options.stream)
    if any(one["state"] == "open" for one in statistics["perStream"]):
        return None
    path = spools / f"{options.stream}{SUFFIX}"
    spool = await run_sync(Spool.adopt, path)
    try:
        if spool is None and path.exists():
            return None
        async with ingest(**options._asdict(), path=socket) as publisher:
            if spool is not None:
                left = spool.left_after(publisher.ingesting.lines)
                while (records := await run_sync(next, left, None)) is not None:
                    await publisher.write(records)
            lines = await publisher.suspend()
        if spool is not None and spool.is_damaged:
            return None  # the daemon moves it to the quarantine, and until then no other can have its name
        if spool is not None:
            spool.remove()
        return lines
    finally:
        if spool is not None:
            spool.close()
