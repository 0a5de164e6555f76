"""Claude's notices, and lines that say nothing new: most `system` ones, and some with a type of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tooltap.normalizers.core.parser import WITH_EVENTS, Parser, skip
from tooltap.normalizers.wire.values import record
from tooltap.protocol.events import Message, Notice

__all__ = ["NOTED", "SYSTEM_SKIPS", "compacting", "note", "rate_limit", "read_notice"]

NOTED = frozenset({"active_goal", "auth_status", "prompt_suggestion", "tool_use_summary"})
"""Line types that are notices as they are."""

_NOTED_SYSTEMS = frozenset(
    {
        "elicitation_complete",
        "files_persisted",
        "informational",
        "memory_recall",
        "mirror_error",
        "model_refusal_fallback",
        "model_refusal_no_fallback",
        "notification",
        "plugin_install",
        "post_turn_summary",
        "worker_shutting_down",
    }
)
"""The same of `system` lines, as of the Agent SDK 0.3.220."""

_REPEATING = {
    "background_tasks_changed": "background-tasks",
    "control_request_progress": "control",
    "hook_progress": "hook-progress",
    "hook_started": "hook-started",
    "session_state_changed": "status",
    "thinking_tokens": "partial",
}
"""Subtypes that say what other lines say, too -> reason."""

SYSTEM_SKIPS = frozenset(_REPEATING.values())


def read_notice(parser: Parser, value: dict[str, Any]) -> str | None:
    """The class of a `system` line; None for a subtype that is not known here."""
    subtype = str(value.get("subtype"))
    if subtype in _REPEATING:
        return skip(_REPEATING[subtype])
    if subtype in _NOTED_SYSTEMS:
        return note(parser, subtype, value)
    notice = _NOTICES.get(subtype)
    if notice is None:
        return None
    notice(parser, value)
    return WITH_EVENTS


def note(parser: Parser, kind: str, value: dict[str, Any]) -> str:
    """A line that says what it has to say in one of its keys: the kind is the code, what else it has the data."""
    code = kind.replace("_", "-")
    data = {key: item for key, item in value.items() if key not in _ENVELOPE and item is not None}
    text = next((text for key in _TEXT_KEYS if isinstance(text := data.get(key), str) and text), None)
    error = bool(data.get("error")) or value.get("status") == "failed"
    level = "warning" if error or value.get("level") in ("warning", "error") else "info"
    parser.emit(Notice, level=level, code=code, text=text or code.replace("-", " "), data=data or None)
    return WITH_EVENTS


_ENVELOPE = frozenset({"type", "subtype", "uuid", "session_id", "parent_tool_use_id", "timestamp"})
_TEXT_KEYS = ("error", "content", "text", "message", "summary", "suggestion", "reason", "name")


def rate_limit(parser: Parser, value: dict[str, Any]) -> str:
    info = record(value.get("rate_limit_info"))
    status = str(info.get("status") or "unknown")
    parser.emit(
        Notice,
        level="info" if status == "allowed" else "warning",
        code="rate-limit",
        text=" ".join(str(part) for part in ("rate limit", info.get("rateLimitType"), status) if part),
        data=info,
    )
    return WITH_EVENTS


def compacting(parser: Parser, value: dict[str, Any]) -> str:
    """A `status` line about compaction; its success is told again by `compact_boundary`."""
    result = value.get("compact_result")
    if result == "success":
        return skip("status")
    if result is None:
        parser.emit(Notice, level="info", code="compaction", text="compacting", data={"status": value["status"]})
    else:
        text = str(value.get("compact_error") or f"compaction: {result}")
        parser.emit(Notice, level="warning", code="compaction", text=text, data={"result": result})
    return WITH_EVENTS


def _hook(parser: Parser, value: dict[str, Any]) -> None:
    data = {
        "event": value.get("hook_event"),
        "name": value.get("hook_name"),
        "exitCode": value.get("exit_code"),
        "stdout": value.get("stdout"),
        "stderr": value.get("stderr"),
        "outcome": value.get("outcome"),
    }
    parser.emit(
        Notice,
        level="info" if value.get("outcome") in ("success", None) else "warning",
        code="hook",
        text=str(value.get("hook_name") or value.get("hook_event") or "hook"),
        data={key: item for key, item in data.items() if item not in (None, "")},
    )


def _api_retry(parser: Parser, value: dict[str, Any]) -> None:
    data = {
        "attempt": value.get("attempt"),
        "maxRetries": value.get("max_retries"),
        "delayMs": value.get("retry_delay_ms"),
        "status": value.get("error_status"),
        "error": value.get("error"),
    }
    attempt = f"attempt {value.get('attempt')} of {value.get('max_retries')}"
    text = f"{value.get('error') or 'request failed'}, {attempt}"
    known = {key: item for key, item in data.items() if item is not None}
    parser.emit(Notice, level="warning", code="retry", text=text, data=known)


def _compact_boundary(parser: Parser, value: dict[str, Any]) -> None:
    metadata = record(value.get("compact_metadata"))
    data = {
        "trigger": metadata.get("trigger"),
        "preTokens": metadata.get("pre_tokens"),
        "postTokens": metadata.get("post_tokens"),
        "durationMs": metadata.get("duration_ms"),
    }
    known = {key: item for key, item in data.items() if item is not None}
    parser.emit(Notice, level="info", code="compaction", text="conversation compacted", data=known)


def _local_command_output(parser: Parser, value: dict[str, Any]) -> None:
    parser.emit(Message, role="system", text=str(value.get("content") or ""))


_NOTICES: dict[str, Callable[[Parser, dict[str, Any]], None]] = {
    "api_retry": _api_retry,
    "compact_boundary": _compact_boundary,
    "hook_response": _hook,
    "local_command_output": _local_command_output,
}
