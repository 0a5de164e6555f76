"""Claude's `task_*` lines: subagents, and commands that run long or in the background.

A task belongs to the call that started it, and its reports are updates of that call. The notification of a call that
was only acknowledged so far (`async`) is the call's final result.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from tooltap.normalizers.core.answer import Answer
from tooltap.normalizers.core.bounded import put
from tooltap.normalizers.core.calls import UNKNOWN_TOOL
from tooltap.normalizers.core.calls_state import Call
from tooltap.normalizers.core.emitter import Emitter
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.wire.values import record, string, whole

__all__ = ["Tasks", "TasksState"]

TASKS = 1_024

_ENDS = {"completed": "completed", "failed": "failed", "killed": "cancelled", "stopped": "cancelled"}
_RAW_NAMES = {"local_agent": "Agent", "local_bash": "Bash"}
_ENVELOPE = frozenset({"type", "subtype", "uuid", "session_id", "tool_use_id"})
_EXIT_CODE = re.compile(r"exit code (-?\d+)\)?$")
"""`Background command "…" completed (exit code 0)`, `… failed with exit code 3` (2.1.330)."""


class TasksState(msgspec.Struct):
    calls: dict[str, str] = {}
    """Task id -> call id, for lines that name the task alone."""


class Tasks:
    lines = Lines("type")
    system = Lines("subtype")

    def __init__(self, emitter: Emitter, state: TasksState) -> None:
        self._emitter = emitter
        self._calls = emitter.calls
        self._call_ids = state.calls

    @lines("tool_progress")
    def _elapsed(self, value: Line) -> Skip:
        """A call is still running."""
        call = self._calls.get(str(value.get("tool_use_id")))
        if call is None:
            return "stale-task"
        data = {key: value[key] for key in ("elapsed_time_seconds", "task_id") if value.get(key) is not None}
        self._calls.update(call, progress={"data": data})
        return None

    @system("task_started", "task_progress")
    def _progress(self, value: Line) -> Skip:
        return self._report(value, value.get("description"))

    @system("task_updated")
    def _updated(self, value: Line) -> Skip:
        patch = record(value.get("patch"))
        return self._report(value, patch.get("error") or patch.get("status"), patch.get("status"))

    @system("task_notification")
    def notification(self, value: Line) -> Skip:
        call = self._call(value)
        end = _ENDS.get(str(value.get("status")))
        if call is None or end is None or not call.acknowledged:
            return self._report(value, value.get("summary"), value.get("status"))
        summary = str(value.get("summary") or "")
        output: dict[str, Any] = {"content" if call.name == "Task" else "summary": summary}
        output |= {key: value[key] for key in ("status", "output_file", "usage") if value.get(key)}
        if call.name == "Bash" and (code := _EXIT_CODE.search(summary)):
            output["exit_code"] = int(code[1])
        duration = whole(record(value.get("usage")).get("duration_ms"))
        return self._calls.answer(call, Answer(output, end, summary or None, duration), raw=value, final=True)

    def learn_from(self, name: str, block: Line, answer: Answer) -> None:
        """Learn from the result of a call of the canonical tool `name` what no task line states before 2.1: which task
        a background command is, and that another call killed it."""
        value = record(answer.value)
        if answer.is_async:
            put(self._call_ids, str(value.get("backgroundTaskId")), self._calls.id_of(block["tool_use_id"]), TASKS)
        elif name == "KillShell" and answer.status == "completed":
            call = self._calls.get(self._call_ids.get(str(value.get("shell_id")), ""))
            if call is not None and call.acknowledged:
                killed = Answer(None, "cancelled", string(value.get("message")))
                self._calls.answer(call, killed, raw=block, final=True)

    def finish(self) -> None:
        """End the background calls whose task ended without a notification (it may come as `task_updated` alone)."""
        for call in list(self._emitter.state.calls.open.values()):
            if call.acknowledged and (end := call.memory.get("task")):
                self._calls.answer(call, Answer(None, end), raw=None, final=True, synthetic=True)

    def _report(self, value: Line, text: Any, status: Any = None) -> Skip:
        call = self._call(value)
        if call is None:
            return "stale-task"
        if end := _ENDS.get(str(status)):
            self._calls.remember(call, {**call.memory, "task": end})
        progress = {"text": string(text)} if text else {}
        data = {key: item for key, item in value.items() if key not in _ENVELOPE}
        self._calls.update(call, status="running", progress={**progress, "data": data})
        return None

    def _call(self, value: Line) -> Call | None:
        """Return the call a line is about, opened if it was never seen; None if it has ended."""
        task_id = str(value.get("task_id"))
        call_id = value.get("tool_use_id")
        if isinstance(call_id, str):
            put(self._call_ids, task_id, call_id, TASKS)
        else:
            call_id = self._call_ids.get(task_id, task_id)
        if self._calls.is_known(call_id):
            return self._calls.get(call_id)
        kind = "local_agent" if "subagent_type" in value else value.get("task_type")
        given = {key: value[key] for key in ("description", "prompt", "subagent_type") if key in value}
        return self._calls.open(call_id, _RAW_NAMES.get(str(kind), UNKNOWN_TOOL), given, raw=value, synthetic=True)
