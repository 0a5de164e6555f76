"""Claude's `system` lines that are notices, and those that say nothing new."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tooltap.normalizers.base import WITH_EVENTS, Parser, skip
from tooltap.normalizers.values import record
from tooltap.protocol.events import Message, Notice

__all__ = ["SYSTEM_SKIPS", "compacting", "rate_limit", "read_notice"]

_REPEATING = {
    "background_tasks_changed": "background-tasks",
    "hook_progress": "hook-progress",
    "hook_started": "hook-started",
    "thinking_tokens": "partial",
}
"""Subtypes that say what other lines say, too -> reason."""

SYSTEM_SKIPS = frozenset(_REPEATING.values())


def read_notice(parser: Parser, value: dict[str, Any]) -> str | None:
    """The class of a `system` line; None for a subtype that is not known here."""
    subtype = str(value.get("subtype"))
    if subtype in _REPEATING:
        return skip(_REPEATING[subtype])
    notice = _NOTICES.get(subtype)
    if notice is None:
        return None
    notice(parser, value)
    return WITH_EVENTS


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
