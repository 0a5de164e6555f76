"""The display tools: a model uses them to show the user a file, the output of a command or an image without reading it.

The body is stored in the daemon's memory, subscribers get an event that refers to it, and the model gets one line.
Without a daemon, a tool does nothing, because nobody would see the result. Every call becomes events, even a denied
one.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import anyio
import msgspec
import orjson
from anyio import to_thread

from tooltap.daemon.client.asynchronous import Publisher, connect, ingest
from tooltap.daemon.client.discovery import ConnectError, DaemonError, DisconnectedError
from tooltap.daemon.journal.interface import count_lines
from tooltap.daemon.system.clock import wall_clock
from tooltap.daemon.taps.mcp.commands import Commands, Ran
from tooltap.daemon.taps.mcp.files import Body, NotShownError, Roots, read_image, read_text
from tooltap.daemon.taps.mcp.offered import DisplayImage, DisplayTool, RenderFileContents, RunAndDisplay, Settings
from tooltap.protocol.frames import sentence_of
from tooltap.protocol.inputs import ProcessEnd

LONGEST_REPLY = 120
"""Most code points of the line for the model."""
AT_ONCE = 4
"""Most concurrent calls for files and images, and for commands, since each has a body in memory. Others wait."""
NO_DAEMON = "Not displayed: the tooltap daemon is not running; the user can start it with `tooltap serve`."
T = TypeVar("T")


class Reply(NamedTuple):
    """The reply to the model: one line."""

    text: str
    is_error: bool = False
    output_id: str | None = None


class Shown(NamedTuple):
    """The result of a tool: a sentence, and the body to show."""

    text: str
    body: Body
    type: str
    path: str | None = None
    exit_code: int | None = None


class DisplayTools:
    """Runs the display tools. `roots`: the allowed folders."""

    def __init__(self, settings: Settings, roots: Roots) -> None:
        self._stream = DisplayStream(settings.socket, settings.session, settings.provider)
        self._stream.about["cwd"] = str(roots.folders[0])
        self._roots = roots
        self._max_bytes = settings.max_bytes
        self._commands = None
        if settings.command_timeout is not None:
            self._commands = Commands(
                settings.folders[0], timeout=settings.command_timeout, max_bytes=settings.max_bytes
            )
        self._reading, self._running = (anyio.CapacityLimiter(AT_ONCE) for _ in range(2))

    async def close(self, by_signal: str | None = None) -> None:
        """End the stream. `by_signal`: the name of the signal that ends the process."""
        await self._stream.close(ProcessEnd(0) if by_signal is None else ProcessEnd(signal=by_signal))

    async def call(
        self,
        offered: type[DisplayTool],
        arguments: Any,
        client: Mapping[str, Any],
        call_id: str | None,
        folders: Sequence[Path] | None,
    ) -> Reply:
        """Run a tool. `client`: what the client says of itself. `call_id`: the agent's id of the call, if known.
        `folders`: the client's roots, which narrow the allowed folders."""
        if client:
            self._stream.about["client"] = {key: client.get(key) for key in ("name", "version")}
        try:
            tool = msgspec.convert(arguments, offered)
        except msgspec.ValidationError as error:
            return _refused(sentence_of(str(error)))
        call = {"callId": call_id or f"call-{secrets.token_hex(8)}", "tool": offered.NAME}
        started = time.monotonic()
        try:
            await self._stream.publish("call", **call, arguments=arguments)
            try:
                async with self._running if isinstance(tool, RunAndDisplay) else self._reading:
                    reply, result = await self._show(tool, folders)
            except DaemonError as error:
                reply, result = _refused(str(error)), {"status": "failed"}
            except anyio.get_cancelled_exc_class():
                with anyio.CancelScope(shield=True):
                    await self._stream.publish("result", **call, status="cancelled", text="The call was cancelled.")
                raise
            duration = round((time.monotonic() - started) * 1000)
            await self._stream.publish("result", **call, **result, text=reply.text, durationMs=duration)
            return reply
        except ConnectError:
            return Reply(NO_DAEMON, is_error=True)
        except DaemonError as error:
            return _refused(str(error))

    async def _show(self, tool: DisplayTool, folders: Sequence[Path] | None) -> tuple[Reply, dict[str, Any]]:
        """Run a tool and store its body. Return the reply to the model, and the content of the result's record. Raises
        `ConnectError`, and `DaemonError` if the daemon refuses the body."""
        try:
            shown = await self._do(tool, folders)
        except NotShownError as error:
            text = _fitted("Not displayed: ", tool.subject, f" {error}")
            return Reply(text, is_error=True), {"status": "denied" if error.denied else "failed"}
        about = {"type": shown.type, "path": shown.path, "mime_type": shown.body.mime_type}
        output_id = await self._stream.store(shown.body.data, **about, language=shown.body.language)
        display = {
            "outputId": output_id,
            "type": shown.type,
            "path": shown.path,
            "mimeType": shown.body.mime_type,
            "language": shown.body.language,
            "bytes": len(shown.body.data),
            "lines": None if shown.type == "image" else count_lines(shown.body.data),
        }
        result: dict[str, Any] = {
            "status": "failed" if shown.exit_code else "completed",
            "display": {key: value for key, value in display.items() if value is not None},
        }
        if shown.exit_code is not None:
            result["exitCode"] = shown.exit_code
        return Reply(shown.text, output_id=output_id), result

    async def _do(self, tool: DisplayTool, folders: Sequence[Path] | None) -> Shown:
        """Read the file or image, or run the command. Raises `NotShownError`."""
        if isinstance(tool, RunAndDisplay):
            return await self._run(tool)
        return await to_thread.run_sync(self._read, tool, folders)

    def _read(self, tool: DisplayTool, folders: Sequence[Path] | None) -> Shown:
        assert isinstance(tool, RenderFileContents | DisplayImage)
        with self._roots.open(tool.path, folders) as (file, path):
            if isinstance(tool, DisplayImage):
                image = read_image(file, tool.path, self._max_bytes)
                return Shown(_fitted("Displayed image ", tool.path, " to the user"), image, "image", path)
            last = None if tool.end_line is msgspec.UNSET else tool.end_line
            text = read_text(file, tool.path, tool.start_line, last, self._max_bytes)
        first, lines = tool.start_line, count_lines(text.data)
        part = lines and (first, last) != (1, None)
        what = f"lines {first}-{first + lines - 1}" if part else _lines(lines)
        return Shown(_fitted("Displayed ", tool.path, f" to the user ({what})"), text, "file", path)

    async def _run(self, tool: RunAndDisplay) -> Shown:
        assert self._commands is not None
        try:
            ran = await self._commands.run(tool.command)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a command line"
            raise NotShownError(f"cannot be started: {reason}") from None
        text = f"{_outcome(ran, self._commands)}, {_lines(count_lines(ran.output))} displayed to the user)"
        return Shown(text, Body(ran.output, "text/plain"), "command", exit_code=ran.exit_code)


def _outcome(ran: Ran, commands: Commands) -> str:
    """Return the beginning of a sentence about a command, up to an unclosed parenthesis."""
    if ran.stopped == "time":
        return f"Command stopped (still running after {commands.timeout:g} s"
    if ran.stopped == "bytes":
        return f"Command stopped (more than {commands.max_bytes} bytes of output"
    return f"Command {'failed' if ran.exit_code else 'completed'} (exit {ran.exit_code}"


def _refused(reason: str) -> Reply:
    return Reply(_shortened(f"Not displayed: {reason}", LONGEST_REPLY), is_error=True)


def _fitted(before: str, path: str, after: str) -> str:
    """Join the parts of a line, shortening the path at its beginning to fit into `LONGEST_REPLY`."""
    room = LONGEST_REPLY - len(before) - len(after)
    path = _one_line(path)
    return f"{before}{path if len(path) <= room else f'…{path[1 - room :]}'}{after}"


def _shortened(text: str, length: int) -> str:
    text = _one_line(text)
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _lines(lines: int) -> str:
    return "1 line" if lines == 1 else f"{lines} lines"


# -- the stream -------------------------------------------------------------------------------------------------------

PATIENCE = 10.0
"""Timeout in seconds for an answer of the daemon."""
END_PATIENCE = 1.0


class DisplayStream:
    """Publishes the calls of display tools: output bodies, and a stream of records in the dialect `display-tools`.

    The stream begins with the first call, and its connection stays open. If the daemon was restarted since the last
    record, the record is sent again on a new connection, unless the daemon has committed it.

    `socket`: socket of the daemon. `session`: session of the events; default: a session for this stream alone.
    """

    def __init__(self, socket: Path | None, session: str | None = None, provider: str | None = None) -> None:
        self.about: dict[str, Any] = {}
        """Content of the stream's first record; fill it in before the first call."""
        self._socket = socket
        self._stream = f"mcp-{secrets.token_hex(8)}"
        self._session = session
        self._provider = provider
        self._stack = AsyncExitStack()
        self._publisher: Publisher | None = None
        self._lines = 0
        """Number of durable lines before the last one that was sent."""
        self._lock = anyio.Lock()

    async def publish(self, kind: str, **record: Any) -> None:
        """Publish a record; return when it is durable. Raises `ConnectError` and `DaemonError`."""
        line = _line(kind, record)
        async with self._lock:
            try:
                await _uninterrupted(lambda: self._publish(line))
            except (ConnectError, DaemonError):
                await self._leave()
                raise

    async def store(self, body: bytes, **about: Any) -> str:
        """Store a body in the daemon's memory and return its output id. Raises `ConnectError` and `DaemonError`."""

        async def work() -> str:
            async with connect(self._socket) as client:
                return await client.store(body, **about)

        return await _uninterrupted(work)

    async def close(self, process: ProcessEnd) -> None:
        """End the stream. `process`: how the server ends. A session that was named is of an agent that continues."""
        with anyio.move_on_after(END_PATIENCE, shield=True):
            try:
                if self._publisher is not None:
                    await self._publisher.end(process if self._session is None else None)
            except (DaemonError, DisconnectedError):
                pass
            await self._leave()

    async def _publish(self, line: bytes) -> None:
        publisher = self._publisher or await self._open()
        if not publisher.acked:
            await self._deliver(_line("session", self.about))
        await self._deliver(line)

    async def _deliver(self, line: bytes) -> None:
        try:
            await self._send(line)
        except DisconnectedError:
            before = self._lines
            await self._leave()
            publisher = await self._open()
            if publisher.acked != before + 1:  # else the daemon has the line, and only the ack was lost
                await self._send(line)

    async def _send(self, line: bytes) -> None:
        publisher = self._publisher or await self._open()
        self._lines = publisher.acked
        await publisher.send(line, t=wall_clock(), direction="out")
        await publisher.wait_acked(self._lines + 1)

    async def _open(self) -> Publisher:
        self._publisher = await self._stack.enter_async_context(
            ingest(
                stream=self._stream,
                dialect="display-tools",
                provider=self._provider,
                session=self._session,
                path=self._socket,
            )
        )
        return self._publisher

    async def _leave(self) -> None:
        self._publisher = None
        await self._stack.aclose()


def _line(kind: str, record: dict[str, Any]) -> bytes:
    return orjson.dumps({"type": f"display/{kind}", **record})


async def _uninterrupted(work: Callable[[], Awaitable[T]]) -> T:
    """Run `work` shielded from cancellation, so that no record is sent in part. Raises `ConnectError`."""
    with anyio.move_on_after(PATIENCE, shield=True):
        try:
            return await work()
        except DisconnectedError as error:
            raise ConnectError(str(error)) from None
    raise ConnectError("the daemon does not answer")
