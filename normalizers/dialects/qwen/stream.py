"""The `qwen-stream` dialect: `qwen -p --output-format stream-json`, a sibling of Claude Code's.

Learned from Qwen Code 0.24.4. What differs: an answer of the model is one message per kind of block, each with an id of
its own, of which the API's stream names only the first; tools that were not offered up front are called through
`tool_call`; results are one text; prompts are counted with what was cached; a failed request is an assistant's message.
"""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.parser import WITH_EVENTS, skip
from tooltap.normalizers.dialects.claude.answers import Answer, text_of
from tooltap.normalizers.dialects.claude.base import message_of
from tooltap.normalizers.dialects.claude.print import PrintParser
from tooltap.normalizers.dialects.qwen.answers import read_qwen_answer
from tooltap.normalizers.wire.values import record, string, whole
from tooltap.protocol.events import Event, Notice, Usage
from tooltap.protocol.tapped import Direction

__all__ = ["QwenStream"]

_PROXY = "tool_call"
_API_ERROR = "[API Error: "
_GOALS = frozenset({"active_goal", "goal_state"})
"""What the session is to reach, told again at each change; setting it is a call of its own."""


class QwenStream(PrintParser):
    dialect = "qwen-stream"
    default_provider = "qwen"
    SKIPS = PrintParser.SKIPS | {"goal-state", "stale-progress"}
    MODE_KEY = "permission_mode"
    VERSION_KEY = "qwen_code_version"

    def _stream_event(self, value: dict[str, Any], direction: Direction | None) -> str:
        event = record(value.get("event"))
        kind = str(event.get("type"))
        if kind in _GOALS:
            return skip("goal-state")
        if kind == "tool_progress":
            return self._tool_progress(event)
        return super()._stream_event(value, direction)

    def _tool_progress(self, event: dict[str, Any]) -> str:
        call = self.calls.get(str(event.get("tool_use_id")))
        if call is None:
            return skip("stale-progress")
        data = record(event.get("content"))
        words = string(data.get("message"))
        self.calls.update(call, status="running", progress={**({"text": words} if words else {}), "data": data})
        return WITH_EVENTS

    def _assistant(self, value: dict[str, Any], direction: Direction | None) -> str:
        message = message_of(value)
        content = message.get("content")
        words = text_of(content)
        line_class = self._failed_request(words) if words.startswith(_API_ERROR) else None
        line_class = line_class or super()._assistant(value, direction)
        self._deltas.drop_blocks(len(content) if isinstance(content, list) else 0)
        return line_class

    def _failed_request(self, words: str) -> str:
        self._ensure_turn()
        if self._is_main:
            self._notes().error = True
        self.emit(Notice, level="error", code="provider-error", text=words)
        return WITH_EVENTS

    def _called(self, block: dict[str, Any]) -> tuple[str, Any]:
        given = record(block.get("input"))
        inner = string(given.get("name"))
        if block.get("name") == _PROXY and inner:
            return inner, given.get("arguments")
        return super()._called(block)

    def _answered(self, name: str, block: dict[str, Any], twin: Any, meta: dict[str, Any], *, stopped: bool) -> Answer:
        return read_qwen_answer(name, block)

    def _used(self, value: dict[str, Any]) -> list[tuple[type[Event], dict[str, Any]]]:
        usage = record(value.get("usage"))
        if not usage:
            return []
        tokens = {
            "input_tokens": whole(usage.get("input_tokens")),
            "output_tokens": whole(usage.get("output_tokens")),
            "cache_read_tokens": whole(usage.get("cache_read_input_tokens")),
            "cache_write_tokens": whole(usage.get("cache_creation_input_tokens")),
        }
        return [(Usage, {"scope": "turn", **tokens})]
