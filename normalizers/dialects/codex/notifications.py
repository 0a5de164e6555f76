"""The app-server's notifications as the core's events: mostly the same under other names, keys in camel case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tooltap.normalizers.dialects.codex.items import core_item, snake, snake_keys
from tooltap.normalizers.dialects.codex.state import Msg, details, object_of

__all__ = ["core_event", "skip_reason"]

_SAME = {
    "deprecationNotice": "deprecation_notice",
    "guardianWarning": "guardian_warning",
    "hook/completed": "hook_completed",
    "hook/started": "hook_started",
    "item/agentMessage/delta": "agent_message_content_delta",
    "item/autoApprovalReview/completed": "guardian_assessment",
    "item/plan/delta": "plan_delta",
    "item/reasoning/summaryPartAdded": "agent_reasoning_section_break",
    "item/reasoning/summaryTextDelta": "reasoning_content_delta",
    "item/reasoning/textDelta": "reasoning_raw_content_delta",
    "model/rerouted": "model_reroute",
    "thread/compacted": "context_compacted",
    "thread/name/updated": "thread_name_updated",
    "turn/plan/updated": "plan_update",
    "warning": "warning",
}
"""Method -> the core's event, whose keys are the same in snake case."""

_SKIPPED = {
    "item/autoApprovalReview/started": "started",
    "item/fileChange/outputDelta": "partial",
    "serverRequest/resolved": "resolved",
    "thread/settings/updated": "housekeeping",
    "turn/moderationMetadata": "housekeeping",
    **dict.fromkeys(("app/list/updated", "fs/changed", "skills/changed", "windows/worldWritableWarning"), "client"),
}
"""Methods that say nothing of what the agent does -> why."""

_SKIPPED_BEGINNINGS = {
    "account/": "client",
    "command/exec/": "client",
    "externalAgentConfig/": "client",
    "fuzzyFileSearch/": "client",
    "mcpServer/oauthLogin/": "client",
    "model/": "client",
    "process/": "client",
    "project/": "client",
    "remoteControl/": "client",
    "thread/": "housekeeping",
    "windowsSandbox/": "client",
}


def skip_reason(method: str) -> str | None:
    """Why a notification that is no event is passed over; None where it is not known."""
    if method in _SKIPPED:
        return _SKIPPED[method]
    return next((reason for start, reason in _SKIPPED_BEGINNINGS.items() if method.startswith(start)), None)


def core_event(method: str, params: Msg) -> Msg | None:
    """The event a notification stands for; None where the core has none."""
    if method in _SAME:
        return {**snake_keys(params), "type": _SAME[method]}
    make = _MADE.get(method)
    return make(params) if make is not None else None


def _item(kind: str) -> Callable[[Msg], Msg]:
    return lambda params: {"type": kind, "item": core_item(object_of(params, "item"))}


def _turn_started(params: Msg) -> Msg:
    return {"type": "task_started", "turn_id": object_of(params, "turn").get("id")}


def _turn_completed(params: Msg) -> Msg:
    turn = snake_keys(object_of(params, "turn"))
    event = {"turn_id": turn.get("id"), **details(turn, "duration_ms", "error")}
    if turn.get("status") == "interrupted":
        return {**event, "type": "turn_aborted", "reason": "interrupted"}
    if turn.get("status") == "failed":
        event.setdefault("error", {"message": "failed"})
    return {**event, "type": "task_complete"}


def _error(params: Msg) -> Msg:
    event = {**snake_keys(object_of(params, "error")), "type": "stream_error" if params.get("willRetry") else "error"}
    info = event.get("codex_error_info")
    return {**event, "codex_error_info": snake(info)} if isinstance(info, str) else event


def _diff(params: Msg) -> Msg:
    return {"type": "turn_diff", "unified_diff": params.get("diff")}


def _patch_updated(params: Msg) -> Msg:
    return {"type": "patch_apply_updated", "call_id": params.get("itemId"), "changes": params.get("changes")}


def _interaction(params: Msg) -> Msg:
    return {**snake_keys(params), "type": "terminal_interaction", "call_id": params.get("itemId")}


def _token_usage(params: Msg) -> Msg:
    usage = snake_keys(object_of(params, "tokenUsage"))
    info = {
        "total_token_usage": usage.get("total"),
        "last_token_usage": usage.get("last"),
        "model_context_window": usage.get("model_context_window"),
    }
    return {"type": "token_count", "info": info}


def _rate_limits(params: Msg) -> Msg:
    return {"type": "token_count", "rate_limits": snake_keys(params.get("rateLimits"))}


def _mcp_startup(params: Msg) -> Msg:
    status = {"state": params.get("status"), "error": params.get("error")}
    return {"type": "mcp_startup_update", "server": params.get("name"), "status": status}


def _raw_item(params: Msg) -> Msg:
    return {"type": "raw_response_item", "item": params.get("item")}


_MADE: dict[str, Callable[[Msg], Any]] = {
    "account/rateLimits/updated": _rate_limits,
    "error": _error,
    "item/commandExecution/terminalInteraction": _interaction,
    "item/completed": _item("item_completed"),
    "item/fileChange/patchUpdated": _patch_updated,
    "item/started": _item("item_started"),
    "mcpServer/startupStatus/updated": _mcp_startup,
    "rawResponseItem/completed": _raw_item,
    "thread/tokenUsage/updated": _token_usage,
    "turn/completed": _turn_completed,
    "turn/diff/updated": _diff,
    "turn/started": _turn_started,
}
