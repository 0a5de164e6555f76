"""The `claude-transcript` dialect: the files Claude Code keeps under `~/.claude/projects`, a session's or a subagent's.

Learned from recordings of 1.0.128 and 2.1.330, and from transcripts of versions between in public repositories. A
message is written one line per block. Subagents' work stands in files of their own (every line a sidechain, with
`agentId`), among the main agent's lines (1.0), or inside `progress` lines (2.0.6x to 2.1.4x).

Only `turn_duration`, which not every turn gets, and an interrupt say that a turn is over; else it ends with the next
prompt, or with the file, if the model had stopped by then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.lines import Skip
from tooltap.normalizers.core.parser import WITH_EVENTS, skip
from tooltap.normalizers.core.state import State
from tooltap.normalizers.dialects.claude.answers import text_of
from tooltap.normalizers.dialects.claude.base import (
    CLAUDE_SKIPS,
    ClaudeParser,
    ClaudeState,
    TurnNotes,
    is_prompt_text,
    is_synthetic,
    message_of,
)
from tooltap.normalizers.dialects.claude.bookkeeping import BOOKKEEPING_SKIPS, bookkeeping, glance
from tooltap.normalizers.dialects.claude.lineage import Lineage, LineageState
from tooltap.normalizers.dialects.claude.results import model_tokens
from tooltap.normalizers.dialects.claude.transcript_notices import (
    NOTICE_SKIPS,
    call_progress,
    hook_attachment,
    read_notification,
    read_system,
)
from tooltap.normalizers.dialects.claude.usage import Steps, StepsState
from tooltap.normalizers.wire.times import milliseconds
from tooltap.normalizers.wire.values import number, record, records, string, whole
from tooltap.protocol.events import SessionEvent, Usage
from tooltap.protocol.tapped import Direction

__all__ = ["ClaudeTranscript"]

_GOES_ON = frozenset({None, "tool_use", "pause_turn"})
"""Stop reasons of messages that do not end a turn; none is stated for most lines of versions before 2.1."""
_CONVERSATION = frozenset({"assistant", "system", "user"})


class TranscriptState(ClaudeState, kw_only=True):
    lineage: LineageState = msgspec.field(default_factory=LineageState)
    steps: StepsState = msgspec.field(default_factory=StepsState)
    started: str | None = None
    """The session whose start was told."""
    prompt_id: str | None = None
    """The newest turn's; a command and what it expands to have the same one."""


class ClaudeTranscript(ClaudeParser):
    dialect = "claude-transcript"
    SKIPS = CLAUDE_SKIPS | BOOKKEEPING_SKIPS | NOTICE_SKIPS | {"stale-turn"}
    state_type = TranscriptState
    state: TranscriptState

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self._lineage = Lineage(self.state.lineage)
        self._steps = Steps(self)
        self._sidechain = False
        self._lines: dict[str, Callable[[dict[str, Any]], str]] = {
            "ai-title": lambda value: self._tell_session({"title": string(value.get("aiTitle"))}),
            "assistant": self._assistant,
            "attachment": self._attachment,
            "cost-state": self._cost,
            "custom-title": lambda value: self._tell_session({"title": string(value.get("customTitle"))}),
            "mode": self._mode,
            "permission-mode": lambda value: self._tell_session({"mode": string(value.get("permissionMode"))}),
            "progress": self._progress,
            "summary": lambda value: self._tell_session({"title": string(value.get("summary"))}),
            "system": self._system,
            "user": self._user,
        }

    def read_line(self, line: bytes, t: int | None) -> Skip:
        return glance(line) or super().read_line(line, t)

    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        if (known := bookkeeping(value)) is not None:
            return known
        handler = self._lines.get(str(value.get("type")))
        if handler is None:
            return self.unparsed("unknown-type", value)
        self._set_scope(value)
        if value.get("type") in _CONVERSATION:
            if self._lineage.seen(value):
                return skip("repeated")
            self._lineage.note(value, self.agent or "" if self._sidechain else "")
            self._describe(value)
        return handler(value)

    def before_turn_end(self) -> None:
        self._steps.tell_all()

    def finish(self, reason: str) -> None:
        super().finish(reason)
        for turn in list(self.state.turns):
            notes = self.state.notes.get(turn.id, TurnNotes())
            if notes.error or notes.stop_reason not in _GOES_ON:
                self._conclude(turn.id)
        self._steps.tell_all()

    @property
    def _is_main(self) -> bool:
        return not self._sidechain

    def _set_scope(self, value: dict[str, Any]) -> None:
        session = string(value.get("sessionId"))
        if session:
            if self.state.session not in (None, session):
                self._leave_session()
            self.set_session(session)
        self.ts = milliseconds(value.get("timestamp")) or self.ts
        self._sidechain = value.get("isSidechain") is True
        if self._sidechain:
            self.agent, parent = self._lineage.place(value)
            self.parent = parent or self.parent

    def _describe(self, value: dict[str, Any]) -> None:
        """Where the session runs is said on every line of its conversation."""
        if self._sidechain:
            return
        self.state.cwd = string(value.get("cwd")) or self.state.cwd
        fields = {
            "cwd": string(value.get("cwd")),
            "agent_version": string(value.get("version")),
            "mode": string(value.get("permissionMode")),
        }
        if self.state.started == self.session:
            self._tell_session(fields)
        else:
            if self.state.started is not None:
                self.state.told = {}
            self.state.started = self.session
            self.emit(SessionEvent, state="started", **self._news(fields))

    def _mode(self, value: dict[str, Any]) -> str:
        """`coordinator` or `normal`; the latter says nothing beside the permission mode."""
        mode = string(value.get("mode"))
        return self._tell_session({"mode": None if mode == "normal" else mode})

    # -- turns --------------------------------------------------------------------------------------------------

    def _prompted(self, value: dict[str, Any]) -> None:
        """A prompt opens a turn, and is the end of the one before."""
        prompt_id = string(value.get("promptId"))
        if self.turn is not None:
            if prompt_id is not None and prompt_id == self.state.prompt_id:
                return
            self._conclude(self.turn)
        self.state.prompt_id = prompt_id
        self.start_turn()

    def _conclude(self, turn_id: str) -> None:
        """End a turn of which nothing but what followed says that it ended."""
        outcome, reason = self._outcome(turn_id)
        self.end_turn(outcome, turn_id=turn_id, reason=reason, synthetic=True)

    def _outcome(self, turn_id: str) -> tuple[str, str | None]:
        notes = self.state.notes.pop(turn_id, TurnNotes())
        return "failed" if notes.error else "completed", notes.stop_reason

    def _turn_duration(self, value: dict[str, Any]) -> str:
        if self.turn is None:
            return skip("stale-turn")
        outcome, reason = self._outcome(self.turn)
        self.end_turn(outcome, turn_id=self.turn, reason=reason, duration_ms=whole(value.get("durationMs")))
        return WITH_EVENTS

    def _tell_interrupt(self, text: str) -> str:
        line_class = super()._tell_interrupt(text)
        if self._is_main and self.turn is not None:
            self.end_turn("cancelled", turn_id=self.turn, reason="interrupted")
        return line_class

    # -- the conversation ---------------------------------------------------------------------------------------

    def _assistant(self, value: dict[str, Any]) -> str:
        self._ensure_turn()
        message = message_of(value)
        message_id = string(message.get("id"))
        if message.get("model") != "<synthetic>":
            if self._is_main:
                self._tell_session({"model": string(message.get("model"))})
                notes = self._notes()
                notes.error, notes.stop_reason = False, string(message.get("stop_reason"))
            self._lineage.spawns(message)
            if message_id is not None:
                self._steps.count(message_id, record(message.get("usage")), known=self._blocks.knows(message_id))
        return self._assistant_message(value, {})

    def _user(self, value: dict[str, Any]) -> str:
        message = message_of(value)
        call_ids = [
            str(block.get("tool_use_id"))
            for block in records(message.get("content"))
            if block.get("type") == "tool_result"
        ]
        if self._is_main:
            if call_ids:
                self.ensure_turn()
            elif not is_synthetic(value) and is_prompt_text(text_of(message.get("content"))):
                self._prompted(value)
        meta = {
            "permission_decision": value.get("permissionDecision"),
            "non_execution_kind": value.get("toolDenialKind"),
        }
        for call_id in call_ids:
            self._tell_denial(call_id, record(value.get("permissionDecision")))
        return self._blocks.user(
            message,
            value.get("toolUseResult"),
            dict.fromkeys(call_ids, meta),
            lambda text: self._prompt_text(text, value),
        )

    def _tell_denial(self, call_id: str, decision: dict[str, Any]) -> None:
        if decision.get("decision") == "reject" and not self.calls.is_over(call_id):
            source = str(decision.get("source"))
            by = next((who for who in ("user", "hook") if source.startswith(who)), "policy")
            self.permissions.answer(call_id, "denied", call_id=call_id, by=by)

    def _prompt_text(self, text: str, value: dict[str, Any]) -> str:
        """A background task's end is told to the model as if it were a prompt."""
        notification = read_notification(text)
        if notification is None:
            return self._user_text(text, value)
        return self._tasks.notification(notification)

    def _attachment(self, value: dict[str, Any]) -> str:
        """A prompt that was given while the agent worked, or what a hook did."""
        attachment = record(value.get("attachment"))
        if attachment.get("type") != "queued_command":
            return hook_attachment(self, attachment)
        message = {"content": attachment.get("prompt")}
        return self._blocks.user(message, None, {}, lambda text: self._prompt_text(text, attachment))

    def _progress(self, value: dict[str, Any]) -> str:
        """A subagent's whole message, or a report of a running call."""
        data = record(value.get("data"))
        nested = record(data.get("message"))
        parent = string(value.get("parentToolUseID"))
        if nested.get("type") not in ("assistant", "user") or parent is None:
            return call_progress(self, value, data)
        if self._lineage.seen(nested):
            return skip("repeated")
        self._sidechain = True
        self.agent, self.parent = string(data.get("agentId")) or parent, parent
        self.ts = milliseconds(nested.get("timestamp")) or self.ts
        self._lineage.spawn(self.agent, parent)
        self._lineage.note(nested, self.agent)
        return self._assistant(nested) if nested["type"] == "assistant" else self._user(nested)

    # -- the rest -----------------------------------------------------------------------------------------------

    def _system(self, value: dict[str, Any]) -> str:
        subtype = value.get("subtype")
        if subtype == "turn_duration":
            return self._turn_duration(value)
        if subtype == "local_command":
            return self._user_text(string(value.get("content")) or "", value)
        return read_system(self, value) or self.unparsed("unknown-type", value)

    def _cost(self, value: dict[str, Any]) -> str:
        """Of the whole session so far, written when Claude Code ends."""
        models = records(list(record(value.get("modelUsage")).values()))
        self.emit(Usage, scope="session", **model_tokens(models), cost_usd=number(value.get("totalCostUSD")))
        return WITH_EVENTS
