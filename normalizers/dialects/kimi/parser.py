"""The `kimi-json` dialect: `kimi --print --output-format stream-json`.

Learned from Kimi CLI 1.40. Each line is a chat message: the model's text with its tool calls, or one result. There is
no prompt, no session id, no time and no usage; errors of the API are printed as plain text. MCP tools have their bare
names. A message without calls is the model's last, and therefore ends the turn.
"""

from __future__ import annotations

import re

import msgspec

from tooltap.normalizers.core.bodies import Bodies
from tooltap.normalizers.core.bounded import make_room
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import State
from tooltap.normalizers.dialects.kimi.answers import TASK_STATUS, notified_result, output_text, read_result
from tooltap.normalizers.tools.payload import decode_json
from tooltap.normalizers.wire.values import record, records, string
from tooltap.protocol.events import Message

__all__ = ["KimiJson"]

MANY_TASKS = 1_024
"""Background tasks whose calls the parser remembers."""

_TASK_ID = re.compile(r"^task_id: (\S+)$", re.MULTILINE)
_LEVELS = {"warning": "warning", "error": "error"}
"""Severity of a notification -> level; every other is info."""


class KimiState(State, kw_only=True):
    tasks: dict[str, str] = msgspec.field(default_factory=dict)
    """Background task -> id of the call that started it."""


class KimiJson(Parser):
    dialect = "kimi-json"
    protocol = default_provider = "kimi"
    SKIPS = frozenset({"empty", "unchanged", "plan-display"})
    line = Lines("role")
    state_type = KimiState
    state: KimiState

    @line.otherwise
    def _beside(self, value: Line) -> Skip:
        """What is beside the conversation has no role."""
        if isinstance(value.get("source_kind"), str):
            return self._notification(value)
        if value.keys() == {"content", "file_path"}:
            return "plan-display"  # the call of ExitPlanMode, or the file, holds the plan
        if isinstance(value.get("question"), str) and "id" in value:
            return self._side_question("user", value["question"])
        if "id" in value and value.keys() & {"response", "error"}:
            return self._side_question("assistant", string(value.get("response")) or string(value.get("error")))
        return self.unparsed("unknown-type", value)

    # -- messages -----------------------------------------------------------------------------------------------

    @line("assistant")
    def _assistant(self, value: Line) -> Skip:
        self.ensure_turn()
        outcomes = [self._message("assistant", value)]
        calls = records(value.get("tool_calls"))
        outcomes += [self._call(call) for call in calls]
        if not calls:
            self.end_turn("completed", synthetic=True)
            return None
        return None if None in outcomes else outcomes[-1]

    @line("user")
    def _user(self, value: Line) -> Skip:
        return self._message("user", value)

    def _message(self, role: str, value: Line) -> Skip:
        """Emit the parts of a message, in order. A single part may be a bare string."""
        content = value.get("content")
        if type(content) is str:
            if not content:
                return "empty"
            self.emit_text(role, content, block=None)
            return None
        parts = records(content)
        before = len(self.items)
        for index, part in enumerate(parts):
            block = index if len(parts) > 1 else None
            kind = part.get("type")
            if kind in ("text", "think"):
                if text := string(part.get(kind)):
                    self.emit_text(role if kind == "text" else "reasoning", text, block=block)
            else:
                bodies = Bodies(self)
                bodies.take(part)
                if bodies.attachments:
                    self.emit(Message, role=role, text="", block=block, attachments=bodies.attachments)
                else:
                    self.unparsed("unknown-type", part)
        return None if len(self.items) > before else "empty"

    def _side_question(self, role: str, text: str | None) -> Skip:
        """`/btw`: a question and its answer, outside the turn."""
        if not text:
            return "empty"
        self.emit_text(role, text, turn=None)
        return None

    # -- calls --------------------------------------------------------------------------------------------------

    def _call(self, entry: Line) -> Skip:
        call_id, function = entry.get("id"), record(entry.get("function"))
        name = function.get("name")
        if not isinstance(call_id, str) or not isinstance(name, str):
            return self.unparsed("unknown-type", entry)
        arguments = decode_json(function.get("arguments"))
        if isinstance(arguments, str):
            arguments = {"arguments": arguments} if arguments else {}
        background = isinstance(arguments, dict) and arguments.get("run_in_background") is True
        memory = {"background": True} if background else None
        known = self.calls.get(call_id)
        if known is not None and known.acknowledged:  # the id of a running background task is reused
            self.calls.open(call_id, name, arguments, raw=entry, memory=memory)
            return None
        return self.calls.show(call_id, name, arguments, raw=entry, memory=memory)

    @line("tool", tool_call_id=str)
    def _result(self, value: Line) -> Skip:
        call_id = value["tool_call_id"]
        self.ensure_turn()
        call = self.calls.get(call_id)
        bodies = Bodies(self)
        raw = bodies.take(value)
        name = call.name if call is not None else self.calls.name_of(call_id) or ""
        answer = read_result(name, raw.get("content"))
        background = call is not None and call.memory.get("background") and answer.status == "completed"
        if background and (task := _TASK_ID.search(output_text(raw.get("content")))) is not None:
            make_room(self.state.tasks, MANY_TASKS)
            self.state.tasks[task[1]] = self.calls.id_of(call_id)
            answer = answer.replace(is_async=True)
        if attachments := bodies.attachments:
            answer = answer.replace(attachments=attachments)
        return self.calls.answer(call_id, answer, raw=raw)

    def _notification(self, value: Line) -> Skip:
        """A notification of Kimi, mostly that a background task ended: the final result of its call."""
        kind = string(value.get("type")) or ""
        started_by = self.state.tasks.get(string(value.get("source_id")) or "")
        call = self.calls.get(started_by) if started_by is not None else None
        if call is not None and kind in TASK_STATUS:
            self.state.tasks.pop(value["source_id"])
            return self.calls.answer(call, notified_result(call.name, kind, value), raw=value, final=True)
        text = ": ".join(part for part in (string(value.get("title")), string(value.get("body"))) if part)
        level = _LEVELS.get(string(value.get("severity")) or "", "info")
        self.notice(kind or "notification", text, level, value)
        return None
