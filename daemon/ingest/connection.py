"""One publisher's connection for one stream: bytes in; `ack`, `suspended`, `done` and `error` frames out.

Each line takes effect exactly once, although publisher and daemon may be killed at any moment:

- A commit holds lines m+1…n of the stream with all that results from them: events, output bodies, and what the parser
  is rebuilt from. It is one transaction, so the journal never has a line without its events, nor the reverse.
- `ack` n is sent when line n is durable, never before. A publisher retains lines until they are acknowledged.
- `ingesting` says to a publisher that comes back how many lines are stored; it continues after them. Lines are
  counted, not compared, so nothing is deduplicated here. The checksum of the last line (`crc`) lets the publisher
  notice that it now reads a different input.
- A stream has one connection. `Streams.open` waits in `supersede` until nothing of the old one can reach the journal,
  and only then loads the stream for the new one. Against a second daemon that shares the journal, the journal itself
  refuses a commit that does not start where the stored stream ends (`StreamConflictError`).

Commits form batches by themselves. `feed` parses lines as they arrive and adds them to the `LiveStream`. One task,
`commit_all`, takes all that has accumulated, writes it, and repeats until nothing is left; lines that arrive while it
writes make up the next commit. There is no timer and no batch size. The only backpressure is that `feed` returns when
few enough bytes wait to be durable (`in_flight_bytes`).

The order in `commit_all` matters: first the commit, then the `ack`, then the trace and the commands that rewrite
results. All of these may only happen for durable lines.

On a tapped connection, a line that is not a tapped line is an error of the connection. The lines before it are
committed, the stream is suspended, and the publisher still has that line and all later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import anyio
import msgspec

from tooltap.daemon.ingest.live_stream import RECORD_BYTES, LiveStream, Normalized
from tooltap.daemon.ingest.resume import load_normalizer
from tooltap.daemon.ingest.tracing import StreamTrace
from tooltap.daemon.journal.interface import Journal, JournalError, StreamConflictError
from tooltap.daemon.system.clock import Clock
from tooltap.daemon.system.failpoints import failpoint
from tooltap.daemon.system.logs import get_logger
from tooltap.daemon.views.results import Rewrite
from tooltap.normalizers.core.items import Item, OutputChunk
from tooltap.normalizers.stream.normalizer import Output
from tooltap.normalizers.wire.framing import HEAD_BYTES, LongLine, Splitter
from tooltap.protocol.frames import Ack, DaemonFrame, Done, ErrorCode, ErrorFrame, Suspended
from tooltap.protocol.stats import Statistics
from tooltap.protocol.tapped import Direction, End, NotTappedError, TappedLine, read_tapped
from tooltap.traces.recording.writer import TraceWriter

__all__ = ["IngestConnection", "Setting"]

_log = get_logger("ingest")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all ingest connections share."""

    journal: Journal
    clock: Clock
    line_bytes: int
    in_flight_bytes: int
    """Bytes taken from a publisher before its earlier lines are durable."""
    commit_soon: Callable[[IngestConnection], object]
    """Starts `commit_all`, as a task that outlives the connection."""
    on_over: Callable[[IngestConnection], None]
    """Called once, when the connection has sent its last frame."""
    partials_wanted: Callable[[], bool]
    """Whether any subscriber wants partials; called for each chunk received."""
    rewrite: Callable[[Sequence[Rewrite]], None]
    """Takes results that commands rewrite, once they are durable. Must not block."""
    trace: TraceWriter | None


class IngestConnection:
    """Created by `Streams.open`. `send` must not block. It may drop an `ack` that would have to wait: the next
    `ack`, or the last frame, implies it."""

    def __init__(
        self,
        live: LiveStream,
        framing: Literal["raw", "tapped"],
        send: Callable[[DaemonFrame], None],
        setting: Setting,
    ) -> None:
        self.live = live
        self.over = anyio.Event()
        """The last frame has been sent; the socket may be closed."""
        self._framing = framing
        self._send = send
        self._setting = setting
        self._journal = setting.journal
        self._clock = setting.clock
        self._trace = StreamTrace(setting.trace, live) if setting.trace is not None else None
        # A tapped line holds its line as a JSON string: escaping rarely doubles the length.
        self._splitter = Splitter(setting.line_bytes if framing == "raw" else 2 * setting.line_bytes + 1_024)
        self._waiting = 0
        """Bytes of the lines that are parsed and not yet durable."""
        self._busy = False
        """`commit_all` is running, or about to."""
        self._commits = 0
        self._in_flight = False
        """A commit is being written."""
        self._abandoned = False
        """Another connection takes the stream over, or this one is over: nothing more is parsed or committed."""
        self._progress = anyio.Event()
        """Set, and replaced, when a commit is durable or the connection is over."""

    @property
    def stream(self) -> str:
        return self.live.info.stream

    # -- input --------------------------------------------------------------------------------------------------

    async def feed(self, data: bytes) -> None:
        """Parse what was received. Returns when there is room for more. Ignores input after `over`."""
        self.live.normalizer.want_partials(self._setting.partials_wanted())
        now = self._clock()
        lines = self._splitter.feed(data)
        if self._framing == "tapped":
            await self._feed_records(lines, now)
        else:
            self._feed_block(lines, now, None)
        await self._wait_for_room()

    async def take(
        self, lines: Sequence[bytes | LongLine], t: int, leave_out: Callable[[Sequence[Item]], bool]
    ) -> None:
        """Like `feed`, for lines read by this process. `leave_out`: see `StreamNormalizer.feed`."""
        for line in lines:
            if self._abandoned:
                return
            self._feed_line(line, t, None, leave_out)
        await self._wait_for_room()

    async def adopt(self, portion: Normalized) -> None:
        """Like `take`, for lines that another process has read and normalized. Raises `msgspec.MsgspecError`."""
        if self._abandoned:
            return
        live = self.live
        live.adopt(load_normalizer(portion.state, live.normalizer.context), portion)
        self._waiting += sum(len(one.data if isinstance(one, OutputChunk) else one.body) for one in portion.outputs)
        await self._wait_for_room()

    async def finish(self) -> None:
        """End of input. A raw stream ends with it, a tapped stream is suspended."""
        if self._framing == "tapped":
            await self.suspend()
            return
        last = self._splitter.finish()
        if last is not None and not self._abandoned:
            self._feed_line(last, self._clock(), None)
        await self.end()
        self._finish()

    # -- control ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Commit that the stream is open."""
        self.live.open()
        self._kick()

    async def end(self, reason: str = "end") -> Statistics | None:
        """End the stream and return its statistics; None if the end could not be committed. A later line reopens the
        stream."""
        self.live.close(reason, self._clock())
        statistics = self.live.statistics
        if not await self._settle():
            return None
        if not self.over.is_set():
            self._send(Done(**msgspec.structs.asdict(statistics)))
        return statistics

    async def add_view(self, outputs: Sequence[Output]) -> bool:
        """Commit a view of an earlier result; False if it could not be committed."""
        self.live.add_view(outputs)
        return await self._settle()

    async def suspend(self) -> None:
        """Commit what was received and release the stream. Its publisher may resume it."""
        self.live.suspend()
        if await self._settle() and not self.over.is_set():
            self._send(Suspended(lines=self.live.info.lines))
            self._finish()

    async def supersede(self) -> None:
        """Give the stream to another connection. Returns when nothing more of this one can reach the journal."""
        self._abandoned = True
        await self._settle()
        self._fail("superseded", f"another connection has taken stream {self.stream} over")

    async def commit_all(self) -> None:
        """Commit until nothing is left. `_busy` keeps this to one task at a time."""
        try:
            while self.live.dirty and not self._abandoned:
                taken = self._waiting
                commit = self.live.take(self._clock())
                rewrites = self.live.take_rewrites()
                self._in_flight = True
                await self._journal.commit(commit)
                self._in_flight = False
                failpoint("before-ack")
                self._commits += 1
                self._waiting -= taken
                if commit.info.lines > commit.base_lines:
                    self._send(Ack(lines=commit.info.lines))
                if self._trace is not None:
                    self._trace.add(commit)
                self._setting.rewrite(rewrites)
                self._wake()
        except StreamConflictError as error:
            self._fail("superseded", str(error))
        except JournalError as error:
            self._fail("journal", str(error))
        except Exception:
            _log.exception("a stream failed", stream=self.stream)
            self._fail("internal", "the stream failed; the daemon's log says why")
        finally:
            self._busy = False
            self._wake()

    # -- inner workings -----------------------------------------------------------------------------------------

    async def _feed_records(self, lines: Sequence[bytes | LongLine], now: int) -> None:
        """Feed tapped lines; those that follow each other with one time and direction, as a block."""
        block: list[bytes | LongLine] = []
        stamp: tuple[int, Direction | None] = now, None
        for line in lines:
            if not line:
                continue
            try:  # only the head of a long record is known, so it cannot be decoded
                record = TappedLine(b"", now, None) if isinstance(line, LongLine) else read_tapped(line)
            except NotTappedError as error:
                self._feed_block(block, *stamp)
                await self._refuse(error)
                return
            if isinstance(record, TappedLine):
                t = now if record.t is None else record.t
                if (t, record.dir) != stamp:
                    self._feed_block(block, *stamp)
                    block, stamp = [], (t, record.dir)
                block.append(line if isinstance(line, LongLine) else self._shortened(record))
                continue
            self._feed_block(block, *stamp)
            block = []
            if self._abandoned:
                return
            if isinstance(record, End):
                await self.end()
            else:
                self.live.lost(record, now)
                self._waiting += RECORD_BYTES
        self._feed_block(block, *stamp)

    def _shortened(self, record: TappedLine) -> bytes | LongLine:
        size = record.size or len(record.line)
        if size > min(len(record.line), self._setting.line_bytes):
            return LongLine(record.line[:HEAD_BYTES], size)
        return record.line

    async def _refuse(self, error: NotTappedError) -> None:
        """Suspend the stream at a line that is not a tapped line."""
        if not self._abandoned:
            number = self.live.normalizer.lines + 1
            self.live.suspend()
            await self._settle()
            self._fail("not-tapped", f"line {number} of stream {self.stream} did not come as a tapped line: {error}")

    async def _wait_for_room(self) -> None:
        """Start committing, and wait until few enough bytes are in flight."""
        self._kick()
        while self._waiting > self._setting.in_flight_bytes and not self.over.is_set():
            await self._progress.wait()

    def _feed_block(self, lines: Sequence[bytes | LongLine], t: int, direction: Direction | None) -> None:
        if lines and not self._abandoned:
            self.live.feed_block(lines, t, direction)
            self._waiting += sum(map(_memory, lines))

    def _feed_line(
        self,
        line: bytes | LongLine,
        t: int,
        direction: Direction | None,
        leave_out: Callable[[Sequence[Item]], bool] | None = None,
    ) -> None:
        self.live.feed(line, t, direction, leave_out)
        self._waiting += _memory(line)

    def _kick(self) -> None:
        if not self._busy and self.live.dirty and not self._abandoned:
            self._busy = True
            self._setting.commit_soon(self)

    async def _settle(self) -> bool:
        """Wait until everything parsed so far is durable; False if it will not be, because the connection is over or
        superseded."""
        # What is parsed is durable, in the commit being written, or taken whole by the commit after that one.
        self._kick()
        enough = self._commits + self._in_flight + self.live.dirty
        while self._commits < enough and self._busy:
            await self._progress.wait()
        return self._commits >= enough

    def _wake(self) -> None:
        self._progress.set()
        self._progress = anyio.Event()

    def _fail(self, code: ErrorCode, message: str) -> None:
        if not self.over.is_set():
            self._send(ErrorFrame(code=code, message=message))
            self._finish()

    def _finish(self) -> None:
        if not self.over.is_set():
            self._abandoned = True
            if self._trace is not None:
                self._trace.release()
            self.over.set()
            self._wake()
            self._setting.on_over(self)


def _memory(line: bytes | LongLine) -> int:
    """Bytes in flight for a line."""
    return RECORD_BYTES + (len(line.head) if isinstance(line, LongLine) else len(line))
