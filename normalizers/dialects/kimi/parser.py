"""The `kimi-json` dialect: `kimi --print --output-format stream-json`.

Learned from Kimi CLI 1.40. Each line is a chat message: what the model said, with the tools it calls, and one message
per result. There is no prompt, no session id, no time and no usage; errors of the API are printed as plain text. MCP
tools go by their bare names. A message that calls nothing is the model's last word, and so ends the turn.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from tooltap.normalizers.core.bodies import Bodies
from tooltap.normalizers.core.calls_state import Call
from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.core.state import State
from tooltap.normalizers.dialects.kimi.results import TASK_STATUS, notified_result, read_result
from tooltap.normalizers.tools.payload import decode_json
from tooltap.normalizers.wire.values import record, records, string
from tooltap.protocol.events import Message, Notice, Reasoning
from tooltap.protocol.tapped import Direction

__all__ = ["KimiJson"]

MANY_TASKS = 1_024
"""Background tasks whose calls are remembered."""

_TASK_ID = re.compile(r"^task_id: (\S+)$", re.MULTILINE)
_LEVELS = {"warning": "warning", "error": "error"}
"""Severity of a notification -> level; every other is info."""


class KimiState(State, kw_only=True):
    tasks: dict[str, str] = msgspec.field(default_factory=dict)
    """Background task -> id of the call that started it."""


class KimiJson(Parser):
    dialect = "kimi-json"
    protocol = "kimi"
    default_provider = "kimi"
    SKIPS = frozenset({"blank", "lost", "duplicate-result", "empty", "unchanged", "plan-display"})
    state_type = KimiState
    state: KimiState

    def read(self, value: dict[str, Any], direction: Direction | None) -> str:
        role = value.get("role")
        if role == "assistant":
            return self._assistant(value)
        if role == "user":
            return self._message("user", value)
        if role == "tool" and isinstance(value.get("tool_call_id"), str):
            return self._result(value["tool_call_id"], value)
        if isinstance(value.get("source_kind"), str):
            return self._notification(value)
        if value.keys() == {"content", "file_path"}:
            return skip("plan-display")  # the plan stands in the call of ExitPlanMode, or in the file
        if isinstance(value.get("question"), str) and "id" in value:
            return self._side_question("user", value["question"])
        if "id" in value and value.keys() & {"response", "error"}:
            return self._side_question("assistant", string(value.get("response")) or string(value.get("error")) or "")
        return self.unparsed("unknown-type", value)

    # -- messages -----------------------------------------------------------------------------------------------

    def _assistant(self, value: dict[str, Any]) -> str:
        self.ensure_turn()
        said = self._message("assistant", value)
        calls = records(value.get("tool_calls"))
        classes = [said, *(self._call(call) for call in calls)]
        if not calls:
            self.end_turn("completed", synthetic=True)
            return WITH_EVENTS
        return WITH_EVENTS if WITH_EVENTS in classes else classes[-1]

    def _message(self, role: str, value: dict[str, Any]) -> str:
        """The parts of a message, in order. Content of one part may be a bare string."""
        content = value.get("content")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else records(content)
        before = len(self.items)
        for block, part in enumerate(parts):
            number = block if len(parts) > 1 else None
            kind = part.get("type")
            if kind == "think":
                if thought := string(part.get("think")):
                    self.emit(Reasoning, text=thought, block=number)
            elif kind == "text":
                if text := string(part.get("text")):
                    self.emit(Message, role=role, text=text, block=number)
            else:
                bodies = Bodies(self)
                bodies.take(part)
                if bodies.attachments:
                    self.emit(Message, role=role, text="", block=number, attachments=bodies.attachments)
                else:
                    self.unparsed("unknown-type", part)
        return WITH_EVENTS if len(self.items) > before else skip("empty")

    def _side_question(self, role: str, text: str) -> str:
        """`/btw`: asked and answered beside the turn."""
        if not text:
            return skip("empty")
        self.emit(Message, role=role, text=text, turn=None)
        return WITH_EVENTS

    # -- calls --------------------------------------------------------------------------------------------------

    def _call(self, entry: dict[str, Any]) -> str:
        call_id, function = entry.get("id"), record(entry.get("function"))
        name = function.get("name")
        if not isinstance(call_id, str) or not isinstance(name, str):
            return self.unparsed("unknown-type", entry)
        arguments = decode_json(function.get("arguments"))
        if isinstance(arguments, str):
            arguments = {"arguments": arguments} if arguments else {}
        known = self.calls.get(call_id)
        if known is not None and not known.acknowledged:
            return WITH_EVENTS if self.calls.update(known, arguments, raw=entry) else skip("unchanged")
        if self.calls.repeats(call_id, name, arguments):
            return skip("unchanged")
        background = isinstance(arguments, dict) and arguments.get("run_in_background") is True
        self.calls.open(call_id, name, arguments, raw=entry, memory={"background": True} if background else None)
        return WITH_EVENTS

    def _result(self, call_id: str, value: dict[str, Any]) -> str:
        self.ensure_turn()
        call = self.calls.get(call_id)
        bodies = Bodies(self)
        raw = bodies.take(value)
        answer = read_result(self.calls.name_of(call_id) or "", raw.get("content"))
        task = _TASK_ID.search(answer.text) if call is not None and call.memory.get("background") else None
        is_async = task is not None and answer.status == "completed"
        if task is not None and is_async:
            while len(self.state.tasks) >= MANY_TASKS:
                del self.state.tasks[next(iter(self.state.tasks))]
            self.state.tasks[task[1]] = self.calls.id_of(call_id)
        return self.calls.result(
            call_id,
            answer.value,
            raw=raw,
            status=answer.status,
            error=answer.error,
            attachments=bodies.attachments,
            is_async=is_async,
        )

    def _notification(self, value: dict[str, Any]) -> str:
        """Of the program, not of the model: mostly that a background task ended, which is its call's real end."""
        kind = string(value.get("type")) or ""
        call = self._started_by(string(value.get("source_id")) or "")
        if call is not None and kind in TASK_STATUS:
            self.state.tasks.pop(value["source_id"])
            answer = notified_result(call.name, kind, value)
            return self.calls.result(
                call, answer.value, raw=value, status=answer.status, error=answer.error, final=True
            )
        text = ": ".join(part for part in (string(value.get("title")), string(value.get("body"))) if part)
        level = _LEVELS.get(string(value.get("severity")) or "", "info")
        self.emit(Notice, level=level, code=kind or "notification", text=text, data=value)
        return WITH_EVENTS

    def _started_by(self, task: str) -> Call | None:
        call_id = self.state.tasks.get(task)
        return self.calls.get(call_id) if call_id is not None else None
