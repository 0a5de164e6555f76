"""Parser of Trae Agent's trajectories."""

from __future__ import annotations

import zlib

import msgspec

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import MessageHistory, SessionState
from tooltap.normalizers.wire.values import milliseconds, record, records, string, token_counts
from tooltap.protocol.events import Message, Usage

RECORDS = 4_096
"""Maximum number of requests and steps that are remembered; the oldest are dropped."""


class TraeState(SessionState, kw_only=True):
    model: str | None = None
    history: MessageHistory = msgspec.field(default_factory=MessageHistory)


class TraeTrajectory(Parser):
    """The `trae-trajectory` dialect: a run, as one JSON document that grows.

    Written after the agent's source (bytedance/trae-agent 0.1: its recorder of trajectories), without a recording.
    `llm_interactions` are the requests to the model, of which only the tokens are read here; `agent_steps` are what
    became of them: an answer, the calls in it, and their results. A run that has ended has an `end_time`.
    """

    dialect = "trae-trajectory"
    protocol = default_provider = "trae-agent"
    DOCUMENTS = True
    STATES_TIMES = True
    STATES_END = True
    SKIPS = frozenset({"unchanged"})
    state_type = TraeState
    state: TraeState

    def read(self, value: Line) -> Skip:
        task = string(value.get("task"))
        if task is None:
            return self.unparsed("unknown-type", value)
        if self.state.started is None:
            self.ts = milliseconds(value.get("start_time")) or self.ts
            self.state.model = string(value.get("model")) or None
            self.begin_session(None, model=self.state.model)
            self.start_turn()
            self.emit(Message, role="user", text=task)
        done = records(value.get("llm_interactions")) + records(value.get("agent_steps"))
        done.sort(key=lambda one: string(one.get("timestamp")) or "")
        start, is_shorter = self.state.history.unread([_identity(one) for one in done], RECORDS)
        if is_shorter:
            self.notice("rewound", "trajectory shortened", data={"records": start})
        for one in done[start:]:
            self.ts = milliseconds(one.get("timestamp")) or self.ts
            if "step_number" in one:
                self._step(one)
            else:
                self._request(one)
        if value.get("end_time") and self.turn is not None:
            self.ts = milliseconds(value["end_time"]) or self.ts
            self.end_turn("completed" if value.get("success") is True else "failed")
        return None if self.items else "unchanged"

    def _request(self, value: Line) -> None:
        """A request to the model. Tokens that the model's server has not stated are 0."""
        self.uses_model(string(value.get("model")))
        used = record(record(value.get("response")).get("usage"))
        counts = token_counts(
            *(used.get(key) for key in ("input_tokens", "output_tokens", "cache_read_input_tokens")),
            *(used.get(key) for key in ("cache_creation_input_tokens", "reasoning_tokens")),
        )
        if any(counts.values()):
            self.ensure_turn()
            self.emit(Usage, scope="step", **counts)

    def _step(self, value: Line) -> None:
        self.ensure_turn()
        if text := string(record(value.get("llm_response")).get("content")):
            self.emit_text("assistant", text)
        for index, call in enumerate(records(value.get("tool_calls"))):
            call_id, name = string(call.get("call_id")), string(call.get("name"))
            if call_id is None or name is None:
                self.unparsed("unknown-type", call)
            else:
                self.calls.show(call_id, name, call.get("arguments"), raw=call, place=(None, index))
        for result in records(value.get("tool_results")):
            self._result(result)
        for key, level in (("reflection", "info"), ("error", "error")):
            if text := string(value.get(key)):
                self.notice(key, text, level)

    def _result(self, result: Line) -> None:
        call_id = string(result.get("call_id"))
        if call_id is None:
            self.unparsed("unknown-type", result)
            return
        output, error = string(result.get("result")), string(result.get("error")) or None
        status = "failed" if result.get("success") is False else "completed"
        self.calls.answer(call_id, Answer(output, status, error if status == "failed" else None), raw=result)


def _identity(one: Line) -> int:
    return zlib.crc32(msgspec.json.encode([one.get("timestamp"), one.get("step_number"), one.get("state")]))
