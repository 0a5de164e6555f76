"""The `gemini-stream` dialect: `gemini --output-format stream-json`.

Learned from Gemini CLI 0.61. One process answers one prompt: `init`, the prompt, text in chunks, calls and results by
id, `result`. There are no thoughts, and of a result only what the user was shown.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.calls import UNKNOWN_TOOL
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import SessionState
from tooltap.normalizers.dialects.gemini.answers import (
    learn_server,
    mcp_name,
    mcp_name_in_error,
    name_in_id,
    read_shown,
    text_of,
)
from tooltap.normalizers.tools.outcome import error_words, status_word
from tooltap.normalizers.wire.values import milliseconds, record, string, whole
from tooltap.protocol.events import Message, Usage

_CANCELLED = "FatalCancellationError"
_LEVELS = ("info", "warning", "error")


class GeminiStreamState(SessionState, kw_only=True):
    servers: list[str] = msgspec.field(default_factory=list)
    """MCP servers that the stream named."""


class GeminiStream(Parser):
    dialect = "gemini-stream"
    protocol = default_provider = "gemini"
    SKIPS = frozenset({"empty", "unchanged"})
    line = Lines("type")
    state_type = GeminiStreamState
    state: GeminiStreamState

    def enter(self, value: Line) -> None:
        if "timestamp" in value:
            self.ts = milliseconds(value["timestamp"]) or self.ts

    @line("init")
    def _init(self, value: Line) -> None:
        self.give_up_turns()  # of an earlier process
        self.begin_session(value.get("session_id"), model=string(value.get("model")))

    @line("message")
    def _message(self, value: Line) -> Skip:
        role, content = value.get("role"), value.get("content")
        if type(content) is list or type(content) is dict:  # parts, as in saved chats
            content = text_of(content)
        if type(content) is not str:
            return self.unparsed("unknown-type", value)
        if role == "user":
            self.texts.flush()
            self.start_turn()
        elif role != "assistant":
            return self.unparsed("unknown-type", value)
        elif not content:
            return "empty"
        else:
            self.ensure_turn()
        if value.get("delta") is True:
            self.texts.append(role, content)
        else:
            self.texts.flush()
            self.emit(Message, role=role, text=content)
        return None

    @line("tool_use", tool_id=str, tool_name=str)
    def _tool_use(self, value: Line) -> Skip:
        self.texts.flush()
        self.ensure_turn()
        name = mcp_name(value["tool_name"], None, (*self.context.mcp_servers, *self.state.servers))
        return self.calls.show(
            value["tool_id"], value["tool_name"], value.get("parameters"), raw=value, name=name, renames=True
        )

    @line("tool_result", tool_id=str)
    def _tool_result(self, value: Line) -> Skip:
        call_id = value["tool_id"]
        self.texts.flush()
        self.ensure_turn()
        name, raw_name = self.calls.name_of(call_id), UNKNOWN_TOOL
        call = self.calls.get(call_id)
        if call is not None and (mcp := mcp_name_in_error(call.raw_name, value)) is not None:
            learn_server(self.state.servers, mcp)
            self.calls.update(call, name=mcp)
        if not name:
            raw_name = name_in_id(call_id) or UNKNOWN_TOOL
            name = self.calls.tool_of(call_id, raw_name)
        answer = read_shown(name, value)
        return self.calls.answer(call_id, answer, raw=value, raw_name=raw_name)

    @line("error")
    def _error(self, value: Line) -> None:
        """Something went wrong; the run continues or ends with its `result`."""
        self.texts.flush()
        severity = value.get("severity")
        level = severity if severity in _LEVELS else "error"
        self.notice("provider-error", string(value.get("message")), level)

    @line("result")
    def _result(self, value: Line) -> None:
        self.ensure_turn()
        status, error, stats = string(value.get("status")), value.get("error"), record(value.get("stats"))
        kind, words = string(record(error).get("type")), error_words(error)
        state = status_word(status) or ("failed" if error else "completed")
        if state not in ("completed", "cancelled"):
            state = "cancelled" if kind == _CANCELLED or state == "interrupted" else "failed"
        if words is not None and state == "failed":
            self.texts.flush()
            self.notice("provider-error", words, "error")
        self.end_turn(
            state,
            reason=kind if kind is not None and state != "completed" else status,
            duration_ms=whole(stats.get("duration_ms")),
            before=_usage(stats),
        )


def _usage(stats: dict[str, Any]) -> tuple[tuple[type[Usage], dict[str, Any]], ...]:
    """Usage of this process, which is the turn's. `input_tokens` includes cached tokens (`input` does not);
    `output_tokens` excludes thoughts, which only the total includes."""
    prompt, answer = whole(stats.get("input_tokens")), whole(stats.get("output_tokens"))
    total = whole(stats.get("total_tokens"))
    if prompt is None and answer is None:
        return ()
    if prompt is not None and answer is not None and total is not None:
        answer = max(answer, total - prompt)
    fields = {"input_tokens": prompt, "output_tokens": answer, "cache_read_tokens": whole(stats.get("cached"))}
    return ((Usage, {"scope": "turn", **fields}),)
