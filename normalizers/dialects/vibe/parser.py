"""Parsers of Mistral Vibe's two formats: its printed stream, and its stored sessions."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import MessageHistory, OpenCall, State, make_room
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.dialects.vibe.answers import read_state
from tooltap.normalizers.tools.payload import blocks_text
from tooltap.normalizers.wire.values import number, record, records, string, token_counts, whole
from tooltap.protocol.events import Usage

MANY_MESSAGES = 4_096
"""Maximum number of message ids that are remembered."""

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
    """Id -> code points of the message that were emitted as partials; -1 once the message was emitted."""


class VibeJson(Parser):
    """The `vibe-json` dialect: `vibe --output streaming`.

    Learned from Mistral Vibe 3.0. Each line is an entry of the session's history: a message, an effect (a call and its
    outcome), or a callback (a question to the user). An entry has an id, and is repeated as it grows. No line states
    the end of a turn: a turn whose last entry is text of the model is complete, because the model calls no more tools.
    """

    dialect = "vibe-json"
    protocol = default_provider = "vibe"
    SKIPS = frozenset({"empty", "partial", "unchanged"})
    line = Lines("type")
    state_type = VibeState
    state: VibeState

    def enter(self, value: Line) -> None:
        if isinstance(value.get("id"), str) and self.line.knows(value.get("type")):
            if session := string(value.get("sessionId")):
                self.set_session(session)
            self.ts = whole(value.get("createdAt")) or self.ts
            turn_id = string(value.get("turnId"))
            if self.replay:
                return
            if turn_id is None or self.turn == turn_id:
                self.ensure_turn()
            else:
                self._leave_turn()
                self.start_turn(turn_id)

    def _leave_turn(self) -> None:
        """End the previous turn. Its outcome is not stated: it is completed if it ended with text of the model, else
        cancelled."""
        turn = next((one for one in self.state.turns if one.session == self.session), None)
        if turn is not None:
            outcome, reason = ("completed", None) if turn.answered else ("cancelled", "interrupted")
            self.end_turn(outcome, reason=reason, synthetic=True)

    # -- messages -----------------------------------------------------------------------------------------------

    @line("message", "reasoning", id=str)
    def _message(self, value: Line) -> Skip:
        entry_id, messages = value["id"], self.state.messages
        role = "reasoning" if value["type"] == "reasoning" else str(value.get("role"))
        if role not in ("user", "assistant", "system", "reasoning"):
            return self.unparsed("unknown-type", value)
        shown = messages.pop(entry_id, 0)
        make_room(messages, MANY_MESSAGES)
        if shown < 0:
            messages[entry_id] = shown
            return "unchanged"
        bodies = Bodies(self)
        text = (_reasoning(value) if role == "reasoning" else blocks_text(bodies.take(value.get("content")))) or ""
        if value.get("generationStatus") not in _FINISHED:
            messages[entry_id] = len(text)
            if new := text[shown:]:
                self.texts.append(role, new, message_id=entry_id, key=entry_id, preview=True)
            return "partial"
        messages[entry_id] = -1
        self.texts.drop(entry_id)
        if not text and not bodies.attachments:
            return "empty"
        attachments = {} if role == "reasoning" else {"attachments": bodies.attachments}
        self.emit_text(role, text, message_id=entry_id, **attachments)
        if record(value.get("outcome")).get("type") == "discarded":  # it was cut by an interrupt
            self.goes_on()
        return None

    # -- calls --------------------------------------------------------------------------------------------------

    @line("effect", id=str)
    def _effect(self, value: Line) -> Skip:
        call_id = value["id"]
        if self.calls.is_over(call_id):
            return "duplicate-result"
        bodies = Bodies(self)
        raw = bodies.take(value)
        state = record(raw.get("state"))
        finished = state.get("status") in _FINISHED or value.get("generationStatus") in _FINISHED
        status = None if finished else _RUNNING.get(str(state.get("status")), "running")
        call, changed = self._show(call_id, record(raw.get("detail")), raw, status)
        if call is None:
            return self.unparsed("unknown-type", value)
        if not finished:
            return None if changed else "unchanged"
        self.ts = whole(value.get("updatedAt")) or self.ts
        duration = number(state.get("durationMs"))
        answer = read_state(call.name, state, str(value.get("generationStatus"))).replace(
            duration_ms=None if duration is None else round(duration), attachments=bodies.attachments
        )
        return self.calls.answer(call_id, answer, raw=state)

    def _show(self, call_id: str, detail: Line, raw: Line, status: str | None) -> tuple[OpenCall | None, bool]:
        """Open or update a call. Returns (call, whether anything is new). A call that has ended keeps its status."""
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

    @line("callback", id=str)
    def _callback(self, value: Line) -> Skip:
        """A question to the user, often with its answer. It precedes the entry of the call that it is about."""
        entry_id = value["id"]
        permission_id = string(value.get("callbackId")) or entry_id
        if self.state.messages.get(entry_id) == -1:
            return "unchanged"
        pending = self.permissions.is_pending(permission_id)
        if not pending:
            self._ask(permission_id, value)
        state = record(value.get("state"))
        if state.get("status") != "answered":
            return "unchanged" if pending else None
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
        return None

    def _ask(self, permission_id: str, value: Line) -> None:
        call_id, detail = string(value.get("relatedEntryId")), record(value.get("detail"))
        effect = record(detail.get("effect"))
        if call_id is not None and not self.calls.is_known(call_id):
            self._show(call_id, effect, {"detail": effect}, "pending")
        known = call_id if call_id is not None and self.calls.is_known(call_id) else None
        choices, questions = detail.get("choices"), detail.get("questions")
        names = [one for one in choices if isinstance(one, str)] if isinstance(choices, list) else []
        options = [{"id": one, "name": one.replace("_", " "), "kind": _CHOICES.get(one, "other")} for one in names]
        self.permissions.ask(
            permission_id,
            call_id=known,
            type="permission" if detail.get("kind") == "approval" else "question",
            options=options or None,
            title=string(value.get("title")),
            questions=questions if isinstance(questions, list) else None,
        )


def _reasoning(value: Line) -> str | None:
    """The text of an entry of reasoning, or its summary where the model's provider shows no more."""
    return string(value.get("text")) or blocks_text(value.get("content")) or _joined(value.get("summary"))


def _joined(summary: object) -> str | None:
    """A summary is a list of texts, or of parts that have one."""
    if not isinstance(summary, list):
        return string(summary)
    return "\n\n".join(one if isinstance(one, str) else blocks_text([one]) or "" for one in summary)


# -- stored sessions ----------------------------------------------------------------------------------------------

ENTRIES = 4_096
"""Maximum number of entries of a history that are remembered; the oldest are dropped."""
_COUNTS = ("inputTokens", "outputTokens", "cachedInputTokens")
_OUTCOMES = {"completed": "completed", "failed": "failed", "errored": "failed"}
"""Status of a turn that has ended -> outcome; every other was stopped."""


class VibeSessionState(VibeState, kw_only=True):
    described: dict[str, str | None] = msgspec.field(default_factory=dict)
    """Fields of the session -> value that was emitted last."""
    tokens: int = 0
    """Total number of tokens whose usage was emitted."""
    history: MessageHistory = msgspec.field(default_factory=MessageHistory)
    has_own: bool = False
    """An entry of the session itself was read."""
    forked_from: str | None = None


class VibeSession(VibeJson):
    """The `vibe-session` dialect: sessions as Mistral Vibe stores them.

    Learned from Mistral Vibe 3.0. A session consists of a snapshot of its state, and of the changes since then. Each
    version of both together is a line. The entries of the history are those of `vibe-json`; only entries that no
    earlier version had, or that had not ended, are read. Unlike the stream, the state says how a turn ended, and its
    tokens.
    """

    dialect = "vibe-session"
    protocol = default_provider = "vibe"
    STATES_TIMES = True
    DOCUMENTS = True
    state_type = VibeSessionState
    state: VibeSessionState

    def read(self, value: Line) -> Skip:
        state, entries = _apply(record(value.get("snapshot")), value.get("history"), records(value.get("changes")))
        session = string(record(state.get("session")).get("id"))
        if session is None:
            return self.unparsed("unknown-type", value)
        self.set_session(session)
        self._describe(record(value.get("meta")))
        crcs = [zlib.crc32(str(entry.get("id")).encode()) for entry in entries]
        start, _ = self.state.history.unread(crcs, ENTRIES)
        for entry in entries[:start]:
            if self._is_open(entry):
                self._read_entry(entry, session)
        for entry in entries[start:]:
            if not self._is_done(entry):
                self._read_entry(entry, session)
        self._end(record(state.get("latestTurn")), record(state.get("session")))
        return None if self.items else "unchanged"

    def _read_entry(self, entry: Line, session: str) -> None:
        """Read an entry. Entries of another session before the first of its own were copied from it."""
        owner = string(entry.get("sessionId")) or session
        if owner == session:
            self.state.has_own = True
        elif not self.state.has_own:
            if self.state.forked_from is None:
                self.state.forked_from = owner
                self.update_session({"forked_from": owner})
            self.replay = True
            super().read({**entry, "sessionId": session})
            self.replay = False
            return
        super().read(entry)

    def _is_open(self, entry: Line) -> bool:
        """Whether an entry that was read before may have changed."""
        entry_id, permission_id = str(entry.get("id")), str(entry.get("callbackId"))
        is_growing = self.state.messages.get(entry_id, -1) >= 0 or self.permissions.is_pending(permission_id)
        return is_growing or self.calls.get(entry_id) is not None

    def _is_done(self, entry: Line) -> bool:
        entry_id = str(entry.get("id"))
        return self.state.messages.get(entry_id) == -1 or self.calls.is_over(entry_id)

    def _describe(self, meta: Line) -> None:
        environment, config = record(meta.get("environment")), record(meta.get("config"))
        known = {
            "cwd": string(environment.get("working_directory")),
            "branch": string(meta.get("git_branch")),
            "title": string(meta.get("title")),
            "model": string(config.get("model_name")),
            "parent_session": string(meta.get("parent_session_id")),
        }
        changes = {key: text for key, text in known.items() if text and self.state.described.get(key) != text}
        self.state.described.update(changes)
        self.state.cwd = changes.get("cwd", self.state.cwd)
        self.update_session(changes)

    def _end(self, turn: Line, session: Line) -> None:
        """End the turn that the state says has ended."""
        status, ended = string(turn.get("status")), whole(turn.get("completedAt"))
        if self.turn is None or self.turn != turn.get("id") or status is None or ended is None:
            return
        self.ts = ended
        tokens = token_counts(*map(record(session.get("tokenUsage")).get, _COUNTS))
        total = (tokens.get("input_tokens") or 0) + (tokens.get("output_tokens") or 0)
        context = whole(record(session.get("contextUsage")).get("totalTokens"))
        usage = (Usage, {"scope": "session", "counter": "session", "context_used": context, **tokens})
        self.end_turn(
            _OUTCOMES.get(status, "cancelled"),
            reason=string(turn.get("stopReason")),
            before=(usage,) if total > self.state.tokens else (),
        )
        self.state.tokens = max(total, self.state.tokens)


def _apply(snapshot: Line, history: Any, changes: list[Line]) -> tuple[Line, list[Line]]:
    """Apply the changes. Returns (state, entries of the history)."""
    state, entries = snapshot, records(history)
    places = {entry.get("id"): place for place, entry in enumerate(entries) if isinstance(entry.get("id"), str)}
    for change in changes:
        entry, operation = record(change.get("entry")), change.get("op")
        if operation == "set_envelope":
            state = record(change.get("state"))
        elif operation == "set_history_entries":
            entries = records(change.get("entries"))
            places = {entry.get("id"): place for place, entry in enumerate(entries) if isinstance(entry.get("id"), str)}
        elif operation == "append_entry" and isinstance(entry.get("id"), str):
            places[entry["id"]] = len(entries)
            entries.append(entry)
        elif operation == "replace_entry" and isinstance(entry.get("id"), str) and entry["id"] in places:
            entries[places[entry["id"]]] = entry
        elif operation == "remove_entry" and isinstance(change.get("id"), str) and change["id"] in places:
            entries[places.pop(change["id"])] = {}
    return state, [entry for entry in entries if entry]
