"""One publisher's connection for one stream: bytes in; `ack`, `suspended`, `done` and `error` frames out.

Each line takes effect exactly once, even if publisher or daemon are killed at any moment:

- A commit holds lines m+1…n of the stream with everything derived from them: events, output bodies, and the state from
  which the parser is rebuilt. It is one transaction, so the journal never has a line without its events, nor the
  reverse.
- `ack` n is sent when line n is durable, never before. A publisher retains lines until they are acknowledged.
- `ingesting` tells a returning publisher how many lines are stored; it continues after them. Lines are counted, not
  compared, so nothing is deduplicated here. The checksum of the last line (`crc`) lets the publisher notice that it now
  reads a different input.
- A stream has one connection. `Streams.open` waits in `supersede` until nothing from the old one can reach the journal,
  and only then loads the stream for the new one. Against a second daemon that shares the journal, the journal itself
  refuses a commit that does not start where the stored stream ends (`StreamConflictError`).

Commits are batched without a timer or a batch size (group commit). Lines are parsed as they arrive and added to the
`LiveStream`. One task, `commit_all`, takes everything that has accumulated, writes it, and repeats until nothing is
left; lines that arrive while it writes make up the next commit. The only backpressure is `_wait_for_room`, which waits
while too many bytes are not durable (`in_flight_bytes`).

The order matters: first the commit, then the `ack`, then the trace and the commands that rewrite results. All of these
may only happen for durable lines.

What a client sends to the agent (`dispatch`) is journaled first (`Claim`), then sent to the publisher, which answers
when it has written it, or refuses; that is journaled, too (`Receipt`). A returning publisher gets again what has no
receipt, with the same id, and writes each id once. If secrets are masked, what is journaled has none (`unstored.py`).

An exception while lines are fed or committed costs only the line that caused it. If it is not contained elsewhere
(`normalizers/stream/reset.py` does so for the parser), the stream is rebuilt from the journal, and the inputs since the
last commit are replayed and bisected (`commit_in_parts`). A line that cannot be committed even alone is committed as
`unparsed`.

On a tapped connection, a line that is not a tapped line is an error of the connection. The lines before it are
committed, the stream is suspended, and the publisher still has that line and all later ones.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import msgspec

from tooltap.daemon.ingest.live_stream import (
    DROPPABLE,
    OF_EARLIER_LINES,
    Claim,
    Input,
    Late,
    Lines,
    LiveStream,
    Parent,
    Portion,
    Receipt,
    Replaced,
    StreamTrace,
    Suspend,
    Told,
    Views,
    load_normalizer,
    memory_of,
    parts_of,
    replacement_of,
    undelivered,
)
from tooltap.daemon.ingest.offload import Normalized, Offload
from tooltap.daemon.ingest.refusals import Refusals
from tooltap.daemon.ingest.settling import Settling
from tooltap.daemon.ingest.unstored import Unstored
from tooltap.daemon.ingest.worker import HugeLine, ReadLine
from tooltap.daemon.journal.interface import (
    Commit,
    DeletedError,
    Dispatch,
    Journal,
    JournalError,
    StreamConflictError,
    StreamInfo,
    UnstorableError,
)
from tooltap.daemon.sessions.joining import Joining
from tooltap.daemon.sessions.repository import Repositories
from tooltap.daemon.sessions.unsaid import Said, take_unsaid
from tooltap.daemon.sessions.waiting import first_was
from tooltap.daemon.system.clock import Clock
from tooltap.daemon.system.failpoints import failpoint
from tooltap.daemon.system.logs import faults
from tooltap.daemon.system.loop import TimeSlices, Work
from tooltap.daemon.views.results import Rewrite
from tooltap.daemon.views.rewriter import Outcomes
from tooltap.normalizers.core.items import OutputChunk, Produced
from tooltap.normalizers.stream.normalizer import Keep, Output
from tooltap.normalizers.stream.reset import place_of, reason_of
from tooltap.normalizers.wire.framing import HEAD_BYTES, LongLine, Splitter
from tooltap.protocol.answers import ForAgent, response_key
from tooltap.protocol.events import decode
from tooltap.protocol.frames import (
    Ack,
    DaemonFrame,
    Done,
    ErrorCode,
    ErrorFrame,
    FrameError,
    Ingest,
    Ingesting,
    Suspended,
    ToAgent,
)
from tooltap.protocol.inputs import (
    Answer,
    Close,
    Direction,
    Line,
    NotTappedError,
    ProcessEnd,
    Settle,
    is_mark,
    read_tapped,
)
from tooltap.protocol.stats import Statistics
from tooltap.traces.recording.secrets import mask_secrets
from tooltap.traces.recording.writer import TraceWriter

ANSWER_PATIENCE = 10.0
"""Timeout in seconds for a publisher's answer to a frame for its agent."""
MOST_UNANSWERED = 16
INTERRUPT_MS = 60_000
"""Age in ms at which an interrupt is not sent to a publisher that comes back."""
MOST_UNDELIVERED_BYTES = 262_144
"""Most bytes of answers, prompts and interrupts that wait for a publisher. They are stored with every commit."""
LONGEST_REASON = 500
"""Characters kept of a publisher's reason for refusing such a frame."""
SETTLED = "the question was settled first"
EXPIRED = "the question expired while the publisher was away"
NOT_STORED = "it has a secret, which is not stored, and the daemon does not know any more whether the agent has got it"
PORTION = 32
"""Lines fed in one go; after that, other connections may get their turn."""


class LostConnectionError(FrameError):
    """The connection has ended, or was superseded, before what was sent was known to be durable."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Settings and services shared by all ingest connections."""

    journal: Journal
    clock: Clock
    line_bytes: int
    in_flight_bytes: int
    """Most bytes accepted from a publisher and not yet durable."""
    commit_soon: Callable[[IngestConnection], object]
    """Starts `commit_all`, as a task that outlives the connection."""
    on_over: Callable[[IngestConnection], None]
    """Called once, when the connection has sent its last frame."""
    joining: Joining
    repositories: Repositories
    reload: Callable[[str, StreamInfo], Awaitable[LiveStream]]
    """Rebuilds a stream from the journal; for an unknown stream, from the second argument."""
    partials_wanted: Callable[[], bool]
    """Whether any subscriber wants partials; called for each chunk received."""
    spawned: Callable[[LiveStream], None]
    """Called after each commit, to tie subagents to the calls that started them: their own files do not always state
    the call."""
    committed: Callable[[LiveStream, Commit], None]
    """Called after each commit."""
    settling: Settling
    """Settles silent streams."""
    refusals: Refusals
    """Begin when commits to the journal fail, end when they succeed again."""
    rewrite: Callable[[Sequence[Rewrite]], None]
    """Called with durable results that commands will rewrite. Must not block."""
    asked: Callable[[Commit, bool], None]
    """Called with durable commits of streams that have a way back to the agent, and whether it is the first of its
    connection. Must not block."""
    unstored: Unstored
    trace: TraceWriter | None
    offload: Offload
    turns: TimeSlices
    """Time slices for fairness between all publishers."""


class IngestConnection:
    """One stream with its inputs that are not yet durable, and the task that commits them. Created by `Streams.open`.
    `send` must not block. It may drop an `ack` that would have to wait: the next `ack`, or the last frame, implies
    it."""

    def __init__(
        self,
        live: LiveStream,
        request: Ingest,
        send: Callable[[DaemonFrame], None],
        setting: Setting,
    ) -> None:
        self.live = live
        self.over = anyio.Event()
        """Set when the last frame has been sent: the socket may be closed."""
        self._send = send
        self._setting = setting
        self._journal = setting.journal
        self._clock = setting.clock
        self._trace = StreamTrace(setting.trace, live) if setting.trace is not None else None
        self._reading = Work("stream", live.info.stream, lambda: f"line {live.normalizer.lines}")
        self._taking = Work("commit of stream", live.info.stream)
        self.is_behind = False
        """True while the publisher is known to have more lines: the stream is not silent then."""
        self._waiting = 0
        """Bytes of lines that are parsed but not yet durable."""
        self._busy = False
        """True while `commit_all` is running or scheduled."""
        self._commits = 0
        self._has_committed = False
        """True once a commit of a publisher that takes answers is durable."""
        self._in_flight = False
        """True while a commit is being written."""
        self._inputs: list[Input] = []
        """Inputs that are not yet durable, for a replay after a failed commit."""
        self._fault: Exception | None = None
        """The error after which `live` is unusable and must be rebuilt from the journal, or None."""
        self._durable = live.info.lines
        """Number of stored lines, as far as this connection knows."""
        self._declared = msgspec.msgpack.encode(live.info)
        """Initial info of the stream, encoded, from which it is rebuilt if the journal does not know it."""
        self._abandoned = False
        """True if another connection is taking the stream over, or this one is over: nothing more is parsed or
        committed."""
        self._is_offloaded = False
        """True while an input is processed outside the event loop: nothing else may change or commit the stream."""
        self._offload_scope: anyio.CancelScope | None = None
        """Cancel scope of the worker process that reads a huge line."""
        self._progress = anyio.Event()
        """Set and replaced when a commit is durable, an offloaded input is finished, or the connection is over."""
        self._framing = framing = request.framing
        self._takes_answers = request.to_agent and framing == "tapped"
        # A tapped line holds its line as a JSON string: escaping rarely doubles the length.
        self._splitter = Splitter(setting.line_bytes if framing == "raw" else 2 * setting.line_bytes + 1_024)
        self._answers: dict[int, Answer | None] = {}
        """Number of a pending frame to the agent -> its answer; None until it arrives."""
        self._sent_to_agent = 0
        self._dispatched: dict[int, str] = {}
        """Number of a frame to the agent without an answer -> id of what was sent with it."""
        self._receipts: dict[str, Answer | None] = {}
        """Id of what a client has sent, and waits for -> the publisher's answer; None until it arrives."""
        self._mark(live)
        self._stopped = False
        """True after a line was abandoned unread: nothing more is parsed, as the publisher will send that line
        again."""

    @property
    def stream(self) -> str:
        return self.live.info.stream

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
            if len(line) > self._setting.offload.huge_bytes:
                await self._enqueue_offloaded(Lines((line,), t, None, keep))
            else:
                self._enqueue(Lines((line,), t, None, keep))
        if lines:
            await self._wait_for_room()
        else:
            self._schedule_commit()

    async def adopt(self, portion: Normalized, *, is_last: bool) -> None:
        """Like `take`, for lines that another process has read and normalized. `is_last`: `take` or `end` follows, and
        commits them. Raises `msgspec.MsgspecError`."""
        if self._abandoned:
            return
        load_normalizer(portion.state, self.live.normalizer.context)
        self._enqueue(Portion(portion))
        if not is_last:
            await self._wait_for_room()

    async def finish(self) -> None:
        """Handle the end of input: a raw stream ends, a tapped stream is suspended."""
        if self._framing == "tapped":
            await self.suspend()
            return
        last = self._splitter.finish()
        if last is not None:
            await self._feed_lines([last], self._clock(), None)
        await self.end()
        await self._stop()
        self._finish()

    def start(self, *, commits: bool) -> None:
        """Open the stream, and send again what the publisher may not have written for its agent. `commits`: commit that
        at once; if not, it is committed with what comes next."""
        self.live.open()
        if self._takes_answers:
            self._dispatch_again()
        if commits:
            self._schedule_commit()

    async def end(
        self, reason: str = "end", t: int | None = None, process: ProcessEnd | None = None
    ) -> Statistics | None:
        """End the stream and return its statistics; None if the end could not be committed. A later line reopens the
        stream. `t`: when the agent ended; default: now. `process`: how its process ended, if that is stated."""
        close = Close(self._clock() if t is None else t, reason, process)
        await self.wait_for_offload()
        if self.live.is_long_to_close:
            await self._enqueue_offloaded(close)
            if self._abandoned:
                return None
        else:
            self._enqueue(close)
        if not await self._wait_until_durable():
            return None
        statistics = self.live.statistics
        if not self.over.is_set():
            self._send_frame(Done(**msgspec.structs.asdict(statistics)))
        return statistics

    async def add_view(self, outputs: Sequence[Output]) -> bool:
        """Commit a view of an earlier result; False if it could not be committed."""
        await self.wait_for_offload()
        self._enqueue(Views(outputs))
        return await self._wait_until_durable()

    async def report_unsaid(self, said: Mapping[tuple[str, str], Mapping[str, Said]]) -> bool:
        """Report the calls that no tap has reported, as `take_unsaid` finds them; False if they could not be
        committed."""
        await self.wait_for_offload()
        outputs = take_unsaid(self.live.info, self.live.normalizer.statistics, said)
        if outputs is None:
            return True
        self._enqueue(Late(outputs))
        return await self._wait_until_durable()

    async def settle_views(self, outcomes: Outcomes) -> bool:
        """Commit the outcomes of commands that make views; False if they could not be committed."""
        await self.wait_for_offload()
        outputs = settle_rewrites(self.live.info, outcomes)
        return outputs is None or await self.add_view(outputs)

    async def tell_replaced(self, session: str) -> bool:
        """Commit a notice that what telemetry had reported of a session was deleted; False if it could not be
        committed."""
        await self.wait_for_offload()
        self._enqueue(Replaced(session, self._clock()))
        return await self._wait_until_durable()

    async def set_parent(self, parent: str) -> bool:
        """Commit the id of the call that started the stream's agent; False if it could not be committed."""
        await self.wait_for_offload()
        self._enqueue(Parent(parent, self._clock()))
        return await self._wait_until_durable()

    async def settle(self) -> bool:
        """Settle the stream, which is silent; False if that could not be committed."""
        await self.wait_for_offload()
        if self.is_behind or not self.live.normalizer.is_unsettled:
            return True
        self._enqueue(Settle(self._clock()))
        return await self._wait_until_durable()

    def settle_later(self, silent: float = 0.0) -> None:
        """Settle the stream once it is silent, if there is something to settle. `silent`: for how long it already is,
        in seconds."""
        if not self.is_behind and self.live.normalizer.is_unsettled:
            self._setting.settling.add(self.stream, silent)

    async def to_agent(self, payload: Any, by: str) -> None:
        """Send a frame for the agent to the publisher, journal who has sent it and what became of it, and wait for the
        publisher's answer. Raises `FrameError`."""
        self._check_way_to_agent()
        if len(self._answers) >= MOST_UNANSWERED:
            raise FrameError(
                "refused", f"{MOST_UNANSWERED} frames for the agent of stream {self.stream!r} wait already"
            )
        number = self._number_for_agent()
        self._answers[number] = None
        try:
            payload, told = await self._tell_of(payload, by)
            self._send_frame(ToAgent(id=number, payload=payload))
            answer = await self._answer_to(number)
        finally:
            del self._answers[number]
        why = "has left" if self.over.is_set() else f"has not answered in {ANSWER_PATIENCE:.0f} s"
        reason = f"the publisher {why}" if answer is None else _refusal(answer)
        await self._wait_for_live()
        if not self._abandoned:
            self._enqueue(Told(told, self._clock(), "-delivered" if reason is None else "-failed", reason))
            await self._wait_until_durable()
        if answer is None:
            raise FrameError("no-publisher", f"the publisher of stream {self.stream!r} {why}")
        self._check_accepted(answer)

    async def _tell_of(self, payload: Any, by: str) -> tuple[Any, Dispatch]:
        """Journal that a payload is sent to the agent. Returns it, with the key of what it responds to, if that can be
        read from it. Raises `FrameError`: it responds to a request that was answered; or it was not journaled."""
        payload = _with_key(payload)
        key = payload.get("answers") if isinstance(payload, dict) else None
        await self._wait_for_live()
        now, info = self._clock(), self.live.info
        if isinstance(key, str) and (first := self.live.find_answer(key)) is not None:
            raise FrameError("already-answered", first_was(first.by, first.outcome, now - first.ts))
        session = info.last_session or info.session or info.stream
        new = secrets.token_hex(8)
        told = Dispatch(id=new, what="raw", session=session, by=by, ts=now, frame=ForAgent(id=new, line=""))
        told = self._setting.unstored.mask(told) if self.live.masks else told
        if not self._abandoned:
            self._enqueue(Told(told, now))
        if self._abandoned or not await self._wait_until_durable():
            raise LostConnectionError("no-publisher", f"the publisher of stream {self.stream!r} has left")
        return payload, msgspec.structs.replace(told, frame=None)

    async def dispatch(self, make: Callable[[LiveStream], Dispatch]) -> Dispatch:
        """Journal something for the agent, send it to the publisher, and wait until that has written it, or for
        `ANSWER_PATIENCE`. `make` decides, with the state of the stream at that moment: it returns something new, or
        what it has returned earlier, or raises `FrameError`. Returns it as it is then. Raises `FrameError`: it is
        refused; or `LostConnectionError`: it may not be journaled."""
        self._check_way_to_agent()
        await self._wait_for_live()
        # Nothing awaits until the claim is made: of several answers, one is the first.
        refusal: FrameError | None = None
        dispatch: Dispatch | None = None
        is_new = False
        if not self._abandoned:
            try:
                dispatch = make(self.live)
                if is_new := self.live.find_dispatch(dispatch.id) is None:
                    self._check_room(dispatch)
                    dispatch = self._setting.unstored.mask(dispatch) if self.live.masks else dispatch
                    self._receipts[dispatch.id] = None
                    self._enqueue(Claim(dispatch))
            except FrameError as error:
                refusal = error
        try:
            # A refusal may be because of an earlier claim, which has to be durable, too.
            if not await self._wait_until_durable() or (dispatch is None and refusal is None):
                lost = f"the connection of stream {self.stream!r} has ended: look whether what you sent was journaled"
                raise LostConnectionError("no-publisher", lost)
            if refusal is not None:
                raise refusal
            assert dispatch is not None
            if not is_new:
                return dispatch
            with anyio.move_on_after(ANSWER_PATIENCE):
                while self._receipts[dispatch.id] is None and not self.over.is_set():
                    await self._progress.wait()
            if (answer := self._receipts[dispatch.id]) is None:
                return dispatch
        finally:
            if dispatch is not None:
                self._receipts.pop(dispatch.id, None)
        await self._wait_until_durable()
        self._check_accepted(answer)
        return msgspec.structs.replace(dispatch, frame=None)

    def _dispatch_again(self) -> None:
        """Send what an earlier connection has not seen written. If its question was answered, the publisher knows
        whether with this answer, and writes nothing; if the question has expired, an answer must not be written, and
        an interrupt is for what the agent does at that time."""
        for dispatch in undelivered(self.live.info):
            now = self._clock()
            if dispatch.settled == "expired":
                self._enqueue(Receipt(dispatch.id, now, EXPIRED))
            elif dispatch.what == "interrupt" and now - dispatch.ts > INTERRUPT_MS:
                self._enqueue(Receipt(dispatch.id, now, "the publisher was away, and the agent may do something else"))
            else:
                self._send_dispatch(dispatch)

    def _dispatch_claimed(self, live: LiveStream, durable: StreamInfo) -> None:
        """Send what was just committed, whether or not its client still waits."""
        for claimed in undelivered(durable):
            dispatch = live.find_dispatch(claimed.id)
            if dispatch is None or dispatch.frame is None or dispatch.id in self._dispatched.values():
                continue
            failpoint("claimed")
            if dispatch.settled:  # while it was written
                self._take_receipt(dispatch.id, Answer(0, SETTLED))
            else:
                self._send_dispatch(dispatch)
                failpoint("sent-to-agent")

    def _send_dispatch(self, dispatch: Dispatch) -> None:
        if (frame := self._setting.unstored.frame_of(dispatch)) is None:
            self._take_receipt(dispatch.id, Answer(0, NOT_STORED))
        else:
            self._dispatched[self._send_to_agent(frame)] = dispatch.id

    def _take_receipt(self, dispatch: str, answer: Answer) -> None:
        self._enqueue(Receipt(dispatch, self._clock(), _refusal(answer)))
        self._setting.unstored.forget(dispatch)
        if dispatch in self._receipts:
            self._receipts[dispatch] = answer
        self._notify()

    async def _wait_for_live(self) -> None:
        """Wait until `live` may be used and changed."""
        while (self._is_offloaded or self._fault is not None) and not self.over.is_set():
            await self._progress.wait()

    def _check_way_to_agent(self) -> None:
        if not self._takes_answers:
            raise FrameError("refused", f"the publisher of stream {self.stream!r} sends nothing to its agent")

    def _check_accepted(self, answer: Answer) -> None:
        if answer.refused is not None:
            raise FrameError(
                "refused", f"the publisher of stream {self.stream!r} refused: {answer.refused[:LONGEST_REASON]}"
            )

    def _check_room(self, dispatch: Dispatch) -> None:
        waiting = undelivered(self.live.info)
        size = sum(len(msgspec.json.encode(one.frame)) for one in (*waiting, dispatch))
        if len(waiting) >= MOST_UNANSWERED or size > MOST_UNDELIVERED_BYTES:
            raise FrameError("refused", f"too much for the agent of stream {self.stream!r} waits already")

    def _send_to_agent(self, payload: Any) -> int:
        number = self._number_for_agent()
        self._send_frame(ToAgent(id=number, payload=payload))
        return number

    def _number_for_agent(self) -> int:
        self._sent_to_agent += 1
        return self._sent_to_agent

    async def _answer_to(self, number: int) -> Answer | None:
        """Wait for the publisher's answer to the frame for its agent that was just sent; None if there is none in
        time."""
        with anyio.move_on_after(ANSWER_PATIENCE):
            while self._answers[number] is None and not self.over.is_set():
                await self._progress.wait()
        return self._answers[number]

    def _take_answer(self, answer: Answer) -> None:
        """Take the publisher's answer to a frame for its agent."""
        if answer.id in self._answers:
            self._answers[answer.id] = answer
            self._notify()
        elif (dispatch := self._dispatched.pop(answer.id, None)) is not None:
            failpoint("written-for-agent")
            self._take_receipt(dispatch, answer)

    async def until_durable(self) -> None:
        """Wait until what was received is durable, and `latest` of the journal covers it."""
        await self._wait_until_durable()

    async def suspend(self) -> None:
        """Commit what was received and release the stream. Its publisher may resume it."""
        self._cancel_offload()
        await self.wait_for_offload()
        self._enqueue(Suspend())
        if await self._wait_until_durable():
            await self._stop()
            if not self.over.is_set():
                self._send_frame(Suspended(lines=self.live.info.lines))
                self._finish()

    async def supersede(self) -> None:
        """Give the stream to another connection. Returns when nothing more of this one can reach the journal."""
        self._cancel_offload()
        await self._stop()
        self._fail("superseded", f"another connection has taken stream {self.stream} over")

    async def _stop(self) -> None:
        """Begin no further commit, and wait until the current one is written, which may have an answer that came
        meanwhile: once the connection is over, the next one loads the stream."""
        self._abandoned = True
        while self._busy and not self.over.is_set():
            await self._progress.wait()

    async def wait_for_offload(self) -> None:
        """Wait until no input is processed outside the event loop."""
        while self._is_offloaded:
            await self._progress.wait()

    async def commit_all(self) -> None:
        """Commit until nothing is left. `_busy` keeps this to one task at a time."""
        has_forgotten = False
        try:
            while self._dirty and not self._abandoned and not self._is_offloaded:
                if self._fault is None:
                    try:
                        await self._commit()
                        continue
                    except DeletedError:
                        if has_forgotten:
                            raise
                        await self._forget_deleted()
                        has_forgotten = True
                        continue
                    except Exception as error:
                        if is_final(error):
                            raise
                        self._fault = error
                await self._commit_in_parts(self._fault)
        except StreamConflictError as error:
            self._fail("superseded", str(error))
        except JournalError as error:
            self._setting.refusals.refuse(str(error), self._waiting)
            self._fail("journal", str(error))
        except Exception as error:
            faults.note("a stream failed", place_of(error), error, stream=self.stream)
            self._fail("internal", "the stream failed; the daemon's log says why")
        finally:
            self._busy = False
            try:
                self._notify()
            except Exception as error:  # else waiting publishers would wait for ever
                faults.note("waking publishers that wait for a commit took two attempts", place_of(error), error)
                self._notify()

    @property
    def _dirty(self) -> bool:
        """Whether there is something to commit."""
        return self._fault is not None or self.live.dirty

    async def _commit(self) -> None:
        """Commit all inputs received so far, in one commit."""
        if self.live.has_ended and not self.live.info.followed:
            await self._forget_deleted()
            if self._abandoned or self._fault is not None:
                return
            if not self.live.dirty:
                self._commits += 1
                self._notify()
                return
        live = self.live
        await self._join(live)
        if self._abandoned or self._fault is not None:
            return
        given, taken = len(self._inputs), self._waiting
        with self._taking:
            commit = live.take(self._clock())
        rewrites = live.take_rewrites()
        self._in_flight = True
        try:
            await self._journal.commit(commit)
        finally:
            self._in_flight = False
        self._setting.refusals.end()
        self._durable = commit.info.lines
        failpoint("before-ack")
        del self._inputs[:given]
        self._commits += 1
        self._waiting -= taken
        self._after(live, commit, rewrites)
        self._notify()

    async def _forget_deleted(self) -> None:
        """Rebuild the stream if what it had said was deleted since it ended, so that nothing of that is stored again.
        Raises `JournalError`."""
        stored = await self._journal.load_stream(self.stream)
        if stored is None or not stored.info.forgotten:
            return
        live = await self._reload()
        # Nothing awaits from here on: the stream gets all that was received meanwhile.
        self._inputs = [one for one in self._inputs if not isinstance(one, OF_EARLIER_LINES)]
        self._replace(live)
        try:
            for one in self._inputs:
                live.apply(one)
        except Exception as error:
            self._fault = error

    async def _join(self, live: LiveStream) -> None:
        live.info.dialect = live.normalizer.dialect  # a stream whose first lines have just been recognised, too
        await self._setting.repositories.learn(live)
        if self._setting.joining.concerns(live):
            await self._setting.joining.join(live)
        self._setting.repositories.place(live)

    def _after(self, live: LiveStream, commit: Commit, rewrites: Sequence[Rewrite]) -> None:
        """Acknowledge a durable commit, and run its other effects. Their errors are contained."""
        if commit.info.lines > commit.base_lines:
            with contained("lines were not acknowledged by a frame of their own", stream=self.stream):
                self._send_frame(Ack(lines=commit.info.lines))
        if self._trace is not None:
            with contained("a commit is missing in the trace", stream=self.stream):
                self._trace.add(commit)
        if commit.info.unsettled and not commit.info.followed:  # who reads a file says when it is silent
            self.settle_later()
        if self._takes_answers and (commit.info.answers or commit.info.sent):
            with contained("what a client has sent did not go to the publisher", stream=self.stream):
                self._dispatch_claimed(live, commit.info)
        if self._takes_answers:
            with contained("rules did not answer what a commit asks", stream=self.stream):
                is_first, self._has_committed = not self._has_committed, True
                self._setting.asked(commit, is_first)
        with contained("the views of a commit were not made", stream=self.stream):
            self._setting.rewrite(rewrites)
        with contained("the agents of a commit were not tied to their calls", stream=self.stream):
            self._setting.spawned(live)
        with contained("a commit did not settle the questions of hooks", stream=self.stream):
            self._setting.committed(live, commit)

    async def _commit_in_parts(self, error: Exception) -> None:
        """Rebuild the stream from the journal, then replay and commit its inputs in parts."""
        faults.note("lines could not be committed together", place_of(error), error, stream=self.stream)
        live = await commit_in_parts(
            self.stream, self._inputs, self._reload, self._commit_part, lambda: self._abandoned
        )
        if self._abandoned:
            return
        # Nothing else runs from here on: the stream has all that it was given.
        live.info.last_reported_ts, live.info.missing_at = self.live.info.last_reported_ts, self.live.info.missing_at
        live.info.followed, live.info.left_out = self.live.info.followed, self.live.info.left_out
        live.info.unsaid, live.info.own_calls = self.live.info.unsaid, self.live.info.own_calls
        live.info.shared_ids = self.live.info.shared_ids
        self._replace(live)
        self._fault = None
        self._waiting = 0
        self._commits += 2  # the one that may have been in flight, and the one after it
        self._notify()

    async def _commit_part(self, live: LiveStream) -> None:
        await self._join(live)
        if not self._abandoned:
            with self._taking:
                commit = live.take(self._clock())
            rewrites = live.take_rewrites()
            await self._journal.commit(commit)
            self._durable = commit.info.lines
            self._after(live, commit, rewrites)

    def _replace(self, live: LiveStream) -> None:
        """Continue with a stream that was rebuilt from the journal."""
        self._mark(live)
        self.live = live
        if self._trace is not None:
            self._trace.live = live

    def _mark(self, live: LiveStream) -> None:
        live.info.daemon, live.info.takes_answers = self._journal.daemon, self._takes_answers

    async def _reload(self) -> LiveStream:
        declared = msgspec.msgpack.decode(self._declared, type=StreamInfo)
        live = await self._setting.reload(self.stream, declared)
        if live.info.lines != self._durable:  # the publisher gets the error, and continues after what is stored
            raise JournalError(f"the journal has stored lines of stream {self.stream} after it had refused them")
        live.open()
        return live

    def _enqueue(self, one: Input) -> None:
        self._inputs.append(one)
        self._waiting += memory_of(one)
        if self._fault is None:
            try:
                with self._reading:
                    self.live.apply(one)
            except Exception as error:
                self._fault = error

    async def _enqueue_offloaded(self, one: Input, work: Callable[[], None] | None = None) -> None:
        """Apply an input in a thread. `work`: alternative to `LiveStream.apply` with the same effect."""
        if not await self._begin_offload():
            return
        self._inputs.append(one)
        self._waiting += memory_of(one)
        try:
            if self._fault is None:
                await self._setting.offload.in_thread(str(self._reading), work or partial(self.live.apply, one))
        except anyio.get_cancelled_exc_class():
            self._abandoned = True  # the thread may still change it
            raise
        except Exception as error:
            self._fault = error
        finally:
            self._end_offload()

    async def _begin_offload(self) -> bool:
        """Wait until no commit and no other offload is running. Returns False if the connection is abandoned."""
        while self._busy or self._is_offloaded:
            await self._progress.wait()
        self._is_offloaded = not self._abandoned
        return self._is_offloaded

    def _end_offload(self) -> None:
        self._is_offloaded = False
        self._notify()
        self._schedule_commit()

    def _cancel_offload(self) -> None:
        """Kill the worker process that reads a huge line, if any: the publisher still has the line."""
        if self._offload_scope is not None:
            self._offload_scope.cancel()

    def _schedule_commit(self) -> None:
        if not self._busy and not self._is_offloaded and self._dirty and not self._abandoned:
            self._busy = True
            self._setting.commit_soon(self)

    async def _wait_until_durable(self) -> bool:
        """Wait until everything parsed so far is durable; False if it will not be, because the connection is over or
        superseded."""
        # What is parsed is durable, in the commit being written, or taken whole by the commit after that one.
        self._schedule_commit()
        enough = self._commits + self._in_flight + self._dirty
        while self._commits < enough and self._busy:
            await self._progress.wait()
        return self._commits >= enough

    async def _wait_for_room(self) -> None:
        """Start committing, and wait until at most `in_flight_bytes` are not durable."""
        self._schedule_commit()
        while self._waiting > self._setting.in_flight_bytes and not self.over.is_set():
            await self._progress.wait()

    def _notify(self) -> None:
        self._progress.set()
        self._progress = anyio.Event()

    def _send_frame(self, frame: DaemonFrame) -> None:
        """Send a frame, with one retry."""
        with contained("sending a frame took two attempts", stream=self.stream):
            self._send(frame)
            return
        self._send(frame)

    def _fail(self, code: ErrorCode, message: str) -> None:
        if not self.over.is_set():
            self._send_frame(ErrorFrame(code=code, message=message))
            self._finish()

    def _finish(self) -> None:
        if not self.over.is_set():
            self._abandoned = True
            self._cancel_offload()
            if self._trace is not None:
                with contained("the end of a stream is missing in the trace", stream=self.stream):
                    self._trace.release()
            self.over.set()
            self._notify()
            self._setting.on_over(self)

    # -- lines -------------------------------------------------------------------------------------------------

    async def _feed_records(self, lines: Sequence[bytes | LongLine], now: int) -> None:
        """Feed tapped lines; consecutive ones with the same time and direction form a block."""
        block: list[bytes | LongLine] = []
        stamp: tuple[int, Direction | None] = now, None
        for line in lines:
            if not line:
                continue
            try:  # only the head of a long record is known, so it cannot be decoded
                record = Line(b"", now) if isinstance(line, LongLine) else read_tapped(line)
            except NotTappedError as error:
                await self._feed_lines(block, *stamp)
                await self._reject(error)
                return
            except Exception as error:
                await self._feed_lines(block, *stamp)
                block = []
                faults.note("a tapped line could not be decoded", place_of(error), error, stream=self.stream)
                if is_mark(line):
                    await self._reject(NotTappedError(reason_of(error)))
                    return
                self._enqueue(Lines((line,), now, None, failed=reason_of(error)))  # the record is what there is of it
                continue
            if isinstance(record, Answer):
                await self._feed_lines(block, *stamp)
                block = []
                await self.wait_for_offload()
                self._take_answer(record)
                continue
            if isinstance(record, Line):
                t = now if record.t is None else record.t
                if (t, record.direction) != stamp:
                    await self._feed_lines(block, *stamp)
                    block, stamp = [], (t, record.direction)
                block.append(line if isinstance(line, LongLine) else self._shortened(record))
                continue
            await self._feed_lines(block, *stamp)
            block = []
            if self._abandoned or self._stopped:
                return
            if isinstance(record, Close):
                await self.end(t=record.t, process=record.process)
            else:
                self._enqueue(msgspec.structs.replace(record, t=now))
        await self._feed_lines(block, *stamp)

    def _shortened(self, record: Line) -> bytes | LongLine:
        size = record.size or len(record.line)
        if size > min(len(record.line), self._setting.line_bytes):
            return LongLine(record.line[:HEAD_BYTES], size)
        return record.line

    async def _reject(self, error: NotTappedError) -> None:
        """Suspend the stream at a line that is not a tapped line."""
        if not self._abandoned and not self._stopped:
            self._enqueue(Suspend())
            await self._wait_until_durable()
            await self._stop()
            number = self.live.normalizer.lines + 1
            self._fail("not-tapped", f"line {number} of stream {self.stream} did not come as a tapped line: {error}")

    async def _feed_lines(self, lines: Sequence[bytes | LongLine], t: int, direction: Direction | None) -> None:
        """Feed lines in portions; long ones are offloaded."""
        limit = self._setting.offload.long_bytes
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
        aside = self._setting.offload
        if self._abandoned or self._stopped:
            return
        if len(line) <= aside.huge_bytes or isinstance(line, LongLine):
            await self._enqueue_offloaded(Lines((line,), t, direction))
        else:
            await self._feed_huge(line, t, direction)

    async def _feed_huge(self, line: bytes, t: int, direction: Direction | None) -> None:
        live = self.live
        if not await self._begin_offload():
            return
        read: ReadLine | None = None
        try:
            normalizer = live.normalizer
            partials, version = self._setting.partials_wanted(), live.info.agent_version
            shown = mask_secrets(line) if live.masks else line
            huge = HugeLine(shown, t, direction, normalizer.context, partials, normalizer.dump(), version)
            with anyio.CancelScope() as self._offload_scope:
                read = await self._setting.offload.in_process(huge)
            self._stopped |= self._offload_scope.cancelled_caught
        except Exception as error:  # it is read here, where it is contained
            faults.note("a line could not be read aside", place_of(error), error, stream=self.stream)
            self._offload_scope = None
            self._end_offload()
            await self._enqueue_offloaded(Lines((line,), t, direction))
            return
        finally:
            if self._offload_scope is not None:
                self._offload_scope = None
                self._end_offload()
        if self._abandoned or self._stopped:
            return
        if read is None:
            self._enqueue(Lines((LongLine(line[:HEAD_BYTES], len(line)),), t, direction))
        else:
            await self._enqueue_offloaded(Lines((line,), t, direction), partial(self._adopt_line, huge, read, line))

    def _adopt_line(self, huge: HugeLine, read: ReadLine, received: bytes) -> None:
        normalizer = load_normalizer(read.state, huge.context)
        normalizer.want_partials(huge.partials)
        outputs = [one if isinstance(one, OutputChunk) else Produced.of(decode(one), one) for one in read.outputs]
        normalized = Normalized(read.state, outputs, huge.t, None, read.found, read.watched, read.failures)
        self.live.adopt(normalizer, normalized, huge.line, huge.direction)
        self.live.last_line = received

    def _feed_block(self, lines: Sequence[bytes | LongLine], t: int, direction: Direction | None) -> None:
        if lines and not self._abandoned and not self._stopped:
            self._enqueue(Lines(lines, t, direction))


def _refusal(answer: Answer) -> str | None:
    return None if answer.refused is None else answer.refused[:LONGEST_REASON] or "it was refused"


def _with_key(payload: Any) -> Any:
    """Add the key of the request to which a payload's line responds: a publisher refuses a second response to it."""
    if not isinstance(payload, dict) or "answers" in payload or not isinstance(line := payload.get("line"), str):
        return payload
    try:
        key = response_key(msgspec.json.decode(line))
    except (msgspec.MsgspecError, RecursionError):
        return payload
    return payload if key is None else {**payload, "answers": key}


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


def settle_rewrites(info: StreamInfo, outcomes: Outcomes) -> list[Output] | None:
    """Remove settled results from `info.rewriting`, and return the outputs to commit with that; None if all were
    settled already."""
    known = outcomes.keys() & info.rewriting.keys()
    if not known:
        return None
    # A new table: the writer may be encoding the old one.
    info.rewriting = {result: daemon for result, daemon in info.rewriting.items() if result not in known}
    return [output for result, outputs in outcomes.items() if result in known for output in outputs]


# -- bisection of a failed commit -------------------------------------------------------------------------------------


def is_final(error: Exception) -> bool:
    """Whether the error is independent of the commit's content, so that bisection is no use."""
    return isinstance(error, JournalError | StreamConflictError) and not isinstance(error, UnstorableError)


async def commit_in_parts(
    stream: str,
    inputs: list[Input],
    reload: Callable[[], Awaitable[LiveStream]],
    commit: Callable[[LiveStream], Awaitable[None]],
    is_over: Callable[[], bool],
) -> LiveStream:
    """Commit and remove all `inputs`, including those appended meanwhile, after a commit has failed. Inputs are
    bisected until the failing ones are isolated. A line that cannot be committed even alone is committed as `unparsed`.
    Returns the stream after that, or when `is_over` returns True.

    `reload` rebuilds the stream from the journal. Raises `JournalError`, `StreamConflictError`, and the error of a part
    that cannot be replaced."""
    live = await reload()
    while inputs and not is_over():
        groups = [list(inputs)]
        while groups and not is_over():
            group = groups.pop()  # the first of `inputs`
            try:
                for one in group:
                    live.apply(one)
                await commit(live)
            except Exception as error:
                if is_final(error):
                    raise
                live = await reload()
                parts = _smaller(group, error, stream)
                inputs[: len(group)] = parts
                middle = len(parts) // 2
                groups += [part for part in (parts[middle:], parts[:middle]) if part]
            else:
                del inputs[: len(group)]
    return live


def _smaller(group: list[Input], error: Exception, stream: str) -> list[Input]:
    """Split a group that could not be committed into its parts; if it is a single part, return its replacement."""
    parts = [part for one in group for part in parts_of(one)]
    if len(parts) > 1:
        return parts
    instead = replacement_of(parts[0], reason_of(error))
    if instead is None and not isinstance(parts[0], DROPPABLE):
        raise error
    faults.note("a line could not be committed", place_of(error), error, stream=stream)
    return [] if instead is None else [instead]


@contextmanager
def contained(what: str, **about: object) -> Iterator[None]:
    """Log and count exceptions of the block, and suppress them. `what`: a sentence that says what did not happen."""
    try:
        yield
    except Exception as error:
        faults.note(what, place_of(error), error, **about)
