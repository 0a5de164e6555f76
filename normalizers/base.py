"""What every dialect parser is: a state machine fed one line at a time, whose whole state can be dumped and loaded.

A dialect subclasses `Parser`, keeps everything it remembers in one msgspec struct derived from `State`, and implements
`read` (one decoded object) and, where it needs to, `finish`. The base class decodes, numbers events, fills the
envelope, opens and closes turns, and makes sure that a line is in exactly one class and that nothing raises.

Everything an event says follows from the context, the lines and their times alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import msgspec

from tooltap.normalizers.calls import Calls
from tooltap.normalizers.calls_state import Call
from tooltap.normalizers.decode import FRAMING, decode_line
from tooltap.normalizers.documents import Documents
from tooltap.normalizers.framing import LongLine
from tooltap.normalizers.items import Context, Item, OutputPiece
from tooltap.normalizers.numbers import Numbers
from tooltap.normalizers.permissions import Permissions
from tooltap.normalizers.state import OpenTurn, State
from tooltap.normalizers.texts import Texts
from tooltap.protocol.events import Event, Notice, OutputRef, SessionEvent, Turn, Unparsed
from tooltap.protocol.tapped import Direction

__all__ = ["UNPARSED", "WITH_EVENTS", "Parser", "Watch", "skip"]

WITH_EVENTS = "withEvents"
UNPARSED = "unparsed"
UNPARSED_TEXT = 2_000
"""Code points of an unreadable line that its event shows."""


def skip(reason: str) -> str:
    """The class of a line that gives no event, for a reason out of the dialect's `SKIPS`."""
    return f"skipped.{reason}"


E = TypeVar("E", bound=Event)

Watch: TypeAlias = Callable[[dict[str, Any], Direction | None], None]
"""Looks on while a parser reads. Must not raise, nor change what it is shown."""


class Parser(ABC):
    """One stream's parser. `feed`, `feed_long`, `lost` and `close` give (class, items); they never raise."""

    dialect: ClassVar[str]
    protocol: ClassVar[str]
    default_provider: ClassVar[str]
    SKIPS: ClassVar[frozenset[str]]
    """Reasons for which this dialect gives a line no event: a closed table."""
    state_type: ClassVar[type[State]] = State
    DOCUMENTS: ClassVar[bool] = False
    """Whether an object may come printed over many lines, as files that are JSON documents have it."""
    ARRAYS: ClassVar[bool] = True
    """Whether the stream may come as one array, printed over many lines."""

    def __init__(self, context: Context, state: State | None = None) -> None:
        self.context = context
        self.state: Any = self.state_type() if state is None else state
        self.calls = Calls(self)
        self.permissions = Permissions(self)
        self.texts = Texts(self)
        self.items: list[Item] = []
        self._publishers_name = context.session or context.stream
        self.repaired = False
        """Whether the line just fed had to be repaired."""
        self.partials = context.partials
        """Whether previews are wanted; may change at any time, and changes nothing else."""
        self.watch: Watch | None = None
        """Is shown every object that is read, and changes nothing."""
        self._numbers = Numbers(context.stream)
        self._numbers.restart(self.state.line)
        self._is_guest = False
        self._reset_scope(None)

    # -- the interface ------------------------------------------------------------------------------------------

    def feed(self, line: bytes, t: int | None = None, direction: Direction | None = None) -> tuple[str, list[Item]]:
        """Read one line. `t`: ms since the epoch at which it was received, if known."""
        self._begin(t)
        if (known := self.glance(line)) is not None:
            return known, self._take()
        if self.ARRAYS and not self.state.documents.passes(line):
            whole = self._collect(line)
            if whole is None:
                return WITH_EVENTS, self._take()
            line = whole
        values, self.repaired, reason = decode_line(line, self.context.limits.depth)
        if not values:
            if reason == "blank":
                return skip("blank"), self._take()
            if reason == FRAMING and FRAMING in self.SKIPS:
                self.read_framing(line)
                return skip(FRAMING), self._take()
            return self._unreadable("not-json" if reason in (None, FRAMING) else reason, line, len(line))
        if len(values) > 1:
            return self._read_all(values, line, t, direction), self._take()
        return self._read(values[0], line, t, direction), self._take()

    def feed_long(self, line: LongLine, t: int | None = None) -> tuple[str, list[Item]]:
        """A line longer than the limit: its head and length."""
        self._begin(t)
        return self._unreadable("too-long", line.head, line.size)

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

    def begin_between_lines(self, index: int, t: int | None) -> None:
        """What is emitted next is made by no line; its ids are numbered from `index`."""
        self._reset_scope(t)
        self._restart_numbers("d", index)

    def be_guest_of(self, host: Parser) -> None:
        """Read a part of the host's lines: what this parser gives is numbered as the host's."""
        self._numbers = host._numbers
        self._is_guest = True

    def dump(self) -> bytes:
        return msgspec.msgpack.encode(self.state)

    @classmethod
    def load(cls, data: bytes, context: Context) -> Self:
        """Raises `msgspec.DecodeError` or `msgspec.ValidationError` where the dump is not one of this version."""
        return cls(context, msgspec.msgpack.decode(data, type=cls.state_type))

    # -- for dialects to implement ------------------------------------------------------------------------------

    @abstractmethod
    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        """Read one object of the line: emit events, and say the line's class."""

    def read_other(self, value: Any, direction: Direction | None) -> str | None:
        """Read a value that is no object: the line's class, or None where the dialect has no such lines."""
        return None

    def read_framing(self, line: bytes) -> None:  # noqa: B027 -- most dialects need only what is framed
        """Look at a line of the framing of server-sent events."""

    def glance(self, line: bytes) -> str | None:
        """The class of a line that need not be decoded to be skipped."""
        return None

    def finish(self, reason: str) -> None:  # noqa: B027 -- most dialects keep nothing of their own
        """The stream ends: emit what only this dialect knows to be pending."""

    def before_turn_end(self) -> None:  # noqa: B027 -- most dialects keep nothing for it
        """A turn is ending, its calls are closed: emit what stands before its usage and its own event."""

    def unfinished(self, call: Call) -> tuple[Any, dict[str, OutputRef] | None]:
        """What is known of the output of a call that ends without a result of its own: (value, bodies by pointer)."""
        return None, None

    # -- for dialects to use ------------------------------------------------------------------------------------

    session: str
    agent: str | None
    parent: str | None
    replay: bool
    ts: int | None
    origin: tuple[str, str] | None
    """Scope of the line being read; reset for each line. Dialects set what differs. `origin` is (protocol, provider),
    where one stream holds what several agents said; None: the stream's own."""

    def origin_of_line(self) -> tuple[str, str]:
        """(protocol, provider) of the line's events."""
        return self.origin or (self.protocol, self.provider)

    @property
    def provider(self) -> str:
        return self.context.provider or self.state.provider or self.default_provider

    @property
    def turn(self) -> str | None:
        """The newest open turn of the session the line belongs to: its agent's own, where agents have turns."""
        newest = None
        turns: list[OpenTurn] = self.state.turns
        for turn in reversed(turns):
            if turn.session == self.session:
                if turn.agent == self.agent:
                    return turn.id
                newest = newest or turn.id
        return newest

    def emit(self, kind: type[E], **fields: Any) -> E:
        """Append an event of the line being read; envelope keys may be overridden by name."""
        if "turn" not in fields:
            fields["turn"] = self.turn
        event = self._make(kind, self._numbers.event(), fields)
        self.items.append(event)
        if self.state.session is None and event.session == self._publishers_name:
            self.state.named = True
        return event

    def emit_partial(self, kind: type[E], **fields: Any) -> None:
        """A live preview. Costs no event index, so that ids are the same whether previews are wanted or not."""
        if not self.partials:
            return
        if "turn" not in fields:
            fields["turn"] = self.turn
        self.items.append(self._make(kind, self._numbers.partial(), {**fields, "partial": True}))

    def put_output(self, data: bytes, mime_type: str) -> str:
        """Keep a whole body aside; gives its id."""
        output_id = self.new_output_id()
        self.items.append(OutputPiece(output_id, 0, data, mime_type))
        return output_id

    def new_output_id(self) -> str:
        return self._numbers.output()

    def unparsed(self, reason: str, value: Any) -> str:
        """An object this dialect does not know, or cannot take apart."""
        text = msgspec.json.encode(value)
        self._emit_unparsed(reason, text, len(text))
        return UNPARSED

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
        state = self.state
        state.line += 1
        self.repaired = False
        if not self._is_guest:
            self._numbers.restart(state.line)
        self._reset_scope(t)

    def _restart_numbers(self, mark: str, events: int = 0) -> None:
        if not self._is_guest:
            self._numbers.restart(self.state.line, mark, events)

    def _reset_scope(self, t: int | None) -> None:
        context = self.context
        self.session = self.state.session or self._publishers_name
        self.agent = context.agent
        self.parent = context.parent
        self.replay = False
        self.ts = t
        self.origin = None

    def _take(self) -> list[Item]:
        items = self.items
        self.items = []
        return items

    def _make(self, kind: type[E], event_id: str, fields: dict[str, Any]) -> E:
        protocol, provider = self.origin or (self.protocol, self.provider)
        return kind(
            **{
                "v": 2,
                "id": event_id,
                "stream": self.context.stream,
                "line": self._numbers.line,
                "ts": self.ts,
                "session": self.session,
                "agent": self.agent,
                "parent": self.calls.id_of(self.parent) if self.parent is not None else None,
                "protocol": protocol,
                "provider": provider,
                "dialect": self.dialect,
                "replay": self.replay,
                **fields,
            }
        )

    def _read_all(self, values: list[Any], line: bytes, t: int | None, direction: Direction | None) -> str:
        """Objects torn onto one line, or those of an array: the line is worth its best part."""
        classes: list[str] = []
        for value in values:
            if classes:
                self._reset_scope(t)
            classes.append(self._read(value, line, t, direction))
        return next((one for one in (WITH_EVENTS, UNPARSED) if one in classes), classes[0])

    def _read(self, value: Any, line: bytes, t: int | None, direction: Direction | None) -> str:
        if self.watch is not None and isinstance(value, dict):
            self.watch(value, direction)
        try:
            if isinstance(value, dict):
                return self.read(value, direction)
            if (line_class := self.read_other(value, direction)) is not None:
                return line_class
        except Exception as error:  # the promise is never to raise: the line is shown, and `make corpus` counts it
            self._emit_unparsed(f"parser-error: {type(error).__name__}", line, len(line))
            return UNPARSED
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            return self._read_all(value, line, t, direction)
        self._emit_unparsed("not-an-object", line, len(line))
        return UNPARSED

    def _collect(self, line: bytes) -> bytes | None:
        """The line, or the whole object of which it is the last; None while an object goes on."""
        documents: Documents = self.state.documents
        if documents.is_broken_by(line) or documents.size + len(line) > self.context.limits.line_bytes:
            self._abandon_document()
        return documents.take(line, objects=self.DOCUMENTS)

    def _abandon_document(self) -> None:
        documents: Documents = self.state.documents
        if documents.lines:
            self._emit_unparsed("truncated", documents.text, documents.size)
            documents.drop()

    def _unreadable(self, reason: str, line: bytes, size: int) -> tuple[str, list[Item]]:
        self._emit_unparsed(reason, line, size)
        return UNPARSED, self._take()

    def _emit_unparsed(self, reason: str, line: bytes, size: int) -> None:
        text = line[: UNPARSED_TEXT * 4].decode("utf-8", "replace")[:UNPARSED_TEXT]
        self.emit(Unparsed, reason=reason, text=text, bytes=size)

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
