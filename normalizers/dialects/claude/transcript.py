"""The `claude-transcript` dialect: the files Claude Code keeps under `~/.claude/projects`, a session's or a subagent's.

Learned from recordings of 1.0.128 and 2.1.330, and from transcripts of versions between in public repositories. A
message is written one line per block. Subagents' work is in files of their own (every line a sidechain, with
`agentId`), among the main agent's lines (1.0), or inside `progress` lines (2.0.6x to 2.1.4x).

Only an interrupt and `turn_duration`, which not every turn has, state that a turn is over. Any other turn ends with the
next prompt, or with the file if the model had stopped by then.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.dialects.claude.base import ClaudeParser, ClaudeState, TurnNotes, is_prompt, message_of
from tooltap.normalizers.dialects.claude.bookkeeping import BOOKKEEPING, bookkeeping, glance
from tooltap.normalizers.dialects.claude.lineage import Lineage
from tooltap.normalizers.dialects.claude.reports import Reports, read_notification
from tooltap.normalizers.dialects.claude.usage import message_tokens, session_usage
from tooltap.normalizers.tools.payload import without_nulls
from tooltap.normalizers.wire.times import milliseconds
from tooltap.normalizers.wire.values import number, record, string, whole
from tooltap.protocol.events import Usage

__all__ = ["ClaudeTranscript"]

AGENTS = 64
"""Agents whose current message is followed."""

_CONTINUES = frozenset({None, "tool_use", "pause_turn"})
"""Stop reasons of messages that do not end a turn; none is stated for most lines of versions before 2.1."""
_SESSION_KEYS = {
    "ai-title": ("title", "aiTitle"),
    "custom-title": ("title", "customTitle"),
    "mode": ("mode", "mode"),
    "permission-mode": ("mode", "permissionMode"),
    "summary": ("title", "summary"),
}
"""Line type -> (field of the session, key)."""


class Step(msgspec.Struct):
    """The message an agent is writing. Every line of it states its tokens, and they grow from line to line."""

    message_id: str
    agent: str | None
    session: str
    turn: str | None
    parent: str | None
    counts: dict[str, int]


class StepsState(msgspec.Struct):
    open: dict[str, Step] = {}
    """By agent; empty for the main agent."""


class TranscriptState(ClaudeState, kw_only=True):
    lineage: Lineage = msgspec.field(default_factory=Lineage)
    steps: StepsState = msgspec.field(default_factory=StepsState)
    started: str | None = None
    """The session that was started last."""
    prompt_id: str | None = None
    """The newest turn's; a command and what it expands to have the same one."""


class ClaudeTranscript(ClaudeParser):
    dialect = "claude-transcript"
    SKIPS = ClaudeParser.SKIPS | {"attachment", "hook-progress", "stale-progress", "stale-turn"}
    line = Lines("type", skip=BOOKKEEPING)
    system = Lines("subtype", _reports=Reports.transcript)
    state_type = TranscriptState
    state: TranscriptState
    GLANCES = True

    def glance(self, line: bytes) -> str | None:
        return glance(line)

    def read(self, value: Line) -> Skip:
        kind = value.get("type")
        if kind in ("assistant", "user", "system"):
            self.enter(value)
            lineage = self.state.lineage
            if lineage.seen(value):
                return "repeated"
            lineage.remember(value, "" if self._is_main else self.agent or "")
            if self._is_main:
                self._describe_session(value)
        elif (reason := bookkeeping(value)) is not None:
            return reason
        elif self.line.knows(kind):
            self.enter(value)
        return self.line.read(self, value)

    def enter(self, value: Line) -> None:
        session = value.get("sessionId")
        if session != self.state.session and session and type(session) is str:
            self._enter_session(session)
        if "timestamp" in value:
            self.ts = milliseconds(value["timestamp"]) or self.ts
        self._is_main = value.get("isSidechain") is not True
        if not self._is_main:
            self.agent, parent = self.state.lineage.place(value)
            self.parent = parent or self.parent

    def before_turn_end(self) -> None:
        for agent in list(self.state.steps.open):
            self._emit_step(agent)

    def finish(self, reason: str) -> None:
        super().finish(reason)
        for turn in list(self.state.turns):
            notes = self.state.notes.get(turn.id, TurnNotes())
            if notes.error or notes.stop_reason not in _CONTINUES:
                self._conclude(turn.id)
        self.before_turn_end()

    # -- session ------------------------------------------------------------------------------------------------

    def _describe_session(self, value: Line) -> None:
        """Every line of a conversation states where its session runs."""
        fields = {
            "cwd": string(value.get("cwd")),
            "agent_version": string(value.get("version")),
            "mode": string(value.get("permissionMode")),
        }
        if self.state.started not in (None, self.session):
            self.state.told = {}
        self._report_session(fields)

    @line(*_SESSION_KEYS)
    def _session_field(self, value: Line) -> Skip:
        field, key = _SESSION_KEYS[value["type"]]
        stated = string(value.get(key))
        # Mode `normal` (the other is `coordinator`) adds nothing to the permission mode.
        return self._update_session({field: None if key == "mode" and stated == "normal" else stated})

    @line("cost-state")
    def _cost(self, value: Line) -> None:
        """Of the whole session so far, written when Claude Code ends."""
        self.emit(Usage, **session_usage(value, number(value.get("totalCostUSD"))))

    # -- turns --------------------------------------------------------------------------------------------------

    def _prompted(self, value: Line) -> None:
        """Open the turn of a prompt, and end the one before."""
        prompt_id = string(value.get("promptId"))
        if self.turn is not None:
            if prompt_id is not None and prompt_id == self.state.prompt_id:
                return
            self._conclude(self.turn)
        self.state.prompt_id = prompt_id
        self.start_turn()

    def _conclude(self, turn_id: str, duration_ms: int | None = None, *, synthetic: bool = True) -> None:
        """End a turn. `synthetic`: only what followed shows that it ended."""
        notes = self.state.notes.pop(turn_id, TurnNotes())
        outcome, reason = "failed" if notes.error else "completed", notes.stop_reason
        self.end_turn(outcome, turn_id=turn_id, reason=reason, duration_ms=duration_ms, synthetic=synthetic)

    @system("turn_duration")
    def _turn_duration(self, value: Line) -> Skip:
        if self.turn is None:
            return "stale-turn"
        self._conclude(self.turn, whole(value.get("durationMs")), synthetic=False)
        return None

    def _interrupted(self, text: str) -> Skip:
        outcome = super()._interrupted(text)
        if self._is_main and self.turn is not None:
            self.end_turn("cancelled", turn_id=self.turn, reason="interrupted")
        return outcome

    # -- the conversation ---------------------------------------------------------------------------------------

    @line("assistant")
    def _assistant(self, value: Line) -> Skip:
        self._ensure_main_turn()
        message = message_of(value)
        message_id = string(message.get("id"))
        if message.get("model") != "<synthetic>":
            if self._is_main:
                self._update_session({"model": string(message.get("model"))})
                notes = self._notes()
                notes.error, notes.stop_reason = False, string(message.get("stop_reason"))
            self.state.lineage.expect(message)
            if message_id is not None:
                self._count_step(message_id, record(message.get("usage")))
        return self._assistant_message(value, {})

    def _count_step(self, message_id: str, usage: Line) -> None:
        agent, steps = self.agent or "", self.state.steps.open
        step = steps.get(agent)
        counts = without_nulls(message_tokens(usage))
        if step is not None and step.message_id == message_id:
            step.counts |= {name: max(count, step.counts.get(name, 0)) for name, count in counts.items()}
            return
        self._emit_step(agent)
        if counts and message_id not in self.state.blocks.messages:  # else it was counted before
            steps[agent] = Step(message_id, self.agent, self.session, self.turn, self.parent, counts)
            while len(steps) > AGENTS:
                self._emit_step(next(iter(steps)))

    def _emit_step(self, agent: str) -> None:
        """Emit the usage of the agent's message, which is complete."""
        step = self.state.steps.open.pop(agent, None)
        if step is not None:
            place = {"session": step.session, "turn": step.turn, "agent": step.agent, "parent": step.parent}
            self.emit(Usage, scope="step", **place, **step.counts)

    @line("user")
    def _user(self, value: Line) -> Skip:
        message = message_of(value)
        call_ids: list[str] = []
        if type(content := message.get("content")) is list:
            for block in content:
                if type(block) is dict and block.get("type") == "tool_result":
                    call_ids.append(str(block.get("tool_use_id")))
        if self._is_main:
            if call_ids:
                self.ensure_turn()
            elif is_prompt(value):
                self._prompted(value)
        if not call_ids:
            return self._user_message(value, message, None, {})
        decision: Any = value.get("permissionDecision")
        if type(decision) is dict and decision.get("decision") == "reject":
            source = str(decision.get("source"))
            by = next((who for who in ("user", "hook") if source.startswith(who)), "policy")
            for call_id in call_ids:
                if not self.calls.is_over(call_id):
                    self.permissions.answer(call_id, "denied", call_id=call_id, by=by)
        meta = {"permission_decision": decision, "non_execution_kind": value.get("toolDenialKind")}
        return self._user_message(value, message, value.get("toolUseResult"), dict.fromkeys(call_ids, meta))

    def _user_text(self, text: str, value: Line) -> Skip:
        """The model gets the end of a background task as if it were a prompt."""
        notification = read_notification(text)
        if notification is None:
            return super()._user_text(text, value)
        return self._reports.notification(notification)

    @line("attachment")
    def _attachment(self, value: Line) -> Skip:
        """A prompt that was given while the agent worked, or what a hook did."""
        attachment = record(value.get("attachment"))
        if attachment.get("type") != "queued_command":
            self._reports.hook(attachment)
            return None
        return self._user_message(attachment, {"content": attachment.get("prompt")}, None, {})

    @line("progress")
    def _progress(self, value: Line) -> Skip:
        """A subagent's whole message, or a report of a running call."""
        data = record(value.get("data"))
        nested = record(data.get("message"))
        parent = string(value.get("parentToolUseID"))
        if nested.get("type") not in ("assistant", "user") or parent is None:
            return self._reports.call_progress(value, data)
        if self.state.lineage.seen(nested):
            return "repeated"
        self._is_main = False
        self.agent, self.parent = string(data.get("agentId")) or parent, parent
        self.ts = milliseconds(nested.get("timestamp")) or self.ts
        self.state.lineage.spawned(self.agent, parent)
        self.state.lineage.remember(nested, self.agent)
        return self._assistant(nested) if nested["type"] == "assistant" else self._user(nested)

    @line("system")
    def _system(self, value: Line) -> Skip:
        # 1.0 has no subtypes.
        return self.system.read(self, {"subtype": "informational", **value}, line=value)

    @system("local_command")
    def _local_command(self, value: Line) -> Skip:
        return super()._user_text(string(value.get("content")) or "", value)
