"""The `vibe-json` dialect: `vibe --output streaming`.

Learned from Mistral Vibe 3.0. Each line is an entry of the session's history: a message, an effect (a call and what
became of it), or a callback (a question to the user). An entry is known by its id, and may come again as it grows. No
line tells the end of a turn: one whose last entry is what the model said is complete, as the model has no more to do.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.bodies import Bodies
from tooltap.normalizers.core.calls import DUPLICATE_RESULT
from tooltap.normalizers.core.calls_state import Call
from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.core.state import State
from tooltap.normalizers.dialects.vibe.results import read_state
from tooltap.normalizers.tools.payload import blocks_text
from tooltap.normalizers.wire.values import number, record, string, whole
from tooltap.protocol.events import Message, Reasoning
from tooltap.protocol.tapped import Direction

__all__ = ["VibeJson"]

MANY_MESSAGES = 4_096
"""Ids of messages that are remembered."""

_FINISHED = ("completed", "failed", "cancelled", "interrupted", "denied", "skipped")
_RUNNING = {"pending": "pending", "awaiting_approval": "awaiting-permission"}
"""State of an effect that has not ended -> status; every other is running."""

_CHOICES = {
    "approve": "allow_once",
    "approve_for_session": "allow_always",
    "approve_permanently": "allow_always",
    "deny": "reject_once",
    "cancel_turn": "reject_once",
}
"""Choice of an approval -> kind of option."""

_DECISIONS = {"deny": "denied", "cancel_turn": "cancelled"}
"""Type of a decision -> outcome; every other one approves."""


class VibeState(State, kw_only=True):
    messages: dict[str, int] = msgspec.field(default_factory=dict)
    """Id -> how much of a message was shown; -1: all of it was told."""
    answered: bool = False
    """The turn's last entry is what the model said."""


class VibeJson(Parser):
    dialect = "vibe-json"
    protocol = "vibe"
    default_provider = "vibe"
    SKIPS = frozenset({"blank", "lost", "duplicate-result", "empty", "partial", "unchanged"})
    state_type = VibeState
    state: VibeState

    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        entry_id = value.get("id")
        kind = value.get("type")
        if not isinstance(entry_id, str) or kind not in ("message", "reasoning", "effect", "callback"):
            return self.unparsed("unknown-type", value)
        if session := string(value.get("sessionId")):
            self.set_session(session)
        self.ts = whole(value.get("createdAt")) or self.ts
        self._enter_turn(string(value.get("turnId")))
        if kind == "effect":
            self.state.answered = False
            return self._effect(entry_id, value)
        if kind == "callback":
            self.state.answered = False
            return self._callback(entry_id, value)
        return self._message(entry_id, value, "reasoning" if kind == "reasoning" else str(value.get("role")))

    def _enter_turn(self, turn_id: str | None) -> None:
        if turn_id is None or self.turn == turn_id:
            self.ensure_turn()
            return
        self._leave_turn()
        self.start_turn(turn_id)

    def _leave_turn(self) -> None:
        if self.turn is not None:
            self.end_turn("completed" if self.state.answered else "cancelled", synthetic=True)
        self.state.answered = False

    def finish(self, reason: str) -> None:
        if self.state.answered:
            self._leave_turn()

    # -- messages -----------------------------------------------------------------------------------------------

    def _message(self, entry_id: str, value: dict[str, Any], role: str) -> str:
        if role not in ("user", "assistant", "system", "reasoning"):
            return self.unparsed("unknown-type", value)
        shown = self.state.messages.pop(entry_id, 0)
        while len(self.state.messages) >= MANY_MESSAGES:
            del self.state.messages[next(iter(self.state.messages))]
        if shown < 0:
            self.state.messages[entry_id] = shown
            return skip("unchanged")
        bodies = Bodies(self)
        text = blocks_text(bodies.take(value.get("content"))) or ""
        if value.get("generationStatus") not in _FINISHED:
            self.state.messages[entry_id] = len(text)
            if piece := text[shown:]:
                self.texts.append(role, piece, message_id=entry_id, key=entry_id, preview=True)
            return skip("partial")
        self.state.messages[entry_id] = -1
        self.state.answered = role == "assistant"
        self.texts.drop(entry_id)
        if not text and not bodies.attachments:
            return skip("empty")
        if role == "reasoning":
            self.emit(Reasoning, text=text, message_id=entry_id)
        else:
            self.emit(Message, role=role, text=text, message_id=entry_id, attachments=bodies.attachments)
        return WITH_EVENTS

    # -- calls --------------------------------------------------------------------------------------------------

    def _effect(self, call_id: str, value: dict[str, Any]) -> str:
        if self.calls.is_over(call_id):
            return DUPLICATE_RESULT
        bodies = Bodies(self)
        raw = bodies.take(value)
        state = record(raw.get("state"))
        finished = state.get("status") in _FINISHED or value.get("generationStatus") in _FINISHED
        status = None if finished else _RUNNING.get(str(state.get("status")), "running")
        call, opened = self._open(call_id, record(raw.get("detail")), raw, status)
        if call is None:
            return self.unparsed("unknown-type", value)
        if not finished:
            return WITH_EVENTS if opened else skip("unchanged")
        self.ts = whole(value.get("updatedAt")) or self.ts
        answer = read_state(call.name, state, str(value.get("generationStatus")))
        duration = number(state.get("durationMs"))
        return self.calls.result(
            call_id,
            answer.value,
            raw=state,
            status=answer.status,
            error=answer.error,
            duration_ms=None if duration is None else round(duration),
            display=answer.display,
            attachments=bodies.attachments,
        )

    def _open(
        self, call_id: str, detail: dict[str, Any], raw: dict[str, Any], status: str | None
    ) -> tuple[Call | None, bool]:
        """The call, and whether anything about it is new. A call that has ended stays at the status it had."""
        name = detail.get("toolName")
        if not isinstance(name, str):
            return self.calls.get(call_id), False
        title = string(record(detail.get("display")).get("summary"))
        entry = {key: item for key, item in raw.items() if key != "state"}
        value = detail.get("input")
        known = self.calls.get(call_id)
        if known is not None:
            return known, self.calls.update(known, value, raw=entry, status=status, title=title)
        return self.calls.open(call_id, name, value, raw=entry, status=status or "running", title=title), True

    # -- permissions --------------------------------------------------------------------------------------------

    def _callback(self, entry_id: str, value: dict[str, Any]) -> str:
        """Asked, and often answered in the same entry, before the entry of the call it is about."""
        permission_id = string(value.get("callbackId")) or entry_id
        if self.state.messages.get(entry_id) == -1:
            return skip("unchanged")
        detail = record(value.get("detail"))
        call_id = string(value.get("relatedEntryId"))
        told = self.permissions.is_pending(permission_id)
        if not told:
            self._ask(permission_id, call_id, detail, string(value.get("title")))
        state = record(value.get("state"))
        if state.get("status") != "answered":
            return skip("unchanged") if told else WITH_EVENTS
        self.state.messages[entry_id] = -1
        self.ts = whole(value.get("updatedAt")) or self.ts
        output = record(state.get("output"))
        decision = string(record(output.get("decision")).get("type"))
        feedback = string(output.get("feedback"))
        if decision is None:
            self.permissions.answer(permission_id, "answered", answers=output, message=feedback)
        else:
            outcome = _DECISIONS.get(decision, "allowed")
            self.permissions.answer(permission_id, outcome, option_id=decision, message=feedback)
        return WITH_EVENTS

    def _ask(self, permission_id: str, call_id: str | None, detail: dict[str, Any], title: str | None) -> None:
        effect = record(detail.get("effect"))
        if call_id is not None and not self.calls.is_known(call_id):
            self._open(call_id, effect, {"detail": effect}, "pending")
        known = call_id if call_id is not None and self.calls.is_known(call_id) else None
        choices = detail.get("choices")
        names = [one for one in choices if isinstance(one, str)] if isinstance(choices, list) else []
        options = [{"id": one, "name": one.replace("_", " "), "kind": _CHOICES.get(one, "other")} for one in names]
        questions = detail.get("questions")
        self.permissions.ask(
            permission_id,
            call_id=known,
            type="permission" if detail.get("kind") == "approval" else "question",
            options=options or None,
            title=title,
            questions=questions if isinstance(questions, list) else None,
        )
