"""Base of the dialects of stateless APIs: a request repeats the whole conversation and adds prompts and results of
tools; the answer that follows, whole or streamed, is repeated by the next request.

A turn lasts from a prompt to an answer that calls no tool. The messages of a request are compared with those of the
last one by digests, which a dialect makes of what clients do not change when they repeat a message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from tooltap.normalizers.core.calls import UNKNOWN_TOOL
from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.core.parser import Parser, best
from tooltap.normalizers.core.state import SHORT, State, keep_newest
from tooltap.normalizers.wire.decode import FRAMING
from tooltap.normalizers.wire.exchange import ERRORS, ExchangeEnd
from tooltap.protocol.events import Attachment, Message, Usage

HISTORY = 65_536
"""Maximum number of a conversation's messages that are recognised when they are repeated."""
KNOWN_ANSWERS = 1_024
"""Maximum number of answers that are recognised when they are repeated."""
MANY_CALLS = 128
"""Maximum number of calls per answer."""


class Use(Protocol):
    """A call in a message of the model."""

    @property
    def id(self) -> str | None: ...

    @property
    def name(self) -> str | None: ...

    @property
    def value(self) -> Any:
        """The tool's input."""

    @property
    def raw(self) -> Line: ...


class ExchangeState(State, kw_only=True):
    history: list[int] = msgspec.field(default_factory=list)
    """Digests of the messages of the last request, without instructions."""
    known_answers: dict[int, None] = msgspec.field(default_factory=dict)
    """Digests of the last answers, which requests will repeat."""
    answered: bool = False
    """The last request has its answer, so the same request again is not a retry."""
    asked: bool = False
    """A request waits for its answer."""
    failed: bool = False
    """The last request has an error in place of its answer."""
    called: list[str] = msgspec.field(default_factory=list)
    """Calls of the newest answer, by their ids in events."""
    aliases: dict[str, str] = msgspec.field(default_factory=dict)
    """Id that the client gave to a call of the last answer -> the call's id in events."""
    model: str | None = None
    call_count: int = 0
    nameless: str = ""
    """Our id for the newest call without one."""


class ExchangeParser(Parser):
    SKIPS = frozenset({"empty", "history", "keep-alive", FRAMING})
    state_type = ExchangeState
    state: ExchangeState

    # -- for dialects to override ---------------------------------------------------------------------------------

    def digest(self, message: Line) -> int:
        """Return a CRC of a message that stays the same when the message is repeated."""
        raise NotImplementedError

    def is_prompt(self, message: Line) -> bool:
        """Whether a message is the user's, and no result of a tool."""
        raise NotImplementedError

    def read_message(self, message: Line, *, begins_turn: bool) -> Skip:
        """Read a message of a request that is new. `begins_turn`: whether a prompt begins a turn."""
        raise NotImplementedError

    def emit_repeated(self, message: Line) -> None:
        """Emit the texts of a model's message in a request, whose answer is not in the stream."""
        raise NotImplementedError

    def end_answer(self) -> None:
        """End the answer that is being received, if there is one, and with it the turn unless tools are to be
        called."""
        raise NotImplementedError

    def settle(self) -> None:
        """End an answer that has everything, whose end is not on the wire."""
        if self.holds_back():
            self.end_answer()

    # -- lines ----------------------------------------------------------------------------------------------------

    def read_other(self, value: Any, line: bytes, t: int | None) -> Skip:
        return "empty" if value is None else super().read_other(value, line, t)

    def read_framing(self, line: bytes) -> None:
        if self.direction != "in" and (end := ExchangeEnd.read(line)) is not None:
            self._exchange_ended(end)

    def finish(self, reason: str) -> None:
        self.end_answer()

    def fail_exchange(self, error: Line, *codes: str) -> None:
        """Read an error in place of an answer, or in the middle of one. `codes`: keys of the reason of the turn's end,
        the best one first."""
        words = next((str(error[key]) for key in ("message", *codes) if error.get(key)), "error")
        self.ensure_turn()
        self.state.failed, self.state.answered = True, False
        self.texts.flush()
        self.notice("provider-error", words, "error", error)
        reason = next((str(error[key]) for key in codes if error.get(key)), "error")
        self.fail_request(reason[:SHORT])

    def _exchange_ended(self, end: ExchangeEnd) -> None:
        """End the turn of an exchange if its answer does not state its end, or is none."""
        state = self.state
        self.end_answer()
        if state.failed:
            if not end.may_be_retried:
                self.end_failed_turns()
            return
        turn = next((one for one in state.turns if one.id == self.turn), None)
        if state.answered:
            if turn is not None and self.seems_over(turn):
                self.end_turn("completed", ended_by="answer")
            return
        has_calls = turn is not None and self.calls.is_open(turn.session, turn.id, turn.agent)
        if end.complete and end.body is None and has_calls and (end.status or 0) < ERRORS:
            return  # the client runs the calls of an answer without its end
        self.end_exchange(end)

    # -- requests -------------------------------------------------------------------------------------------------

    def read_conversation(self, messages: list[Line], *, is_request: bool = True) -> Skip:
        """Read the whole conversation so far, without instructions. If it shares nothing with the last request, it is a
        new one, and the messages before its last prompt are replayed history; a recorded conversation, which is no
        request, has no such history."""
        digests = [self.digest(one) for one in messages]
        history = self.state.history
        known = 0
        for old, new in zip(history, digests, strict=False):
            if old != new:
                break
            known += 1
        if not is_request and known < len(history):
            known = 0  # recorded conversations may begin alike, and yet each is another; one that grows is not
        if known == len(messages) < len(history):
            self.end_failed_turns()  # the client has gone back: this is no retry
        is_new = known == 0
        again = _repeated(history, digests, known) if is_request else Counter()
        self.state.history = digests[:HISTORY]
        last_prompt = len(messages) - 1
        while last_prompt >= 0 and not self.is_prompt(messages[last_prompt]):
            last_prompt -= 1
        if known == len(messages) and self.state.answered and last_prompt >= 0:
            known = last_prompt  # requested once more, for another answer
        is_asked = self.state.answered and last_prompt == len(messages) - 1
        self.state.answered, self.state.asked, self.state.failed = False, is_request, False
        outcomes: list[Skip] = ["history"]
        prompted = False
        for index, message in enumerate(messages[known:], known):
            self.replay = is_request and is_new and index < last_prompt
            is_prompt = self.is_prompt(message)
            if again[digests[index]] > 0 and not (is_prompt and (is_new or (is_asked and index == last_prompt))):
                again[digests[index]] -= 1
                continue
            outcomes.append(self.read_message(message, begins_turn=not prompted))
            # In a request the prompts come together; in a recorded conversation those that follow one another do.
            prompted = is_prompt or (prompted and is_request)
            prompted &= not self.replay
        self.replay = False
        self.retry_request()
        return best(outcomes)

    def read_alone(self, message: Line) -> Skip:
        """Read a message that stands for itself."""
        outcome = self.read_message(message, begins_turn=True)
        self.state.history.append(self.digest(message))
        del self.state.history[:-HISTORY]
        return outcome

    def read_repeated(self, message: Line, uses: Sequence[Use], *, has_text: bool) -> Skip:
        """Read a model's message in a request: an answer that was received, or one that is not in the stream."""
        if self.digest(message) in self.state.known_answers:
            return "history"
        if self._waits_for(uses) or self.learns_ids(uses) or not (uses or has_text):
            return "history"
        if not self.replay:
            self.ensure_turn()
        self.emit_repeated(message)
        self.state.called = []
        self.open_calls(uses)
        if not uses and not self.replay and self.turn is not None:
            self.end_turn("completed", ended_by="answer")
        return None

    def ensure_turn(self) -> None:
        if self.state.failed:
            self.end_failed_turns()  # an answer without its request, which may be any
            self.state.failed = False
        super().ensure_turn()

    def emit_prompt(self, text: str, attachments: Sequence[Attachment], *, begins_turn: bool) -> None:
        if begins_turn and not self.replay:
            self.give_up_turns()
            self.start_turn()
        self.emit(Message, role="user", text=text, attachments=attachments or None)

    def emit_end(
        self,
        request: str | None,
        counts: Line | None,
        *,
        outcome: str | None,
        reason: str | None,
        ended_by: str | None = None,
    ) -> None:
        """Emit the usage of an answer that has ended, and end the turn with this outcome, unless it is None."""
        usage = None if counts is None else {"scope": "step", "request": request, **counts}
        if outcome is not None:
            before = ((Usage, usage),) if usage is not None else ()
            self.end_turn(outcome, reason=reason, ended_by=ended_by, before=before)
        elif usage is not None:
            self.emit(Usage, **usage)

    def remember_answer(self, digest: int) -> None:
        """Remember the digest of an answer, so that a request that repeats it says nothing new."""
        self.state.known_answers[digest] = None
        keep_newest(self.state.known_answers, KNOWN_ANSWERS)

    def open_calls(self, uses: Sequence[Use]) -> None:
        """Emit new calls. Servers use ids again: later lines mean the newest call of an id."""
        state = self.state
        for use in uses:
            state.call_count += 1
            if not use.id:
                state.nameless = f"call-{state.call_count}"
            call_id = use.id or state.nameless
            state.aliases.pop(call_id, None)
            call = self.calls.open(call_id, use.name or UNKNOWN_TOOL, use.value, raw=use.raw)
            state.called.append(call.id)
            del state.called[:-MANY_CALLS]

    def _waits_for(self, uses: Sequence[Use]) -> bool:
        """Return whether these calls are open, so that the message only repeats the answer that made them. A call with
        the id of a completed one is a new call, because servers reuse ids."""
        open_calls = [self.calls.get(use.id or self.state.nameless) for use in uses]
        names = [call.raw_name if call is not None else None for call in open_calls]
        return bool(uses) and names == [use.name or UNKNOWN_TOOL for use in uses]

    def learns_ids(self, uses: Sequence[Use]) -> bool:
        """Return whether these are the calls of the last answer, to which the client has given ids of its own; if so,
        remember those."""
        state = self.state
        called = [state.calls.open.get(call_id) for call_id in state.called]
        if not uses or len(uses) != len(called):
            return False
        for use, call in zip(uses, called, strict=True):
            if call is None or not self.calls.shows(call, use.name or UNKNOWN_TOOL, use.value):
                return False
        state.aliases |= {use.id: call_id for use, call_id in zip(uses, state.called, strict=True) if use.id}
        keep_newest(state.aliases, KNOWN_ANSWERS)
        return True


def _repeated(before: list[int], now: list[int], known: int) -> Counter[int]:
    """Multiset of CRCs of messages that a client repeats after changing or dropping an earlier message: those of the
    last request after the first `known`. Empty if the two conversations share too few messages, and are therefore
    different ones."""
    rest = Counter(before[known:])
    shared = sum((rest & Counter(now[known:])).values()) if rest else 0
    return rest if known or shared * 3 >= 2 * min(len(before), len(now)) else Counter()


def merged(known: Line, stated: Line) -> Line:
    """The usage of an answer with what another line states: of each figure the greater, as servers state counts up to
    now, or zeros until the end."""
    greater = {key: max(known[key], count) for key, count in stated.items() if None not in (known.get(key), count)}
    return {**{key: count for key, count in stated.items() if count is not None}, **known, **greater}
