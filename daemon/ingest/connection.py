"""One publisher's connection for one stream: bytes in; `ack`, `suspended`, `done` and `error` frames out.

Each line takes effect exactly once, although publisher and daemon may be killed at any moment:

- A commit holds lines m+1…n of the stream with all that results from them: events, output bodies, and what the parser
  is rebuilt from. It is one transaction, so the journal never has a line without its events, nor the reverse.
- `ack` n is sent when line n is durable, never before. A publisher retains lines until they are acknowledged.
- `ingesting` says to a publisher that comes back how many lines are stored; it continues after them. Lines are
  counted, not compared, so nothing is deduplicated here. The checksum of the last line (`crc`) lets the publisher
  notice that it now reads a different input.
- A stream has one connection. `Streams.open` waits in `supersede` until nothing from the old one can reach the journal,
  and only then loads the stream for the new one. Against a second daemon that shares the journal, the journal itself
  refuses a commit that does not start where the stored stream ends (`StreamConflictError`).

On a tapped connection, a line that is not a tapped line is an error of the connection. The lines before it are
committed, the stream is suspended, and the publisher still has that line and all later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import anyio
import msgspec

from tooltap.daemon.ingest.committing import Committing, Setting
from tooltap.daemon.ingest.inputs import Close, Lines, Loss, Parent, Portion, Suspend, Views
from tooltap.daemon.ingest.live_stream import LiveStream
from tooltap.daemon.ingest.missing_views import settle
from tooltap.daemon.ingest.offload import HugeLine, Normalized, ReadLine
from tooltap.daemon.ingest.resume import load_normalizer
from tooltap.daemon.system.logs import faults
from tooltap.daemon.views.rewriter import Outcomes
from tooltap.normalizers.core.items import OutputChunk, Produced
from tooltap.normalizers.stream.guard import place_of, reason_of
from tooltap.normalizers.stream.normalizer import Keep, Output
from tooltap.normalizers.wire.framing import HEAD_BYTES, LongLine, Splitter
from tooltap.protocol.events import decode
from tooltap.protocol.frames import DaemonFrame, Done, Ingesting, Suspended
from tooltap.protocol.stats import Statistics
from tooltap.protocol.tapped import Direction, End, NotTappedError, TappedLine, is_mark, read_tapped
from tooltap.traces.recording.secrets import mask_secrets

__all__ = ["IngestConnection", "ingesting"]

PORTION = 32
"""Lines that are fed before others get a turn."""


class IngestConnection(Committing):
    """Created by `Streams.open`."""

    def __init__(
        self,
        live: LiveStream,
        framing: Literal["raw", "tapped"],
        send: Callable[[DaemonFrame], None],
        setting: Setting,
    ) -> None:
        super().__init__(live, send, setting)
        self._framing = framing
        # A tapped line holds its line as a JSON string: escaping rarely doubles the length.
        self._splitter = Splitter(setting.line_bytes if framing == "raw" else 2 * setting.line_bytes + 1_024)
        self._deaf = False
        """Nothing more is parsed: a line was given up that the publisher still has."""

    async def feed(self, data: bytes) -> None:
        """Parse what was received. Returns when there is room for more. Ignores input after `over`."""
        self.live.normalizer.want_partials(self._setting.partials_wanted())
        now = self._clock()
        lines = self._splitter.feed(data)
        if self._framing == "tapped":
            for start in range(0, len(lines), PORTION):
                await self._feed_records(lines[start : start + PORTION], now)
        else:
            await self._feed_lines(lines, now, None)
        await self._wait_for_room()

    async def take(self, lines: Sequence[bytes | LongLine], t: int, keep: Keep | None) -> None:
        """Like `feed`, for lines read by this process. `keep`: see `StreamNormalizer.feed`."""
        for line in lines:
            if self._abandoned:
                return
            if len(line) > self._setting.aside.huge_bytes:
                await self._give_aside(Lines((line,), t, None, keep))
            else:
                self._give(Lines((line,), t, None, keep))
        await self._wait_for_room()

    async def adopt(self, portion: Normalized) -> None:
        """Like `take`, for lines that another process has read and normalized. Raises `msgspec.MsgspecError`."""
        if self._abandoned:
            return
        load_normalizer(portion.state, self.live.normalizer.context)
        self._give(Portion(portion))
        await self._wait_for_room()

    async def finish(self) -> None:
        """End of input. A raw stream ends with it, a tapped stream is suspended."""
        if self._framing == "tapped":
            await self.suspend()
            return
        last = self._splitter.finish()
        if last is not None:
            await self._feed_lines([last], self._clock(), None)
        await self.end()
        self._finish()

    def start(self) -> None:
        """Commit that the stream is open."""
        self.live.open()
        self._kick()

    async def end(self, reason: str = "end", t: int | None = None) -> Statistics | None:
        """End the stream and return its statistics; None if the end could not be committed. A later line reopens the
        stream. `t`: when the agent ended; default: now."""
        close = Close(reason, self._clock() if t is None else t)
        await self.while_not_aside()
        if self.live.is_long_to_close:
            await self._give_aside(close)
            if self._abandoned:
                return None
        else:
            self._give(close)
        if not await self._settle():
            return None
        statistics = self.live.statistics
        if not self.over.is_set():
            self._say(Done(**msgspec.structs.asdict(statistics)))
        return statistics

    async def add_view(self, outputs: Sequence[Output]) -> bool:
        """Commit a view of an earlier result; False if it could not be committed."""
        await self.while_not_aside()
        self._give(Views(outputs))
        return await self._settle()

    async def settle_views(self, outcomes: Outcomes) -> bool:
        """Commit what became of views that commands were to make; False if it could not be committed."""
        await self.while_not_aside()
        outputs = settle(self.live.info, outcomes)
        return outputs is None or await self.add_view(outputs)

    async def set_parent(self, parent: str) -> bool:
        """Commit which call has started the stream's agent; False if it could not be committed."""
        await self.while_not_aside()
        self._give(Parent(parent, self._clock()))
        return await self._settle()

    async def suspend(self) -> None:
        """Commit what was received and release the stream. Its publisher may resume it."""
        self._give_up()
        await self.while_not_aside()
        self._give(Suspend())
        if await self._settle() and not self.over.is_set():
            self._say(Suspended(lines=self.live.info.lines))
            self._finish()

    async def supersede(self) -> None:
        """Give the stream to another connection. Returns when nothing more of this one can reach the journal."""
        self._abandoned = True
        self._give_up()
        await self._settle()
        self._fail("superseded", f"another connection has taken stream {self.stream} over")

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
                await self._feed_lines(block, *stamp)
                await self._refuse(error)
                return
            except Exception as error:
                await self._feed_lines(block, *stamp)
                block = []
                faults.note("a tapped line could not be decoded", place_of(error), error, stream=self.stream)
                if is_mark(line):
                    await self._refuse(NotTappedError(reason_of(error)))
                    return
                self._give(Lines((line,), now, None, failed=reason_of(error)))  # the record is what there is of it
                continue
            if isinstance(record, TappedLine):
                t = now if record.t is None else record.t
                if (t, record.dir) != stamp:
                    await self._feed_lines(block, *stamp)
                    block, stamp = [], (t, record.dir)
                block.append(line if isinstance(line, LongLine) else self._shortened(record))
                continue
            await self._feed_lines(block, *stamp)
            block = []
            if self._abandoned or self._deaf:
                return
            if isinstance(record, End):
                await self.end(t=record.t)
            else:
                self._give(Loss(record, now))
        await self._feed_lines(block, *stamp)

    def _shortened(self, record: TappedLine) -> bytes | LongLine:
        size = record.size or len(record.line)
        if size > min(len(record.line), self._setting.line_bytes):
            return LongLine(record.line[:HEAD_BYTES], size)
        return record.line

    async def _refuse(self, error: NotTappedError) -> None:
        """Suspend the stream at a line that is not a tapped line."""
        if not self._abandoned and not self._deaf:
            self._give(Suspend())
            await self._settle()
            number = self.live.normalizer.lines + 1
            self._fail("not-tapped", f"line {number} of stream {self.stream} did not come as a tapped line: {error}")

    async def _feed_lines(self, lines: Sequence[bytes | LongLine], t: int, direction: Direction | None) -> None:
        """Feed lines in portions, and the long ones aside."""
        limit = self._setting.aside.long_bytes
        start = 0
        if lines and max(map(len, lines)) > limit:
            for end, line in enumerate(lines):
                if len(line) > limit:
                    await self._feed_short(lines[start:end], t, direction)
                    await self._feed_long(line, t, direction)
                    start = end + 1
        await self._feed_short(lines[start:] if start else lines, t, direction)

    async def _feed_short(self, lines: Sequence[bytes | LongLine], t: int, direction: Direction | None) -> None:
        for start in range(0, len(lines), PORTION):
            if self._setting.turns.is_over():
                await self._setting.turns.next()
            self._feed_block(lines[start : start + PORTION], t, direction)

    async def _feed_long(self, line: bytes | LongLine, t: int, direction: Direction | None) -> None:
        aside = self._setting.aside
        if self._abandoned or self._deaf:
            return
        if len(line) <= aside.huge_bytes or isinstance(line, LongLine):
            await self._give_aside(Lines((line,), t, direction))
        else:
            await self._feed_huge(line, t, direction)

    async def _feed_huge(self, line: bytes, t: int, direction: Direction | None) -> None:
        live = self.live
        if not await self._begin_aside():
            return
        read: ReadLine | None = None
        try:
            normalizer = live.normalizer
            partials, version = self._setting.partials_wanted(), live.info.agent_version
            shown = mask_secrets(line) if live.masks else line
            huge = HugeLine(shown, t, direction, normalizer.context, partials, normalizer.dump(), version)
            with anyio.CancelScope() as self._killing:
                read = await self._setting.aside.in_process(huge)
            self._deaf |= self._killing.cancelled_caught
        except Exception as error:  # it is read here, where it is contained
            faults.note("a line could not be read aside", place_of(error), error, stream=self.stream)
            self._killing = None
            self._end_aside()
            await self._give_aside(Lines((line,), t, direction))
            return
        finally:
            if self._killing is not None:
                self._killing = None
                self._end_aside()
        if self._abandoned or self._deaf:
            return
        if read is None:
            self._give(Lines((LongLine(line[:HEAD_BYTES], len(line)),), t, direction))
        else:
            await self._give_aside(Lines((line,), t, direction), partial(self._adopt_line, huge, read, line))

    def _adopt_line(self, huge: HugeLine, read: ReadLine, received: bytes) -> None:
        normalizer = load_normalizer(read.state, huge.context)
        normalizer.want_partials(huge.partials)
        outputs = [one if isinstance(one, OutputChunk) else Produced.of(decode(one), one) for one in read.outputs]
        normalized = Normalized(read.state, outputs, huge.t, None, read.found, read.watched, read.failures)
        self.live.adopt(normalizer, normalized, huge.line, huge.direction)
        self.live.last_line = received

    def _feed_block(self, lines: Sequence[bytes | LongLine], t: int, direction: Direction | None) -> None:
        if lines and not self._abandoned and not self._deaf:
            self._give(Lines(lines, t, direction))


def ingesting(live: LiveStream, *, new: bool) -> Ingesting:
    """The first frame of a connection. `new`: the journal does not know the stream."""
    info = live.info
    return Ingesting(
        stream=info.stream,
        state="new" if new else "ended" if info.state == "ended" else "suspended",
        lines=info.lines,
        dialect=live.normalizer.dialect or info.asked_dialect,
        crc=f"{info.crc:08x}" if info.crc_line else None,
        crc_line=info.crc_line or None,
    )
