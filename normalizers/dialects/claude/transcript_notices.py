"""What Claude's transcripts tell beside the conversation: `system` lines, hooks, and reports of running calls."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.wire.values import record, string
from tooltap.protocol.events import Message, Notice

__all__ = ["NOTICE_SKIPS", "call_progress", "hook_attachment", "read_notification", "read_system"]

NOTICE_SKIPS = frozenset({"hook-progress", "stale-progress", "empty"})

_LEVELS = {"error": "error", "warning": "warning"}

_PLAIN = frozenset(
    {
        "agents_killed",
        "bridge_status",
        "informational",
        "memory_saved",
        "model_refusal_fallback",
        "permission_retry",
        "scheduled_task_fire",
    }
)
"""Subtypes that say all they say in `content`. Seen in transcripts of other projects, 2.0 to 2.1."""

_NOTIFICATION = re.compile(r"\s*<task-notification>\n?(.*?)\n?</task-notification>\s*", re.S)
_FIELD = re.compile(r"<([\w-]+)>(.*?)</\1>", re.S)
_NUMBER = re.compile(r"<(\w+)>(\d+)</\1>")


def read_system(parser: Parser, value: dict[str, Any]) -> str | None:
    """The class of a `system` line; None for a subtype that is not known here."""
    subtype = str(value.get("subtype", "informational"))  # 1.0 has no subtypes
    if subtype in _PLAIN:
        return _plain(parser, value, subtype)
    reader = _SYSTEMS.get(subtype)
    if reader is None:
        return None
    reader(parser, value)
    return WITH_EVENTS


def _plain(parser: Parser, value: dict[str, Any], subtype: str) -> str:
    text = string(value.get("content"))
    if not text and subtype == "informational":
        return skip("empty")
    level = _LEVELS.get(str(value.get("level")), "info")
    call_id = string(value.get("toolUseID"))
    call_id = call_id if call_id is not None and parser.calls.is_known(call_id) else None
    parser.emit(Notice, level=level, code=subtype.replace("_", "-"), text=text or subtype, call_id=call_id)
    return WITH_EVENTS


def _compacted(parser: Parser, value: dict[str, Any]) -> None:
    data = record(value.get("compactMetadata")) or record(value.get("microcompactMetadata"))
    kept = {
        key: data[key] for key in ("trigger", "preTokens", "postTokens", "tokensSaved", "durationMs") if key in data
    }
    text = str(value.get("content") or "conversation compacted")
    parser.emit(Notice, level="info", code="compaction", text=text, data=kept or None)


def _api_error(parser: Parser, value: dict[str, Any]) -> None:
    error = record(value.get("error"))
    inner = record(record(error.get("error")).get("error")) or record(error.get("error"))
    cause = record(error.get("cause")) or record(value.get("cause"))
    words = next((word for word in (error.get("message"), inner.get("message"), cause.get("code")) if word), None)
    data = {
        "attempt": value.get("retryAttempt"),
        "maxRetries": value.get("maxRetries"),
        "delayMs": value.get("retryInMs"),
        "status": error.get("status"),
        "error": words,
    }
    text = f"{words or value.get('content') or 'request failed'}, attempt {data['attempt']} of {data['maxRetries']}"
    known = {key: item for key, item in data.items() if item is not None}
    parser.emit(Notice, level="warning", code="retry", text=text, data=known or None)


def _stop_hooks(parser: Parser, value: dict[str, Any]) -> None:
    """The hooks of one event together; only failures come with words."""
    data = {
        "event": value.get("hookEvent") or "Stop",
        "hooks": value.get("hookInfos"),
        "errors": value.get("hookErrors"),
        "stopReason": value.get("stopReason"),
        "preventedContinuation": value.get("preventedContinuation"),
    }
    troubled = bool(data["errors"]) or data["preventedContinuation"] is True
    known = {key: item for key, item in data.items() if item}
    parser.emit(Notice, level="warning" if troubled else "info", code="hook", text=str(data["event"]), data=known)


def _recap(parser: Parser, value: dict[str, Any]) -> None:
    """`away_summary`: what Claude Code tells a user who comes back."""
    parser.emit(Message, role="system", text=str(value.get("content") or ""))


_SYSTEMS: dict[str, Callable[[Parser, dict[str, Any]], None]] = {
    "api_error": _api_error,
    "away_summary": _recap,
    "compact_boundary": _compacted,
    "microcompact_boundary": _compacted,
    "stop_hook_summary": _stop_hooks,
}


def hook_attachment(parser: Parser, attachment: dict[str, Any]) -> str:
    """`hook_success`, `hook_blocking_error`, …: how a hook ended."""
    outcome = str(attachment.get("type")).removeprefix("hook_")
    error = record(attachment.get("blockingError"))
    data = {
        "event": attachment.get("hookEvent"),
        "name": attachment.get("hookName"),
        "exitCode": attachment.get("exitCode"),
        "stdout": attachment.get("stdout"),
        "stderr": attachment.get("stderr") or error.get("blockingError"),
        "outcome": outcome,
    }
    parser.emit(
        Notice,
        level="info" if outcome == "success" else "warning",
        code="hook",
        text=str(attachment.get("hookName") or attachment.get("hookEvent") or "hook"),
        data={key: item for key, item in data.items() if item not in (None, "")},
    )
    return WITH_EVENTS


def call_progress(parser: Parser, value: dict[str, Any], data: dict[str, Any]) -> str:
    """A `progress` line of the call it names; what a command printed so far comes whole in its result."""
    if data.get("type") == "hook_progress":
        return skip("hook-progress")
    call_ids = (string(value.get(key)) for key in ("parentToolUseID", "toolUseID"))
    call = next((call for call_id in call_ids if call_id and (call := parser.calls.get(call_id))), None)
    if call is None:
        return skip("stale-progress")
    words = next((data[key] for key in ("output", "query", "taskDescription", "status") if data.get(key)), None)
    shown = {key: item for key, item in data.items() if key not in ("output", "fullOutput", "message")}
    text = {"text": words} if isinstance(words, str) else {}
    parser.calls.update(call, status="running", progress={**text, "data": shown})
    return WITH_EVENTS


def read_notification(text: str) -> dict[str, Any] | None:
    """`<task-notification>`, told to the model as a prompt -> the line that the stream has in its place."""
    found = _NOTIFICATION.fullmatch(text)
    if found is None:
        return None
    fields = dict(_FIELD.findall(found[1]))
    usage = {key: int(number) for key, number in _NUMBER.findall(fields.get("usage", ""))}
    notification = {
        "task_id": fields.get("task-id"),
        "tool_use_id": fields.get("tool-use-id"),
        "output_file": fields.get("output-file"),
        "status": fields.get("status"),
        "summary": fields.get("result") or fields.get("summary"),
        "usage": usage,
    }
    return {key: item for key, item in notification.items() if item}
