"""The `cline-json` dialect: `cline --json`.

Learned from Cline 3.0.65. Work is told in `agent_event`s, one content at a time (text, reasoning, a tool);
`hook_event`s beside them name the conversation and its agents. The prompt is not on the wire. A run ends three times
over: the `agent_end` hook, `done`, and `run_result`, of which only the last has the model and the time it took.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tooltap.normalizers.core.bodies import Bodies
from tooltap.normalizers.core.calls import UNKNOWN_TOOL
from tooltap.normalizers.core.calls_state import Call
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.core.running import Running, RunningState
from tooltap.normalizers.core.state import State
from tooltap.normalizers.dialects.cline.results import read_result
from tooltap.normalizers.wire.times import milliseconds
from tooltap.normalizers.wire.values import number, record, string, whole
from tooltap.protocol.events import Message, Notice, OutputRef, Reasoning, SessionEvent, Usage
from tooltap.protocol.tapped import Direction

__all__ = ["ClineJson"]

_OUTCOMES = {"completed": "completed", "aborted": "cancelled", "cancelled": "cancelled", "interrupted": "cancelled"}
"""Finish reason -> how the turn ended; every other is a failure."""

_TEXTS = {"text": "assistant", "reasoning": "reasoning"}
_LEVELS = {"recovery": "warning", "stop": "warning"}

Event = dict[str, Any]


class ClineState(State, kw_only=True):
    started: str | None = None
    """The session whose start was told."""
    writing: str | None = None
    """The kind of text whose pieces are coming."""
    told: list[str] = msgspec.field(default_factory=list)
    """Kinds of text that were told when another began, before their own end came."""
    model: str | None = None
    outcome: str | None = None
    """How the agent said that it ended, until its run's result tells the rest."""
    reason: str | None = None
    usage: dict[str, Any] = msgspec.field(default_factory=dict)
    running: RunningState = msgspec.field(default_factory=RunningState)


class ClineJson(Parser):
    dialect = "cline-json"
    protocol = "cline"
    default_provider = "cline"
    SKIPS = frozenset(
        {"blank", "lost", "duplicate-result", "empty", "hook", "partial", "repeated", "step", "unchanged"}
    )
    state_type = ClineState
    state: ClineState

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self._running = Running(self, self.state.running)
        self._events: dict[str, Callable[[Event], str]] = {
            "content_end": self._content_end,
            "content_start": self._content_start,
            "content_update": self._content_update,
            "done": self._done,
            "error": self._error,
            "iteration_end": self._step,
            "iteration_start": self._step_start,
            "notice": self._notice,
            "usage": self._usage,
        }

    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        self.ts = milliseconds(value.get("ts")) or self.ts
        kind = value.get("type")
        if kind == "hook_event":
            return self._hook(value)
        if kind == "run_result":
            return self._run_result(value)
        if kind == "error":
            return self._error(value)
        event = record(value.get("event"))
        handler = self._events.get(str(event.get("type"))) if kind == "agent_event" else None
        if handler is None:
            return self.unparsed("unknown-type", value)
        self._scope(event)
        return handler(event)

    def _scope(self, event: Event) -> None:
        """An agent that has a parent is a subagent."""
        if isinstance(event.get("parentAgentId"), str) and isinstance(event.get("agentId"), str):
            self.agent = event["agentId"]

    # -- session and turns --------------------------------------------------------------------------------------

    def _hook(self, value: dict[str, Any]) -> str:
        if session := string(value.get("taskId")):
            self.set_session(session)
        self._scope(value)
        name = value.get("hookEventName")
        if name == "agent_error":
            self.state.outcome = self.state.outcome or "failed"
        if name != "agent_start" or self.agent is not None:
            return WITH_EVENTS if self.items else skip("hook")
        self._finish_turn()
        again = self.state.started == self.session
        self.state.started = self.session
        self.emit(SessionEvent, state="resumed" if again else "started")
        self.start_turn()
        return WITH_EVENTS

    def _step_start(self, event: Event) -> str:
        self.state.told.clear()
        return skip("step")

    def _step(self, event: Event) -> str:
        return skip("step")

    def _done(self, event: Event) -> str:
        self.ensure_turn()
        reason = string(event.get("reason"))
        outcome = _OUTCOMES.get(reason or "", "failed")
        if outcome == "failed" and (words := string(event.get("text"))):
            self.emit(Notice, level="error", code="provider-error", text=words)
        if self.agent is None:
            self.state.outcome, self.state.reason = outcome, reason
            self.state.usage = _tokens(record(event.get("usage")), "totalCost")
        return WITH_EVENTS

    def _run_result(self, value: dict[str, Any]) -> str:
        model = string(record(value.get("model")).get("id"))
        if model is not None and model != self.state.model:
            self.state.model = model
            self.emit(SessionEvent, state="updated", model=model)
        if self.state.outcome is None:
            self.state.reason = string(value.get("finishReason"))
            self.state.outcome = _OUTCOMES.get(self.state.reason or "", "failed")
        self.state.usage = self.state.usage or _tokens(record(value.get("usage")), "totalCost")
        self._finish_turn(whole(value.get("durationMs")))
        if whole_run := _tokens(record(value.get("aggregateUsage")), "totalCost"):
            self.emit(Usage, scope="session", **whole_run)
        return WITH_EVENTS

    def _finish_turn(self, duration_ms: int | None = None) -> None:
        """End the turn as the agent said it ended, if it did; a turn that just stops is cancelled."""
        state = self.state
        outcome, reason, usage = state.outcome, state.reason, state.usage
        state.outcome, state.reason, state.usage = None, None, {}
        if self.turn is None:
            return
        before: tuple[tuple[type[Usage], dict[str, Any]], ...] = ((Usage, {"scope": "turn", **usage}),) if usage else ()
        self.end_turn(
            outcome or "cancelled", reason=reason, duration_ms=duration_ms, synthetic=outcome is None, before=before
        )

    def finish(self, reason: str) -> None:
        if self.state.outcome is not None:
            self._finish_turn()

    def _usage(self, event: Event) -> str:
        told = _tokens(event, "cost")
        if not told:
            return skip("empty")
        self.ensure_turn()
        self.emit(Usage, scope="step", **told)
        return WITH_EVENTS

    def _error(self, event: Event) -> str:
        error = event.get("error")
        words = string(error) or string(record(error).get("message")) or string(event.get("message")) or ""
        level = "warning" if event.get("recoverable") is True else "error"
        self.emit(Notice, level=level, code="provider-error", text=words)
        return WITH_EVENTS

    def _notice(self, event: Event) -> str:
        reason = string(event.get("reason"))
        kind = string(event.get("noticeType")) or "notice"
        code = "compaction" if reason == "auto_compaction" else "retry" if reason == "api_error" else kind
        level = _LEVELS.get(kind, "info")
        self.emit(Notice, level=level, code=code, text=string(event.get("message")) or "")
        return WITH_EVENTS

    # -- contents -----------------------------------------------------------------------------------------------

    def _content_start(self, event: Event) -> str:
        """The beginning of a tool's work, or the next piece of a text."""
        kind = str(event.get("contentType"))
        if kind == "tool":
            return self._tool_start(event)
        if (role := _TEXTS.get(kind)) is None:
            return self.unparsed("unknown-type", event)
        piece = string(event.get(kind))
        if not piece:
            return skip("partial")
        self.ensure_turn()
        told = self.state.writing != kind and self._tell_text()
        self.state.writing = kind
        self.texts.append(role, piece)
        return WITH_EVENTS if told else skip("partial")

    def _tell_text(self) -> bool:
        """Something else begins: the text that was coming is whole, though its end comes later."""
        writing, self.state.writing = self.state.writing, None
        if writing is None:
            return False
        self.texts.flush()
        if writing not in self.state.told:
            self.state.told.append(writing)
        return True

    def _content_end(self, event: Event) -> str:
        kind = str(event.get("contentType"))
        if kind == "tool":
            return self._tool_end(event)
        if kind not in _TEXTS:
            return self.unparsed("unknown-type", event)
        self.ensure_turn()
        text = string(event.get(kind))
        writing = self.state.writing == kind
        if writing:
            self.state.writing = None
        if kind in self.state.told:
            self.state.told.remove(kind)
            self.texts.flush()
            return WITH_EVENTS if writing else skip("repeated")
        if text is None:  # its pieces are all there is
            self.texts.flush()
        elif writing:
            self.texts.drop()
        if text and kind == "reasoning":
            self.emit(Reasoning, text=text)
        elif text:
            self.emit(Message, role="assistant", text=text)
        return WITH_EVENTS if self.items else skip("empty")

    def _tool_start(self, event: Event) -> str:
        call_id, name = event.get("toolCallId"), event.get("toolName")
        if not isinstance(call_id, str) or not isinstance(name, str):
            return self.unparsed("unknown-type", event)
        self.ensure_turn()
        self._tell_text()
        call = self.calls.get(call_id)
        if call is not None:
            return WITH_EVENTS if self.calls.update(call, event.get("input"), raw=event) else skip("unchanged")
        if self.calls.repeats(call_id, name, event.get("input")):
            return skip("repeated")
        self.calls.open(call_id, name, event.get("input"), raw=event)
        return WITH_EVENTS

    def _content_update(self, event: Event) -> str:
        """What a command prints while it runs; its result says it again."""
        call = self.calls.get(str(event.get("toolCallId")))
        update = record(event.get("update"))
        chunk = string(update.get("chunk"))
        if call is not None and chunk:
            self._running.append(call, string(update.get("stream")) or "stdout", chunk.encode())
        return skip("partial")

    def _tool_end(self, event: Event) -> str:
        call_id = event.get("toolCallId")
        if not isinstance(call_id, str):
            return self.unparsed("unknown-type", event)
        self.ensure_turn()
        self._running.take(call_id)
        bodies = Bodies(self)
        raw = bodies.take(event)
        raw_name = string(event.get("toolName")) or UNKNOWN_TOOL
        if not self.calls.is_known(call_id) and raw_name != UNKNOWN_TOOL:
            self.calls.open(call_id, raw_name, {}, raw=None, synthetic=True)
        answer = read_result(self.calls.name_of(call_id) or "", raw)
        return self.calls.result(
            call_id,
            answer.value,
            raw=raw,
            status=answer.status,
            error=answer.error,
            duration_ms=whole(event.get("durationMs")),
            attachments=bodies.attachments,
        )

    def unfinished(self, call: Call) -> tuple[Any, dict[str, OutputRef] | None]:
        return self._running.take(call.id)


def _tokens(usage: dict[str, Any], cost_key: str) -> dict[str, Any]:
    """Cline's `inputTokens` counts what came from the cache. Nothing used is nothing told."""
    fields = {
        "input_tokens": whole(usage.get("inputTokens")),
        "output_tokens": whole(usage.get("outputTokens")),
        "cache_read_tokens": whole(usage.get("cacheReadTokens")),
        "cache_write_tokens": whole(usage.get("cacheWriteTokens")),
    }
    return {**fields, "cost_usd": number(usage.get(cost_key))} if any(fields.values()) else {}
