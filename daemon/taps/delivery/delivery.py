"""Sends an outbox to the daemon over ingest connections, and resumes after every interruption.

Exactly-once delivery, from the publisher's side: the daemon counts the committed lines of a stream, in the same
transaction as their events, and `ingesting` reports this number (`lines`) on every new connection. Then

1. the delivery sends all lines after the last acknowledged one again;
2. it skips those that the daemon has: they were committed on the old connection, and only the ack was lost;
3. if the daemon has fewer lines than it once acknowledged, its journal was replaced. The outbox no longer has the
   missing lines. One `lost` record replaces them, so that the numbers of later lines stay correct.

So a line may be sent twice, but takes effect once. No line is skipped either: the outbox forgets a line only when it is
acknowledged or on disk.

A recording is published from its first line each time (`source_file.py`), and the daemon may have most of it. The CRC
of the daemon's last line shows whether it is the same recording (`Publisher.has`); if not, `OtherInputError` is raised.

When all lines have been put in, the stream ends, or with `suspend` is suspended, for a publisher that resumes it later.

A tap that can write to its agent gets `to-agent` frames of the daemon, which sends one again if the connection was lost
before the answer. So each is written once, whatever the number of connections, and answered on each.

If the daemon is unreachable, full or shutting down, the delivery retries until `patience` seconds have passed since a
daemon was last reachable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias, TypeGuard

import anyio
import msgspec
from anyio.abc import TaskGroup

from tooltap.daemon.client.asynchronous import OtherInputError, Publisher, ingest
from tooltap.daemon.client.discovery import ConnectError, DaemonError, DisconnectedError
from tooltap.daemon.taps.delivery.outbox import Entry, Outbox, StreamOptions
from tooltap.daemon.taps.delivery.spool import JOURNAL_REPLACED, encode, encode_lost
from tooltap.protocol.answers import ForAgent
from tooltap.protocol.frames import Done, Suspended, ToAgent
from tooltap.protocol.inputs import Answer, write_answer, write_end

BATCH = 256 * 1024
TEMPORARY = ("shutting-down", "too-many-connections", "too-many-streams", "journal")
"""Error codes of a daemon that may take the stream later."""
UNREADABLE = ("bad-frame", "frame-too-long")
"""Error codes of a daemon that rejects an `ingest` frame for its prompt: the key is unknown to it, or the frame is too
long."""
UNKNOWN_PAYLOAD = "this tap does not understand it"
KEPT_FRAMES = 1_024
"""Number of frames for the agent that are remembered, so that none is written twice."""
RETRY_FIRST, RETRY_MOST = 0.05, 0.5
"""Shortest and longest backoff between attempts to reach a daemon, in seconds."""

ReadSpool: TypeAlias = Callable[[int], tuple[bytes, int]]
"""`Spool.read`, for lines of the outbox that are only on disk."""


WriteToAgent: TypeAlias = Callable[[ForAgent], Awaitable[str | None]]
"""Writes something to the agent. Returns None once it is written, or the reason why it never will be."""


class Delivery:
    """The delivery of one stream. `patience`: seconds to keep trying after a daemon was last reachable. `to_agent`: if
    given, what the daemon has for the agent is written by it."""

    def __init__(
        self,
        outbox: Outbox,
        options: StreamOptions,
        socket: Path | None,
        patience: float,
        read_spool: ReadSpool | None = None,
        to_agent: WriteToAgent | None = None,
    ) -> None:
        self.outbox = outbox
        self.problem: Exception | None = None
        """The reason why no lines reach the daemon at the moment, or None."""
        self._options = options
        self._socket = socket
        self._patience = patience
        self._read_spool = read_spool
        self._last_seen = -float("inf")
        self._ended = False
        """Whether the stream's end has been sent on this connection."""
        self._suspends = False
        """Whether the stream is left without an end."""
        self._finished = asyncio.Event()
        self._to_agent = to_agent
        self._written: dict[str, asyncio.Future[str | None]] = {}
        """Id of a frame for the agent -> whether it is written, the oldest first."""
        self._answers: list[Answer] = []
        """Answers that wait to be sent on this connection."""
        self._news = asyncio.Event()
        """Set when there is more to send, or when all lines have been put in."""

    def wake(self) -> None:
        """Wake the delivery: lines have been put in."""
        self._news.set()

    def finish(self, patience: float, *, suspend: bool) -> None:
        """Declare that all lines have been put in, and set the patience from now on. `suspend`: suspend the stream
        instead of ending it."""
        self._patience = patience
        self._suspends = suspend
        self._finished.set()
        self._news.set()

    async def run(self) -> Done | Suspended:
        """Deliver until all lines are durable, and that the stream has ended or is suspended. Raises `ConnectError`
        when the patience is over, `OtherInputError` and `DaemonError`."""
        wait = RETRY_FIRST
        now = asyncio.get_running_loop().time
        while True:
            try:
                arguments = {**self._options._asdict(), "to_agent": self._to_agent is not None}
                async with ingest(**arguments, path=self._socket) as publisher:
                    self.problem = None
                    wait = RETRY_FIRST
                    return await self._deliver(publisher)
            except (ConnectError, DaemonError) as error:
                self.problem = error
                if isinstance(error, DaemonError) and error.code in UNREADABLE and self._options.prompt is not None:
                    self._options = self._options._replace(prompt=None)
                    continue
                is_temporary = isinstance(error, ConnectError) or error.code in TEMPORARY
                if not is_temporary or now() - self._last_seen > self._patience:
                    raise
            except DisconnectedError as error:
                self.problem = error
                self._last_seen = now()
            if self._finished.is_set():
                await anyio.sleep(wait)
            else:
                with anyio.move_on_after(wait):
                    await self._finished.wait()
            wait = min(2 * wait, RETRY_MOST)

    async def _deliver(self, publisher: Publisher) -> Done | Suspended:
        if gone := self.outbox.resume(publisher.ingesting.lines):
            await _write(publisher, encode_lost(gone, 0, JOURNAL_REPLACED))
        self._ended = False
        self._answers = []
        failures: list[Exception] = []
        ends: list[Done | Suspended] = []
        async with anyio.create_task_group() as tasks:

            async def until_failure(work: Callable[[], Awaitable[Done | Suspended | None]]) -> None:
                try:
                    if (end := await work()) is not None:
                        ends.append(end)
                        tasks.cancel_scope.cancel()
                except (DaemonError, DisconnectedError, OtherInputError) as error:
                    failures.append(error)
                    tasks.cancel_scope.cancel()

            tasks.start_soon(until_failure, lambda: self._send_lines(publisher))
            tasks.start_soon(until_failure, lambda: self._receive_until_done(publisher, tasks))
        if failures:
            raise failures[0]
        return ends[0]

    async def _receive_until_done(self, publisher: Publisher, tasks: TaskGroup) -> Done | Suspended:
        while True:
            frame = await publisher.receive()
            if self._ended and self._is_end(frame):
                self.outbox.acknowledge(self.outbox.lines)
                return frame
            self.outbox.acknowledge(publisher.acked)
            if isinstance(frame, ToAgent):
                tasks.start_soon(self._answer, frame)

    async def _answer(self, frame: ToAgent) -> None:
        """Write a frame to the agent, and answer it. Cancelled with the connection, but then the frame is written all
        the same."""
        try:
            payload = msgspec.convert(frame.payload, ForAgent)
        except msgspec.ValidationError as error:
            refused: str | None = f"{UNKNOWN_PAYLOAD}: {error}"
        else:
            refused = await asyncio.shield(self._write_once(payload))
        self._answers.append(Answer(frame.id, refused))
        self._news.set()

    def _write_once(self, frame: ForAgent) -> asyncio.Future[str | None]:
        assert self._to_agent is not None
        if frame.id not in self._written:
            while len(self._written) >= KEPT_FRAMES:
                del self._written[next(iter(self._written))]
            self._written[frame.id] = asyncio.ensure_future(self._to_agent(frame))
        return self._written[frame.id]

    def _is_end(self, frame: object) -> TypeGuard[Done | Suspended]:
        """Say whether a frame confirms that the stream has ended or is suspended, as requested. Other such frames are a
        `done` caused by another publisher, or a `suspended` of a daemon that shuts down."""
        if self._suspends:
            return isinstance(frame, Suspended) and frame.lines >= self.outbox.lines
        return isinstance(frame, Done)

    async def _send_lines(self, publisher: Publisher) -> None:
        """Send lines as they are put in, then the end or suspension of the stream. Raises `OtherInputError`."""
        known = publisher.ingesting
        while True:
            self._news.clear()
            while self._answers:
                await _write(publisher, write_answer(self._answers.pop(0)) + b"\n")
            entries = self.outbox.take(BATCH)
            if entries is None:
                records = self._take_from_spool(known.lines)
            else:
                records = b"".join(encode(entry) for entry in entries if not _has(publisher, entry))
            if records:
                await _write(publisher, records)
            elif entries != []:  # the daemon has all of these entries (see the top, 2)
                self.outbox.acknowledge(known.lines)
            elif not self._finished.is_set():
                await self._news.wait()
            elif known.crc_line is not None and known.crc_line > self.outbox.lines:
                raise OtherInputError(f"stream {known.stream} had {known.crc_line} lines, this input has fewer")
            else:
                self._ended = True
                end = write_end(self.outbox.ended, self.outbox.process) + b"\n"
                return await (publisher.leave() if self._suspends else _write(publisher, end))

    def _take_from_spool(self, known: int) -> bytes:
        assert self._read_spool is not None
        records, last = self._read_spool(max(known, self.outbox.sent))
        self.outbox.taken(last)
        return records


def _has(publisher: Publisher, entry: Entry) -> bool:
    """Say whether the daemon has the entry. Raises `OtherInputError`."""
    if isinstance(entry.line, bytes):
        return publisher.has(entry.last, entry.line)
    return entry.last <= publisher.ingesting.lines


async def _write(publisher: Publisher, records: bytes) -> None:
    try:
        await publisher.write(records)
    except anyio.BusyResourceError:
        # The connection is closed. The task that receives acks reads the daemon's last frame and ends this task.
        await anyio.sleep_forever()
