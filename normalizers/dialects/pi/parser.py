"""The `pi-json` dialect: `pi --mode json`.

Learned from Pi 0.73. A run is `agent_start` … `agent_end`; what Pi calls a turn is one request to the model and the
tools it called, a step of ours. Everything is told several times: a message grows in `message_update`s and is whole in
`message_end`, a result is in `tool_execution_end`, in a message of its own, in `turn_end` and in `agent_end`. Each is
taken where it is first whole.
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
from tooltap.normalizers.core.state import State
from tooltap.normalizers.dialects.pi.results import Shown, read_result
from tooltap.normalizers.tools.payload import blocks_text
from tooltap.normalizers.wire.times import milliseconds
from tooltap.normalizers.wire.values import number, record, records, string, whole
from tooltap.protocol.events import Chunk, Message, Notice, OutputRef, Reasoning, SessionEvent, ToolUpdate, Usage
from tooltap.protocol.tapped import Direction

__all__ = ["PiJson"]

MANY_RUNNING = 16
"""Calls whose output so far is remembered."""

_SKIPPED = {
    "turn_start": "step",
    "turn_end": "step",
    "queue_update": "queue",
    "compaction_start": "compaction-start",
    "auto_compaction_start": "compaction-start",
    "thinking_level_changed": "setting",
    "agent_settled": "settled",
    "entry_appended": "session-file",
    "summarization_retry_attempt_start": "retry-progress",
    "summarization_retry_finished": "retry-progress",
}
"""Lines that say nothing of their own."""

_OUTCOMES = {"error": "failed", "aborted": "cancelled"}
"""Why the model stopped -> how the turn ended; every other reason completes it."""

_PREVIEWS = {"text_delta": "assistant", "thinking_delta": "reasoning"}


class PiState(State, kw_only=True):
    started: str | None = None
    """The session whose start was told."""
    model: str | None = None
    running: dict[str, Shown] = msgspec.field(default_factory=dict)
    """Call -> the output it last showed."""


class PiJson(Parser):
    dialect = "pi-json"
    protocol = "pi"
    default_provider = "pi"
    SKIPS = frozenset(
        {"blank", "lost", "duplicate-result", "empty", "partial", "repeated", "unchanged", *_SKIPPED.values()}
    )
    state_type = PiState
    state: PiState

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self._lines: dict[str, Callable[[dict[str, Any]], str]] = {
            "agent_end": self._agent_end,
            "agent_start": self._agent_start,
            "auto_compaction_end": self._compacted,
            "auto_retry_end": self._retried,
            "auto_retry_start": self._retry,
            "compaction_end": self._compacted,
            "message_end": self._message,
            "message_start": self._message_start,
            "message_update": self._message_update,
            "session": self._session,
            "session_info_changed": self._session_info,
            "summarization_retry_scheduled": self._retry,
            "tool_execution_end": self._tool_end,
            "tool_execution_start": self._tool_start,
            "tool_execution_update": self._tool_update,
        }

    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        kind = str(value.get("type"))
        if kind in _SKIPPED:
            return skip(_SKIPPED[kind])
        handler = self._lines.get(kind)
        return handler(value) if handler is not None else self.unparsed("unknown-type", value)

    # -- session and turns --------------------------------------------------------------------------------------

    def _session(self, value: dict[str, Any]) -> str:
        self.ts = milliseconds(value.get("timestamp")) or self.ts
        if session := string(value.get("id")):
            self.set_session(session)
        again = self.state.started == self.session
        self.state.started = self.session
        self.state.cwd = string(value.get("cwd"))
        self.emit(SessionEvent, state="resumed" if again else "started", cwd=self.state.cwd)
        return WITH_EVENTS

    def _session_info(self, value: dict[str, Any]) -> str:
        if (title := string(value.get("name"))) is None:
            return skip("unchanged")
        self.emit(SessionEvent, state="updated", title=title)
        return WITH_EVENTS

    def _agent_start(self, value: dict[str, Any]) -> str:
        if self.turn is not None:  # goes on after an error that is tried again
            return skip("unchanged")
        self.start_turn()
        return WITH_EVENTS

    def _agent_end(self, value: dict[str, Any]) -> str:
        if value.get("willRetry") is True:
            return skip("unchanged")
        said = [one for one in records(value.get("messages")) if one.get("role") == "assistant"]
        reason = string(said[-1].get("stopReason")) if said else None
        self.end_turn(_OUTCOMES.get(reason or "", "completed"), reason=reason)
        return WITH_EVENTS

    def _retry(self, value: dict[str, Any]) -> str:
        data = {key: value[key] for key in ("attempt", "maxAttempts", "delayMs") if key in value}
        self.emit(
            Notice, level="warning", code="retry", text=string(value.get("errorMessage")) or "", data=data or None
        )
        return WITH_EVENTS

    def _retried(self, value: dict[str, Any]) -> str:
        if value.get("success") is True:
            return skip("retry-progress")
        self.emit(Notice, level="error", code="provider-error", text=string(value.get("finalError")) or "")
        return WITH_EVENTS

    def _compacted(self, value: dict[str, Any]) -> str:
        error = string(value.get("errorMessage"))
        summary = string(record(value.get("result")).get("summary"))
        data = {key: value[key] for key in ("reason", "aborted") if key in value}
        self.emit(
            Notice,
            level="error" if error else "info",
            code="compaction",
            text=error or summary or "",
            data=data or None,
        )
        return WITH_EVENTS

    # -- messages -----------------------------------------------------------------------------------------------

    def _message_start(self, value: dict[str, Any]) -> str:
        """Its whole form comes in `message_end`, if only as far as it got."""
        return skip("partial")

    def _message_update(self, value: dict[str, Any]) -> str:
        update = record(value.get("assistantMessageEvent"))
        role = _PREVIEWS.get(str(update.get("type")))
        if role is not None and (text := string(update.get("delta"))):
            block = whole(update.get("contentIndex"))
            self.ensure_turn()
            self.texts.append(role, text, block=block, key=str(block), preview=True)
        return skip("partial")

    def _message(self, value: dict[str, Any]) -> str:
        message = record(value.get("message"))
        role = message.get("role")
        self.ts = whole(message.get("timestamp")) or self.ts
        if role == "assistant":
            return self._assistant(message)
        if role == "user":
            return self._user(message)
        if role == "toolResult":
            call_id = message.get("toolCallId")
            if isinstance(call_id, str) and not self.calls.is_over(call_id):
                return self._result(call_id, message, message)
            return skip("repeated")
        if not isinstance(role, str):
            return self.unparsed("unknown-type", value)
        # What extensions, compaction or the user's own shell put into the history.
        text = string(message.get("summary")) or blocks_text(message.get("content")) or string(message.get("command"))
        self.emit(Notice, level="info", code=role, text=text or "", data=Bodies(self).take(message))
        return WITH_EVENTS

    def _user(self, message: dict[str, Any]) -> str:
        bodies = Bodies(self)
        content = bodies.take(message.get("content"))
        text = blocks_text(content) or ""
        if not text and not bodies.attachments:
            return skip("empty")
        self.ensure_turn()
        self.emit(Message, role="user", text=text, attachments=bodies.attachments)
        return WITH_EVENTS

    def _assistant(self, message: dict[str, Any]) -> str:
        self.ensure_turn()
        model = string(message.get("model"))
        if model is not None and model != self.state.model:
            self.state.model = model
            self.emit(SessionEvent, state="updated", model=model)
        stopped = string(message.get("stopReason"))
        for index, block in enumerate(records(message.get("content"))):
            self._block(index, block, string(message.get("responseId")), stopped in _OUTCOMES)
        if stopped == "error":
            words = string(message.get("errorMessage")) or ""
            self.emit(Notice, level="error", code="provider-error", text=words)
        self._usage(record(message.get("usage")))
        return WITH_EVENTS if self.items else skip("empty")

    def _block(self, index: int, block: dict[str, Any], message_id: str | None, broken_off: bool) -> None:
        kind = block.get("type")
        where = {"message_id": message_id, "block": index}
        self.texts.drop(str(index))
        if kind == "text":
            if text := string(block.get("text")):
                self.emit(Message, role="assistant", text=text, **where)
        elif kind == "thinking":
            if text := string(block.get("thinking")):
                self.emit(Reasoning, text=text, **where)
        elif kind != "toolCall":
            self.unparsed("unknown-type", block)
        elif not broken_off:  # else its arguments may be half, and it is never executed
            self._open(block.get("id"), block.get("name"), block.get("arguments"), block, "pending")

    def _usage(self, usage: dict[str, Any]) -> None:
        """`input` leaves out what was read from and written to the cache."""
        if not whole(usage.get("totalTokens")):
            return
        fresh, read, written = (whole(usage.get(key)) for key in ("input", "cacheRead", "cacheWrite"))
        self.emit(
            Usage,
            scope="step",
            input_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
            output_tokens=whole(usage.get("output")),
            cache_read_tokens=read,
            cache_write_tokens=written,
            cost_usd=number(record(usage.get("cost")).get("total")),
        )

    # -- calls --------------------------------------------------------------------------------------------------

    def _open(self, call_id: Any, name: Any, arguments: Any, raw: dict[str, Any], status: str) -> str:
        if not isinstance(call_id, str) or not isinstance(name, str):
            return self.unparsed("unknown-type", raw)
        self.ensure_turn()
        call = self.calls.get(call_id)
        if call is not None:
            return WITH_EVENTS if self.calls.update(call, arguments, raw=raw, status=status) else skip("unchanged")
        if self.calls.repeats(call_id, name, arguments):
            return skip("repeated")
        self.calls.open(call_id, name, arguments, raw=raw, status=status)
        return WITH_EVENTS

    def _tool_start(self, value: dict[str, Any]) -> str:
        return self._open(value.get("toolCallId"), value.get("toolName"), value.get("args"), value, "running")

    def _tool_update(self, value: dict[str, Any]) -> str:
        """The whole output so far, or the end of it once it is long; only what is new is shown."""
        call = self.calls.get(str(value.get("toolCallId")))
        text = blocks_text(record(value.get("partialResult")).get("content"))
        if call is None or not text:
            return skip("partial")
        shown = self.state.running.pop(call.id, None) or Shown()
        while len(self.state.running) >= MANY_RUNNING:
            del self.state.running[next(iter(self.state.running))]
        self.state.running[call.id] = shown
        offset = shown.sent
        if piece := shown.show(text, self.context.limits.string_bytes):
            self.emit_partial(
                ToolUpdate,
                call_id=call.id,
                name=call.name,
                turn=call.turn,
                session=call.session,
                chunk=Chunk(stream="output", text=piece, offset=offset),
            )
        return skip("partial")

    def _tool_end(self, value: dict[str, Any]) -> str:
        call_id = value.get("toolCallId")
        if not isinstance(call_id, str):
            return self.unparsed("unknown-type", value)
        return self._result(call_id, value, {**record(value.get("result")), "isError": value.get("isError")})

    def _result(self, call_id: str, value: dict[str, Any], result: dict[str, Any]) -> str:
        """`value`: Pi's own object; `result`: its content, details and whether it is an error."""
        self.ensure_turn()
        self.state.running.pop(self.calls.id_of(call_id), None)
        bodies = Bodies(self)
        raw = bodies.take(value)
        raw_name = string(value.get("toolName")) or UNKNOWN_TOOL
        if not self.calls.is_known(call_id) and raw_name != UNKNOWN_TOOL:
            self.calls.open(call_id, raw_name, {}, raw=None, synthetic=True)
        answer = read_result(self.calls.name_of(call_id) or "", bodies.take(result), bool(bodies.attachments))
        return self.calls.result(
            call_id,
            answer.value,
            raw=raw,
            status=answer.status,
            error=answer.error,
            display=answer.display,
            attachments=bodies.attachments,
        )

    def unfinished(self, call: Call) -> tuple[Any, dict[str, OutputRef] | None]:
        shown = self.state.running.pop(call.id, None)
        return (shown.text if shown is not None else None), None
