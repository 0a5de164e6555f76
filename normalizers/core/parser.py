"""What every dialect parser is: a state machine fed one line at a time, whose whole state can be dumped and loaded.

A dialect subclasses `Parser`, keeps everything it remembers in one msgspec struct derived from `State`, and implements
`read` (one decoded object) and, where it needs to, `finish`. The base class decodes, numbers events, fills the
envelope, opens and closes turns, and makes sure that a line is in exactly one class and that nothing raises.

Everything an event says follows from the context, the lines and their times alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Self, TypeAlias

import msgspec

from tooltap.normalizers.core.calls import Calls
from tooltap.normalizers.core.calls_state import Call
from tooltap.normalizers.core.emitter import Emitter
from tooltap.normalizers.core.items import Context, Item
from tooltap.normalizers.core.permissions import Permissions
from tooltap.normalizers.core.state import OpenTurn, State
from tooltap.normalizers.core.texts import Texts
from tooltap.normalizers.wire.decode import FRAMING, decode_line
from tooltap.normalizers.wire.documents import OPENING_BYTES, Documents
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.events import Event, Notice, OutputRef, SessionEvent, Turn, Unparsed
from tooltap.protocol.tapped import Direction

__all__ = ["UNPARSED", "WITH_EVENTS", "Parser", "Watch", "skip"]

WITH_EVENTS = "withEvents"
UNPARSED = "unparsed"
UNPARSED_TEXT = 2_000
"""Code points of an unreadable line that its event shows."""


@cache
def skip(reason: str) -> str:
    """The class of a line that gives no event, for a reason out of the dialect's `SKIPS`."""
    return f"skipped.{reason}"


Watch: TypeAlias = Callable[[dict[str, Any], Direction | None], None]
"""Looks on while a parser reads. Must not raise, nor change what it is shown."""


class Parser(Emitter, ABC):
    """One stream's parser. `feed`, `feed_long`, `lost` and `close` give (class, items); they never raise."""

    SKIPS: ClassVar[frozenset[str]]
    """Reasons for which this dialect gives a line no event: a closed table."""
    state_type: ClassVar[type[State]] = State
    DOCUMENTS: ClassVar[bool] = False
    """Whether an object may come printed over many lines, as files that are JSON documents have it."""
    ARRAYS: ClassVar[bool] = True
    """Whether the stream may come as one array, printed over many lines."""

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, self.state_type() if state is None else state)
        self.calls = Calls(self)
        self.permissions = Permissions(self)
        self.texts = Texts(self)
        self.repaired = False
        """Whether the line just fed had to be repaired."""
        self.watch: Watch | None = None
        """Is shown every object that is read, and changes nothing."""

    # -- the interface ------------------------------------------------------------------------------------------

    def feed(self, line: bytes, t: int | None = None, direction: Direction | None = None) -> tuple[str, list[Item]]:
        """Read one line. `t`: ms since the epoch at which it was received, if known."""
        self._begin(t)
        line_class = self.read_line(line, t, direction)
        items, self.items = self.items, []
        return line_class, items

    def feed_long(self, line: LongLine, t: int | None = None) -> tuple[str, list[Item]]:
        """A line longer than the limit: its head and length."""
        self._begin(t)
        return self._unreadable("too-long", line.head, line.size), self._take()

    def lost(self, lines: int, size: int, reason: str, t: int | None = None) -> tuple[str, list[Item]]:
        """`lines` lines (`size` bytes) the publisher could not keep: one notice, numbered as the last of them."""
        self.state.line += lines - 1
        self._begin(t)
        self.emit(
            Notice,
            level="error",
            code="lost",
            text=f"{lines} lines lost: {reason}",
            data={"lines": lines, "bytes": size, "reason": reason},
        )
        return skip("lost"), self._take()

    def close(self, reason: str, t: int | None = None) -> list[Item]:
        """End of the stream: pending text, open calls and open turns end here. Lines may still follow later."""
        self._reset_scope(t)
        self._restart_numbers("c")
        self._abandon_document()
        try:
            self.finish(reason)
        except Exception as error:  # the promise is never to raise; `make corpus` counts it
            self.emit(
                Notice, level="error", code="parser-error", text=f"{type(error).__name__} at the end of the stream"
            )
        self._end_everything()
        return self._take()

    def dump(self) -> bytes:
        return msgspec.msgpack.encode(self.state)

    @classmethod
    def load(cls, data: bytes, context: Context) -> Self:
        """Raises `msgspec.DecodeError` or `msgspec.ValidationError` where the dump is not one of this version."""
        return cls(context, msgspec.msgpack.decode(data, type=cls.state_type))

    # -- for dialects to implement ------------------------------------------------------------------------------

    def read_line(self, line: bytes, t: int | None, direction: Direction | None) -> str:
        """Decode a line and read what is on it: the line's class. For dialects that know some without decoding them."""
        documents: Documents = self.state.documents
        if (len(line) < OPENING_BYTES or documents.lines or documents.in_array) and self.ARRAYS:
            whole = self._collect(line)
            if whole is None:
                return WITH_EVENTS
            line = whole
        decoded = decode_line(line, self.context.limits.depth)
        self.repaired = decoded.repaired
        if len(decoded.values) == 1:
            return self._read(decoded.values[0], line, t, direction)
        if decoded.values:
            return self._read_all(decoded.values, line, t, direction)
        reason = decoded.reason
        if reason == "blank":
            return skip("blank")
        if reason == FRAMING and FRAMING in self.SKIPS:
            self.read_framing(line)
            return skip(FRAMING)
        return self._unreadable("not-json" if reason in (None, FRAMING) else reason, line, len(line))

    @abstractmethod
    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        """Read one object of the line: emit events, and say the line's class."""

    def read_other(self, value: Any, direction: Direction | None) -> str | None:
        """Read a value that is no object: the line's class, or None where the dialect has no such lines."""
        return None

    def read_framing(self, line: bytes) -> None:
        """Look at a line of the framing of server-sent events."""

    def finish(self, reason: str) -> None:
        """The stream ends: emit what only this dialect knows to be pending."""

    def before_turn_end(self) -> None:
        """A turn is ending, its calls are closed: emit what stands before its usage and its own event."""

    def unfinished(self, call: Call) -> tuple[Any, dict[str, OutputRef] | None]:
        """What is known of the output of a call that ends without a result of its own: (value, bodies by pointer)."""
        return None, None

    # -- for dialects to use ------------------------------------------------------------------------------------

    def unparsed(self, reason: str, value: Any) -> str:
        """An object this dialect does not know, or cannot take apart."""
        text = msgspec.json.encode(value)
        return self._unreadable(reason, text, len(text))

    def set_session(self, session: str) -> None:
        """The provider's id of the root session. Earlier events under another name are tied to it by `alias`."""
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

    def start_turn(self, turn_id: str | None = None, *, synthetic: bool = False) -> str:
        state = self.state
        state.turn_count += 1
        turn_id = turn_id or f"t{state.turn_count}"
        while len(state.turns) >= self.context.limits.open_turns:
            self._give_up(state.turns[0])
        state.turns.append(OpenTurn(turn_id, self.session, self.agent, self.origin))
        self.emit(Turn, state="started", synthetic=synthetic)
        return turn_id

    def ensure_turn(self) -> None:
        """Open a synthetic turn for content that comes outside of any."""
        if self.turn is None:
            self.start_turn(synthetic=True)

    def end_turn(
        self,
        outcome: str,
        *,
        turn_id: str | None = None,
        reason: str | None = None,
        duration_ms: int | None = None,
        synthetic: bool = False,
        before: tuple[tuple[type[Event], dict[str, Any]], ...] = (),
    ) -> None:
        """End the named turn, else the oldest open one of this session: texts, open calls, `before`, then the turn.

        `outcome`: completed, failed or cancelled. `before`: events (diff, usage) that stand between the closed calls
        and the turn's own event.
        """
        turns = self.state.turns
        turn = next((one for one in turns if one.session == self.session and turn_id in (None, one.id)), None)
        if turn is None:
            turn = OpenTurn(turn_id or f"t{max(self.state.turn_count, 1)}", self.session, origin=self.origin)
        self.texts.flush_turn(self.session, turn.id)
        self.permissions.expire_turn(turn.session, turn.id)
        stopped = outcome == "cancelled" and not synthetic  # said by the provider, not concluded by us
        self.calls.close_turn(turn.session, turn.id, turn.agent, "cancelled" if stopped else "interrupted")
        self.before_turn_end()
        for kind, fields in before:
            self.emit(kind, turn=turn.id, **fields)
        if turn in turns:
            turns.remove(turn)
        origin = {} if turn.origin is None else {"protocol": turn.origin[0], "provider": turn.origin[1]}
        self.emit(
            Turn,
            turn=turn.id,
            state=outcome,
            reason=reason,
            duration_ms=duration_ms,
            synthetic=synthetic,
            agent=turn.agent,
            **origin,
        )

    # -- inner workings -----------------------------------------------------------------------------------------

    def _begin(self, t: int | None) -> None:
        """Go on to the next line."""
        state = self.state
        state.line += 1
        if not self._is_guest:
            self._numbers.restart(state.line)
        self._reset_scope(t)
        self.repaired = False

    def _read_all(self, values: list[Any], line: bytes, t: int | None, direction: Direction | None) -> str:
        """Objects torn onto one line, or those of an array: the line is worth its best part."""
        classes: list[str] = []
        for value in values:
            if classes:
                self._reset_scope(t)
            classes.append(self._read(value, line, t, direction))
        return next((one for one in (WITH_EVENTS, UNPARSED) if one in classes), classes[0])

    def _read(self, value: Any, line: bytes, t: int | None, direction: Direction | None) -> str:
        try:
            if isinstance(value, dict):
                if self.watch is not None:
                    self.watch(value, direction)
                return self.read(value, direction)
            if (line_class := self.read_other(value, direction)) is not None:
                return line_class
        except Exception as error:  # the promise is never to raise: the line is shown, and `make corpus` counts it
            return self._unreadable(f"parser-error: {type(error).__name__}", line, len(line))
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            return self._read_all(value, line, t, direction)
        return self._unreadable("not-an-object", line, len(line))

    def _collect(self, line: bytes) -> bytes | None:
        """The line, or the whole object of which it is the last; None while an object goes on."""
        documents: Documents = self.state.documents
        if documents.is_broken_by(line) or documents.size + len(line) > self.context.limits.line_bytes:
            self._abandon_document()
        return documents.take(line, objects=self.DOCUMENTS)

    def _abandon_document(self) -> None:
        documents: Documents = self.state.documents
        if documents.lines:
            self._unreadable("truncated", documents.text, documents.size)
            documents.drop()

    def _unreadable(self, reason: str, line: bytes, size: int) -> str:
        text = line[: UNPARSED_TEXT * 4].decode("utf-8", "replace")[:UNPARSED_TEXT]
        self.emit(Unparsed, reason=reason, text=text, bytes=size)
        return UNPARSED

    def _give_up(self, turn: OpenTurn) -> None:
        """End a turn whose end nobody told."""
        scope = self.session, self.agent, self.origin
        self.session, self.agent, self.origin = turn.session, turn.agent, turn.origin
        self.end_turn("cancelled", turn_id=turn.id, synthetic=True)
        self.session, self.agent, self.origin = scope

    def _end_everything(self) -> None:
        self.texts.flush_all()
        while self.state.turns:
            self._give_up(self.state.turns[0])
        self.permissions.expire_all()
        self.calls.close_all()
