"""The `qwen-stream` dialect: `qwen -p --output-format stream-json`, a sibling of Claude Code's.

Learned from Qwen Code 0.24.4. What differs: an answer of the model is one message per kind of block, each with an id of
its own, of which the API's stream names only the first; tools that were not offered up front are called through
`tool_call`; results are one text; input tokens include what was cached; a failed request is an assistant's message.
"""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.dialects.claude.answers import text_of
from tooltap.normalizers.dialects.claude.messages import message_of
from tooltap.normalizers.dialects.claude.stream import ClaudeStream, ClaudeStreamState, StreamMessages
from tooltap.normalizers.dialects.claude.usage import Usages, turn_usage
from tooltap.normalizers.dialects.qwen.answers import read_qwen_answer
from tooltap.normalizers.wire.values import record, string, whole

_PROXY = "tool_call"
_API_ERROR = "[API Error: "
_GOALS = ("active_goal", "goal_state")
"""Events that repeat the session's goal at each change; setting it is a call of its own."""
_COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_tokens": "cache_read_input_tokens",
    "cache_write_tokens": "cache_creation_input_tokens",
}


_RESULT_KEYS = ("subtype", "is_error", "result", "duration_ms", "usage")


class QwenState(ClaudeStreamState, kw_only=True):
    early: dict[str, Any] | None = None
    """The `result` line that came while a call was open."""


class QwenMessages(StreamMessages):
    def _called(self, block: Line) -> tuple[str, Any]:
        if block.get("name") == _PROXY:
            given = record(block.get("input"))
            if inner := string(given.get("name")):
                return inner, given.get("arguments")
        return super()._called(block)

    def _answered(self, name: str, block: Line, twin: Any, meta: Line, *, stopped: bool) -> Answer:
        return read_qwen_answer(name, block)


class QwenStream(ClaudeStream):
    dialect = "qwen-stream"
    state_type = QwenState
    state: QwenState
    default_provider = "qwen"
    SKIPS = ClaudeStream.SKIPS | {"early-result", "goal-state", "stale-progress"}
    MODE_KEY = "permission_mode"
    VERSION_KEY = "qwen_code_version"
    IDS_ARE_OF_API = False
    MESSAGES = QwenMessages

    def _stream_event(self, value: Line) -> Skip:
        event = record(value.get("event"))
        kind = event.get("type")
        if kind in _GOALS:
            return "goal-state"
        if kind != "tool_progress":
            return super()._stream_event(value)
        call = self.calls.get(str(event.get("tool_use_id")))
        if call is None:
            return "stale-progress"
        data = record(event.get("content"))
        text = string(data.get("message"))
        self.calls.update(call, status="running", progress={**({"text": text} if text else {}), "data": data})
        return None

    def _assistant(self, value: Line) -> Skip:
        content = message_of(value).get("content")
        text = text_of(content)
        if text.startswith(_API_ERROR):
            self.messages.ensure_main_turn()
            outcome = self.messages.failed_request(text)
        else:
            outcome = super()._assistant(value)
        if type(content) is list and content:
            message_id = self.deltas.current.message_id
            for index in range(len(content) if self.state.texts.open else 0):  # whatever the message's id
                self.deltas.drop(message_id, index)
        return outcome

    def _result(self, value: Line) -> Skip:
        """A result that comes while a call of the main agent runs does not end the turn, unless nothing follows."""
        turn = self.turn if self.messages.is_main and value.get("is_error") is not True else None
        if turn is not None and self.calls.is_open(self.session, turn, self.agent):
            self.state.early = {key: value[key] for key in _RESULT_KEYS if key in value}
            return "early-result"
        self.state.early = None
        return super()._result(value)

    def finish(self, reason: str) -> None:
        self.messages.is_main = True
        if (early := self.state.early) is not None and self.turn is not None:
            self.state.early = None
            super()._result(early)
        super().finish(reason)

    def _usages(self, value: Line) -> Usages:
        return turn_usage(value, _counts)


def _counts(usage: Line) -> dict[str, int | None]:
    return {name: whole(usage.get(key)) for name, key in _COUNTS.items()}
