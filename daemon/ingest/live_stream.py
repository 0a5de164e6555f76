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

A line at which something raised (`normalizers/stream/guard.py`) is never read again: the commit that has it has a
snapshot as well. So a rebuilt parser is in the state that the line has left, whether it would raise again or not.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

import msgspec

from tooltap.daemon.ingest.offload import Normalized
from tooltap.daemon.ingest.snapshots import SNAPSHOT_FORMAT, Snapshot, ids_of
from tooltap.daemon.ingest.withhold import leave_out
from tooltap.daemon.journal.interface import Commit, StreamInfo, TailRecord
from tooltap.daemon.sessions.joining import is_prompt
from tooltap.daemon.sessions.subagents import Spawned
from tooltap.daemon.system.logs import faults
from tooltap.daemon.views.results import Rewrite, StreamViews
from tooltap.normalizers.core.items import Item, OutputChunk, Produced
from tooltap.normalizers.stream.guard import place_of
from tooltap.normalizers.stream.normalizer import Keep, Output, StreamNormalizer
from tooltap.normalizers.tools.tasks import spawned_agent
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.replies import StreamState
from tooltap.protocol.stats import Statistics
from tooltap.protocol.tapped import Direction, Lost
from tooltap.traces.drift.drift import Drift
from tooltap.traces.drift.watch import StreamWatch

__all__ = ["RECORD_BYTES", "LiveStream"]

RECORD_BYTES = 64
"""About what a tail record costs in addition to its line."""
PARENT_INDEX = 1_000_000
"""First index of events between lines that name a parent: no line has so many events."""
MANY_CALLS = 256
WATCHING = "traces."
"""How the places of code begin that only looks on."""
GROWTH = 4
"""A snapshot is due when the tail is this many times longer than the last snapshot."""


class LiveStream:
    """`committed_state`: None for a stream the journal does not know. `outputs`: results of no new line (a reset, lines
    that were held), which the next commit takes. `drift` observes the lines. `views` applies the user's rules to
    results. `masks`: no secret is committed; lines are masked before they are fed."""

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
        masks: bool = False,
    ) -> None:
        self.info, self.masks = info, masks
        self.normalizer = normalizer
        self._snapshot_bytes = snapshot_bytes
        self._tail_bytes = tail_bytes
        self._snapshot_size = snapshot_size
        self._needs_snapshot = needs_snapshot
        self._committed_state = committed_state
        self._tail: list[TailRecord] = []
        self._block = TailRecord("block")
        """The lines that follow the tail."""
        self.last_line: bytes | None = None
        """The last whole line as it came, whose `crc` is not in `info` yet."""
        self._outputs: list[Output] = []
        self._views_added: list[Output] = []
        self._spawned: dict[str, Spawned] = {}
        """By the id of the event that says so."""
        self._has_more = False  # something to commit that is not a line
        self._views = views
        self.sessions: set[str] = set()
        """Sessions that began or got a prompt since the last commit: another stream may report the same."""
        normalizer.on_failure = self._on_failure
        self._add(outputs)
        self._watch = None if drift is None else StreamWatch(drift, normalizer, info.agent_version)
        if self._watch is not None:
            normalizer.on_line = self._end_of_line

    @property
    def dirty(self) -> bool:
        """There is something to commit."""
        return bool(self._tail or self._block.block) or self._has_more or self.info.state != self._committed_state

    @property
    def is_long_to_close(self) -> bool:
        """Many calls are open, each of which gets a result at the end."""
        kinds = self.normalizer.statistics.kinds
        return kinds.get("tool-call", 0) - kinds.get("tool-result", 0) > MANY_CALLS

    @property
    def is_shared(self) -> bool:
        """Another stream may have reported some of what the next commit has."""
        return bool(self.sessions) or "guest" in self.info.roles.values()

    def feed(self, line: bytes | LongLine, t: int, direction: Direction | None, keep: Keep | None = None) -> None:
        """`keep`: which of the line's items no other stream has reported; see `StreamNormalizer.feed`."""
        if keep is None:
            self._add(self.normalizer.feed(line, t, direction))
        else:
            self._add(self.normalizer.feed(line, t, direction, self._counted(keep)), counted=True)
        self._took(line, t, direction)

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

    def feed_failed(self, line: bytes | LongLine, reason: str, t: int, direction: Direction | None) -> None:
        """Take a line that is not parsed: what it leads to could not be committed for this reason."""
        self._add(self.normalizer.feed_failed(line, reason, t, direction))
        self._needs_snapshot = True
        self._took(line, t, direction)

    def adopt(
        self,
        normalizer: StreamNormalizer,
        portion: Normalized,
        line: bytes | None = None,
        direction: Direction | None = None,
    ) -> None:
        """Continue with the normalizer that read the portion. The next commit has a snapshot in place of a tail: unless
        the portion is one `line`, its lines are not known here; and that one took long to read."""
        self.normalizer = normalizer
        normalizer.on_failure = self._on_failure
        for place, error in portion.failures:
            faults.note_of_other("a line could not be read", place, error, stream=self.info.stream)
        self._observe(lambda watch: watch.adopt(normalizer, portion.found, portion.watched))
        if self._watch is not None:
            normalizer.on_line = self._end_of_line
        self._add(portion.outputs)
        self.info.state = "open"
        if line is not None:
            self._record_lines([line], portion.t, direction)
        if portion.crc is not None:
            self.last_line = None
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
        self._views_added += outputs
        self._has_more = True

    @property
    def pending(self) -> list[Produced]:
        """The events of the next commit that will be stored."""
        return [one for one in self._outputs if isinstance(one, Produced) and not one.partial]

    def exchange(self, event: Produced, changed: Produced) -> None:
        """Replace an event of the next commit."""
        self._outputs = [changed if one is event else one for one in self._outputs]

    def hold(self) -> None:
        """Hold the events of the next commit back, in `info.pending_displays`."""
        held = self.pending
        self.info.pending_displays = [*self.info.pending_displays, *(one.body.decode() for one in held)]
        self._outputs = [one for one in self._outputs if isinstance(one, OutputChunk) or one.partial]
        for one in held:
            self.normalizer.statistics.adjust(one.kind, one.tool, one.raw_tool, -1)

    def withhold(self, is_elsewhere: Callable[[Produced], bool]) -> None:
        """Leave events out of the next commit that another stream has reported."""
        self._outputs, ids = leave_out(self._outputs, is_elsewhere, self.normalizer.statistics)
        self._spawned = {event: one for event, one in self._spawned.items() if event not in ids}
        if ids and self._views is not None:
            self._views.forget_rewrites(ids)

    def set_parent(self, parent: str, t: int) -> None:
        """Note which call has started the agent whose stream this is, which was not known before."""
        self.info.parent = parent
        # Its id must not be that of a view, which has the index of its result.
        outputs = self.normalizer.set_parent(parent, self.info.statistics.events + PARENT_INDEX, t)
        self._outputs += outputs
        self._has_more = self._needs_snapshot = True

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
        if self._views is not None and (pending := self._views.pending):
            info.rewriting = {**info.rewriting, **pending}
        base_lines, info.lines = info.lines, self.normalizer.lines
        self._end_block()
        if self.last_line is not None:
            info.crc = zlib.crc32(self.last_line)
            self.last_line = None
        info.dialect = self.normalizer.dialect
        info.updated = now
        self._observe(lambda watch: watch.account())
        if info.prompt is not None and not self.normalizer.needs_prompt:
            info.prompt = None
            self._needs_snapshot = True  # the lines so far are not read again, which would need the prompt
        snapshot = self._snapshot(now) if self._snapshot_is_due() else None
        # A copy: the writer encodes it in its own thread, while the next lines are counted here.
        frozen = msgspec.structs.replace(info, statistics=self.statistics)
        commit = Commit(frozen, base_lines, self._outputs + self._views_added, self._tail, snapshot)
        self._outputs, self._views_added, self._tail, self._has_more = [], [], [], False
        self.sessions = set()
        self._committed_state = info.state
        return commit

    def take_spawned(self) -> list[Spawned]:
        """Agents that calls have started, as far as read since the previous call of this method."""
        spawned, self._spawned = self._spawned, {}
        return list(spawned.values())

    def take_rewrites(self) -> list[Rewrite]:
        """Results of the last commit that commands rewrite, once the commit is durable."""
        return [] if self._views is None else self._views.take_rewrites()

    @property
    def statistics(self) -> Statistics:
        """A copy, as of now."""
        now = self.normalizer.statistics
        tables = ("skipped", "kinds", "tools", "raw_tools", "extensions")
        return msgspec.structs.replace(now, **{table: {**getattr(now, table)} for table in tables})

    # -- inner workings -----------------------------------------------------------------------------------------

    def _took(self, line: bytes | LongLine, t: int, direction: Direction | None) -> None:
        self.info.state = "open"
        if isinstance(line, LongLine):
            self._record(TailRecord("long", t, direction, line.head, line.size))
        else:
            self._record_lines([line], t, direction)
        self._touch(t)

    def _end_of_line(self, outputs: Sequence[Output]) -> None:
        if self._watch is not None and (outputs or self._watch.has_pending):
            self._observe(lambda watch: watch.add(outputs))

    def _observe(self, observe: Callable[[StreamWatch], None]) -> None:
        """An error in drift detection must not harm the stream."""
        if self._watch is None:
            return
        try:
            observe(self._watch)
        except Exception as error:
            self._stop_watching(error)

    def _stop_watching(self, error: Exception) -> None:
        faults.note("drift detection is off for this stream", place_of(error), error, stream=self.info.stream)
        self._watch = None
        self.normalizer.watch(None)
        self.normalizer.on_line = None

    def _on_failure(self, error: Exception) -> None:
        """Something raised at a line."""
        place = place_of(error)
        self._needs_snapshot = True
        if place.startswith(WATCHING) and self._watch is not None:
            self._stop_watching(error)
        else:
            faults.note("a line could not be read", place, error, stream=self.info.stream)

    def _counted(self, keep: Keep) -> Keep:
        """`keep`, with a checksum over the ids of all events, as a rebuilt parser emits them."""

        def count(items: list[Item]) -> list[Item]:
            self.info.ids = ids_of(items, self.info.ids)
            for item in items:
                if isinstance(item, Produced):
                    self._learn(item, is_kept=False)
            kept = keep(items)
            for item in kept:
                if isinstance(item, Produced):
                    self._learn(item)
            return kept

        return count

    def _add(self, outputs: Sequence[Output], *, counted: bool = False) -> None:
        if not outputs:
            return
        self._outputs += outputs if self._views is None else self._views.apply(outputs)
        if not counted:
            self.info.ids = ids_of(outputs, self.info.ids)
        for output in outputs:
            if isinstance(output, Produced):
                if output.session != self.info.last_session or (output.kind == "message" and is_prompt(output)):
                    self.sessions.add(output.session)
                    self.info.last_session = output.session
                if not counted:
                    self._learn(output)
                if output.kind == "session" and output.fields.agent_version is not None:
                    self.info.agent_version = output.fields.agent_version

    def _learn(self, event: Produced, *, is_kept: bool = True) -> None:
        """Note which agent a call has started, if the event says so."""
        if event.tool == "Task" and (agent := spawned_agent(event.fields)) is not None:
            self._spawned[event.id] = Spawned(event.session, agent, event.fields.call_id, is_kept)

    def _touch(self, t: int) -> None:
        info = self.info
        info.first_t = t if info.first_t is None else info.first_t
        info.last_t = t

    def _record_lines(self, lines: Sequence[bytes], t: int, direction: Direction | None) -> None:
        """Record lines that were fed together."""
        block = self._block
        if t != block.t or direction != block.direction:
            self._end_block()
            block = self._block = TailRecord("block", t, direction)
        block.block += lines
        self._tail_bytes += sum(map(len, lines)) + RECORD_BYTES * len(lines)
        self.last_line = lines[-1]
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

    def _snapshot(self, now: int) -> bytes:
        try:
            state = self.normalizer.dump()
        except Exception as error:  # the state is not one that another parser could continue from
            self._add(self.normalizer.reset(error, now))
            state = self.normalizer.dump()
        data = msgspec.msgpack.encode(Snapshot(SNAPSHOT_FORMAT, self.info.ids, state))
        self._snapshot_size = len(data)
        self._tail_bytes = 0
        self._needs_snapshot = False
        return data
