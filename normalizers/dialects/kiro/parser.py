"""Parsers of the two formats in which Kiro stores sessions.

Written after public readers of these files (2026-08 to 2026-10), without a recording.
"""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import State
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.tools.names import canonical_name
from tooltap.normalizers.tools.outcome import status_word
from tooltap.normalizers.tools.payload import blocks_text
from tooltap.normalizers.wire.values import after_epoch, milliseconds, record, records, string
from tooltap.protocol.events import Message

_NAMES = {"execute_bash": "bash", "execute_cmd": "bash", "fs_write": "str_replace_based_edit_tool"}
"""Names that only Kiro's tools have -> a name of the same tool that the table of names has."""
_EXIT_STATUS = "exit status: "
_EXIT_CODE = "\n\nExit Code: "


class Kiro(Parser):
    """What Kiro's formats have in common."""

    protocol = default_provider = "kiro"
    STATES_TIMES = True

    def show_call(self, call_id: str, tool: str, given: Any, raw: Line, *, index: int | None = None) -> Skip:
        return show_tool(self, call_id, tool, given, raw, index=index)


def show_tool(parser: Parser, call_id: str, tool: str, given: Any, raw: Line, *, index: int | None = None) -> Skip:
    """Show a call of a tool that Kiro and Amazon Q may have a name of their own for."""
    name = _NAMES.get(tool, tool)
    if tool == "write" and "command" in record(given):
        name = _NAMES["fs_write"]
    parser.ensure_turn()
    canonical = canonical_name(name, given, call_id)
    known = canonical if canonical != name or name == tool else None
    return parser.calls.show(call_id, tool, given, raw=raw, name=known, place=(None, index))


class KiroSession(Kiro):
    """The `kiro-session` dialect: a line for each message, `~/.kiro/sessions/cli/<session>.jsonl`.

    A turn lasts from a prompt to the answer that calls no tool. Only prompts have a time.
    """

    dialect = "kiro-session"
    SKIPS = frozenset({"empty", "unchanged"})
    line = Lines("kind")
    block = Lines("kind")
    state_type = State

    def enter(self, value: Line) -> None:
        self.ts = after_epoch(record(record(value.get("data")).get("meta")).get("timestamp")) or self.ts

    @line("Prompt", data=dict)
    def _prompt(self, value: Line) -> Skip:
        data, bodies = value["data"], Bodies(self)
        content = records(bodies.take(data.get("content")))
        self.give_up_turns()
        self.start_turn()
        message_id = string(data.get("message_id"))
        text = "\n\n".join(_texts(content))
        self.emit(Message, role="user", text=text, message_id=message_id, attachments=bodies.attachments)
        return None

    @line("AssistantMessage", "ToolResults", data=dict)
    def _message(self, value: Line) -> Skip:
        content, before = records(value["data"].get("content")), len(self.items)
        skips = [self.block.read(self, block, index, line=value) for index, block in enumerate(content)]
        calls = any(block.get("kind") == "toolUse" for block in content)
        if value["kind"] == "AssistantMessage" and not calls and self.turn is not None:
            self.end_turn("completed", ended_by="answer")
        if len(self.items) > before:
            return None
        return next((skip for skip in skips if skip is not None), "empty")

    @block("text", data=str)
    def _text(self, block: Line, index: int) -> Skip:
        return self._say("assistant", block["data"])

    @block("thinking", data=(dict, str))
    def _thinking(self, block: Line, index: int) -> Skip:
        data = block["data"]
        return self._say("reasoning", data if isinstance(data, str) else string(data.get("text")) or "")

    def _say(self, role: str, text: str) -> Skip:
        if not text.strip():
            return "empty"
        self.ensure_turn()
        self.emit_text(role, text)
        return None

    @block("toolUse", data=dict)
    def _call(self, block: Line, index: int) -> Skip:
        call = block["data"]
        call_id, tool = string(call.get("toolUseId")), string(call.get("name"))
        if call_id is None or tool is None:
            return self.unparsed("unknown-type", call)
        given = call.get("input")
        if isinstance(given, dict):
            given = {key: item for key, item in given.items() if key != "__tool_use_purpose"}
        return self.show_call(call_id, tool, given, call, index=index)

    @block("toolResult", data=dict)
    def _result(self, block: Line, index: int) -> Skip:
        result, bodies = block["data"], Bodies(self)
        call_id = string(result.get("toolUseId"))
        if call_id is None:
            return self.unparsed("unknown-type", result)
        self.ensure_turn()
        parts = records(bodies.take(result.get("content")))
        objects = [part["data"] for part in parts if isinstance(part.get("data"), dict)]
        text = "\n".join(_texts(parts))
        value: Any = shell_result(objects[0]) if len(objects) == 1 and not text else objects or text
        status = status_word(result.get("status")) or "completed"
        answer = Answer(value) if status == "completed" else Answer(None, status, text or None)
        return self.calls.answer(call_id, answer.replace(attachments=bodies.attachments), raw=result)


def _texts(blocks: list[Line]) -> list[str]:
    return [text for block in blocks if block.get("kind") == "text" and (text := string(block.get("data")))]


def shell_result(value: Line) -> Line:
    """A command's result with its exit code, which is stated in words."""
    code = str(value.get("exit_status")).removeprefix(_EXIT_STATUS)
    if not code.isascii() or not code.isdigit():
        return value
    rest = {key: item for key, item in value.items() if key != "exit_status"}
    return {**rest, "exit_code": int(code[:9])}


class KiroMessages(Kiro):
    """The `kiro-messages` dialect: events, `~/.kiro/sessions/<workspace>/sess_<id>/messages.jsonl`."""

    dialect = "kiro-messages"
    SKIPS = frozenset({"telemetry", "unchanged", "empty"})
    event = Lines(
        skip={
            "interaction_resolved": "resolved",
            "session_event": "status",
            "session_start": "prompt-context",
            "sub_agent_complete": "subagent",
            "sub_agent_start": "subagent",
            "turn_start": "status",
            "usage_summary": "no-usage",
        }
    )
    state_type = State

    def read(self, value: Line) -> Skip:
        self.ts = milliseconds(value.get("timestamp")) or self.ts
        return self.event.read(self, record(value.get("payload")), string(value.get("id")), line=value)

    @event("user", content=(str, list))
    def _user(self, value: Line, message_id: str | None) -> Skip:
        self.give_up_turns()
        self.start_turn()
        bodies = Bodies(self)
        text = blocks_text(bodies.take(value["content"])) or ""
        bodies.take(value.get("images"))
        self.emit(Message, role="user", text=text, message_id=message_id, attachments=bodies.attachments)
        return None

    @event("assistant", content=str)
    def _assistant(self, value: Line, message_id: str | None) -> Skip:
        text, kind = value["content"], value.get("operationType")
        if not text.strip():
            return "empty"
        if kind == "Summary":
            self.notice("summary", text)
            return None
        self.ensure_turn()
        if kind == "Reasoning":
            self.emit_text("reasoning", text)
        else:
            self.emit_text("assistant", text, message_id=message_id)
        return None

    @event("tombstone")
    def _tombstone(self, value: Line, message_id: str | None) -> Skip:
        """Messages that the model no longer gets."""
        self.notice("compaction" if value.get("kind") == "summarization" else "rewound", None, data=value)
        return None

    @event("pending_interaction", toolCallId=str)
    def _asks(self, value: Line, message_id: str | None) -> Skip:
        self.ensure_turn()
        self.permissions.ask(value["toolCallId"], call_id=value["toolCallId"], title=string(value.get("question")))
        return None

    @event("tool_call", toolCallId=str, toolName=str)
    def _call(self, value: Line, message_id: str | None) -> Skip:
        call_id, before = value["toolCallId"], len(self.items)
        skip = self.show_call(call_id, value["toolName"], value.get("args"), value)
        if self.permissions.is_pending(call_id) and value.get("status") == "approved":
            self.permissions.answer(call_id, "allowed")
        return None if len(self.items) > before else skip

    @event("tool_result", toolCallId=str)
    def _result(self, value: Line, message_id: str | None) -> Skip:
        call_id, bodies = value["toolCallId"], Bodies(self)
        self.ensure_turn()
        content = bodies.take(value.get("content"))
        text = blocks_text(content)
        if value.get("success") is False:
            answer = Answer(None, "failed", text)
        else:
            answer = Answer(_output(self.calls.name_of(call_id), text) if text is not None else content)
        return self.calls.answer(call_id, answer.replace(model=content, attachments=bodies.attachments), raw=value)

    @event("session_metadata", key=str)
    def _metadata(self, value: Line, message_id: str | None) -> Skip:
        return "telemetry" if value["key"] == "contextUsage" else self.unparsed("unknown-type", value)

    @event("turn_end")
    def _end(self, value: Line, message_id: str | None) -> Skip:
        self.ensure_turn()
        reason = string(value.get("stopReason"))
        outcome = status_word(reason)
        self.end_turn(outcome if outcome in ("cancelled", "failed") else "completed", reason=reason)
        return None


def _output(name: str | None, text: str) -> Any:
    """A command's result, a text with its exit code at the end."""
    before, is_stated, code = text.rpartition(_EXIT_CODE)
    if name != "Bash" or not is_stated or not code.isascii() or not code.isdigit():
        return text
    return {"stdout": before.removeprefix("Output:\n"), "exit_code": int(code[:9])}
