"""One stream in memory: lines in, commits out.

A commit has to carry more than events, so this class keeps, besides the normalizer:

- The tail: the lines since the last snapshot, with their times. A parser is rebuilt by loading the snapshot and feeding
  it the tail (`resume.py`).
- `crc`, the checksum of the last whole line, with which a returning publisher compares its input.
- `ids`, the checksum over the ids of all events so far. A rebuilt parser must arrive at the same value; if it does not,
  it would number or name events differently from those already journaled.
- When a snapshot is due. It replaces the last snapshot and the tail. It is taken when the tail is longer than
  `snapshot_bytes` and than `GROWTH` times the last snapshot, so that the bytes written stay proportional to the bytes
  ingested.

While `auto` still holds lines to recognise the dialect, no snapshot is taken: the tail is then those lines, and they
are sniffed again when the stream is rebuilt.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from tooltap.daemon.journal.interface import Commit, StreamInfo, StreamState, TailRecord
from tooltap.daemon.system.logs import get_logger
from tooltap.daemon.views.results import Rewrite, StreamViews
from tooltap.normalizers.core.items import Context, Item, Limits, Produced
from tooltap.normalizers.stream.normalizer import Output, StreamNormalizer
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.stats import Statistics
from tooltap.protocol.tapped import Direction, Lost
from tooltap.traces.drift.drift import Drift, Found
from tooltap.traces.drift.watch import StreamWatch, Watched

__all__ = ["RECORD_BYTES", "LiveStream", "Normalized", "Snapshot", "context_of", "ids_of"]

_log = get_logger("streams")

SNAPSHOT_FORMAT = 1
RECORD_BYTES = 64
"""About what a tail record costs in addition to its line."""
GROWTH = 4
"""A snapshot is due when the tail is this many times longer than the last snapshot."""


class Snapshot(msgspec.Struct, array_like=True):
    format: int
    ids: int
    """`StreamInfo.ids` at this point."""
    normalizer: bytes


def context_of(info: StreamInfo, limits: Limits) -> Context:
    return Context(
        stream=info.stream,
        provider=info.provider,
        session=info.session,
        agent=info.agent,
        parent=info.parent,
        mcp_servers=info.mcp_servers,
        limits=limits,
    )


def ids_of(outputs: Sequence[Output], ids: int) -> int:
    """The checksum over event ids, continued over these outputs."""
    for output in outputs:
        if isinstance(output, Produced) and not output.partial:
            ids = zlib.crc32(output.id.encode(), ids)
    return ids


class Normalized(NamedTuple):
    """What another process has made of the next lines of a stream."""

    state: bytes
    """The dump of its normalizer."""
    outputs: Sequence[Output]
    t: int
    crc: tuple[int, int] | None
    """Number and CRC-32 of the last whole line."""
    found: Found
    watched: Watched


class LiveStream:
    """`committed_state`: None for a stream the journal does not know. `outputs`: results of no new line (a reset, lines
    that were held), which the next commit takes. `drift` observes the lines. `views` applies the user's rules to
    results."""

    def __init__(
        self,
        info: StreamInfo,
        normalizer: StreamNormalizer,
        *,
        committed_state: StreamState | None,
        snapshot_bytes: int,
        tail_bytes: int = 0,
        snapshot_size: int = 0,
        outputs: Sequence[Output] = (),
        needs_snapshot: bool = False,
        drift: Drift | None = None,
        views: StreamViews | None = None,
    ) -> None:
        self.info = info
        self.normalizer = normalizer
        self._snapshot_bytes = snapshot_bytes
        self._tail_bytes = tail_bytes
        self._snapshot_size = snapshot_size
        self._needs_snapshot = needs_snapshot
        self._committed_state = committed_state
        self._tail: list[TailRecord] = []
        self._block = TailRecord("block")
        """The lines that follow the tail."""
        self._last_line: bytes | None = None
        """The last whole line, whose `crc` is not in `info` yet."""
        self._outputs: list[Output] = []
        self._has_more = False
        """There is something to commit that is not a line."""
        self._views = views
        self._add(outputs)
        self._watch = None if drift is None else StreamWatch(drift, normalizer, info.agent_version)
        if self._watch is not None:
            normalizer.on_line = self._end_of_line

    @property
    def dirty(self) -> bool:
        """There is something to commit."""
        return bool(self._tail or self._block.block) or self._has_more or self.info.state != self._committed_state

    def feed(
        self,
        line: bytes | LongLine,
        t: int,
        direction: Direction | None,
        leave_out: Callable[[Sequence[Item]], bool] | None = None,
    ) -> None:
        """`leave_out`: whether the line's events are already in another stream; see `StreamNormalizer.feed`."""
        self._add(self.normalizer.feed(line, t, direction, leave_out))
        self.info.state = "open"
        if isinstance(line, LongLine):
            left_out = self.normalizer.left_out
            self._record(TailRecord("long", t, direction, line.head, line.size, left_out=left_out))
        else:
            self._record_lines([line], t, direction)
        self._touch(t)

    def feed_block(self, lines: Sequence[bytes | LongLine], t: int, direction: Direction | None) -> None:
        """Feed lines that came together."""
        whole = [line for line in lines if not isinstance(line, LongLine)]
        if len(whole) < len(lines):
            for line in lines:
                self.feed(line, t, direction)
        elif whole:
            self._add(self.normalizer.feed_block(whole, t, direction))
            self.info.state = "open"
            self._record_lines(whole, t, direction)
            self._touch(t)

    def adopt(self, normalizer: StreamNormalizer, portion: Normalized) -> None:
        """Continue with the normalizer that read the portion. Its lines are not known here, so the next commit has a
        snapshot in place of a tail."""
        self.normalizer = normalizer
        self._observe(lambda watch: watch.adopt(normalizer, portion.found, portion.watched))
        if self._watch is not None:
            normalizer.on_line = self._end_of_line
        self._add(portion.outputs)
        self.info.state = "open"
        if portion.crc is not None:
            self._last_line = None
            self.info.crc_line, self.info.crc = portion.crc
        self._needs_snapshot = self._has_more = True
        self._touch(portion.t)

    def lost(self, lost: Lost, t: int) -> None:
        self._end_of_line(outputs := self.normalizer.lost(lost.lines, lost.bytes, lost.reason, t))
        self._add(outputs)
        self.info.state = "open"
        self._record(TailRecord("lost", t=t, lines=lost.lines, size=lost.bytes, reason=lost.reason))
        self._touch(t)

    def add_view(self, outputs: Sequence[Output]) -> None:
        """Add a view of an earlier result. It results from no line, so the stream does not change otherwise."""
        self._outputs += outputs
        self._has_more = True

    def open(self) -> None:
        """A publisher is there. An ended stream is reopened only by its next line."""
        if self.info.state != "ended":
            self.info.state = "open"

    def suspend(self) -> None:
        if self.info.state != "ended":
            self.info.state = "suspended"

    def close(self, reason: str, t: int) -> None:
        """End the stream. Closing an ended stream changes nothing."""
        if self.info.state == "ended":
            return
        self._end_of_line(outputs := self.normalizer.close(reason, t))
        self._add(outputs)
        self._record(TailRecord("close", t=t, reason=reason))
        if reason == "end":
            self._touch(t)
        self.info.state = "ended"
        self._observe(lambda watch: watch.close())

    def take(self, now: int) -> Commit:
        """Everything since the last commit. It must be committed before the next one is taken."""
        info = self.info
        base_lines, info.lines = info.lines, self.normalizer.lines
        self._end_block()
        if self._last_line is not None:
            info.crc = zlib.crc32(self._last_line)
            self._last_line = None
        info.dialect = self.normalizer.dialect
        info.updated = now
        self._observe(lambda watch: watch.account())
        snapshot = self._snapshot() if self._snapshot_is_due() else None
        # A copy: the writer encodes it in its own thread, while the next lines are counted here.
        frozen = msgspec.structs.replace(info, statistics=self.statistics)
        commit = Commit(frozen, base_lines, self._outputs, self._tail, snapshot)
        self._outputs, self._tail, self._has_more = [], [], False
        self._committed_state = info.state
        return commit

    def take_rewrites(self) -> list[Rewrite]:
        """Results of the last commit that commands rewrite, once the commit is durable."""
        return [] if self._views is None else self._views.take_rewrites()

    @property
    def statistics(self) -> Statistics:
        """A copy, as of now."""
        now = self.normalizer.statistics
        return msgspec.structs.replace(
            now, skipped={**now.skipped}, kinds={**now.kinds}, tools={**now.tools}, raw_tools={**now.raw_tools}
        )

    # -- inner workings -----------------------------------------------------------------------------------------

    def _end_of_line(self, outputs: Sequence[Output]) -> None:
        if self._watch is not None and (outputs or self._watch.has_pending):
            self._observe(lambda watch: watch.add(outputs))

    def _observe(self, observe: Callable[[StreamWatch], None]) -> None:
        """An error in drift detection must not harm the stream."""
        if self._watch is None:
            return
        try:
            observe(self._watch)
        except Exception:
            _log.exception("drift detection failed and is off for this stream", stream=self.info.stream)
            self._watch = None
            self.normalizer.watch(None)
            self.normalizer.on_line = None

    def _add(self, outputs: Sequence[Output]) -> None:
        if not outputs:
            return
        self._outputs += outputs if self._views is None else self._views.apply(outputs)
        self.info.ids = ids_of(outputs, self.info.ids)
        for output in outputs:
            if isinstance(output, Produced):
                self.info.last_session = output.session
                if output.kind == "session" and output.fields.agent_version is not None:
                    self.info.agent_version = output.fields.agent_version

    def _touch(self, t: int) -> None:
        info = self.info
        info.first_t = t if info.first_t is None else info.first_t
        info.last_t = t

    def _record_lines(self, lines: Sequence[bytes], t: int, direction: Direction | None) -> None:
        """Record lines that were fed together; `left_out` is that of the last."""
        block = self._block
        if t != block.t or direction != block.direction:
            self._end_block()
            block = self._block = TailRecord("block", t, direction)
        block.block += lines
        if self.normalizer.left_out:
            block.left_out_of.append(len(block.block) - 1)
        self._tail_bytes += sum(map(len, lines)) + RECORD_BYTES * len(lines)
        self._last_line = lines[-1]
        self.info.crc_line = self.normalizer.lines

    def _end_block(self) -> None:
        block = self._block
        if len(block.block) > 1:
            self._tail.append(block)
        else:
            self._tail += block.inputs()
        self._block = TailRecord("block")

    def _record(self, record: TailRecord) -> None:
        self._end_block()
        self._tail.append(record)
        self._tail_bytes += len(record.line) + RECORD_BYTES

    def _snapshot_is_due(self) -> bool:
        if self.normalizer.holds_lines:
            return False
        if self._needs_snapshot or self.info.state == "ended" or not self._snapshot_bytes:
            return True
        return self._tail_bytes > max(self._snapshot_bytes, GROWTH * self._snapshot_size)

    def _snapshot(self) -> bytes:
        data = msgspec.msgpack.encode(Snapshot(SNAPSHOT_FORMAT, self.info.ids, self.normalizer.dump()))
        self._snapshot_size = len(data)
        self._tail_bytes = 0
        self._needs_snapshot = False
        return data
