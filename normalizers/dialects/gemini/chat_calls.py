"""The calls in Gemini CLI's chats, and their results: both are in the message of the model, and the results once more
in the message that brings them to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tooltap.normalizers.core.answer import Answer
from tooltap.normalizers.core.bodies import take_bodies
from tooltap.normalizers.core.calls import UNKNOWN_TOOL
from tooltap.normalizers.core.lines import UNPARSED, Line, Skip
from tooltap.normalizers.core.parser import Parser, best
from tooltap.normalizers.core.state import State
from tooltap.normalizers.dialects.gemini.answers import learn_server, mcp_name, read_call, read_response
from tooltap.normalizers.tools.outcome import status_word
from tooltap.normalizers.wire.times import milliseconds
from tooltap.normalizers.wire.values import record, records, string

_BEFORE_IT_RUNS = {"awaiting_approval": "awaiting-permission", "scheduled": "pending", "validating": "pending"}


class Emitted(msgspec.Struct, omit_defaults=True):
    """What was emitted of a message."""

    blocks: int = 0
    thoughts: int = 0
    chars: int = 0
    crc: int = 0
    """Of the emitted text, which has `chars` code points."""
    tokens: bool = False
    gone: bool = False
    """The model does not remember the message, or never saw it."""


class ChatState(State, kw_only=True):
    told: dict[str, Emitted] = msgspec.field(default_factory=dict)
    """Message id -> what was emitted of it; the oldest are forgotten."""
    agent: str | None = None
    """The subagent whose chat this is."""
    started: str | None = None
    """The session that was started last."""
    facts: dict[str, int] = msgspec.field(default_factory=dict)
    """Field of the session's events -> CRC of its last value."""
    servers: list[str] = msgspec.field(default_factory=list)
    """MCP servers that the chat named."""
    outcome: str = "cancelled"
    """How the open turn ends if nothing more comes."""


class ChatCalls(Parser):
    state: ChatState

    def read_calls(self, calls: list[Line], parts: list[Line]) -> Skip:
        """Read the calls of one message. They ran side by side, so all begin before the first of them ends.

        The parts repeat them, or hold them alone where the CLI wrote the message from what the model remembers."""
        called = records([part["functionCall"] for part in parts if "functionCall" in part])
        if called:
            listed = {call.get("id") for call in calls if isinstance(call.get("id"), str)}
            calls = calls + [call for call in called if isinstance(call.get("id"), str) and call["id"] not in listed]
        if not calls:
            return "unchanged"
        outcomes = [self._call(call) for call in calls]
        outcomes += [self._result(call) for call in calls if status_word(call.get("status")) or call.get("result")]
        return best([*reversed(outcomes), "unchanged"])

    def _call(self, call: Line) -> Skip:
        call_id, name, args = call.get("id"), call.get("name"), call.get("args")
        if not isinstance(call_id, str) or not isinstance(name, str):
            return self.unparsed("unknown-type", call)
        title = string(call.get("displayName"))
        title = title if title != name else None
        canonical = mcp_name(name, title, (*self.context.mcp_servers, *self.state.servers))
        learn_server(self.state.servers, canonical)
        if isinstance(call.get("agentId"), str) or record(call.get("resultDisplay")).get("isSubagentProgress") is True:
            # A subagent is called by `invoke_agent`, or by a tool of its own name; its result states its id.
            canonical = "Task"
            if isinstance(args, dict) and "agent_name" not in args:
                args = {**args, "subagent_type": name}
        status = _BEFORE_IT_RUNS.get(str(call.get("status")), "running")
        known = self.calls.get(call_id)
        if known is None:
            if self.calls.repeats(call_id, name, args, name=canonical, retold=True):
                return "unchanged"
        elif known.acknowledged:
            return "unchanged"
        raw = {key: item for key, item in call.items() if key != "result" and key != "resultDisplay"}
        if known is None:
            self.ensure_turn()
            self.calls.open(call_id, name, args, raw=raw, name=canonical, status=status, title=title)
            return None
        value = args if "args" in call else msgspec.UNSET
        changed = self.calls.update(known, value, raw=raw, raw_name=name, name=canonical, status=status, title=title)
        return None if changed else "unchanged"

    def _result(self, call: Line) -> Skip:
        call_id = call.get("id")
        if not isinstance(call_id, str) or not self.calls.is_known(call_id):
            return UNPARSED  # `_call` emitted it
        if self._is_answered(call_id):
            return "unchanged"
        self.ts = milliseconds(call.get("timestamp")) or self.ts
        return self._answer(call_id, read_call, call)

    def read_responses(self, parts: list[Line]) -> Skip:
        """Read results in the message that brings them to the model; their pictures are beside them."""
        responses = records([part.get("functionResponse") for part in parts])
        pictures = [part for part in parts if "inlineData" in part]
        outcomes: list[Skip] = ["unchanged"]
        for response in responses:
            call_id = response.get("id")
            if not isinstance(call_id, str):
                continue  # early versions state no id: the result is with its call
            if self._is_answered(call_id):
                outcomes.append("duplicate-result")
                continue
            raw_name = string(response.get("name")) or UNKNOWN_TOOL
            value = [{"functionResponse": response}, *(pictures if response is responses[-1] else ())]
            outcomes.append(self._answer(call_id, read_response, value, raw_name))
        return best([*reversed(outcomes)])

    def _is_answered(self, call_id: str) -> bool:
        call = self.calls.get(call_id)
        return self.calls.is_over(call_id) or (call is not None and call.acknowledged)

    def _answer(
        self, call_id: str, read: Callable[[str, Any], Answer], value: Any, raw_name: str = UNKNOWN_TOOL
    ) -> Skip:
        raw, attachments = take_bodies(self, value)
        name = self.calls.tool_of(call_id, raw_name)
        answer = read(name, raw)
        if attachments is not None:
            value = answer.value
            if name == "Read" and isinstance(value, str):
                value = {"message": value}  # "Binary content provided (1 item(s))."
            answer = answer.replace(value=value, attachments=attachments)
        return self.calls.answer(call_id, answer, raw=raw, raw_name=raw_name)
