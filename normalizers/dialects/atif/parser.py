"""The `atif` dialect: a run of any agent, as one JSON document."""

from __future__ import annotations

import zlib

import msgspec

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import MessageHistory, SessionState
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.tools.payload import blocks_text
from tooltap.normalizers.wire.values import dollars, milliseconds, record, records, string, token_counts
from tooltap.protocol.events import Message, Usage

STEPS = 4_096
"""Maximum number of steps that are remembered; the oldest are dropped."""


class AtifState(SessionState, kw_only=True):
    model: str | None = None
    history: MessageHistory = msgspec.field(default_factory=MessageHistory)


class Atif(Parser):
    """Trajectories in the Agent Trajectory Interchange Format.

    Written after its specification (RFC 0001 of Harbor, 1.4) and its package `atif` (1.8),
    without a recording. A step is a prompt, or an answer of the model with its calls, their results and its tokens. A
    step without a call ends the turn; the document does not say how a call has ended.
    """

    dialect = "atif"
    protocol = default_provider = "atif"
    DOCUMENTS = True
    STATES_TIMES = True
    SKIPS = frozenset({"unchanged"})
    step = Lines("source", skip={"system": "prompt-context"})
    state_type = AtifState
    state: AtifState

    def read(self, value: Line) -> Skip:
        agent, steps, before = record(value.get("agent")), value.get("steps"), len(self.items)
        if not isinstance(steps, list):
            return self.unparsed("unknown-type", value)
        if (name := string(agent.get("name"))) and _is_provider(name):
            self.set_provider(name)
        if self.state.started is None:
            self.state.model = string(agent.get("model_name"))
            session = string(value.get("session_id")) or string(value.get("trajectory_id"))
            self.begin_session(session, model=self.state.model, agent_version=string(agent.get("version")))
        done = records(steps)
        start, is_shorter = self.state.history.unread([zlib.crc32(msgspec.json.encode(one)) for one in done], STEPS)
        if is_shorter:
            self.notice("rewound", "trajectory shortened", data={"steps": start})
        for one in done[start:]:
            self.ts = milliseconds(one.get("timestamp")) or self.ts
            self.step.read(self, one)
        return None if len(self.items) > before else "unchanged"

    @step("user", message=(str, list))
    def _user(self, value: Line) -> Skip:
        self.give_up_turns()
        self.start_turn()
        bodies = Bodies(self)
        text = blocks_text(bodies.take(value["message"])) or ""
        self.emit(Message, role="user", text=text, attachments=bodies.attachments)
        return None

    @step("agent")
    def _agent(self, value: Line) -> Skip:
        self.ensure_turn()
        self.uses_model(string(value.get("model_name")))
        if text := string(value.get("reasoning_content")):
            self.emit_text("reasoning", text)
        if text := blocks_text(value.get("message")):
            self.emit_text("assistant", text)
        calls = records(value.get("tool_calls"))
        for index, call in enumerate(calls):
            call_id, name = string(call.get("tool_call_id")), string(call.get("function_name"))
            if call_id is None or name is None:
                self.unparsed("unknown-type", call)
            else:
                self.calls.show(call_id, name, call.get("arguments"), raw=call, place=(None, index))
        self._usage(record(value.get("metrics")))
        for result in records(record(value.get("observation")).get("results")):
            self._result(result)
        if not calls:
            self.end_turn("completed", ended_by="answer")
        return None

    def _usage(self, metrics: Line) -> None:
        if not metrics:
            return
        extra = record(metrics.get("extra"))
        counts = token_counts(
            metrics.get("prompt_tokens"),
            metrics.get("completion_tokens"),
            metrics.get("cached_tokens"),
            extra.get("cache_creation_input_tokens"),
            extra.get("reasoning_tokens"),
        )
        self.emit(Usage, scope="step", cost_usd=dollars(metrics.get("cost_usd")), **counts)

    def _result(self, result: Line) -> None:
        """Emit what a call has given back, or what belongs to no call."""
        call_id, bodies = string(result.get("source_call_id")), Bodies(self)
        content = bodies.take(result.get("content"))
        if call_id is None:
            self.notice("observation", blocks_text(content), data={"content": content})
            return
        answer = Answer(content, model=content, attachments=bodies.attachments)
        self.calls.answer(call_id, answer, raw=result)


def _is_provider(name: str) -> bool:
    """Whether an agent's name is written as the names of providers are, such as `mini-swe-agent`."""
    return name.isascii() and name.replace("-", "").isalnum() and name == name.lower()
