"""The `gemini-stream` dialect: `gemini --output-format stream-json`.

Learned from Gemini CLI 0.61. One process answers one prompt: `init`, the prompt, text in pieces, calls and results by
id, `result`. There are no thoughts, and of a result only what the user was shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tooltap.normalizers.core.calls import UNKNOWN_TOOL
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.core.state import State
from tooltap.normalizers.dialects.gemini.results import mcp_name, name_in_id, read_shown
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.wire.times import milliseconds
from tooltap.protocol.events import Message, Notice, SessionEvent, Usage
from tooltap.protocol.tapped import Direction

__all__ = ["GeminiStream"]

_CANCELLED = "FatalCancellationError"
_LEVELS = ("info", "warning", "error")


class StreamState(State, kw_only=True):
    started: str | None = None
    """The session whose start was told."""


class GeminiStream(Parser):
    dialect = "gemini-stream"
    protocol = "gemini"
    default_provider = "gemini"
    SKIPS = frozenset({"blank", "lost", "duplicate-result", "empty", "unchanged"})
    state_type = StreamState
    state: StreamState

    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self._lines: dict[str, Callable[[dict[str, Any]], str]] = {
            "error": self._error,
            "init": self._init,
            "message": self._message,
            "result": self._result,
            "tool_result": self._tool_result,
            "tool_use": self._tool_use,
        }

    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        self.ts = milliseconds(value.get("timestamp")) or self.ts
        handler = self._lines.get(str(value.get("type")))
        return handler(value) if handler is not None else self.unparsed("unknown-type", value)

    def _init(self, value: dict[str, Any]) -> str:
        """A new process; whatever an earlier one left open is over."""
        for turn in list(self.state.turns):
            self.session = turn.session
            self.end_turn("cancelled", turn_id=turn.id, synthetic=True)
        session = value.get("session_id")
        if isinstance(session, str) and session:
            self.set_session(session)
        again = self.state.started == self.session
        self.state.started = self.session
        self.emit(SessionEvent, state="resumed" if again else "started", model=_string(value.get("model")))
        return WITH_EVENTS

    def _message(self, value: dict[str, Any]) -> str:
        role, content = value.get("role"), value.get("content")
        if role not in ("user", "assistant") or not isinstance(content, str):
            return self.unparsed("unknown-type", value)
        if role == "user":
            self.texts.flush()
            self.start_turn()
        elif not content:
            return skip("empty")
        else:
            self.ensure_turn()
        if value.get("delta") is True:
            self.texts.append(role, content)
        else:
            self.texts.flush()
            self.emit(Message, role=role, text=content)
        return WITH_EVENTS

    def _tool_use(self, value: dict[str, Any]) -> str:
        call_id, name = value.get("tool_id"), value.get("tool_name")
        if not isinstance(call_id, str) or not isinstance(name, str):
            return self.unparsed("unknown-type", value)
        self.texts.flush()
        self.ensure_turn()
        canonical = mcp_name(name, None, self.context.mcp_servers)
        call = self.calls.get(call_id)
        if call is None:
            if self.calls.repeats(call_id, name, value.get("parameters"), name=canonical):
                return skip("unchanged")
            self.calls.open(call_id, name, value.get("parameters"), raw=value, name=canonical)
            return WITH_EVENTS
        changed = self.calls.update(call, value.get("parameters"), raw=value, raw_name=name, name=canonical)
        return WITH_EVENTS if changed else skip("unchanged")

    def _tool_result(self, value: dict[str, Any]) -> str:
        call_id = value.get("tool_id")
        if not isinstance(call_id, str):
            return self.unparsed("unknown-type", value)
        self.texts.flush()
        self.ensure_turn()
        raw_name = name_in_id(call_id) or UNKNOWN_TOOL
        answer = read_shown(self.calls.name_of(call_id) or canonical_name(raw_name, {}, call_id), value)
        return self.calls.result(
            call_id,
            answer.value,
            raw=value,
            raw_name=raw_name,
            status=answer.status,
            error=answer.error,
            display=answer.display,
            assistant_view=answer.assistant_view,
            is_async=answer.is_async,
        )

    def _error(self, value: dict[str, Any]) -> str:
        """Something went wrong, but the run goes on or ends with its `result`."""
        self.texts.flush()
        severity = value.get("severity")
        level = severity if severity in _LEVELS else "error"
        self.emit(Notice, level=level, code="provider-error", text=_string(value.get("message")) or "")
        return WITH_EVENTS

    def _result(self, value: dict[str, Any]) -> str:
        self.ensure_turn()
        status = _string(value.get("status"))
        error = value.get("error")
        error = error if isinstance(error, dict) else {}
        kind, words = _string(error.get("type")), _string(error.get("message"))
        state = "completed" if status == "success" else "cancelled" if kind == _CANCELLED else "failed"
        if words is not None and state == "failed":
            self.texts.flush()
            self.emit(Notice, level="error", code="provider-error", text=words)
        stats = value.get("stats")
        stats = stats if isinstance(stats, dict) else {}
        self.end_turn(
            state,
            reason=kind if kind is not None and state != "completed" else status,
            duration_ms=_count(stats.get("duration_ms")),
            before=_usage(stats),
        )
        return WITH_EVENTS


def _usage(stats: dict[str, Any]) -> tuple[tuple[type[Usage], dict[str, Any]], ...]:
    """What this process used: the turn. `input_tokens` counts what was cached (`input` does not); `output_tokens`
    leaves out thoughts, which only the total tells of."""
    prompt, answer, total = (_count(stats.get(key)) for key in ("input_tokens", "output_tokens", "total_tokens"))
    if prompt is None and answer is None:
        return ()
    if prompt is not None and answer is not None and total is not None:
        answer = max(answer, total - prompt)
    fields = {"input_tokens": prompt, "output_tokens": answer, "cache_read_tokens": _count(stats.get("cached"))}
    return ((Usage, {"scope": "turn", **fields}),)


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
