"""Claude's `task_*` lines: subagents, and commands that run long or in the background.

A task belongs to the call that started it. Its reports are updates of that call; the notification of a call that was
only acknowledged so far (`async`) is the call's real end.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from tooltap.normalizers.core.calls import UNKNOWN_TOOL
from tooltap.normalizers.core.calls_state import Call
from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.dialects.claude.answers import Answer
from tooltap.normalizers.wire.values import record, string, whole

__all__ = ["Tasks", "TasksState"]

TASKS = 1_024

_ENDS = {
    "completed": "completed",
    "failed": "failed",
    "killed": "cancelled",
    "stopped": "cancelled",
}
_RAW_NAMES = {"local_agent": "Agent", "local_bash": "Bash"}
_ENVELOPE = frozenset({"type", "subtype", "uuid", "session_id", "tool_use_id"})
_EXIT_CODE = re.compile(r"exit code (-?\d+)\)?$")
"""`Background command "…" completed (exit code 0)`, `… failed with exit code 3` (2.1.330)."""


class TasksState(msgspec.Struct):
    calls: dict[str, str] = {}
    """Task id -> call id, for lines that name the task alone."""


class Tasks:
    def __init__(self, parser: Parser) -> None:
        self._parser = parser

    @property
    def _calls(self) -> dict[str, str]:
        return self._parser.state.tasks.calls  # type: ignore[no-any-return]

    def progress(self, value: dict[str, Any]) -> str:
        """`task_started` and `task_progress`."""
        return self._report(value, value.get("description"))

    def elapsed(self, value: dict[str, Any]) -> str:
        """`tool_progress`: a call that still runs."""
        call = self._parser.calls.get(str(value.get("tool_use_id")))
        if call is None:
            return skip("stale-task")
        data = {key: value[key] for key in ("elapsed_time_seconds", "task_id") if value.get(key) is not None}
        self._parser.calls.update(call, progress={"data": data})
        return WITH_EVENTS

    def updated(self, value: dict[str, Any]) -> str:
        patch = record(value.get("patch"))
        return self._report(value, patch.get("error") or patch.get("status"), patch.get("status"))

    def notification(self, value: dict[str, Any]) -> str:
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
        return self._parser.calls.result(
            call, output, raw=value, status=end, error=summary or None, duration_ms=duration, final=True
        )

    def overhear(self, name: str, block: dict[str, Any], answer: Answer) -> None:
        """Before 2.1 no line tells how a background command ends; that it was killed is said by who killed it."""
        value = record(answer.value)
        if answer.is_async:
            self._learn(str(value.get("backgroundTaskId")), self._parser.calls.id_of(block["tool_use_id"]))
        elif name == "KillShell" and answer.status == "completed":
            call = self._parser.calls.get(self._calls.get(str(value.get("shell_id")), ""))
            if call is not None and call.acknowledged:
                words = string(value.get("message"))
                self._parser.calls.result(call, None, raw=block, status="cancelled", error=words, final=True)

    def finish(self) -> None:
        """End the background calls whose task ended without a notification (it may come as `task_updated` alone)."""
        for call in list(self._parser.state.calls.open.values()):
            if call.acknowledged and (end := call.memory.get("task")):
                self._parser.calls.result(call, None, raw=None, status=end, final=True, synthetic=True)

    def _report(self, value: dict[str, Any], text: Any, status: Any = None) -> str:
        call = self._call(value)
        if call is None:
            return skip("stale-task")
        if end := _ENDS.get(str(status)):
            self._parser.calls.remember(call, {**call.memory, "task": end})
        progress = {"text": string(text)} if text else {}
        data = {key: item for key, item in value.items() if key not in _ENVELOPE}
        self._parser.calls.update(call, status="running", progress={**progress, "data": data})
        return WITH_EVENTS

    def _learn(self, task_id: str, call_id: str) -> None:
        self._calls[task_id] = call_id
        while len(self._calls) > TASKS:
            del self._calls[next(iter(self._calls))]

    def _call(self, value: dict[str, Any]) -> Call | None:
        """The call a line is about, opened if it was never seen; None if it has ended."""
        task_id = str(value.get("task_id"))
        call_id = value.get("tool_use_id")
        if isinstance(call_id, str):
            self._learn(task_id, call_id)
        else:
            call_id = self._calls.get(task_id, task_id)
        calls = self._parser.calls
        if calls.is_known(call_id):
            return calls.get(call_id)
        kind = "local_agent" if "subagent_type" in value else value.get("task_type")
        given = {key: value[key] for key in ("description", "prompt", "subagent_type") if key in value}
        return calls.open(call_id, _RAW_NAMES.get(str(kind), UNKNOWN_TOOL), given, raw=value, synthetic=True)
