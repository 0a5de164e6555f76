"""The `claude-transcript` dialect: the files Claude Code keeps under `~/.claude/projects`, a session's or a subagent's.

Learned from recordings of 1.0.128 and 2.1.330, and from transcripts of versions between in public repositories. A
message is written one line per block. Subagents' work is in files of their own (every line a sidechain, with
`agentId`), among the main agent's lines (1.0), or inside `progress` lines (2.0.6x to 2.1.4x).

A turn ends with the line whose `stop_reason` says that the model is done, with an interrupt, or with the error that
Claude Code gives up on. Most lines before 2.1 state no stop reason: there a turn ends with the next prompt or the file.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import best
from tooltap.normalizers.core.state import OpenTurn
from tooltap.normalizers.dialects.claude.answers import text_of
from tooltap.normalizers.dialects.claude.base import ClaudeParser, ClaudeState, TurnNotes, is_prompt, message_of
from tooltap.normalizers.dialects.claude.bookkeeping import BOOKKEEPING, QUEUE, bookkeeping, glance
from tooltap.normalizers.dialects.claude.lineage import Lineage
from tooltap.normalizers.dialects.claude.reports import Reports
from tooltap.normalizers.dialects.claude.usage import message_tokens, session_usage
from tooltap.normalizers.dialects.claude.wrapped import Wrapped, read_wrapped
from tooltap.normalizers.tools.payload import without_nulls
from tooltap.normalizers.wire.times import milliseconds
from tooltap.normalizers.wire.values import dollars, record, string, whole
from tooltap.protocol.events import Usage

AGENTS = 64
"""Agents whose current message is followed."""

_CONTINUES = frozenset({None, "tool_use", "pause_turn"})
"""Stop reasons of messages that do not end a turn; none is stated for most lines of versions before 2.1."""
_FINAL = frozenset({"end_turn", "stop_sequence"})
"""Those after which Claude Code waits for the user. After `max_tokens` or `refusal` it may ask the model again."""
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})
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
    model: str | None = None


class StepsState(msgspec.Struct):
    open: dict[str, Step] = {}
    """By agent; empty for the main agent."""


class EndedTurn(msgspec.Struct):
    turn: str
    message_id: str | None
    """The message that ended it; it may have more lines."""


class TranscriptState(ClaudeState, kw_only=True):
    lineage: Lineage = msgspec.field(default_factory=Lineage)
    steps: StepsState = msgspec.field(default_factory=StepsState)
    started: str | None = None
    """The session that was started last."""
    prompt_id: str | None = None
    """The newest turn's; a command and what it expands to have the same one."""
    ended: EndedTurn | None = None
    """The turn that ended last."""


class ClaudeTranscript(ClaudeParser):
    dialect = "claude-transcript"
    SKIPS = ClaudeParser.SKIPS | {QUEUE, "attachment", "hook-progress", "stale-progress", "stale-turn"}
    line = Lines("type", skip={kind: reason for kind, reason in BOOKKEEPING.items() if kind != QUEUE})
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
            "branch": string(value.get("gitBranch")) or None,
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
        self.emit(Usage, **session_usage(value, dollars(value.get("totalCostUSD"))))

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

    def _wrapped(self, wrapped: Wrapped, text: str, is_synthetic: bool) -> Skip:
        """A command that the user types after an answer is not part of its turn (1.0 states no ends)."""
        typed = any(role == "user" for role, _ in wrapped.parts)
        if typed and self._is_main and self.turn is not None and self._is_answered(self.turn):
            self._conclude(self.turn)
        return super()._wrapped(wrapped, text, is_synthetic)

    def _conclude(self, turn_id: str, ended_by: str | None = None, duration_ms: int | None = None) -> None:
        """End a turn. `ended_by`: what says so; None where only what followed shows it."""
        notes = self.state.notes.pop(turn_id, TurnNotes())
        synthetic, reason = ended_by is None, notes.stop_reason
        outcome = "failed" if notes.error else "completed"
        if synthetic and outcome == "completed" and reason in _CONTINUES and not self._is_answered(turn_id):
            outcome, reason = "cancelled", "interrupted"
        self.end_turn(
            outcome, turn_id=turn_id, ended_by=ended_by, reason=reason, duration_ms=duration_ms, synthetic=synthetic
        )

    def _is_answered(self, turn_id: str) -> bool:
        turn = next(turn for turn in self.state.turns if turn.id == turn_id)
        return turn.answered and not self.calls.is_open(turn.session, turn.id, turn.agent)

    @system("turn_duration")
    def _turn_duration(self, value: Line) -> Skip:
        if self.turn is None:
            return "stale-turn"
        self._conclude(self.turn, "provider", whole(value.get("durationMs")))
        return None

    def _interrupted(self, text: str) -> Skip:
        outcome = super()._interrupted(text)
        if self._is_main and self.turn is not None:
            self.end_turn("cancelled", turn_id=self.turn, reason="interrupted")
        return outcome

    # -- the conversation ---------------------------------------------------------------------------------------

    @line("assistant")
    def _assistant(self, value: Line) -> Skip:
        message = message_of(value)
        if self._is_main and self.turn is None and (ended := self._ended_by(message)) is not None:
            self.state.turns.append(ended)  # what it says belongs to that turn, which is over
            outcome = self._assistant_message(value, {})
            self.state.turns.remove(ended)
            return outcome
        if message.get("model") == "<synthetic>":
            outcome = self._assistant_message(value, {})
            if self._is_main and self.turn is not None and self._notes().error:
                self._conclude(self.turn, "provider")
            return outcome
        self._ensure_main_turn()
        message_id = string(message.get("id"))
        if self._is_main:
            self._update_session({"model": string(message.get("model"))})
            self._notes().stop_reason = string(message.get("stop_reason"))
        self.state.lineage.expect(message)
        if message_id is not None:
            self._count_step(message_id, record(message.get("usage")), string(message.get("model")))
        outcome = self._assistant_message(value, {})
        if self._is_main and self.turn is not None:
            if _is_final(message):
                self.state.ended = EndedTurn(self.turn, message_id)
                self._conclude(self.turn, "answer")
            elif message.get("stop_reason") is not None:
                self.goes_on()
            elif outcome == "empty":  # an answer, of nothing
                next(turn for turn in self.state.turns if turn.id == self.turn).answered = True
        return outcome

    def _ended_by(self, message: Line) -> OpenTurn | None:
        """The turn that ended with a line of this message before."""
        ended, message_id = self.state.ended, message.get("id")
        if ended is None or message_id is None or ended.message_id != message_id:
            return None
        return OpenTurn(ended.turn, self.session, self.agent, self.origin)

    def _count_step(self, message_id: str, usage: Line, model: str | None) -> None:
        agent, steps = self.agent or "", self.state.steps.open
        step = steps.get(agent)
        counts = without_nulls(message_tokens(usage))
        if step is not None and step.message_id == message_id:
            step.counts |= {name: max(count, step.counts.get(name, 0)) for name, count in counts.items()}
            return
        self._emit_step(agent)
        if counts and message_id not in self.state.blocks.messages:  # else it was counted before
            steps[agent] = Step(message_id, self.agent, self.session, self.turn, self.parent, counts, model)
            while len(steps) > AGENTS:
                self._emit_step(next(iter(steps)))

    def _emit_step(self, agent: str) -> None:
        """Emit the usage of the agent's message, which is complete."""
        step = self.state.steps.open.pop(agent, None)
        if step is not None:
            place = {"session": step.session, "turn": step.turn, "agent": step.agent, "parent": step.parent}
            self.emit(Usage, scope="step", **place, **step.counts, model=step.model)

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
                if self.turn is None and not any(map(self.calls.is_known, call_ids)):
                    self.start_turn(synthetic=True)
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
        twin = value.get("toolUseResult")
        if type(twin) is dict and "agentId" in twin and self.calls.name_of(call_ids[0]) == "Task":
            self.state.lineage.spawned(str(twin["agentId"]), call_ids[0])
        meta = {"permission_decision": decision, "non_execution_kind": value.get("toolDenialKind")}
        return self._user_message(value, message, twin, dict.fromkeys(call_ids, meta))

    @line("attachment")
    def _attachment(self, value: Line) -> Skip:
        """A prompt that was given while the agent worked, how a task goes, or what a hook did."""
        attachment = record(value.get("attachment"))
        if attachment.get("type") == "task_status":
            return self._tasks.status(attachment)
        if attachment.get("type") != "queued_command":
            self._reports.hook(attachment)
            return None
        return self._user_message(attachment, {"content": attachment.get("prompt")}, None, {})

    @line(QUEUE)
    def _queued(self, value: Line) -> Skip:
        """A notification that waits until the model gets it; never, where a call gets the task's output first."""
        text = text_of(value.get("content"))
        wrapped = read_wrapped(text)
        return QUEUE if wrapped is None or not wrapped.tasks else best(self._tasks.noted(wrapped.tasks, text))

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
        text = string(value.get("content")) or ""
        return super()._user_text(text, value) if text.strip() else "empty"


def _is_final(message: Line) -> bool:
    """Whether the model is done after this line. Each line of a message states its stop reason, and thoughts come
    first."""
    content, reason = message.get("content"), message.get("stop_reason")
    if type(content) is not list or type(reason) is not str or reason not in _FINAL:
        return False
    return any(type(block) is dict and str(block.get("type")) not in _THOUGHTS for block in content)
