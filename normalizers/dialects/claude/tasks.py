"""Background tasks of Claude Code, and the detection of their end.

A task is a subagent, or a command that runs long or in the background. It belongs to the call that started it, and its
reports are updates of that call. A call that was only acknowledged so far (`async`) gets its final result from the
first of these that states the task's end:

- a notification: a line of the stream, or a text that the model gets as if it were a prompt (`InjectedText`), which
  waits in the queue of a transcript before that (`queue-operation`);
- an attachment of a transcript that repeats its status (`task_status`);
- the result of another call, which asked for its output (`TaskOutput`, `BashOutput`) or stopped it (`TaskStop`,
  `KillShell`).
"""

from __future__ import annotations

import re
import zlib
from typing import Any

import msgspec

from tooltap.normalizers.core.calls import UNKNOWN_TOOL, Answer
from tooltap.normalizers.core.lines import Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import OpenCall, put
from tooltap.normalizers.dialects.claude.answers import reported_task, task_end
from tooltap.normalizers.tools.outcome import status_word
from tooltap.normalizers.wire.values import first_string, record, string, whole
from tooltap.protocol.events import Notice

TASKS = 1_024

_RAW_NAMES = {"local_agent": "Agent", "local_bash": "Bash"}
_EXIT_CODE = re.compile(r"exit code (-?\d+)\)?\.?$")
"""Exit code at the end of a notification: `Background command "…" completed (exit code 0)`, `… failed with exit code 3`
(2.1.330), with a full stop in 2.0."""
_OF_TASK = frozenset({"type", "subtype", "uuid", "session_id", "tool_use_id"})
"""Keys of a report that are no data of the task."""
_encode = msgspec.json.Encoder(order="sorted").encode


class TasksState(msgspec.Struct):
    calls: dict[str, str] = {}
    """Task id -> call id, for lines that name the task alone."""
    notified: dict[str, int] = {}
    """Task id -> CRC of its last notification, which is on the wire twice: when it is queued, and when the model gets
    it."""


class Tasks:
    """Maps reports and notifications about tasks to the calls that started them."""

    lines = Lines("type")
    system = Lines("subtype")

    def __init__(self, parser: Parser, state: TasksState) -> None:
        self._parser = parser
        self._calls = parser.calls
        self._state = state

    # -- lines of the stream ------------------------------------------------------------------------------------

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
        return self._report(self._call(value), value, value.get("description"))

    @system("task_updated")
    def _updated(self, value: Line) -> Skip:
        patch = record(value.get("patch"))
        return self._report(self._call(value), value, patch.get("error") or patch.get("status"), patch.get("status"))

    @system("task_notification")
    def _notification(self, value: Line) -> Skip:
        return self._notified(self._call(value), value)

    # -- notifications ------------------------------------------------------------------------------------------

    def noted(self, tasks: list[Line], text: str) -> list[Skip]:
        """Read the notifications in a text that the model gets. They are no messages of the user's."""
        return [self._noted(task, text if len(tasks) == 1 else msgspec.UNSET) for task in tasks]

    def _noted(self, value: Line, model: Any) -> Skip:
        task_id = string(value.get("task_id")) or ""
        digest = zlib.crc32(_encode(value))
        if self._state.notified.get(task_id) == digest:
            return "repeated"
        put(self._state.notified, task_id, digest, TASKS)
        call_id = string(value.get("tool_use_id")) or self._state.calls.get(task_id)
        call = self._calls.get(call_id) if call_id is not None else None
        if call is not None:
            return self._notified(call, value, model)
        is_known = call_id is not None and self._calls.is_known(call_id)
        text = first_string(value, "result", "event", "summary", "status")
        if text is None or (is_known and not ("result" in value or "event" in value)):
            return "stale-task"
        end = status_word(value.get("status")) or "completed"
        self._parser.emit(
            Notice,
            level="warning" if end == "failed" else "info",
            code="task",
            text=text,
            call_id=call_id if is_known else None,
            data=value,
        )
        return None

    def status(self, attachment: Line) -> Skip:
        """Read an attachment that states a task's status for the model: it runs on, or has ended."""
        call_id = self._state.calls.get(str(attachment.get("taskId")))
        call = self._calls.get(call_id) if call_id is not None else None
        if call is None:
            return "stale-task"
        keys = {"task_id": "taskId", "status": "status", "output_file": "outputFilePath", "summary": "deltaSummary"}
        return self._notified(call, {name: attachment[key] for name, key in keys.items() if attachment.get(key)})

    def _notified(self, call: OpenCall | None, value: Line, model: Any = msgspec.UNSET) -> Skip:
        end = status_word(value.get("status"))
        text = first_string(value, "result", "event", "summary") or ""
        if call is None or end is None or not call.acknowledged:
            return self._report(call, value, text, value.get("status"))
        output: dict[str, Any] = {"content" if call.name == "Task" else "summary": text}
        output |= {key: value[key] for key in ("status", "output_file", "usage") if value.get(key)}
        summary = string(value.get("summary")) or text
        if call.name == "Bash" and (code := _EXIT_CODE.search(summary)):
            output["exit_code"] = int(code[1])
        duration = whole(record(value.get("usage")).get("duration_ms"))
        answer = Answer(output, end, summary or None, duration, model=model)
        return self._calls.answer(call, answer, raw=value, final=True)

    # -- results of other calls ---------------------------------------------------------------------------------

    def began(self, call_id: str, task_id: str | None) -> None:
        """Remember the task that an acknowledgement names for its call."""
        if task_id is not None:
            put(self._state.calls, task_id, self._calls.id_of(call_id), TASKS)

    def learn_from(self, name: str, block: Line, answer: Answer, named: str | None) -> None:
        """Learn how another call ended from the result of a tool among `STEERING`.

        `named`: the task that its input named."""
        task_id = reported_task(answer) or named or ""
        call = self._calls.get(self._state.calls.get(task_id, ""))
        if call is not None and call.acknowledged and (ended := task_end(name, answer, call.name)) is not None:
            self._calls.answer(call, ended, raw=block, final=True)

    def finish(self) -> None:
        """End the background calls whose task ended without a notification (it may come as `task_updated` alone)."""
        for call in list(self._parser.state.calls.open.values()):
            if call.acknowledged and (end := call.memory.get("task")):
                self._calls.answer(call, Answer(None, end), raw=None, final=True, synthetic=True)

    # -- internals ----------------------------------------------------------------------------------------------

    def _report(self, call: OpenCall | None, value: Line, text: Any, status: Any = None) -> Skip:
        if call is None:
            return "stale-task"
        if end := status_word(status):
            self._calls.remember(call, {**call.memory, "task": end})
        progress = {"text": string(text)} if text else {}
        data = {key: item for key, item in value.items() if key not in _OF_TASK}
        self._calls.update(call, status="running", progress={**progress, "data": data})
        return None

    def _call(self, value: Line) -> OpenCall | None:
        """Return the call a line is about, opened if it was never seen; None if it has ended."""
        task_id = str(value.get("task_id"))
        call_id = value.get("tool_use_id")
        if isinstance(call_id, str):
            put(self._state.calls, task_id, call_id, TASKS)
        else:
            call_id = self._state.calls.get(task_id, task_id)
        if self._calls.is_known(call_id):
            return self._calls.get(call_id)
        kind = "local_agent" if "subagent_type" in value else value.get("task_type")
        given = {key: value[key] for key in ("description", "prompt", "subagent_type") if key in value}
        return self._calls.open(call_id, _RAW_NAMES.get(str(kind), UNKNOWN_TOOL), given, raw=value, synthetic=True)
