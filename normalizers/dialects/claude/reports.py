"""What Claude Code reports beside the conversation: tasks, running calls, hooks, retries, compaction and notices.

A task is a subagent, or a command that runs long or in the background. It belongs to the call that started it, and its
reports are updates of that call. The notification of a call that was only acknowledged so far (`async`) is the call's
final result.
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
from tooltap.normalizers.tools.payload import without_nulls
from tooltap.normalizers.wire.values import record, string, whole
from tooltap.protocol.events import Notice

__all__ = ["Reports", "TasksState", "read_notification"]

TASKS = 1_024

_ENDS = {"completed": "completed", "failed": "failed", "killed": "cancelled", "stopped": "cancelled"}
_RAW_NAMES = {"local_agent": "Agent", "local_bash": "Bash"}
_EXIT_CODE = re.compile(r"exit code (-?\d+)\)?$")
"""`Background command "…" completed (exit code 0)`, `… failed with exit code 3` (2.1.330)."""
_OF_TASK = frozenset({"type", "subtype", "uuid", "session_id", "tool_use_id"})
"""Keys of a report that are no data of the task."""
_ENVELOPE = frozenset({"type", "subtype", "uuid", "session_id", "parent_tool_use_id", "timestamp"})
_TEXT_KEYS = ("error", "content", "text", "message", "summary", "suggestion", "reason", "name")
_NOTIFICATION = re.compile(r"\s*<task-notification>\n?(.*?)\n?</task-notification>\s*", re.S)
_FIELD = re.compile(r"<([\w-]+)>(.*?)</\1>", re.S)
_NUMBER = re.compile(r"<(\w+)>(\d+)</\1>")
_REPEATING = {
    "background_tasks_changed": "background-tasks",
    "control_request_progress": "control",
    "hook_progress": "hook-progress",
    "hook_started": "hook-started",
    "session_state_changed": "status",
    "thinking_tokens": "partial",
}
"""Subtype of a line that states what others state, too -> reason of the skip."""


class TasksState(msgspec.Struct):
    calls: dict[str, str] = {}
    """Task id -> call id, for lines that name the task alone."""


class Reports:
    lines = Lines("type")
    system = Lines("subtype", skip=_REPEATING)
    """The stream's lines of type `system`, as of the Agent SDK 0.3.220."""
    transcript = Lines("subtype")
    """Those of transcripts; seen in transcripts of other projects, 2.0 to 2.1."""

    def __init__(self, emitter: Emitter, tasks: TasksState) -> None:
        self._emitter = emitter
        self._calls = emitter.calls
        self._call_ids = tasks.calls

    # -- tasks --------------------------------------------------------------------------------------------------

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
        data = {key: item for key, item in value.items() if key not in _OF_TASK}
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

    # -- lines of the stream -------------------------------------------------------------------------------------

    @lines("active_goal", "auth_status", "prompt_suggestion", "tool_use_summary")
    @system("elicitation_complete", "files_persisted", "informational", "memory_recall", "mirror_error")
    @system("model_refusal_fallback", "model_refusal_no_fallback", "notification", "plugin_install")
    @system("post_turn_summary", "worker_shutting_down")
    def _plain(self, value: Line) -> None:
        """A line whose kind becomes the code, one of its keys the text, and the rest the data."""
        kind = str(value.get("subtype") if value["type"] == "system" else value["type"])
        code = kind.replace("_", "-")
        data = without_nulls({key: item for key, item in value.items() if key not in _ENVELOPE})
        text = next((text for key in _TEXT_KEYS if isinstance(text := data.get(key), str) and text), None)
        error = bool(data.get("error")) or value.get("status") == "failed"
        level = "warning" if error or value.get("level") in ("warning", "error") else "info"
        self._emitter.notice(code, text or code.replace("-", " "), level, data or None)

    @lines("rate_limit_event")
    def _rate_limit(self, value: Line) -> None:
        info = record(value.get("rate_limit_info"))
        status = str(info.get("status") or "unknown")
        text = " ".join(str(part) for part in ("rate limit", info.get("rateLimitType"), status) if part)
        self._emitter.notice("rate-limit", text, "info" if status == "allowed" else "warning", info)

    @lines("conversation_reset")
    def _reset(self, value: Line) -> None:
        data = {"newConversation": value.get("new_conversation_id")}
        self._emitter.notice("rewound", "conversation reset", data=data)

    def compacting(self, value: Line) -> Skip:
        """Read a `status` line about compaction; its success is stated again by `compact_boundary`."""
        result = value.get("compact_result")
        if result is None:
            self._emitter.notice("compaction", "compacting", data={"status": value["status"]})
        elif result != "success":
            text = str(value.get("compact_error") or f"compaction: {result}")
            self._emitter.notice("compaction", text, "warning", {"result": result})
        return "status" if result == "success" else None

    @system("compact_boundary")
    def _compacted(self, value: Line) -> None:
        stated = record(value.get("compact_metadata"))
        keys = {"preTokens": "pre_tokens", "postTokens": "post_tokens", "durationMs": "duration_ms"}
        data = {"trigger": stated.get("trigger"), **{name: stated.get(key) for name, key in keys.items()}}
        self._emitter.notice("compaction", "conversation compacted", data=without_nulls(data))

    @system("hook_response")
    def _hook(self, value: Line) -> None:
        names = ("hook_event", "hook_name", "exit_code", "stdout", "stderr", "outcome")
        _hook(self._emitter, *(value.get(name) for name in names))

    @system("api_retry")
    def _api_retry(self, value: Line) -> None:
        error, attempt, most = value.get("error"), value.get("attempt"), value.get("max_retries")
        text = f"{error or 'request failed'}, attempt {attempt} of {most}"
        data = {"attempt": attempt, "maxRetries": most, "delayMs": value.get("retry_delay_ms")}
        data |= {"status": value.get("error_status"), "error": error}
        self._emitter.notice("retry", text, "warning", without_nulls(data))

    @system("local_command_output")
    @transcript("away_summary")
    def _system_text(self, value: Line) -> None:
        """What a command of Claude Code printed, or a summary for a user who comes back."""
        self._emitter.emit_text("system", str(value.get("content") or ""))

    # -- lines of transcripts ------------------------------------------------------------------------------------

    @transcript("agents_killed", "bridge_status", "informational", "memory_saved", "model_refusal_fallback")
    @transcript("permission_retry", "scheduled_task_fire")
    def _content_only(self, value: Line) -> Skip:
        """A line whose `content` is all it states."""
        subtype, text, level = value["subtype"], string(value.get("content")), value.get("level")
        if not text and subtype == "informational":
            return "empty"
        call_id = string(value.get("toolUseID"))
        self._emitter.emit(
            Notice,
            level=level if level in ("error", "warning") else "info",
            code=subtype.replace("_", "-"),
            text=text or subtype,
            call_id=call_id if call_id is not None and self._calls.is_known(call_id) else None,
        )
        return None

    @transcript("compact_boundary", "microcompact_boundary")
    def _compacted_transcript(self, value: Line) -> None:
        data = record(value.get("compactMetadata")) or record(value.get("microcompactMetadata"))
        keys = ("trigger", "preTokens", "postTokens", "tokensSaved", "durationMs")
        known = {key: data[key] for key in keys if key in data}
        self._emitter.notice("compaction", str(value.get("content") or "conversation compacted"), data=known or None)

    @transcript("api_error")
    def _api_error(self, value: Line) -> None:
        error = record(value.get("error"))
        inner = record(record(error.get("error")).get("error")) or record(error.get("error"))
        cause = record(error.get("cause")) or record(value.get("cause"))
        stated = next((text for text in (error.get("message"), inner.get("message"), cause.get("code")) if text), None)
        attempt, most = value.get("retryAttempt"), value.get("maxRetries")
        text = f"{stated or value.get('content') or 'request failed'}, attempt {attempt} of {most}"
        data = {"attempt": attempt, "maxRetries": most, "delayMs": value.get("retryInMs")}
        data |= {"status": error.get("status"), "error": stated}
        self._emitter.notice("retry", text, "warning", without_nulls(data) or None)

    @transcript("stop_hook_summary")
    def _stop_hooks(self, value: Line) -> None:
        """The hooks of one event together; only failures have a text."""
        event = value.get("hookEvent") or "Stop"
        data = {"event": event, "hooks": value.get("hookInfos"), "errors": value.get("hookErrors")}
        data |= {key: value.get(key) for key in ("stopReason", "preventedContinuation")}
        level = "warning" if data["errors"] or data["preventedContinuation"] is True else "info"
        self._emitter.notice("hook", str(event), level, {key: item for key, item in data.items() if item})

    def hook(self, attachment: Line) -> None:
        """Read `hook_success`, `hook_blocking_error`, …: how a hook ended."""
        outcome = str(attachment.get("type")).removeprefix("hook_")
        event, name, code, stdout = (attachment.get(key) for key in ("hookEvent", "hookName", "exitCode", "stdout"))
        stderr = attachment.get("stderr") or record(attachment.get("blockingError")).get("blockingError")
        _hook(self._emitter, event, name, code, stdout, stderr, outcome)

    def call_progress(self, value: Line, data: Line) -> Skip:
        """Read a `progress` line of the call it names; the call's result has all that a command printed."""
        if data.get("type") == "hook_progress":
            return "hook-progress"
        call_ids = (string(value.get(key)) for key in ("parentToolUseID", "toolUseID"))
        call = next((call for call_id in call_ids if call_id and (call := self._calls.get(call_id))), None)
        if call is None:
            return "stale-progress"
        text = next((data[key] for key in ("output", "query", "taskDescription", "status") if data.get(key)), None)
        shown = {key: item for key, item in data.items() if key not in ("output", "fullOutput", "message")}
        progress = {"text": text, "data": shown} if isinstance(text, str) else {"data": shown}
        self._calls.update(call, status="running", progress=progress)
        return None


def read_notification(text: str) -> Line | None:
    """Turn a `<task-notification>`, which the model gets as a prompt, into the line that the stream has instead."""
    found = _NOTIFICATION.fullmatch(text)
    if found is None:
        return None
    fields = dict(_FIELD.findall(found[1]))
    usage = {key: int(number) for key, number in _NUMBER.findall(fields.get("usage", ""))}
    names = ("task-id", "tool-use-id", "output-file", "status")
    notification = {name.replace("-", "_"): fields.get(name) for name in names}
    notification["summary"] = fields.get("result") or fields.get("summary")
    return {key: item for key, item in {**notification, "usage": usage}.items() if item}


def _hook(emitter: Emitter, event: Any, name: Any, code: Any, stdout: Any, stderr: Any, outcome: Any) -> None:
    data = {"event": event, "name": name, "exitCode": code, "stdout": stdout, "stderr": stderr, "outcome": outcome}
    known = {key: item for key, item in data.items() if item not in (None, "")}
    level = "info" if outcome in ("success", None) else "warning"
    emitter.notice("hook", str(name or event or "hook"), level, known)
