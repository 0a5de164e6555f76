"""What a dialect emits with: sessions, turns, texts, calls, permissions and notices of one stream.

A parser is an emitter that reads lines. The helpers of a dialect get the emitter and their part of the state, never the
parser: they cannot feed lines, and no import leads back to who calls them.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from tooltap.normalizers.core.calls import Calls
from tooltap.normalizers.core.calls_state import Call
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.lines import UNPARSED, Skip
from tooltap.normalizers.core.permissions import Permissions
from tooltap.normalizers.core.state import OpenTurn, State
from tooltap.normalizers.core.texts import Texts
from tooltap.normalizers.core.writer import Writer
from tooltap.protocol.events import Event, Message, Notice, OutputRef, Reasoning, SessionEvent, Turn, Unparsed

__all__ = ["Emitter"]

UNPARSED_TEXT = 2_000
"""Code points of an unreadable line that its event shows."""


class Emitter(Writer):
    state_type: ClassVar[type[State]] = State
    """The struct that holds everything the dialect remembers between lines."""

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, self.state_type() if state is None else state)
        self.calls = Calls(self, self.state.calls, lambda call: self.unfinished(call))
        self.permissions = Permissions(self, self.calls, self.state.permissions)
        self.texts = Texts(self, self.state.texts)

    # -- for dialects to override -------------------------------------------------------------------------------

    def before_turn_end(self) -> None:
        """A turn is ending and its calls are closed: emit what comes before its usage and its own event."""

    def unfinished(self, call: Call) -> tuple[Any, dict[str, OutputRef] | None]:
        """What is known of the output of a call that ends without a result: (value, output bodies by JSON pointer)."""
        return None, None

    # -- lines --------------------------------------------------------------------------------------------------

    def unparsed(self, reason: str, value: Any) -> str:
        """Emit an object that this dialect does not know, or cannot take apart."""
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

    def emit_text(self, role: str, text: str, **fields: Any) -> None:
        """Emit a whole message, or reasoning where that is the `role`."""
        if role == "reasoning":
            self.emit(Reasoning, text=text, **fields)
        else:
            self.emit(Message, role=role, text=text, **fields)

    # -- sessions -----------------------------------------------------------------------------------------------

    def set_session(self, session: str) -> None:
        """Set the provider's id of the root session. An `alias` ties earlier events under another name to it."""
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
        """Emit what changed of the session, if anything."""
        if not changes:
            return "unchanged"
        self.emit(SessionEvent, state="updated", **changes)
        return None

    # -- turns --------------------------------------------------------------------------------------------------

    def start_turn(self, turn_id: str | None = None, *, synthetic: bool = False) -> str:
        state = self.state
        state.turn_count += 1
        turn_id = turn_id or f"t{state.turn_count}"
        while len(state.turns) >= self.context.limits.open_turns:
            self._give_up(state.turns[0])
        # What is open changes after its event: nothing is open of which no event says so.
        self.emit(Turn, turn=turn_id, state="started", synthetic=synthetic)
        state.turns.append(OpenTurn(turn_id, self.session, self.agent, self.origin))
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
        ended_by: str | None = None,
        reason: str | None = None,
        duration_ms: int | None = None,
        synthetic: bool = False,
        before: tuple[tuple[type[Event], dict[str, Any]], ...] = (),
    ) -> None:
        """End the named turn, else the oldest open one of this session: texts, open calls, `before`, then the turn.

        `outcome`: completed, failed or cancelled. `ended_by`: how that is known; by default from the wire's own words
        (`provider`), or, where the end is `synthetic`, from the answer before it, else because nothing follows
        (`eof`). `before`: events (diff, usage) between the closed calls and the turn's own event.
        """
        turns = self.state.turns
        turn = next((one for one in turns if one.session == self.session and turn_id in (None, one.id)), None)
        if turn is None:
            turn = OpenTurn(turn_id or f"t{max(self.state.turn_count, 1)}", self.session, origin=self.origin)
        self.texts.flush_turn(self.session, turn.id)
        self.permissions.expire_turn(turn.session, turn.id)
        stopped = outcome == "cancelled" and not synthetic  # stated by the provider, not concluded by us
        self.calls.close_turn(turn.session, turn.id, turn.agent, "cancelled" if stopped else "interrupted")
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
        if turn in turns:
            turns.remove(turn)

    def give_up_turns(self) -> None:
        """End every open turn: the process that would have ended them is gone."""
        for turn in list(self.state.turns):
            self._give_up(turn)

    def _give_up(self, turn: OpenTurn) -> None:
        """End a turn whose end is not on the wire: it is completed if it ended with an answer and no work is open."""
        scope = self.session, self.agent, self.origin
        self.session, self.agent, self.origin = turn.session, turn.agent, turn.origin
        place = turn.session, turn.id, turn.agent
        answered = turn.answered and not self.calls.is_open(*place) and not self.permissions.is_open(*place[:2])
        outcome, reason = ("completed", None) if answered else ("cancelled", "interrupted")
        self.end_turn(outcome, turn_id=turn.id, ended_by="eof", reason=reason, synthetic=True)
        self.session, self.agent, self.origin = scope

    def _end_everything(self) -> None:
        self.texts.flush_all()
        while self.state.turns:
            self._give_up(self.state.turns[0])
        self.permissions.expire_all()
        self.calls.close_all()
        self._closing = False
