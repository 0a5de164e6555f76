"""Messages, tool calls, results, notifications and side questions, which all formats of Kimi share."""

from __future__ import annotations

import re

import msgspec

from tooltap.normalizers.core.calls import Place
from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import SessionState, put
from tooltap.normalizers.core.writer import Bodies
from tooltap.normalizers.dialects.kimi.answers import (
    StatedResult,
    TaskReport,
    notified_result,
    read_result,
    task_status,
)
from tooltap.normalizers.tools.payload import blocks_text, decode_json
from tooltap.normalizers.wire.values import records, string
from tooltap.protocol.events import Message

MANY_TASKS = 1_024
"""Maximum number of background tasks whose calls are remembered."""

_TASK_ID = re.compile(r"^task_id: (\S+)$", re.MULTILINE)
_REPORTS = ("TaskOutput", "TaskStop")
"""Tools whose results report on a background task."""
_LEVELS = {"warning": "warning", "error": "error"}
"""Severity of a notification -> level; every other is info."""


class KimiState(SessionState, kw_only=True):
    tasks: dict[str, str] = msgspec.field(default_factory=dict)
    """Background task -> id of the call that started it."""


class KimiMessages:
    """Emits the messages and calls that both forms hold."""

    SKIPS = frozenset({"empty"})

    def __init__(self, parser: Parser, state: KimiState) -> None:
        self._parser = parser
        self._calls = parser.calls
        self._state = state

    # -- messages -----------------------------------------------------------------------------------------------

    def show_message(self, role: str, content: object) -> Skip:
        """Emit the parts of a message, in order. A single part may be a bare string."""
        if type(content) is str:
            if not content:
                return "empty"
            self._parser.emit_text(role, content, block=None)
            return None
        parts = records(content)
        before = len(self._parser.items)
        for index, part in enumerate(parts):
            block = index if len(parts) > 1 else None
            kind = part.get("type")
            if kind in ("text", "think"):
                if text := string(part.get(kind)):
                    self._parser.emit_text(role if kind == "text" else "reasoning", text, block=block)
            else:
                self.show_media(role, part, block)
        return None if len(self._parser.items) > before else "empty"

    def show_media(self, role: str, part: Line, block: int | None) -> Skip:
        """Emit a picture or other media."""
        bodies = Bodies(self._parser)
        bodies.take(part)
        if not bodies.attachments:
            return self._parser.unparsed("unknown-type", part)
        self._parser.emit(Message, role=role, text="", block=block, attachments=bodies.attachments)
        return None

    def side_question(self, role: str, text: str | None) -> Skip:
        """`/btw`: a question and its answer, outside the turn."""
        if not text:
            return "empty"
        self._parser.emit_text(role, text, turn=None)
        return None

    # -- calls --------------------------------------------------------------------------------------------------

    def show_call(
        self,
        call_id: str,
        raw_name: str,
        arguments: object,
        raw: Line,
        name: str | None = None,
        place: Place | None = ("", None),
    ) -> Skip:
        """Show a call. `arguments`: its input as JSON text; `name`: the canonical name, where that is known."""
        value = decode_json(arguments)
        if isinstance(value, str):
            value = {"arguments": value} if value else {}
        memory = _memory(raw_name, value) if isinstance(value, dict) else None
        known = self._calls.get(call_id)
        if known is not None and known.acknowledged:  # the id of a running background task is reused
            self._calls.open(call_id, raw_name, value, raw=raw, name=name, memory=memory)
            return None
        return self._calls.show(call_id, raw_name, value, raw=raw, name=name, memory=memory, place=place)

    def answer_call(self, call_id: str, value: Line, key: str, *, for_model: bool = False) -> Skip:
        """Emit a call's result: `value` has its content, or its return value, under `key`. `for_model`: whether that is
        also the result for the model."""
        call = self._calls.due(call_id)
        bodies = Bodies(self._parser)
        raw = bodies.take(value)
        stated = StatedResult.of(raw.get(key), bodies)
        name = call.name if call is not None else self._calls.name_of(call_id) or ""
        memory = call.memory if call is not None else {}
        answer = read_result(name, stated, lists_files="files" in memory)
        text = blocks_text(stated.output) or ""
        if answer.status == "completed" and ("background" in memory or _goes_on(text)):
            answer = answer.replace(is_async=self._learn_task(text, call_id))
        elif name in _REPORTS:
            self._end_task(text, raw)
        if attachments := bodies.attachments:
            answer = answer.replace(attachments=attachments)
        if for_model:
            answer = answer.replace(model=stated.content)
        return self._calls.answer(call_id, answer, raw=raw)

    def _end_task(self, text: str, raw: Line) -> None:
        """Emit the final result of the call whose background task has ended, if the text is a report that says so."""
        report = TaskReport.of(text)
        started_by = self._state.tasks.get(report.task) if report is not None else None
        call = self._calls.get(started_by) if started_by is not None else None
        if report is not None and call is not None:
            self._state.tasks.pop(report.task)
            self._calls.answer(call, report.answer(call.name), raw=raw, final=True)

    def _learn_task(self, text: str, call_id: str) -> bool:
        """Remember the background task that a call has started; returns whether it has."""
        task = _TASK_ID.search(text)
        if task is not None:
            put(self._state.tasks, task[1], self._calls.id_of(call_id), MANY_TASKS)
        return task is not None

    def show_notification(self, value: Line) -> Skip:
        """Read a notification. If it says that a background task has ended, emit the final result of its call, else a
        notice."""
        kind = string(value.get("type")) or ""
        started_by = self._state.tasks.get(string(value.get("source_id")) or "")
        call = self._calls.get(started_by) if started_by is not None else None
        if call is not None and (status := task_status(kind)) is not None:
            self._state.tasks.pop(value["source_id"])
            return self._calls.answer(call, notified_result(call.name, status, value), raw=value, final=True)
        text = ": ".join(part for part in (string(value.get("title")), string(value.get("body"))) if part)
        level = _LEVELS.get(string(value.get("severity")) or "", "info")
        self._parser.notice(kind or "notification", text, level, value)
        return None


def _goes_on(text: str) -> bool:
    """Whether a command went on in the background (Kimi Code 2.1: it took too long, or the user sent it there)."""
    return text.startswith("task_id: ") and "\nautomatic_notification: true\n" in text[:1_000]


def _memory(raw_name: str, value: Line) -> Line | None:
    """Return the parts of the input that are needed to read the result."""
    if value.get("run_in_background") is True:
        return {"background": True}
    if raw_name == "Grep" and value.get("output_mode") in (None, "files_with_matches"):
        return {"files": True}
    return None
