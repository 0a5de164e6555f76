"""The `swe-agent` dialect: a run of SWE-agent, as one JSON document."""

from __future__ import annotations

import zlib

import msgspec

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import MessageHistory, SessionState
from tooltap.normalizers.tools.payload import blocks_text, decode_json
from tooltap.normalizers.wire.values import dollars, record, records, string, strings, token_counts
from tooltap.protocol.events import Message, Usage

MESSAGES = 4_096
"""Maximum number of messages that are remembered; the oldest are dropped."""
_SUBMITTED = "submitted"
"""What the `exit_status` of a run begins with that has a patch; every other is the reason why it has none."""


class SweAgentState(SessionState, kw_only=True):
    history: MessageHistory = msgspec.field(default_factory=MessageHistory)
    over: bool = False
    """The end of the run was emitted."""
    call: str = ""
    """The latest call that has no id on the wire, if it has no result yet."""
    actions: int = 0
    """Number of calls without an id so far."""


class SweAgent(Parser):
    """Trajectories of SWE-agent.

    Written after its source (SWE-agent/SWE-agent: `HistoryItem`, `TrajectoryStep`, `AgentInfo`), without a recording.
    The document is rewritten after each step. Its `history` is the conversation with the model; its `trajectory` has
    what a step's commands have printed, before a template makes a message of it. A model without function calls writes
    commands in its text.
    """

    dialect = "swe-agent"
    protocol = default_provider = "swe-agent"
    DOCUMENTS = True
    STATES_END = True
    SKIPS = frozenset({"prompt-context", "unchanged"})
    message = Lines("role", skip={"system": "prompt-context"})
    state_type = SweAgentState
    state: SweAgentState

    def read(self, value: Line) -> Skip:
        said, info = value.get("history"), record(value.get("info"))
        if not isinstance(said, list):
            return self.unparsed("unknown-type", value)
        config = record(decode_json(value.get("replay_config")))
        if self.state.started is None:
            model = string(record(record(config.get("agent")).get("model")).get("name"))
            self.begin_session(None, model=model, agent_version=string(info.get("swe_agent_version")))
        messages = [one for one in records(said) if one.get("is_demo") is not True]
        digests = [zlib.crc32(msgspec.json.encode(one)) for one in messages]
        start, is_shorter = self.state.history.unread(digests, MESSAGES)
        if is_shorter:
            self.notice("rewound", "trajectory shortened", data={"messages": start})
        task = string(record(config.get("problem_statement")).get("text"))
        printed = _printed(messages, records(value.get("trajectory")))
        for index in range(start, len(messages)):
            self.message.read(self, messages[index], task, printed.get(index - 1), line=messages[index])
        self._end(info, set(printed.values()))
        return None if self.items else "unchanged"

    @message("user", content=(str, list))
    def _user(self, value: Line, task: str | None, printed: str | None) -> Skip:
        """The task, written with a template; later, what the commands of an answer without function calls printed."""
        text = blocks_text(value["content"]) or ""
        if self.state.call:
            return self._answer(self.state.call, text, printed, value)
        if self.turn is not None:
            self.notice("reminder", text)
            return None
        self.start_turn()
        self.emit(Message, role="user", text=task if task and task in text else text)
        return None

    @message("assistant")
    def _assistant(self, value: Line, task: str | None, printed: str | None) -> Skip:
        self.ensure_turn()
        for block in records(value.get("thinking_blocks")):
            self.emit_text("reasoning", string(block.get("thinking")) or "")
        calls, action = records(value.get("tool_calls")), string(value.get("action"))
        text = string(value.get("thought" if calls or action else "content"))
        if text:
            self.emit_text("assistant", text)
        self.state.call = ""
        for index, call in enumerate(calls):
            function = record(call.get("function"))
            call_id, name = string(call.get("id")), string(function.get("name"))
            if call_id is None or name is None:
                self.unparsed("unknown-type", call)
            else:
                self.calls.show(call_id, name, decode_json(function.get("arguments")), raw=call, place=(None, index))
        if action and not calls:
            self.state.call = f"action-{self.state.actions}"
            self.state.actions += 1
            self.calls.show(self.state.call, "bash", {"command": action.strip()}, raw={"action": action})
        return None

    @message("tool", content=(str, list))
    def _tool(self, value: Line, task: str | None, printed: str | None) -> Skip:
        text = blocks_text(value["content"]) or ""
        for call_id in strings(value.get("tool_call_ids")):
            self._answer(call_id, text, printed, value)
        return None

    def _answer(self, call_id: str, text: str, printed: str | None, raw: Line) -> Skip:
        self.ensure_turn()
        self.state.call = ""
        return self.calls.answer(call_id, Answer(text if printed is None else printed, model=text), raw=raw)

    def _end(self, info: Line, printed: set[str]) -> None:
        """Emit the end of the run, with the totals of all its requests, and its patch, which a command has printed
        unless SWE-agent has submitted it by itself."""
        status = string(info.get("exit_status"))
        if status is None or self.state.over:
            return
        self.state.over = True
        self.ensure_turn()
        if (patch := string(info.get("submission"))) and patch not in printed:
            self.emit(Message, role="assistant", text=patch)
        stats = record(info.get("model_stats"))
        counts = token_counts(stats.get("tokens_sent"), stats.get("tokens_received"))
        cost = dollars(stats.get("instance_cost"))
        usage = ((Usage, {"scope": "session", "cost_usd": cost or None, **counts}),) if stats else ()
        outcome = "completed" if status.startswith(_SUBMITTED) else "failed"
        self.end_turn(outcome, reason=status, before=usage)


def _printed(messages: list[Line], steps: list[Line]) -> dict[int, str]:
    """Index of an answer -> what its commands have printed. Steps of answers that the model had to repeat are in no
    message, so an answer's step is the next one with its action."""
    found, left = {}, iter(steps)
    for index, one in enumerate(messages):
        if one.get("role") == "assistant":
            step = next((step for step in left if step.get("action") == one.get("action")), {})
            if (text := string(step.get("observation"))) is not None:
                found[index] = text
    return found
