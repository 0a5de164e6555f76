"""Parser of mini-swe-agent's trajectories."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import MessageHistory, SessionState
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.tools.payload import blocks_text, decode_json
from tooltap.normalizers.wire.values import (
    after_epoch,
    dollars,
    record,
    records,
    request_id,
    string,
    token_counts,
    whole,
)
from tooltap.protocol.events import Message, Usage

MESSAGES = 4_096
"""Maximum number of messages that are remembered; the oldest are dropped."""
_TASK = "{{task}}"
_CODES = {"FormatError": "format-error"}
"""`interrupt_type` -> code of the notice."""
_SUBMITTED = "Submitted"
"""`exit_status` of a task that the model has declared done; every other is the reason why the agent gave up."""


class MiniState(SessionState, kw_only=True):
    template: tuple[str, str] = ("", "")
    """What the agent writes before the task, and the words that follow it."""
    history: MessageHistory = msgspec.field(default_factory=MessageHistory)


class MiniTrajectory(Parser):
    """The `mini-trajectory` dialect: a run, as one JSON document.

    Learned from mini-swe-agent 2.4. Its `messages` are the conversation with the model, beginning with the system's
    prompt and the task; a result has the exit code and the output of its command. An answer without a call is an error
    to the agent, and only in the `extra` of the message in which it tells the model so. The last message states how the
    run has ended.
    """

    dialect = "mini-trajectory"
    protocol = default_provider = "mini-swe-agent"
    DOCUMENTS = True
    STATES_TIMES = True
    STATES_END = True
    SKIPS = frozenset({"unchanged"})
    message = Lines("role", skip={"system": "prompt-context"})
    state_type = MiniState
    state: MiniState

    def read(self, value: Line) -> Skip:
        messages, info = value.get("messages"), record(value.get("info"))
        if not isinstance(messages, list):
            return self.unparsed("unknown-type", value)
        if self.state.started is None:
            self._start(info)
        said = records(messages)
        start, is_shorter = self.state.history.unread([_identity(one) for one in said], MESSAGES)
        if is_shorter:
            self.notice("rewound", "trajectory shortened", data={"messages": start})
        for one in said[start:]:
            self.ts = after_epoch(record(one.get("extra")).get("timestamp")) or self.ts
            self.message.read(self, one)
        return None if self.items else "unchanged"

    def _start(self, info: Line) -> None:
        config = record(info.get("config"))
        model = string(record(config.get("model")).get("model_name"))
        cwd = string(record(config.get("environment")).get("cwd"))
        template = string(record(config.get("agent")).get("instance_template")) or ""
        before, _, after = template.partition(_TASK)
        self.state.template = before.lstrip(), after.partition("{")[0].rstrip()
        self.state.cwd = cwd or None
        self.begin_session(None, cwd=cwd or None, model=model, agent_version=string(info.get("mini_version")))

    @message("user", content=(str, list))
    def _user(self, value: Line) -> Skip:
        """The task; later, what the agent tells the model in the user's place, with the answer that made it do so."""
        extra, bodies = record(value.get("extra")), Bodies(self)
        text = blocks_text(bodies.take(value["content"])) or ""
        kind = string(extra.get("interrupt_type"))
        if kind is None:
            self.start_turn()
            self.emit(Message, role="user", text=self._task(text), attachments=bodies.attachments)
            return None
        choices = records(record(extra.get("response")).get("choices"))
        self._say(record(choices[0].get("message")) if choices else {}, extra)
        self.notice(_CODES.get(kind, "interrupt"), text, "warning", {"type": kind})
        return None

    def _task(self, text: str) -> str:
        """The words of the user in the first message, which the agent writes with a template."""
        before, after = self.state.template
        if not text.startswith(before):
            return text
        end = text.find(after, len(before)) if after else len(text)
        return text[len(before) : end].rstrip() if end >= 0 else text

    @message("assistant")
    def _assistant(self, value: Line) -> Skip:
        self._say(value, record(value.get("extra")))
        for index, call in enumerate(records(value.get("tool_calls"))):
            function = record(call.get("function"))
            call_id, name = string(call.get("id")), string(function.get("name"))
            if call_id is None or name is None:
                self.unparsed("unknown-type", call)
            else:
                place = None, index
                self.calls.show(call_id, name, decode_json(function.get("arguments")), raw=call, place=place)
        return None

    def _say(self, message: Line, extra: Line) -> None:
        """Emit the texts of an answer, and what it has used. A cost of 0 is that of a model without a price."""
        self.ensure_turn()
        for role, key in (("reasoning", "reasoning_content"), ("assistant", "content")):
            if text := string(message.get(key)):
                self.emit_text(role, text)
        response = record(extra.get("response"))
        usage, cost = record(response.get("usage")), dollars(extra.get("cost"))
        if usage or cost:
            cached = record(usage.get("prompt_tokens_details")).get("cached_tokens")
            thought = record(usage.get("completion_tokens_details")).get("reasoning_tokens")
            counts = token_counts(usage.get("prompt_tokens"), usage.get("completion_tokens"), cached, None, thought)
            request = request_id(response.get("id"))
            self.emit(Usage, scope="step", cost_usd=cost or None, request=request, **counts)

    @message("tool", tool_call_id=str)
    def _tool(self, value: Line) -> Skip:
        """What the model saw has the output in JSON, and only the ends of a long one."""
        self.ensure_turn()
        extra, bodies = record(value.get("extra")), Bodies(self)
        content = bodies.take(value.get("content"))
        output, code = extra.get("raw_output"), whole(extra.get("returncode"))
        result: dict[str, Any] = {} if code is None else {"exit_code": code}
        result["stdout"] = output if isinstance(output, str) else blocks_text(content) or ""
        error = string(extra.get("exception_info")) or None
        status = "completed" if error is None else "failed"
        answer = Answer(result, status, error, model=content, attachments=bodies.attachments)
        return self.calls.answer(value["tool_call_id"], answer, raw=value, raw_name="bash")

    @message("exit")
    def _exit(self, value: Line) -> Skip:
        self.ensure_turn()
        extra = record(value.get("extra"))
        if submission := string(extra.get("submission")):
            self.emit(Message, role="assistant", text=submission)
        status = string(extra.get("exit_status"))
        self.end_turn("completed" if status == _SUBMITTED else "failed", reason=status)
        return None


def _identity(message: Line) -> int:
    """Digest of a message without its `extra`."""
    said = [message.get(key) for key in ("role", "content", "tool_call_id")]
    response = record(record(message.get("extra")).get("response")).get("id")
    return zlib.crc32(msgspec.json.encode([*said, response]))
