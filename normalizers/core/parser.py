"""Base class of every dialect: a state machine fed one line at a time, whose whole state can be dumped and loaded.

A dialect derives from `Parser` and says with a table of `Lines` which method reads which kind of line (`lines.py`).
Everything it remembers between lines is in one struct derived from `State`. The base class decodes lines, opens and
closes sessions and turns, and makes sure that each line is in exactly one class; `Writer` makes the events. A parser
has `calls`, `permissions` and `texts`, which emit theirs. The helpers of a dialect get the parser to emit with, and
their part of its state; they never feed it lines.

A parser may raise: whoever drives the stream contains that (`stream/reset.py`), so that it costs one line.

Everything in an event follows from the context, the lines and their times alone.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, ClassVar, Self, TypeAlias

import msgspec
import orjson

from tooltap.normalizers.core.answers import OWN, CannotWriteError, Chosen, Response, response_to_own
from tooltap.normalizers.core.calls import Calls
from tooltap.normalizers.core.items import Context, Item
from tooltap.normalizers.core.lines import UNPARSED, Line, Lines, Skip
from tooltap.normalizers.core.permissions import Permissions
from tooltap.normalizers.core.process import outcome_of_process
from tooltap.normalizers.core.state import BROKEN_BYTES, BrokenRecord, Fragment, OpenCall, OpenTurn, State, Times
from tooltap.normalizers.core.texts import Texts
from tooltap.normalizers.core.writer import Numbers, Writer
from tooltap.normalizers.wire.decode import FRAMING, OPENING_BYTES, Decoded, Documents, decode_line, is_clean
from tooltap.normalizers.wire.exchange import ExchangeEnd
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.answers import ForAgent
from tooltap.protocol.events import Event, Message, Notice, OutputRef, Reasoning, SessionEvent, Turn, Unparsed
from tooltap.protocol.inputs import Direction, ProcessEnd

UNPARSED_TEXT = 2_000
"""Maximum length of an unreadable line's text in its event, in code points."""

WITH_EVENTS = "withEvents"
_OWN = f'"{OWN}'.encode()
"""The beginning of an id of tooltap's, in a line."""
BASE_SKIPS = frozenset({"blank", "lost", "duplicate-result"})
"""Reasons for which any dialect may skip a line."""

REMOVED = "Removed from the context."
"""Text of a notice about something that the model no longer gets."""

JOINED = "joined"
"""In `Parser.earlier`, for a line that is part of a record which ends on the current line."""

MANY_OBJECTS = 1_000
SMALL_OBJECT = 24
"""Minimum average size of the objects on a line that holds more than `MANY_OBJECTS`, in bytes: a million empty ones
would become a million events."""

Watch: TypeAlias = Callable[[dict[str, Any], Direction | None], None]
"""Callback for every object that is read. Must neither raise nor change the object."""


@lru_cache(maxsize=1_024)
def class_of(outcome: Skip) -> str:
    """Return the class of a line from its reader's outcome."""
    if outcome is None:
        return WITH_EVENTS
    return UNPARSED if outcome == UNPARSED else f"skipped.{outcome}"


class Parser(Writer):
    """One stream's parser. `feed`, `feed_long` and `lost` return (class, items), `close` returns items."""

    state_type: ClassVar[type[State]] = State
    """The struct that holds everything the dialect remembers between lines."""
    SKIPS: ClassVar[frozenset[str]] = frozenset()
    """Reasons for which this dialect's methods skip a line, beside those of its tables: a closed set."""
    line: ClassVar[Lines] = Lines()
    """The table of readers: kind of line -> method."""
    GLANCES: ClassVar[bool] = False
    """Whether `glance` is asked about each line."""
    DOCUMENTS: ClassVar[bool] = False
    """Whether an object may be printed over many lines, as in files that are JSON documents."""
    ARRAYS: ClassVar[bool] = True
    """Whether the stream may be one array, printed over many lines."""
    STATES_TIMES: ClassVar[bool] = False
    """Whether the lines state when they were written, as those of stored files do. One that does not was written when
    the one before it was, whenever it is read."""
    INTERRUPT_CANCELS: ClassVar[bool] = False
    """Whether a client that interrupts a turn also has to cancel what the agent asks in it."""
    STATES_END: ClassVar[bool] = False
    """Whether the stream always states the end of a turn: then a turn without it was cut, however long it is silent.
    Else an answer that nothing follows is the end."""

    OF_LINE = frozenset({"repaired"})

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, self.state_type() if state is None else state)
        if self.STATES_TIMES:
            self.state.times.past = True
        self.calls = Calls(self, self.state.calls, lambda call: self.unfinished(call))
        self.permissions = Permissions(self, self.calls, self.state.permissions)
        self.texts = Texts(self, self.state.texts)
        self.repaired = False
        """Whether the line just fed had to be repaired."""
        self.extensions: list[str] = []
        """Methods of lines that were skipped as extensions of the protocol. The caller of `feed` counts and clears
        them."""
        self.earlier: list[Skip] = []
        """Outcomes of lines that were held back, in order: until now they had the outcome None. The caller of `feed`
        counts and clears them."""
        self.watch: Watch | None = None

    @classmethod
    def skip_reasons(cls) -> frozenset[str]:
        """The reasons for which a line may be skipped."""
        tables = [table for parent in cls.__mro__ for table in vars(parent).values() if isinstance(table, Lines)]
        return frozenset(BASE_SKIPS | cls.SKIPS).union(*(table.skip.values() for table in tables))

    # -- the interface --------------------------------------------------------------------------------------------

    def feed(self, line: bytes, t: int | None = None, direction: Direction | None = None) -> tuple[str, list[Item]]:
        """Read one line. `t`: when it was received, in ms since the epoch, if known."""
        earlier = self.let_go(line)
        outcome = self.take_line(line, t, direction)
        return class_of(outcome), earlier + self._take()

    def take_line(self, line: bytes, t: int | None, direction: Direction | None) -> Skip:
        """Like `feed` behind `let_go`, but return the reader's outcome and leave the items in `items`.

        Called for every line, so the common case avoids further calls."""
        state, context = self.state, self.context
        state.line += 1
        # The same as `_begin`.
        self.session = state.session or self._publishers_name
        times: Times = state.times
        self.ts = start = times.stated if times.past else t
        self.agent, self.parent, self.replay, self.origin = context.agent, context.parent, False, None
        self.direction = direction
        self.repaired = False
        if state.broken.fragments:
            return self._go_on(line, t)
        if self.GLANCES and (reason := self.glance(line)) is not None:
            return reason
        documents: Documents = state.documents
        if (len(line) < OPENING_BYTES or documents.lines or documents.in_array) and self.ARRAYS:
            whole = self._collect(line)
            if whole is None:
                return None
            line = whole
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError:
            return self._read_unclean(line, t)
        size, depth = len(line), context.limits.depth
        if (size > 2 * depth or size != len(orjson.dumps(value))) and not is_clean(line, value, depth):
            return self._read_unclean(line, t)
        if self.watch is not None or type(value) is not dict or _OWN in line:
            return self._read(value, line, t)
        skip = self.read(value)
        # The same as `_note_time`.
        if self.ts is not start:
            if not self.replay:
                times.note(self.ts, t, always=self.STATES_TIMES)
        elif start is not None:
            times.latest = start
        return skip

    def feed_long(self, line: LongLine, t: int | None = None) -> tuple[str, list[Item]]:
        """Read a line that exceeds the limit, of which only the head is known."""
        earlier = self.let_go(line)
        return class_of(self.take_long(line, t)), earlier + self._take()

    def take_long(self, line: LongLine, t: int | None) -> Skip:
        """Like `feed_long` behind `let_go`, but return the reader's outcome and leave the items in `items`."""
        self._begin(t)
        return self.unreadable("too-long", line.head, line.size)

    def let_go(self, line: bytes | LongLine) -> list[Item]:
        """Read the lines that are held back, each by itself, unless `line`, which comes next, may go on with their
        record. Adds their outcomes to `earlier`."""
        broken: BrokenRecord = self.state.broken
        if not broken.fragments or (isinstance(line, bytes) and broken.may_go_on_with(line)):
            return []
        self._let_go()
        return self._take()

    def fail(self, reason: str, line: bytes, size: int, t: int | None) -> Skip:
        """Emit a line whose processing raised as `unparsed`, with only its beginning. Leaves the items in `items`."""
        self._let_go()
        self._begin(t)
        self._restart_numbers()
        return self.unreadable(reason, line, size)

    def lost(self, lines: int, size: int, reason: str, t: int | None = None) -> tuple[str, list[Item]]:
        """Record `lines` lines (`size` bytes) that the publisher could not keep: one notice, numbered as the last."""
        self._let_go()
        self.state.line += lines - 1
        self._begin(t)
        data = {"lines": lines, "bytes": size, "reason": reason}
        self.emit(Notice, level="error", code="lost", text=f"{lines} lines lost: {reason}", data=data)
        return class_of("lost"), self._take()

    def close(self, reason: str, t: int | None = None, process: ProcessEnd | None = None) -> list[Item]:
        """End the stream: pending texts, open calls and open turns end here. Lines may still follow later. `t`,
        `process`: when and how the agent's process ended, if its tap states it."""
        self._let_go()
        self._begin_after_line(t)
        self._restart_numbers("c")
        self._closing = True
        self._abandon_document()
        self.finish(reason)
        if process is None:
            self._end_everything()
        else:
            self._end_with_process(process, self._time_of_line(t))
        return self._take()

    def give_up(self, index: int, t: int | None) -> list[Item]:
        """End everything that is open, as at the end of the stream, but between two lines; the state must not be used
        afterwards. `index`: number of the first event."""
        self._let_go()
        self.begin_between_lines(index, t)
        self._closing = True
        self._abandon_document()
        self.finish("reset")
        self._end_everything()
        return self._take()

    @property
    def is_unsettled(self) -> bool:
        """Whether something is held back, or a turn may have ended, so that `settle_all` has something to emit."""
        return self.holds_back() or any(map(self._may_settle, self.state.turns))

    def settle_all(self, index: int) -> list[Item]:
        """Emit what is held back and provisional ends of turns, between two lines: the stream has been silent for a
        while. Lines may follow. `index`: number of the first event."""
        self.begin_between_lines(index, None)
        self.settle()
        for turn in filter(self._may_settle, list(self.state.turns)):
            self._settle_turn(turn)
        return self._take()

    def take_back(self) -> list[Item]:
        """Discard and return the items of a line that raised, including those of inner parsers."""
        items, self.items, self.extensions = self.items, [], []
        for inner in self.inner_parsers():
            items += inner.take_back()
        return items

    def dump(self) -> bytes:
        return msgspec.msgpack.encode(self.state)

    @classmethod
    def load(cls, data: bytes, context: Context) -> Self:
        """Restore a parser from a dump. Raises `msgspec.DecodeError` or `msgspec.ValidationError` if the dump is of
        another version."""
        return cls(context, msgspec.msgpack.decode(data, type=cls.state_type))

    # -- for dialects to override ---------------------------------------------------------------------------------

    @staticmethod
    def recognises(value: Line) -> bool:
        """Whether only this dialect has such a line. For the dialects of other packages; the registry sets it to
        `Dialect.recognises` for built-in ones."""
        return False

    def inner_parsers(self) -> Iterable[Parser]:
        """The parsers that read parts of this one's lines."""
        return ()

    def forget_inner(self) -> None:
        """Discard the inner parsers: this one resumes without their state."""

    def renew_inner(self, old: Self) -> Iterable[tuple[Parser, Parser, str]]:
        """Create fresh inner parsers in place of those of `old`. Returns (old, fresh, prefix of its ids) of each."""
        return ()

    def glance(self, line: bytes) -> str | None:
        """Return the reason to skip a line without decoding it; None to decode it."""
        return None

    def enter(self, value: Line) -> None:
        """Set the scope of a line before it is read: its time, session, agent."""

    def read(self, value: Line) -> Skip:
        """Read one object of the line."""
        self.enter(value)
        return self.line.read(self, value)

    def read_other(self, value: Any, line: bytes, t: int | None) -> Skip:
        """Read a value that is not an object. An array of objects is read object by object; any other value is
        `unparsed`."""
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            return self._read_all(value, line, t)
        return self.unreadable("not-an-object", line, len(line))

    def read_text(self, line: bytes) -> Skip:
        """Read a line that is not JSON."""
        return self.unreadable("not-json", line, len(line))

    def read_framing(self, line: bytes) -> None:
        """Hook: look at a line that is framing of server-sent events."""

    def finish(self, reason: str) -> None:
        """Hook: the stream ends; emit what is pending in this dialect."""

    def joined(self, session: str) -> int | None:
        """Hook: return the start of the turn in whose middle the stream has joined a session, in ms since the epoch."""
        return None

    def holds_back(self) -> bool:
        """Hook: whether `settle` has something to emit."""
        return False

    def settle(self) -> None:
        """Hook: the stream is silent; emit what is held back. What a later line changes of it is emitted again, as a
        correction."""

    def before_turn_end(self) -> None:
        """Hook: a turn is ending and its calls are closed; emit what precedes its usage and the turn event."""

    def unfinished(self, call: OpenCall) -> tuple[Any, dict[str, OutputRef] | None]:
        """The known output of a call that ends without a result: (value, output bodies by JSON pointer)."""
        return None, None

    def word_answer(self, request: dict[str, Any], chosen: Chosen, option: dict[str, Any] | None) -> ForAgent:
        """Hook: word an answer for the agent, without changing the state. `request`: the pending `permission-request`,
        as a JSON object; `option`: what `choose` returned. A question that may be answered with other words than its
        options has `freeText: true`. Raises `CannotWriteError`."""
        raise CannotWriteError(self._no_way_back())

    def word_prompt(self, session: str, text: str, id: str) -> ForAgent:  # noqa: A002 -- the schema's word
        """Hook: word a prompt for the agent; in mid-turn it steers the agent. Raises `CannotWriteError`."""
        raise CannotWriteError(self._no_way_back())

    def word_interrupt(self, session: str, id: str) -> ForAgent:  # noqa: A002 -- the schema's word
        """Hook: word the interrupt of a session's turn for the agent. Raises `CannotWriteError`."""
        raise CannotWriteError(self._no_way_back())

    def _no_way_back(self) -> str:
        why = "is stored" if self.STATES_TIMES else "is only printed"
        return f"there is no way back to an agent in the dialect {self.dialect}, which {why}"

    # -- for dialects to emit with --------------------------------------------------------------------------------

    def unparsed(self, reason: str, value: Any) -> str:
        """Emit an object of unknown kind or shape as `unparsed`."""
        text = msgspec.json.encode(value)
        return self.unreadable(reason, text, len(text))

    def unreadable(self, reason: str, line: bytes, size: int) -> str:
        """Emit the head of a line of `size` bytes that cannot be read."""
        text = line[: UNPARSED_TEXT * 4].decode("utf-8", "replace")[:UNPARSED_TEXT]
        self.emit(Unparsed, reason=reason, text=text, bytes=size)
        return UNPARSED

    def notice(self, code: str, text: str | None, level: str = "info", data: Any = None) -> None:
        """Emit something the agent reports beside the conversation. `level`: info, warning or error."""
        self.emit(Notice, level=level, code=code, text=text or "", data=data)

    def show_response(self, response: Response) -> None:
        """Emit that the agent has accepted, or refuses, a prompt or an interrupt of tooltap's."""
        data = {"sendId": response.sent}
        if response.refusal is None:
            self.notice("send-accepted", "the agent has accepted it", data=data)
        else:
            data["reason"] = response.refusal
            self.notice("send-refused", f"the agent refuses it: {response.refusal}", "warning", data)

    def edited_context(self, text: str | None, *, call: str | None = None, data: Any = None) -> None:
        """Emit that the model gets another text in place of an earlier message or result. `text`: None if it gets none;
        `call`: id on the wire of the call whose result it was."""
        call_id = None if call is None else self.id_of_call(call)
        self.emit(
            Notice,
            level="info",
            code="context-edit",
            text=REMOVED if text is None else text,
            call_id=call_id,
            data=data,
        )

    def emit_text(self, role: str, text: str, **fields: Any) -> None:
        """Emit a whole message, or reasoning where that is the `role`."""
        if role == "reasoning":
            self.emit(Reasoning, text=text, **fields)
        else:
            self.emit(Message, role=role, text=text, **fields)

    # -- sessions -------------------------------------------------------------------------------------------------

    def set_session(self, session: str) -> None:
        """Set the provider's id of the root session. If earlier events had another name for it, an `alias` links
        them."""
        state = self.state
        if state.session == session:
            self.session = session
            return
        before = self._publishers_name if state.session is None else session
        named, state.named = state.named, False
        state.session = self.session = session
        if before != session:
            for holder in (*state.turns, *state.permissions.pending.values()):
                if holder.session == before:
                    holder.session = session
            self.calls.rename_session(before, session)
            self.texts.rename_session(before, session)
            if named:
                self.emit(SessionEvent, state="updated", alias=before)

    def begin_session(self, session: Any, **fields: Any) -> None:
        """Emit the start of a session, or that it was resumed. `session`: its id, if the line has one.

        For dialects whose state derives from `SessionState`."""
        if isinstance(session, str) and session:
            self.set_session(session)
        resumed = self.state.started == self.session
        self.state.started = self.session
        self.emit(SessionEvent, state="resumed" if resumed else "started", **fields)

    def uses_model(self, model: str | None) -> bool:
        """Emit that the session uses another model than before, if it does; returns whether.

        For dialects whose state has a field `model`."""
        if model is None or model == self.state.model:
            return False
        self.state.model = model
        self.emit(SessionEvent, state="updated", model=model)
        return True

    def update_session(self, changes: dict[str, Any]) -> Skip:
        """Emit the session's changed fields, if any."""
        if not changes:
            return "unchanged"
        self.emit(SessionEvent, state="updated", **changes)
        return None

    # -- turns ----------------------------------------------------------------------------------------------------

    def start_turn(self, turn_id: str | None = None, *, synthetic: bool = False) -> str:
        state = self.state
        state.turn_count += 1
        turn_id = turn_id or f"t{state.turn_count}"
        while len(state.turns) >= self.context.limits.open_turns:
            self._give_up(state.turns[0])
        # What is open changes after its event: nothing is open of which no event says so.
        self.emit(Turn, turn=turn_id, state="started", synthetic=synthetic)
        state.turns.append(OpenTurn(turn_id, self.session, self.agent, self.origin, ts=self.ts))
        return turn_id

    def ensure_turn(self) -> None:
        """Open a synthetic turn for content outside any turn. History is in none."""
        if self.turn is None and not self.replay:
            self.start_turn(synthetic=True)

    def end_turn(
        self,
        outcome: str,
        *,
        turn_id: str | None = None,
        ended_by: str | None = None,
        reason: str | None = None,
        duration_ms: int | None = None,
        synthetic: bool = False,
        before: tuple[tuple[type[Event], dict[str, Any]], ...] = (),
    ) -> None:
        """End the named turn, else the oldest open one of this session: texts, open calls, `before`, then the turn.

        `outcome`: completed, failed or cancelled. `ended_by`: evidence of the end; by default `provider` (the wire
        states it), or for a `synthetic` end `answer` if the turn's last item is an answer, else `eof` (nothing
        follows). `before`: events (diff, usage) between the closed calls and the turn's own event.

        An end that the provider states has the time of the line; any other, that of the turn's last work.
        """
        turns = self.state.turns
        turn = next((one for one in turns if one.session == self.session and turn_id in (None, one.id)), None)
        if turn is None:
            turn = OpenTurn(turn_id or f"t{max(self.state.turn_count, 1)}", self.session, origin=self.origin)
        stated = not synthetic and ended_by not in ("answer", "eof")
        self.texts.flush_turn(self.session, turn.id)
        self.permissions.expire_turn(turn.session, turn.id, stated=stated)
        # A synthetic end was not stated by the provider, but concluded by us.
        status = "cancelled" if outcome == "cancelled" and not synthetic else "interrupted"
        stopped = stated and outcome != "completed"
        self.calls.close_turn(turn.session, turn.id, turn.agent, status, stopped=stopped)
        ts = self.ts
        if (not stated or turn.failed is not None) and turn.ts is not None:
            self.ts = turn.ts
        self.before_turn_end()
        for kind, fields in before:
            self.emit(kind, turn=turn.id, **fields)
        origin = {} if turn.origin is None else {"protocol": turn.origin[0], "provider": turn.origin[1]}
        self.emit(
            Turn,
            turn=turn.id,
            state=outcome,
            ended_by=ended_by or ("provider" if not synthetic else "answer" if turn.answered else "eof"),
            reason=reason,
            duration_ms=duration_ms,
            synthetic=synthetic,
            agent=turn.agent,
            **origin,
        )
        self.ts = ts
        if turn in turns:
            turns.remove(turn)

    def end_exchange(self, end: ExchangeEnd) -> None:
        """End the turn of an exchange as its tap saw it end, if the answer states neither an end nor an error."""
        verdict = end.verdict()
        if verdict is None or (self.turn is None and verdict.text is None):
            return
        self.ensure_turn()
        if verdict.text is not None:
            self.texts.flush_turn(self.session, self.turn or "")
            self.notice("provider-error", verdict.text, "error", verdict.data)
        if verdict.outcome == "failed" and end.may_be_retried:
            self.fail_request(verdict.reason)
        else:
            self.end_turn(verdict.outcome, reason=verdict.reason)

    def fail_request(self, reason: str) -> None:
        """Note that a request of the open turn has failed, which its client may make again: then the turn goes on
        (`retry_request`), else it ends as failed. What the request has opened ends here. If no turn is open, because it
        was given up, its end as failed is all that there is."""
        turn = next((one for one in self.state.turns if one.id == self.turn and one.session == self.session), None)
        if turn is None:
            self.end_turn("failed", reason=reason)
            return
        self.texts.flush_turn(turn.session, turn.id)
        self.permissions.expire_turn(turn.session, turn.id, stated=True)
        self.calls.close_turn(turn.session, turn.id, turn.agent, "interrupted", stopped=True)
        turn.failed, turn.answered = reason, False
        turn.worked(self.ts)

    def retry_request(self) -> None:
        """Note that the client goes on after a failed request."""
        for turn in self.state.turns:
            if turn.failed is not None:
                turn.failed, turn.settled = None, False

    def end_failed_turns(self) -> None:
        """End the turns whose request has failed, and is not made again."""
        for turn in [one for one in self.state.turns if one.failed is not None]:
            self._give_up(turn)

    def seems_over(self, turn: OpenTurn) -> bool:
        """Whether nothing more is to come of an open turn: its last item is an answer, no call or permission is open,
        and the stream need not state the end."""
        if self.STATES_END or not turn.answered:
            return False
        return not self.calls.is_open(turn.session, turn.id, turn.agent) and not self.permissions.is_open(
            turn.session, turn.id
        )

    def check_session(self, session: str, known: Container[str]) -> None:
        """Raise `CannotWriteError` unless the agent knows the session under this id. `known`: the sessions that the
        stream has shown."""
        if self.state.session is None or self._publishers_name == session != self.state.session:
            raise CannotWriteError("the agent has not named its session yet")
        if session not in known:
            raise CannotWriteError(f"the agent has no session {session!r}")

    def is_working(self, session: str) -> bool:
        """Whether a turn of the session's own agent is open and not seemingly over."""
        return any(one.session == session and one.agent is None and not one.settled for one in self.state.turns)

    def give_up_turns(self) -> None:
        """End every open turn, because the process that would have ended them is gone."""
        for turn in list(self.state.turns):
            self._give_up(turn)

    # -- internals ------------------------------------------------------------------------------------------------

    def _note_time(self, start: int | None, t: int | None) -> None:
        """Keep when the line, or an object on it, was written. `start`: its time if it states none."""
        times: Times = self.state.times
        if self.ts is not start:
            if not self.replay:
                times.note(self.ts, t, always=self.STATES_TIMES)
        elif start is not None:
            times.latest = start

    def _begin(self, t: int | None) -> None:
        self.state.line += 1
        self._reset_scope(t)
        self.repaired = False

    def _read_unclean(self, line: bytes, t: int | None) -> Skip:
        """Read a line that is not just one JSON value with unique keys."""
        decoded = decode_line(line, self.context.limits.depth, self._is_record)
        self.repaired = decoded.repaired
        if decoded.torn and decoded.values:
            return self._read_torn(decoded, line, t)
        if len(decoded.values) == 1:
            return self._read(decoded.values[0], line, t)
        if decoded.values:
            return self._read_all(decoded.values, line, t)
        reason = decoded.reason
        if reason == "truncated" and line.startswith(b'{"') and self._hold_back(line, t):
            return None
        if reason == "blank":
            return "blank"
        if reason == FRAMING and FRAMING in self.SKIPS:
            self.read_framing(line)
            return FRAMING
        if reason in (None, FRAMING, "not-json"):
            return self.read_text(line)
        return self.unreadable(reason, line, len(line))

    def _is_record(self, value: Line, beside: str) -> bool:
        """Whether an object is a line of its own, and no part of a torn line, whose first key is `beside`: the dialect
        recognises it, or it begins with the same key, and can be read."""
        return self.recognises(value) or (next(iter(value), None) == beside and self._can_read(value))

    def _can_read(self, value: Line) -> bool:
        try:
            return type(self)(self.context).feed(orjson.dumps(value))[0] != UNPARSED
        except Exception:
            return False

    def _hold_back(self, line: bytes, t: int | None) -> bool:
        """Hold a line back, of which a raw newline may have broken off the rest. Returns whether there is room, and no
        event has a number of this line."""
        if len(line) > BROKEN_BYTES or self._numbers_of_line().events:
            return False
        self.state.broken.add(Fragment(line, t, self._numbered.line))
        return True

    def _go_on(self, line: bytes, t: int | None) -> Skip:
        """Add a line to those that are held back, and read their record if it ends here."""
        broken: BrokenRecord = self.state.broken
        broken.add(Fragment(line, t, self._numbered.line))
        if not line.rstrip().endswith(b"}"):
            return None
        broken.tries += 1
        text = broken.text
        decoded = decode_line(text, self.context.limits.depth)
        if decoded.torn or not decoded.values or not all(isinstance(value, dict) for value in decoded.values):
            return None
        self.state.broken = BrokenRecord()
        self.earlier += [JOINED] * (len(broken.fragments) - 1)
        self.repaired = True
        return self._read_all(decoded.values, text, t)

    def _let_go(self) -> None:
        """Read the lines that are held back, each by itself. Their events have the numbers of their lines."""
        fragments: list[Fragment] = self.state.broken.fragments
        if not fragments:
            return
        self.state.broken = BrokenRecord()
        self.state.line -= len(fragments)
        numbers = self._numbered, self._numbers
        try:
            for one in fragments:
                self._numbered, self._numbers = State(line=one.number), Numbers(self.context.stream, one.number)
                if one is fragments[0]:
                    self._begin(one.t)
                    outcome: Skip = self.unreadable("truncated", one.line, len(one.line))
                else:
                    outcome = self.take_line(one.line, one.t, None)
                self.earlier.append(outcome)
        finally:
            self._numbered, self._numbers = numbers

    def _read_torn(self, decoded: Decoded, line: bytes, t: int | None) -> Skip:
        """Read the whole records of a line that has torn ones, too."""
        outcomes: list[Skip] = []
        read = 0
        for before, text in decoded.torn:
            if before > read:
                outcomes.append(self._read_all(decoded.values[read:before], line, t))
                read = before
                self._reset_scope(t)
            torn = text.encode()
            outcomes.append(self.unreadable("torn", torn, len(torn)))
        if read < len(decoded.values):
            outcomes.append(self._read_all(decoded.values[read:], line, t))
        return best(outcomes)

    def _read_all(self, values: list[Any], line: bytes, t: int | None) -> Skip:
        """Read several objects on one line, or those of an array. The line's class is the best of theirs."""
        if len(values) > MANY_OBJECTS and len(line) < SMALL_OBJECT * len(values):
            return self.unreadable("too-many", line, len(line))
        outcomes: list[Skip] = []
        for value in values:
            if outcomes:
                self._reset_scope(t)
            outcomes.append(self._read(value, line, t))
        return best(outcomes)

    def _read(self, value: Any, line: bytes, t: int | None) -> Skip:
        if not isinstance(value, dict):
            return self.read_other(value, line, t)
        if self.watch is not None:
            self.watch(value, self.direction)
        start = self.ts
        skip = self.read(value)
        if _OWN in line and (response := response_to_own(value)) is not None:
            self.show_response(response)
            skip = None
        self._note_time(start, t)
        return skip

    def _collect(self, line: bytes) -> bytes | None:
        """Collect an object that spans several lines. Returns the whole object at its last line, a line outside any
        object as is, and None while an object continues."""
        documents: Documents = self.state.documents
        if documents.is_broken_by(line) or documents.size + len(line) > self.context.limits.line_bytes:
            self._abandon_document()
        return documents.take(line, objects=self.DOCUMENTS)

    def _abandon_document(self) -> None:
        documents: Documents = self.state.documents
        if documents.lines:
            self.unreadable("truncated", documents.text, documents.size)
            documents.drop()

    def _give_up(self, turn: OpenTurn) -> None:
        """End a turn whose end is not on the wire: failed if its request has, completed if it seems to be over
        (`seems_over`), else cancelled."""
        if turn.failed is not None:
            with self._in_scope_of(turn):
                self.end_turn("failed", turn_id=turn.id, reason=turn.failed)
            return
        outcome, reason = ("completed", None) if self.seems_over(turn) else ("cancelled", "interrupted")
        with self._in_scope_of(turn):
            self.end_turn(outcome, turn_id=turn.id, ended_by="eof", reason=reason, synthetic=True)

    def _end_with_process(self, process: ProcessEnd, ts: int | None) -> None:
        """End everything as the end of the process states, at `ts`; then the session, and others with an open turn.
        An answer that was the end of its turn stays that if the process was stopped after it."""
        state, session, before = self.state, self.session, self.ts
        end = before if ts is None else ts
        outcome = outcome_of_process(process)
        sessions = dict.fromkeys(turn.session for turn in state.turns)
        if state.session is not None or state.turn_count:
            sessions[session] = None
        for turn in list(state.turns):
            if outcome is None or (outcome == "cancelled" and self.seems_over(turn)):
                continue
            with self._in_scope_of(turn):
                self.ts = end
                self.end_turn(outcome, turn_id=turn.id, reason=process.words)
        self.ts = before
        self._end_everything()
        self.ts = end
        for one in sessions:
            self.session = one
            self.emit(
                SessionEvent,
                state="ended",
                exit_code=process.exit,
                signal=process.signal,
                stopped_by=process.stopped_by,
            )
        self.session = session

    @contextmanager
    def _in_scope_of(self, turn: OpenTurn) -> Iterator[None]:
        scope = self.session, self.agent, self.origin
        self.session, self.agent, self.origin = turn.session, turn.agent, turn.origin
        yield
        self.session, self.agent, self.origin = scope

    def _may_settle(self, turn: OpenTurn) -> bool:
        return not turn.settled and turn.agent is None and (turn.failed is not None or self.seems_over(turn))

    def _settle_turn(self, turn: OpenTurn) -> None:
        """Emit a provisional end of a turn, which stays open."""
        protocol, provider = turn.origin or (self.protocol, self.provider)
        scope = turn.session, None, None, turn.id, protocol, provider
        fields: dict[str, Any] = {"state": "completed", "ended_by": "answer", "provisional": True}
        if turn.failed is not None:
            fields |= {"state": "failed", "ended_by": "provider", "reason": turn.failed}
        self.emit_in(Turn, fields, scope, turn.ts, replay=False, synthetic=True)
        turn.settled = True

    def _end_everything(self) -> None:
        self.texts.flush_all()
        while self.state.turns:
            self._give_up(self.state.turns[0])
        self.permissions.expire_all()
        self.calls.close_all()
        self._closing = False


def outcome_of(line_class: str) -> Skip:
    """The outcome that leads to this class of a line."""
    return None if line_class == WITH_EVENTS else line_class.removeprefix("skipped.")


def best(outcomes: list[Skip]) -> Skip:
    """Outcome of a line with several objects: None (events) if any object has it, else `UNPARSED` if any has, else the
    first."""
    if None in outcomes:
        return None
    return UNPARSED if UNPARSED in outcomes else outcomes[0]
