"""What a connection has given its stream, until it is durable: commits, and the frames that say so.

Commits form batches by themselves. Lines are parsed as they arrive and added to the `LiveStream`. One task,
`commit_all`, takes all that has accumulated, writes it, and repeats until nothing is left; lines that arrive while it
writes make up the next commit. There is no timer and no batch size. The only backpressure is that `_wait_for_room`
returns when few enough bytes wait to be durable (`in_flight_bytes`).

The order in a commit matters: first the commit, then the `ack`, then the trace and the commands that rewrite results.
All of these may only happen for durable lines.

Whatever raises while lines are fed or committed costs the line it belongs to, and only that. If nothing else contains
it (`normalizers/stream/guard.py` does for the parser), the stream is rebuilt from the journal, and what it was given
since is given to it again, in ever smaller parts. A line that cannot be committed alone is committed as `unparsed`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial

import anyio

from tooltap.daemon.ingest.bisect import commit_in_parts, contained, is_final
from tooltap.daemon.ingest.inputs import Input
from tooltap.daemon.ingest.live_stream import LiveStream
from tooltap.daemon.ingest.masking import taken_from
from tooltap.daemon.ingest.offload import Aside
from tooltap.daemon.ingest.tracing import StreamTrace
from tooltap.daemon.journal.interface import Commit, Journal, JournalError, StreamConflictError, StreamInfo
from tooltap.daemon.sessions.joining import Joining
from tooltap.daemon.sessions.repository import Repositories
from tooltap.daemon.system.clock import Clock
from tooltap.daemon.system.failpoints import failpoint
from tooltap.daemon.system.logs import Trouble, faults
from tooltap.daemon.system.loop.time_slices import TimeSlices
from tooltap.daemon.system.loop.watchdog import Work
from tooltap.daemon.views.results import Rewrite
from tooltap.normalizers.stream.guard import place_of
from tooltap.protocol.frames import Ack, DaemonFrame, ErrorCode, ErrorFrame
from tooltap.traces.recording.writer import TraceWriter

__all__ = ["Committing", "Setting"]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all ingest connections share."""

    journal: Journal
    clock: Clock
    line_bytes: int
    in_flight_bytes: int
    """Bytes taken from a publisher before its earlier lines are durable."""
    commit_soon: Callable[[Committing], object]
    """Starts `commit_all`, as a task that outlives the connection."""
    on_over: Callable[[Committing], None]
    """Called once, when the connection has sent its last frame."""
    joining: Joining
    repositories: Repositories
    reload: Callable[[str, StreamInfo], Awaitable[LiveStream]]
    """Rebuilds a stream from the journal; the second argument says what it is if the journal does not know it."""
    partials_wanted: Callable[[], bool]
    """Whether any subscriber wants partials; called for each chunk received."""
    spawned: Callable[[LiveStream], None]
    """Called after each commit: some agents have files of their own, which do not say what call has started them."""
    trouble: Trouble
    """What keeps commits from the journal."""
    rewrite: Callable[[Sequence[Rewrite]], None]
    """Takes results that commands rewrite, once they are durable. Must not block."""
    trace: TraceWriter | None
    aside: Aside
    turns: TimeSlices
    """The turns that all publishers share."""


class Committing:
    """One stream, its inputs that are not durable, and the task that commits them. `send` must not block. It may drop
    an `ack` that would have to wait: the next `ack`, or the last frame, implies it."""

    def __init__(
        self,
        live: LiveStream,
        send: Callable[[DaemonFrame], None],
        setting: Setting,
    ) -> None:
        self.live = live
        self.over = anyio.Event()
        """The last frame has been sent; the socket may be closed."""
        self._send = send
        self._setting = setting
        self._journal = setting.journal
        self._clock = setting.clock
        self._trace = StreamTrace(setting.trace, live) if setting.trace is not None else None
        self._reading = Work("stream", live.info.stream, lambda: f"line {live.normalizer.lines}")
        self._taking = Work("commit of stream", live.info.stream)
        self._waiting = 0
        """Bytes of the lines that are parsed and not yet durable."""
        self._busy = False
        """`commit_all` is running, or about to."""
        self._commits = 0
        self._in_flight = False
        """A commit is being written."""
        self._inputs: list[Input] = []
        """What the stream was given and is not durable yet."""
        self._fault: Exception | None = None
        """Why `live` cannot continue; it is rebuilt from the journal."""
        self._durable = live.info.lines
        """Lines that are stored, as far as this connection knows."""
        self._declared = deepcopy(live.info)
        """As the stream is if the journal does not know it."""
        self._abandoned = False
        """Another connection takes the stream over, or this one is over: nothing more is parsed or committed."""
        self._is_aside = False
        """A line is read aside from the event loop: nothing else changes the stream, and nothing is committed."""
        self._killing: anyio.CancelScope | None = None
        """Cancels the process that reads it."""
        self._progress = anyio.Event()
        """Set, and replaced, when a commit is durable, a line was read aside, or the connection is over."""

    @property
    def stream(self) -> str:
        return self.live.info.stream

    async def while_not_aside(self) -> None:
        """Wait until no line is read aside."""
        while self._is_aside:
            await self._progress.wait()

    async def commit_all(self) -> None:
        """Commit until nothing is left. `_busy` keeps this to one task at a time."""
        try:
            while self._dirty and not self._abandoned and not self._is_aside:
                if self._fault is None:
                    try:
                        await self._commit()
                        continue
                    except Exception as error:
                        if is_final(error):
                            raise
                        self._fault = error
                await self._commit_in_parts(self._fault)
        except StreamConflictError as error:
            self._fail("superseded", str(error))
        except JournalError as error:
            self._setting.trouble.begin(str(error))
            self._fail("journal", str(error))
        except Exception as error:
            faults.note("a stream failed", place_of(error), error, stream=self.stream)
            self._fail("internal", "the stream failed; the daemon's log says why")
        finally:
            self._busy = False
            try:
                self._wake()
            except Exception as error:  # else waiting publishers would wait for ever
                faults.note("waking publishers that wait for a commit took two attempts", place_of(error), error)
                self._wake()

    @property
    def _dirty(self) -> bool:
        """There is something to commit."""
        return self._fault is not None or self.live.dirty

    async def _commit(self) -> None:
        """Commit everything that was given until now."""
        live = self.live
        await self._join(live)
        if self._abandoned or self._fault is not None:
            return
        given, taken = len(self._inputs), self._waiting
        with self._taking:
            commit = taken_from(live, self._clock())
        rewrites = live.take_rewrites()
        self._in_flight = True
        try:
            await self._journal.commit(commit)
        finally:
            self._in_flight = False
        self._setting.trouble.end()
        self._durable = commit.info.lines
        failpoint("before-ack")
        del self._inputs[:given]
        self._commits += 1
        self._waiting -= taken
        self._after(live, commit, rewrites)
        self._wake()

    async def _join(self, live: LiveStream) -> None:
        await self._setting.repositories.learn(live)
        if self._setting.joining.concerns(live):
            await self._setting.joining.join(live)
        self._setting.repositories.place(live)

    def _after(self, live: LiveStream, commit: Commit, rewrites: Sequence[Rewrite]) -> None:
        """A commit is durable. Nothing of what follows from that can undo it."""
        if commit.info.lines > commit.base_lines:
            with contained("lines were not acknowledged by a frame of their own", stream=self.stream):
                self._say(Ack(lines=commit.info.lines))
        if self._trace is not None:
            with contained("a commit is missing in the trace", stream=self.stream):
                self._trace.add(commit)
        with contained("the views of a commit were not made", stream=self.stream):
            self._setting.rewrite(rewrites)
        with contained("the agents of a commit were not tied to their calls", stream=self.stream):
            self._setting.spawned(live)

    async def _commit_in_parts(self, error: Exception) -> None:
        """Rebuild the stream from the journal, and commit what it was given since in parts."""
        faults.note("lines could not be committed together", place_of(error), error, stream=self.stream)
        live = await commit_in_parts(
            self.stream, self._inputs, self._reload, self._commit_part, lambda: self._abandoned
        )
        if self._abandoned:
            return
        # Nothing else runs from here on: the stream has all that it was given.
        live.info.last_reported_ts, live.info.missing_at = self.live.info.last_reported_ts, self.live.info.missing_at
        live.info.followed = self.live.info.followed
        self.live = live
        self._fault = None
        self._waiting = 0
        self._commits += 2  # the one that may have been in flight, and the one after it
        if self._trace is not None:
            self._trace.live = live
        self._wake()

    async def _commit_part(self, live: LiveStream) -> None:
        await self._join(live)
        if not self._abandoned:
            with self._taking:
                commit = taken_from(live, self._clock())
            rewrites = live.take_rewrites()
            await self._journal.commit(commit)
            self._durable = commit.info.lines
            self._after(live, commit, rewrites)

    async def _reload(self) -> LiveStream:
        live = await self._setting.reload(self.stream, self._declared)
        if live.info.lines != self._durable:  # the publisher gets the error, and continues after what is stored
            raise JournalError(f"the journal has stored lines of stream {self.stream} after it had refused them")
        live.open()
        return live

    def _give(self, one: Input) -> None:
        self._inputs.append(one)
        self._waiting += one.memory
        if self._fault is None:
            try:
                with self._reading:
                    one.feed(self.live)
            except Exception as error:
                self._fault = error

    async def _give_aside(self, one: Input, work: Callable[[], None] | None = None) -> None:
        """Give the stream something in a thread. `work`: another way to do the same."""
        if not await self._begin_aside():
            return
        self._inputs.append(one)
        self._waiting += one.memory
        try:
            if self._fault is None:
                await self._setting.aside.in_thread(str(self._reading), work or partial(one.feed, self.live))
        except anyio.get_cancelled_exc_class():
            self._abandoned = True  # the thread may still change it
            raise
        except Exception as error:
            self._fault = error
        finally:
            self._end_aside()

    async def _begin_aside(self) -> bool:
        """Wait until nothing is being committed."""
        while self._busy or self._is_aside:
            await self._progress.wait()
        self._is_aside = not self._abandoned
        return self._is_aside

    def _end_aside(self) -> None:
        self._is_aside = False
        self._wake()
        self._kick()

    def _give_up(self) -> None:
        """Kill the process that reads a line, if there is one: its publisher still has the line."""
        if self._killing is not None:
            self._killing.cancel()

    def _kick(self) -> None:
        if not self._busy and not self._is_aside and self._dirty and not self._abandoned:
            self._busy = True
            self._setting.commit_soon(self)

    async def _settle(self) -> bool:
        """Wait until everything parsed so far is durable; False if it will not be, because the connection is over or
        superseded."""
        # What is parsed is durable, in the commit being written, or taken whole by the commit after that one.
        self._kick()
        enough = self._commits + self._in_flight + self._dirty
        while self._commits < enough and self._busy:
            await self._progress.wait()
        return self._commits >= enough

    async def _wait_for_room(self) -> None:
        """Start committing, and wait until few enough bytes are in flight."""
        self._kick()
        while self._waiting > self._setting.in_flight_bytes and not self.over.is_set():
            await self._progress.wait()

    def _wake(self) -> None:
        self._progress.set()
        self._progress = anyio.Event()

    def _say(self, frame: DaemonFrame) -> None:
        """Send a frame; one that could not be sent is tried once more."""
        with contained("sending a frame took two attempts", stream=self.stream):
            self._send(frame)
            return
        self._send(frame)

    def _fail(self, code: ErrorCode, message: str) -> None:
        if not self.over.is_set():
            self._say(ErrorFrame(code=code, message=message))
            self._finish()

    def _finish(self) -> None:
        if not self.over.is_set():
            self._abandoned = True
            self._give_up()
            if self._trace is not None:
                with contained("the end of a stream is missing in the trace", stream=self.stream):
                    self._trace.release()
            self.over.set()
            self._wake()
            self._setting.on_over(self)
