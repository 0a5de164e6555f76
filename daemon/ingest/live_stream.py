"""One stream in memory: lines in, commits out.

A commit has to carry more than events, so this class keeps, besides the normalizer:

- The tail: the lines since the last snapshot, with their times. A parser is rebuilt by loading the snapshot and feeding
  it the tail (`resume` in `streams.py`).
- `crc`, the checksum of the last whole line, with which a returning publisher compares its input.
- `ids`, the checksum over the ids of all events so far. A rebuilt parser must arrive at the same value; if it does not,
  it would number or name events differently from those already journaled.
- When a snapshot is due. It replaces the last snapshot and the tail. It is taken when the tail is longer than
  `snapshot_bytes` and than `GROWTH` times the last snapshot, so that the bytes written stay proportional to the bytes
  ingested.

While `auto` still holds lines to recognise the dialect, no snapshot is taken: the tail then consists of these lines,
and they are sniffed again when the stream is rebuilt.

If secrets are masked, lines are masked before they are parsed, so that no secret gets into the events, the output
bodies, the parser's state or the tail. A secret that is split over several lines can only be recognized in the
resulting event: so events are masked, too. It may remain in the state and in the tail until the next snapshot.

A line at which something raised (`normalizers/stream/reset.py`) is never parsed again: its commit includes a snapshot.
So a rebuilt parser has the state after that line, whether or not the line would raise again.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, TypeAlias

import msgspec

from tooltap.daemon.ingest.offload import Normalized
from tooltap.daemon.journal.interface import Commit, Dispatch, StreamInfo
from tooltap.daemon.sessions.joining import is_prompt
from tooltap.daemon.sessions.subagents import Spawned
from tooltap.daemon.sessions.unsaid import is_own, own
from tooltap.daemon.system.logs import faults
from tooltap.daemon.views.results import Rewrite, StreamViews
from tooltap.normalizers.core.answers import CannotWriteError, Chosen, NotOfferedError
from tooltap.normalizers.core.items import Context, Item, Limits, OutputChunk, Produced
from tooltap.normalizers.stream.normalizer import REPORTED_ELSEWHERE, Keep, Output, StreamNormalizer
from tooltap.normalizers.stream.reset import place_of
from tooltap.normalizers.tools.tasks import spawned_agent
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol import inputs
from tooltap.protocol.events import Notice, PermissionRequest, decode
from tooltap.protocol.inputs import Block, Close, Direction, Line, Lost, Settle, each, lines_of
from tooltap.protocol.replies import StreamState
from tooltap.protocol.stats import Statistics
from tooltap.traces.drift.drift import Drift
from tooltap.traces.drift.watch import StreamWatch
from tooltap.traces.recording.secrets import MASK, mask_lines, mask_secrets
from tooltap.traces.recording.writer import Declared, TraceRecord, TraceWriter

RECORD_BYTES = 64
"""Approximate overhead of a record of the tail, in bytes."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines received together."""

    lines: Sequence[bytes | LongLine]
    t: int
    direction: Direction | None = None
    keep: Keep | None = None
    """Only for a single line: selects the items that no other stream has reported; see `StreamNormalizer.feed`."""
    failed: str | None = None
    """Only for a single line: the error for which its commit failed; the line becomes `unparsed`."""


@dataclass(frozen=True, slots=True)
class Portion:
    """Lines that another process has normalized."""

    portion: Normalized


@dataclass(frozen=True, slots=True)
class Views:
    """Views of an earlier result."""

    outputs: Sequence[Output]


@dataclass(frozen=True, slots=True)
class Late:
    """Events of earlier lines of a session file, which were left out then."""

    outputs: Sequence[Output]


@dataclass(frozen=True, slots=True)
class Parent:
    """The id of the call that started the stream's agent has become known."""

    parent: str
    t: int


@dataclass(frozen=True, slots=True)
class Claim:
    """An answer, which is the first, or a prompt or an interrupt."""

    dispatch: Dispatch


@dataclass(frozen=True, slots=True)
class Receipt:
    """The publisher has written it for the agent, or refuses to."""

    dispatch: str
    t: int
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """What a program has worded for the agent itself, or what became of it. `stage`: end of the notice's code."""

    dispatch: Dispatch
    t: int
    stage: Literal["", "-delivered", "-failed"] = ""
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Replaced:
    """What telemetry had reported of the session of a file was deleted, because the file is about to report it."""

    session: str
    t: int


@dataclass(frozen=True, slots=True)
class Suspend:
    """The publisher has left without ending the stream."""


Input: TypeAlias = (
    Lines | Portion | Lost | Close | Settle | Views | Late | Parent | Claim | Receipt | Told | Replaced | Suspend
)
"""An input of a stream: sent by a publisher (`protocol/inputs.py`), or added by the daemon. A connection keeps inputs
until they are durable, so that they can be replayed in smaller parts after a failed commit."""

OF_EARLIER_LINES: Final = (Late, Views)
"""Inputs that say again what earlier lines have said."""

DROPPABLE: Final = (Claim, Late, Parent, Receipt, Replaced, Settle, Told, Views)
"""Inputs that may be dropped if they cannot be committed."""


def memory_of(one: Input) -> int:
    """Approximate size of an input in bytes, for `in_flight_bytes`."""
    match one:
        case Lines():
            return sum(
                RECORD_BYTES + (len(line.head) if isinstance(line, LongLine) else len(line)) for line in one.lines
            )
        case Portion():
            outputs = one.portion.outputs
            return sum(len(output.data if isinstance(output, OutputChunk) else output.body) for output in outputs)
        case Lost():
            return RECORD_BYTES
        case _:
            return 0


def parts_of(one: Input) -> Sequence[Input]:
    """Split an input into parts that can be committed one by one."""
    if isinstance(one, Lines) and len(one.lines) > 1:
        return [replace(one, lines=(line,)) for line in one.lines]
    return (one,)


def replacement_of(one: Input, reason: str) -> Input | None:
    """The input to commit in place of one that could not be committed: a line as `unparsed`; None if there is none."""
    return replace(one, failed=reason) if isinstance(one, Lines) and one.failed is None else None


PARENT_INDEX = 1_000_000
"""First index in the ids of events that `set_parent` emits between lines: no line has so many events."""
DISPATCH_INDEX = 3_000_000
"""First index in the ids of notices that no line caused; views, parents and `settle` use lower ones."""
KEYS_KEPT = 64
"""Most prompts with a key that are remembered after they were delivered."""
UNCONFIRMED = "the stream ended before its publisher said whether it has written it"
MASKED_INPUT = (
    "the answer repeats what the agent asks, and that has a secret, which is masked here: answer where the agent runs"
)
MANY_CALLS = 256
WATCHING = "traces."
"""Module prefix of passive code (drift detection), whose errors do not concern the line."""
GROWTH = 4
"""A snapshot is due when the tail is this many times longer than the last snapshot."""


SNAPSHOT_FORMAT = 1
_loading = threading.Lock()
"""Serializes loading: msgspec 0.22 resolves a type when it first decodes it, and Python crashes if two threads do so at
once for the same type."""


class Snapshot(msgspec.Struct, array_like=True):
    """A snapshot of a stream, from which it is rebuilt together with its tail."""

    format: int
    ids: int
    """`StreamInfo.ids` at this point."""
    normalizer: bytes


class LiveStream:
    """One stream in memory: its normalizer, and everything for its next commit.

    `committed_state`: None for a stream the journal does not know. `outputs`: outputs for the next commit that no new
    line caused (a reset, lines that were held). `drift` observes the lines. `views` applies the user's rules to
    results. `masks`: mask secrets in lines before they are parsed, and in events."""

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
        self._tail: list[inputs.Input] = []
        self._block = Block()
        """The current block of lines, not yet appended to the tail."""
        self.last_line: bytes | None = None
        """The last whole line as received, whose checksum is not yet in `info.crc`."""
        self._outputs: list[Output] = []
        self._views_added: list[Output] = []
        self._spawned: dict[str, Spawned] = {}
        """Id of the event that states it -> the subagent that was started."""
        self._has_more = False  # something to commit that is not a line
        self._views = views
        self.sessions: set[str] = set()
        """Sessions that began or got a prompt since the last commit; other streams may report the same session."""
        normalizer.on_failure = self._on_failure
        self._watch = None if drift is None else StreamWatch(drift, normalizer, info.agent_version)
        if self._watch is not None:
            normalizer.on_line = self._end_of_line
        self._add(outputs)

    @property
    def dirty(self) -> bool:
        """True if there is something to commit."""
        return bool(self._tail or self._block.lines) or self._has_more or self.info.state != self._committed_state

    @property
    def has_ended(self) -> bool:
        """True if the journal has the stream as ended, so that what it said may be deleted meanwhile."""
        return self._committed_state == "ended"

    @property
    def is_long_to_close(self) -> bool:
        """True if many calls are open: each gets a synthetic result at the end, which takes time."""
        kinds = self.normalizer.statistics.kinds
        return kinds.get("tool-call", 0) - kinds.get("tool-result", 0) > MANY_CALLS

    @property
    def is_shared(self) -> bool:
        """True if another stream may have reported some events of the next commit."""
        return bool(self.sessions) or "guest" in self.info.roles.values()

    def apply(self, one: Input) -> None:
        """Apply an input; its outputs become part of the next commit."""
        match one:
            case Lines():
                self._feed_lines(one)
            case Portion(portion):
                self.adopt(load_normalizer(portion.state, self.normalizer.context), portion)
            case Lost():
                self._lose(one)
            case Close():
                self._close(one)
            case Settle():
                self._settle(one)
            case Views(outputs):
                self._views_added += outputs
                self._has_more = True
            case Late(outputs):
                self._add(outputs, counted=True)
                self._has_more = True
            case Parent():
                self._set_parent(one)
            case Claim(dispatch):
                self._claim(dispatch)
            case Receipt():
                self._receive(one)
            case Told():
                self._tell(one.dispatch, one.stage, one.t, one.reason)
            case Replaced(session, t):
                self._add_notice(
                    t,
                    session=session,
                    level="info",
                    code="replaced",
                    text="What telemetry had reported of this session was deleted; its file reports it from here on.",
                )
            case Suspend():
                if self.info.state != "ended":
                    self.info.state = "suspended"

    def adopt(
        self,
        normalizer: StreamNormalizer,
        portion: Normalized,
        line: bytes | None = None,
        direction: Direction | None = None,
    ) -> None:
        """Continue with the normalizer that has read the portion in another process. The next commit has a snapshot in
        place of a tail: the lines are not known here, or it is one huge `line`, which would be slow to read again."""
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

    def joined(self, session: str) -> int | None:
        """Return the start of the turn in whose middle the stream has joined a session, in ms since the epoch."""
        return self.normalizer.joined(session)

    @property
    def pending(self) -> list[Produced]:
        """The events of the next commit, without partials, which are not stored."""
        return [one for one in self._outputs if isinstance(one, Produced) and not one.partial]

    @property
    def cwd(self) -> str | None:
        """The folder in which the agent works, if its stream states it."""
        return self.normalizer.cwd

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
        """Remove events that another stream has reported from the next commit."""
        self._outputs, ids = leave_out(self._outputs, is_elsewhere, self.normalizer.statistics)
        self._spawned = {event: one for event, one in self._spawned.items() if event not in ids}
        if ids and self._views is not None:
            self._views.forget_rewrites(ids)

    def open(self) -> None:
        """Mark the stream as open: it has a publisher. An ended stream is reopened only by its next line."""
        if self.info.state != "ended":
            self.info.state = "open"

    def take(self, now: int) -> Commit:
        """Make a commit of everything since the last one. It must be committed before the next is taken."""
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
        remembers, info.forgotten = not info.forgotten, False
        info.unsettled = info.state != "ended" and self.normalizer.is_unsettled
        self._observe(lambda watch: watch.account())
        if info.prompt is not None and not self.normalizer.needs_prompt:
            info.prompt = None
            self._needs_snapshot = True  # the lines so far are not read again, which would need the prompt
        snapshot = self._snapshot(now) if self._snapshot_is_due() else None
        # A copy: the writer encodes it in its own thread, while the next lines are counted here.
        frozen = msgspec.structs.replace(info, statistics=self.statistics)
        if self.masks:
            self._withhold_answers()
        outputs = self._outputs + self._views_added
        commit = Commit(
            frozen, base_lines, _masked(outputs) if self.masks else outputs, self._tail, snapshot, remembers
        )
        self._outputs, self._views_added, self._tail, self._has_more = [], [], [], False
        self.sessions = set()
        self._committed_state = info.state
        return commit

    def _withhold_answers(self) -> None:
        """Mark in requests of the next commit what cannot be chosen here, because the answer would repeat a mask."""
        for event in self.pending:
            request = event.event if event.kind == "permission-request" else None
            if isinstance(request, PermissionRequest) and (changed := self._with_marks(request)) is not None:
                self.exchange(event, Produced.of(changed))

    def _with_marks(self, request: PermissionRequest) -> PermissionRequest | None:
        """Return a request with the marks; None if it needs none."""
        asked = msgspec.to_builtins(request)
        allowed = Chosen(id="", outcome="allowed")
        answered = Chosen(id="", outcome="answered", answers=dict(map(_some_answer, request.questions or ())))

        def mark(one: dict[str, Any], chosen: Chosen, option: dict[str, Any] | None) -> dict[str, Any]:
            try:
                line = self.normalizer.word_answer(asked, chosen, option).line
            except (NotOfferedError, CannotWriteError):
                return one
            except Exception as error:
                faults.note("an answer could not be tried", place_of(error), error, stream=self.info.stream)
                return one
            return {**one, "withheld": MASKED_INPUT} if MASK in line.encode() else one

        options = request.options and [
            mark(one, allowed, one) if str(one.get("kind")).startswith("allow") else one for one in request.options
        ]
        questions = request.questions and [mark(one, answered, None) for one in request.questions]
        if options == request.options and questions == request.questions:
            return None
        return msgspec.structs.replace(request, options=options, questions=questions)

    def take_spawned(self) -> list[Spawned]:
        """Take the subagents found since the previous call of this method, with the calls that started them."""
        spawned, self._spawned = self._spawned, {}
        return list(spawned.values())

    def take_rewrites(self) -> list[Rewrite]:
        """Take the results of the last commit that commands are to rewrite, once the commit is durable."""
        return [] if self._views is None else self._views.take_rewrites()

    @property
    def statistics(self) -> Statistics:
        """A copy of the current statistics."""
        now = self.normalizer.statistics
        tables = ("skipped", "kinds", "tools", "raw_tools", "extensions")
        return msgspec.structs.replace(now, **{table: {**getattr(now, table)} for table in tables})

    # -- inner workings -----------------------------------------------------------------------------------------

    def _feed_lines(self, given: Lines) -> None:
        lines = masked_input(given.lines) if self.masks else given.lines
        t, direction = given.t, given.direction
        if given.failed is not None:
            self._add(self.normalizer.feed_failed(lines[0], given.failed, t, direction))
            self._needs_snapshot = True
            self._took(lines[0], t, direction)
        elif given.keep is not None:
            self._add(self.normalizer.feed(lines[0], t, direction, self._counted(given.keep)), counted=True)
            self._took(lines[0], t, direction)
        else:
            self._feed_block(lines, t, direction)
        if lines is not given.lines and isinstance(last := given.lines[-1], bytes):
            self.last_line = last  # its publisher has the original line

    def _feed_block(self, lines: Sequence[bytes | LongLine], t: int, direction: Direction | None) -> None:
        whole = [line for line in lines if not isinstance(line, LongLine)]
        if len(whole) < len(lines):
            for line in lines:
                self._add(self.normalizer.feed(line, t, direction))
                self._took(line, t, direction)
        elif whole:
            self._add(self.normalizer.feed_block(whole, t, direction))
            self.info.state = "open"
            self._record_lines(whole, t, direction)
            self._touch(t)

    def _lose(self, lost: Lost) -> None:
        self._end_of_line(outputs := self.normalizer.lost(lost.lines, lost.bytes, lost.reason, lost.t))
        self._add(outputs)
        self.info.state = "open"
        self._record(lost)
        self._touch(lost.t)

    def _close(self, close: Close) -> None:
        """End the stream; does nothing if it has ended already."""
        if self.info.state == "ended":
            return
        self._end_of_line(outputs := self.normalizer.close(close.reason, close.t, close.process))
        if self.info.left_out:
            self.info.ids = ids_of(outputs, self.info.ids)
            outputs, _ = leave_out(outputs, lambda one: one.agent is None, self.normalizer.statistics)
            self._add(outputs, counted=True)
        elif self.info.own_calls:
            self.info.ids = ids_of(outputs, self.info.ids)
            outputs, _ = leave_out(outputs, partial(is_own, self.info), self.normalizer.statistics)
            self._add(outputs, counted=True)
        else:
            self._add(outputs)
        self._record(close)
        if close.reason == "end":
            self._touch(close.t)
        for dispatch in undelivered(self.info):
            reason = UNCONFIRMED if dispatch.settled == "answered" else "the stream ended first"
            self._receive(Receipt(dispatch.id, close.t or dispatch.ts, reason))
        self.info.answers, self.info.sent = {}, {}
        self.info.state = "ended"
        self._observe(lambda watch: watch.close())

    def _settle(self, settle: Settle) -> None:
        """Settle the stream. Of a file whose last lines were left out, because a tap reports them, so is this."""
        if self.info.state == "ended" or not self.normalizer.is_unsettled:
            return
        keep: Keep | None = None
        if self.info.left_out:
            keep = self._counted(self._without_left_out)
        elif self.info.own_calls:
            keep = self._counted(partial(own, self.info))
        self._end_of_line(outputs := self.normalizer.settle(settle.t, keep))
        self._add(outputs, counted=keep is not None)
        self._record(settle)

    @staticmethod
    def _without_left_out(items: list[Item]) -> list[Item]:
        """Leave out what follows from the main agent's lines that were left out."""
        return [one for one in items if isinstance(one, Produced) and one.agent is not None]

    def find_dispatch(self, dispatch: str) -> Dispatch | None:
        """Return what has this id."""
        found = self.info.sent.get(dispatch)
        return found or next((one for one in self.info.answers.values() if one.id == dispatch), None)

    def find_answer(self, responds: str) -> Dispatch | None:
        """Return the answer to the pending request with this `response_key`."""
        return next((one for one in self.info.answers.values() if one.responds == responds), None)

    def _claim(self, dispatch: Dispatch) -> None:
        self._keep(dispatch)
        self._tell(dispatch, "", dispatch.ts)

    def _receive(self, receipt: Receipt) -> None:
        dispatch = self.find_dispatch(receipt.dispatch)
        if dispatch is None or dispatch.frame is None:
            return
        delivered = msgspec.structs.replace(dispatch, frame=None)
        if receipt.refused is not None:
            self._drop(dispatch)
            self._tell(dispatch, "-failed", receipt.t, receipt.refused)
            return
        if dispatch.settled or (dispatch.what != "answer" and dispatch.key is None):
            self._drop(dispatch)
        else:
            self._keep(delivered)
        self._tell(delivered, "-delivered", receipt.t)
        if dispatch.what != "answer" and dispatch.frame.path is not None:  # the agent's server has responded
            self._tell(delivered, "-accepted", receipt.t)

    def _keep(self, dispatch: Dispatch) -> None:
        # New tables, here and below: the writer may be encoding the old ones.
        info = self.info
        if dispatch.what == "answer":
            info.answers = {**info.answers, dispatch.permission_id: dispatch}
            return
        sent = {**info.sent, dispatch.id: dispatch}
        delivered = [one.id for one in sent.values() if one.frame is None]
        for one in delivered[: max(len(delivered) - KEYS_KEPT, 0)]:
            del sent[one]
        info.sent = sent

    def _drop(self, dispatch: Dispatch) -> None:
        self.info.answers = {key: one for key, one in self.info.answers.items() if one.id != dispatch.id}
        self.info.sent = {key: one for key, one in self.info.sent.items() if one.id != dispatch.id}

    def _settle_answer(self, event: Produced) -> None:
        """A question has an end, or its id is used again. Its answer is kept until the publisher says whether it has
        written it."""
        dispatch = self.info.answers.get(event.fields.permission_id)
        if dispatch is None:
            return
        if dispatch.frame is None:
            self._drop(dispatch)
        elif event.kind == "permission-request":
            self._receive(Receipt(dispatch.id, event.ts or dispatch.ts, "the agent asks something else by now"))
        else:
            ended: Literal["answered", "expired"] = "expired" if event.fields.outcome == "expired" else "answered"
            self._keep(msgspec.structs.replace(dispatch, settled=ended))

    def _tell(self, dispatch: Dispatch, stage: str, t: int, reason: str | None = None) -> None:
        """Add a notice about what is sent to the agent to the next commit. `stage`: end of its code."""
        is_answer = dispatch.what == "answer"
        data = {
            ("answerId" if is_answer else "sendId"): dispatch.id,
            **({"permissionId": dispatch.permission_id, "seq": dispatch.seq} if is_answer else {"what": dispatch.what}),
            **({"outcome": dispatch.outcome} if is_answer else {}),
            "optionId": dispatch.option_id,
            "remembers": dispatch.remembers,
            "by": dispatch.by,
            "reason": reason,
        }
        self._add_notice(
            t,
            session=dispatch.session,
            agent=dispatch.agent,
            parent=dispatch.parent,
            turn=dispatch.turn,
            level="warning" if reason is not None else "info",
            code=("answer" if is_answer else "send") + stage,
            text=_sentence(dispatch, stage, reason),
            call_id=dispatch.call_id,
            data={key: value for key, value in data.items() if value is not None},
        )

    def _add_notice(self, t: int, **stated: Any) -> None:
        """Add a notice to the next commit that no line caused."""
        normalizer, info = self.normalizer, self.info
        notice = Notice(
            **normalizer.envelope,
            id=f"{info.stream}:{normalizer.lines}d:{DISPATCH_INDEX + info.told}",
            stream=info.stream,
            line=normalizer.lines,
            ts=t,
            **stated,
        )
        info.told += 1
        normalizer.statistics.adjust("notice", None, None, 1)
        self._views_added.append(Produced.of(notice))
        self._has_more = True

    def _set_parent(self, one: Parent) -> None:
        if self.info.parent is not None:
            return
        self.info.parent = one.parent
        # Its id must not be that of a view, which has the index of its result.
        outputs = self.normalizer.set_parent(one.parent, self.info.statistics.events + PARENT_INDEX, one.t)
        self._outputs += outputs
        self._has_more = self._needs_snapshot = True

    def _took(self, line: bytes | LongLine, t: int, direction: Direction | None) -> None:
        self.info.state = "open"
        if isinstance(line, LongLine):
            self._record(Line(line.head, t, direction, line.size))
        else:
            self._record_lines([line], t, direction)
        self._touch(t)

    def _end_of_line(self, outputs: Sequence[Output]) -> None:
        if self._watch is not None and (outputs or self._watch.has_pending):
            self._observe(lambda watch: watch.add(outputs))

    def _observe(self, observe: Callable[[StreamWatch], None]) -> None:
        """Update drift detection; an error there only turns it off for this stream."""
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
        """Log an error at a line, and make the next commit include a snapshot."""
        place = place_of(error)
        self._needs_snapshot = True
        if place.startswith(WATCHING) and self._watch is not None:
            self._stop_watching(error)
        else:
            faults.note("a line could not be read", place, error, stream=self.info.stream)

    def _counted(self, keep: Keep) -> Keep:
        """Wrap `keep` so that the checksum over event ids includes the events that it leaves out: a rebuilt parser
        emits them, too."""

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
                if self.info.answers and output.kind in ("permission-request", "permission-response"):
                    self._settle_answer(output)
                if output.session != self.info.last_session or (output.kind == "message" and is_prompt(output)):
                    self.sessions.add(output.session)
                    self.info.last_session = output.session
                if not counted:
                    self._learn(output)

    def _learn(self, event: Produced, *, is_kept: bool = True) -> None:
        """Remember the agent's version, and the subagent that a call has started, if the event states it."""
        if event.kind == "session" and (version := event.fields.agent_version) is not None:
            self.info.agent_version = version
            self._observe(lambda watch: watch.learn_version(version))
        if event.tool == "Task" and (agent := spawned_agent(event.fields)) is not None:
            self._spawned[event.id] = Spawned(event.session, agent, event.fields.call_id, is_kept)

    def _touch(self, t: int | None) -> None:
        info = self.info
        info.first_t = t if info.first_t is None else info.first_t
        info.last_t = t

    def _record_lines(self, lines: Sequence[bytes], t: int, direction: Direction | None) -> None:
        """Add lines that were fed together to the tail."""
        block = self._block
        if t != block.t or direction != block.direction:
            self._end_block()
            block = self._block = Block([], t, direction)
        block.lines += lines
        self._tail_bytes += sum(map(len, lines)) + RECORD_BYTES * len(lines)
        self.last_line = lines[-1]
        self.info.crc_line = self.normalizer.lines

    def _end_block(self) -> None:
        block = self._block
        if len(block.lines) > 1:
            self._tail.append(block)
        else:
            self._tail += each(block)
        self._block = Block()

    def _record(self, record: Line | Lost | Close | Settle) -> None:
        self._end_block()
        self._tail.append(record)
        self._tail_bytes += (len(record.line) if isinstance(record, Line) else 0) + RECORD_BYTES

    def _snapshot_is_due(self) -> bool:
        if self.normalizer.holds_lines:
            return False
        if self._needs_snapshot or self.info.state == "ended" or not self._snapshot_bytes:
            return True
        # A commit that reopens a stream does not rely on the stored state, which may have been deleted since it was
        # loaded: once that commit is there, it is not deleted any more.
        if self._committed_state == "ended":
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


def _some_answer(question: dict[str, Any]) -> tuple[str, Any]:
    """Return the key of a question, and an answer without a mask if it offers one."""
    labels = [one.get("label") for one in question.get("options") or () if isinstance(one, dict)]
    is_whole = [one for one in labels if MASK not in str(one).encode()]
    return str(question.get("id") or question.get("question")), next(iter(is_whole or labels), "x")


def undelivered(info: StreamInfo) -> list[Dispatch]:
    """What the publisher has not written for the agent yet, oldest first."""
    found = [*info.answers.values(), *info.sent.values()]
    return sorted((one for one in found if one.frame is not None), key=lambda one: one.ts)


def _sentence(dispatch: Dispatch, stage: str, reason: str | None) -> str:
    """The text of a notice about what is sent to the agent."""
    by = f"by {dispatch.by}"
    what = {
        "answer": f"{dispatch.outcome} {by}",
        "prompt": f"a prompt {by}",
        "interrupt": f"an interrupt {by}",
        "raw": f"a message in the agent's own words {by}",
    }
    if reason is not None:
        return f"failed: {what[dispatch.what]}; {reason}"
    if dispatch.frame is not None:
        return what[dispatch.what]
    return f"the agent has {'accepted' if stage == '-accepted' else 'got'}: {what[dispatch.what]}"


def load_normalizer(state: bytes, context: Context) -> StreamNormalizer:
    """`StreamNormalizer.load`, safe to call from several threads. Raises like it."""
    with _loading:
        return StreamNormalizer.load(state, context)


def context_of(info: StreamInfo, limits: Limits) -> Context:
    return Context(
        stream=info.stream,
        provider=info.provider,
        session=info.session,
        agent=info.agent,
        parent=info.parent,
        mcp_servers=info.mcp_servers,
        prompt=info.prompt,
        limits=limits,
    )


def ids_of(outputs: Sequence[Output], ids: int) -> int:
    """Update the checksum over event ids with the events of these outputs."""
    for output in outputs:
        if isinstance(output, Produced) and not output.partial:
            ids = zlib.crc32(output.id.encode(), ids)
    return ids


def leave_out(
    outputs: Sequence[Output], is_elsewhere: Callable[[Produced], bool], statistics: Statistics
) -> tuple[list[Output], set[str]]:
    """Remove events that are reported elsewhere, and their output bodies. Returns the other outputs, and the ids of the
    removed events. Partials stay. A line without any other event is counted as skipped."""
    stored = [one for one in outputs if isinstance(one, Produced) and not one.partial]
    gone = [one for one in stored if is_elsewhere(one)]
    if not gone:
        return list(outputs), set()
    ids = {one.id for one in gone}
    kept = [one for one in outputs if not (isinstance(one, Produced) and one.id in ids)]
    needed = [one.body for one in kept if isinstance(one, Produced)]
    left_out = [one.body for one in gone]
    kept = [one for one in kept if isinstance(one, Produced) or not _names(left_out, one) or _names(needed, one)]
    lines = {line for one in gone if (line := _line(one)) is not None} - {
        _line(one) for one in stored if one.id not in ids
    }
    statistics.with_events -= len(lines)
    statistics.count_skip(REPORTED_ELSEWHERE, len(lines))
    for one in gone:
        statistics.adjust(one.kind, one.tool, one.raw_tool, -1)
    return kept, ids


def _line(event: Produced) -> str | None:
    """Return the line part of an event's id; None if the event results from closing the stream, or from no line."""
    place, _, _ = event.id.rpartition(":")
    return place if place[-1:].isdigit() else None


def _names(bodies: Sequence[bytes], chunk: OutputChunk) -> bool:
    name = chunk.output_id.encode()
    return any(name in body for body in bodies)


def masked_input(lines: Sequence[bytes | LongLine]) -> list[bytes | LongLine]:
    masked = mask_lines([one.head if isinstance(one, LongLine) else one for one in lines])
    return [
        new if not isinstance(one, LongLine) else one._replace(head=new) for one, new in zip(lines, masked, strict=True)
    ]


def masked_prompt(prompt: str | None) -> str | None:
    return None if prompt is None else mask_secrets(prompt.encode()).decode()


def _masked(outputs: Sequence[Output]) -> Sequence[Output]:
    events = [one for one in outputs if isinstance(one, Produced)]
    masked = {
        id(one): Produced.of(decode(body), body)
        for one, body in zip(events, mask_lines([one.body for one in events]), strict=True)
        if body is not one.body
    }
    return [masked.get(id(one), one) for one in outputs] if masked else outputs


# -- the trace ------------------------------------------------------------------------------------------------------

NOTHING = Declared()


class StreamTrace:
    """One stream's part of the trace: committed lines, as trace records.

    While `auto` has not recognised the dialect, the first lines are held here, so that every record states the dialect.
    """

    def __init__(self, writer: TraceWriter, live: LiveStream) -> None:
        self._writer = writer
        self.live = live
        info = live.info
        declared = Declared(
            provider=info.provider,
            session=info.session,
            agent=info.agent,
            parent=info.parent,
            mcp_servers=info.mcp_servers,
        )
        self._declared = declared
        self._prompt = masked_prompt(info.prompt)
        self._held: list[Commit] = []

    def add(self, commit: Commit) -> None:
        """Add a durable commit."""
        self._held.append(commit)
        if self.live.normalizer.dialect is not None or not self.live.normalizer.holds_lines:
            self.release()

    def release(self) -> None:
        """Write the held commits."""
        for commit in self._held:
            if commit.tail:
                tail = [one for record in commit.tail for one in each(record)]
                size = sum((len(one.line) if isinstance(one, Line) else 0) + RECORD_BYTES for one in tail)
                dialect, known = self.live.normalizer.dialect, self._held[-1].info
                records = _records(tail, commit.base_lines, dialect, known, self._declared, self._prompt)
                self._writer.write(records, len(tail), size)
        self._held = []


def _records(
    tail: Sequence[Line | Lost | Close | Settle],
    number: int,
    dialect: str | None,
    known: StreamInfo,
    declared: Declared,
    prompt: str | None,
) -> Iterator[TraceRecord]:
    """Convert a tail to trace records. `number`: number of lines before it. `known`: latest info of the stream."""
    for one in tail:
        number += lines_of(one)
        stated = msgspec.structs.replace(declared, prompt=prompt) if number == 1 else declared
        record = TraceRecord(
            v=1,
            t=one.t,
            stream=known.stream,
            dialect=dialect,
            provider=known.statistics.provider,
            agent_version=known.agent_version,
            declared=None if stated == NOTHING else stated,
            n=number,
        )
        match one:
            case Line():
                record.dir, record.b64, record.size = one.direction, one.line, one.size
            case Lost():
                record.op, record.reason = "lost", one.reason
                record.lines, record.size = one.lines or None, one.bytes or None
            case Close():
                record.op, record.reason = "close", one.reason
                if (process := one.process) is not None:
                    record.exit, record.signal, record.stopped_by = process.exit, process.signal, process.stopped_by
            case Settle():
                record.op = "settle"
        yield record
