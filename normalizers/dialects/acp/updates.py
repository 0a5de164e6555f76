"""ACP's `session/update` notifications: messages, thoughts, calls, plans, and what changes about a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.dialects.acp.content import attach, is_block, read_prompt
from tooltap.normalizers.dialects.acp.permissions import Asking
from tooltap.normalizers.dialects.acp.plans import Plans
from tooltap.normalizers.dialects.acp.sessions import Sessions
from tooltap.normalizers.dialects.acp.state import CHILDREN, AcpState, keep_newest
from tooltap.normalizers.dialects.acp.terminals import Terminals
from tooltap.normalizers.dialects.acp.tools import ToolCalls
from tooltap.normalizers.dialects.acp.turns import Turns
from tooltap.normalizers.wire.values import record, string
from tooltap.protocol.events import Message, Notice, Reasoning

__all__ = ["Updates"]

_ROLES = {
    "user_message_chunk": "user",
    "agent_message_chunk": "assistant",
    "agent_thought_chunk": "reasoning",
    "user_message": "user",
    "agent_message": "assistant",
    "agent_thought": "reasoning",
}
_LEVELS = ("info", "warning", "error")


class Updates:
    def __init__(
        self,
        parser: Parser,
        sessions: Sessions,
        turns: Turns,
        tools: ToolCalls,
        asking: Asking,
        terminals: Terminals,
        plans: Plans,
    ) -> None:
        self._parser = parser
        self._state: AcpState = parser.state
        self._sessions = sessions
        self._turns = turns
        self._tools = tools
        self._asking = asking
        self._terminals = terminals
        self._plans = plans

    def read(self, params: dict[str, Any]) -> str | None:
        """Read one update; gives the line's class, None for an update that is not known."""
        update = params.get("update")
        if not isinstance(update, dict):
            return None
        claude = record(record(update.get("_meta")).get("claudeCode"))
        if parent := string(claude.get("parentToolUseId")):
            self._parser.agent = self._parser.parent = parent
        handler = self._HANDLERS.get(str(update.get("sessionUpdate")))
        return handler(self, update) if handler is not None else None

    def _chunk(self, update: dict[str, Any]) -> str:
        """A piece of a message or thought."""
        role = _ROLES[update["sessionUpdate"]]
        block = record(update.get("content"))
        if not is_block(block):
            return self._parser.unparsed("unknown-type", update)
        if role == "user" and self._turns.is_prompted:
            return skip("echo")
        self._turns.ensure()
        message_id = string(update.get("messageId"))
        self._sessions.info.last_message = message_id
        if isinstance(block.get("text"), str):
            self._parser.texts.append(role, block["text"], message_id=message_id)
            return WITH_EVENTS
        self._parser.texts.flush()
        if not (attachments := attach(self._parser, block)):
            return self._parser.unparsed("unknown-type", update)
        role = "assistant" if role == "reasoning" else role
        self._parser.emit(Message, role=role, text="", message_id=message_id, attachments=attachments)
        return WITH_EVENTS

    def _whole_message(self, update: dict[str, Any]) -> str:
        """v2: a message as a whole, perhaps after its chunks."""
        role = _ROLES[update["sessionUpdate"]]
        if role == "user" and self._turns.is_prompted:
            return skip("echo")
        if not isinstance(update.get("content"), list):
            return skip("unchanged")
        message_id = string(update.get("messageId"))
        if message_id is not None and message_id == self._sessions.info.last_message:
            return skip("partial")
        self._turns.ensure()
        self._parser.texts.flush()
        text, attachments = read_prompt(self._parser, update["content"])
        if role == "reasoning":
            self._parser.emit(Reasoning, text=text, message_id=message_id)
        else:
            self._parser.emit(Message, role=role, text=text, message_id=message_id, attachments=attachments or None)
        return WITH_EVENTS

    def _tool_call(self, update: dict[str, Any]) -> str:
        if not self._tools.knows(update):
            self._turns.ensure()
        opens = update["sessionUpdate"] == "tool_call" or self._state.protocol_version >= 2
        line_class = self._tools.report(update, opens=opens, stopping=self._sessions.info.stopping)
        self._asking.review(update)
        return line_class

    def _tool_content(self, update: dict[str, Any]) -> str:
        return self._tools.add_content(update)

    def _terminal(self, update: dict[str, Any]) -> str:
        return self._terminals.update(update)

    def _plan(self, update: dict[str, Any]) -> str:
        self._turns.ensure()
        return self._plans.update(update)

    def _plan_removed(self, update: dict[str, Any]) -> str:
        return skip("unchanged")

    def _configured(self, update: dict[str, Any]) -> str:
        return self._sessions.configured(update)

    def _described(self, update: dict[str, Any]) -> str:
        return self._sessions.described(update)

    def _used(self, update: dict[str, Any]) -> str:
        return self._sessions.used(update)

    def _state_update(self, update: dict[str, Any]) -> str:
        """v2: what the session does as a whole."""
        info = self._sessions.info
        state, before = update.get("state"), info.state
        info.state = string(state)
        if self._parser.turn is None:
            if state != "running":
                return skip("unchanged")
            self._turns.ensure()
            return WITH_EVENTS
        reason = update.get("stopReason")
        if state != "idle" or (reason is None and before != "running"):
            return skip("unchanged")
        self._turns.end_with(update, reason, None)
        return WITH_EVENTS

    def _notice(self, update: dict[str, Any]) -> str:
        words = filter(None, (string(update.get(key)) for key in ("title", "description")))
        severity = update.get("severity")
        level = severity if severity in _LEVELS else "info"
        self._parser.emit(Notice, level=level, code="agent", text=": ".join(words))
        return WITH_EVENTS

    def _compaction(self, update: dict[str, Any]) -> str:
        status = str(update.get("status"))
        summary, _ = read_prompt(self._parser, update.get("summary"))
        text = update.get("error") or summary or status
        level = "error" if status == "failed" else "info"
        self._parser.emit(Notice, level=level, code="compaction", text=str(text), data={"status": status})
        return WITH_EVENTS

    def _compaction_summary(self, update: dict[str, Any]) -> str:
        text, _ = read_prompt(self._parser, [update.get("content")])
        self._parser.texts.append("system", text, message_id=update.get("compactionId"), key="compaction")
        return WITH_EVENTS

    def _subagent(self, update: dict[str, Any]) -> str:
        """A session of a subagent, announced or changed; its updates come under its own id."""
        child = string(update.get("sessionId") or update.get("subagentSessionId"))
        if child is None:
            return self._parser.unparsed("unknown-type", update)
        self._state.children.setdefault(child, self._parser.session)
        keep_newest(self._state.children, CHILDREN)
        words = filter(None, (string(update.get(key)) for key in ("title", "name", "description", "task")))
        state = string(record(update.get("state")).get("state") or update.get("state"))
        data = {"session": child, "state": state} if state is not None else {"session": child}
        self._parser.emit(Notice, level="info", code="subagent", text=": ".join(words) or state or child, data=data)
        return WITH_EVENTS

    _HANDLERS: ClassVar[dict[str, Callable[[Updates, dict[str, Any]], str]]] = {
        **dict.fromkeys((role for role in _ROLES if role.endswith("_chunk")), _chunk),
        **dict.fromkeys((role for role in _ROLES if not role.endswith("_chunk")), _whole_message),
        "available_commands_update": _configured,
        "compaction_summary_chunk": _compaction_summary,
        "compaction_update": _compaction,
        "config_option_update": _configured,
        "current_mode_update": _configured,
        "notice": _notice,
        "plan": _plan,
        "plan_removed": _plan_removed,
        "plan_update": _plan,
        "session_info_update": _described,
        "state_update": _state_update,
        "subagent_spawned": _subagent,
        "subagent_state_update": _subagent,
        "subagent_update": _subagent,
        "terminal_output_chunk": _terminal,
        "terminal_update": _terminal,
        "tool_call": _tool_call,
        "tool_call_content_chunk": _tool_content,
        "tool_call_update": _tool_call,
        "usage_update": _used,
    }
