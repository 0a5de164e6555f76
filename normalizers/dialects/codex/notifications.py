"""The app-server's notifications as the core's events: mostly the same under other names, keys in camel case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.dialects.codex.items import core_item, nonempty, snake, snake_keys
from tooltap.normalizers.wire.values import record

__all__ = ["SKIPPED", "core_event", "skip_by_prefix"]

_RENAMED = {
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

SKIPPED = {
    "initialized": "handshake",
    "item/autoApprovalReview/started": "started",
    "item/fileChange/outputDelta": "partial",
    "serverRequest/resolved": "resolved",  # a request to the client was answered
    "thread/settings/updated": "housekeeping",
    "turn/moderationMetadata": "housekeeping",
    # the client's account, files, windows
    **dict.fromkeys(("app/list/updated", "fs/changed", "skills/changed", "windows/worldWritableWarning"), "client"),
}
"""Method of a notification about nothing the agent does -> the reason to skip it."""

_CLIENTS = (
    "account/",
    "command/exec/",
    "externalAgentConfig/",
    "fuzzyFileSearch/",
    "mcpServer/oauthLogin/",
    "model/",
    "process/",
    "project/",
    "remoteControl/",
    "windowsSandbox/",
)


def skip_by_prefix(method: str) -> str | None:
    """The reason to skip a notification that is not an event, by the beginning of its method; None if it is unknown."""
    return "client" if method.startswith(_CLIENTS) else "housekeeping" if method.startswith("thread/") else None


def core_event(method: str, params: Line) -> Line | None:
    """The event that a notification stands for; None where the core has none."""
    if method in _RENAMED:
        return {**snake_keys(params), "type": _RENAMED[method]}
    translate = _TRANSLATED.get(method)
    return translate(params) if translate is not None else None


def _turn_completed(params: Line) -> Line:
    turn = snake_keys(record(params.get("turn")))
    event = {"turn_id": turn.get("id"), **nonempty(turn, "duration_ms", "error")}
    if turn.get("status") == "interrupted":
        return {**event, "type": "turn_aborted", "reason": "interrupted"}
    if turn.get("status") == "failed":
        event.setdefault("error", {"message": "failed"})
    return {**event, "type": "task_complete"}


def _error(params: Line) -> Line:
    kind = "stream_error" if params.get("willRetry") else "error"
    event = {**snake_keys(record(params.get("error"))), "type": kind}
    info = event.get("codex_error_info")
    return {**event, "codex_error_info": snake(info)} if isinstance(info, str) else event


def _token_usage(params: Line) -> Line:
    usage = snake_keys(record(params.get("tokenUsage")))
    info = {
        "total_token_usage": usage.get("total"),
        "last_token_usage": usage.get("last"),
        "model_context_window": usage.get("model_context_window"),
    }
    return {"type": "token_count", "info": info}


def _mcp_startup(params: Line) -> Line:
    status = {"state": params.get("status"), "error": params.get("error")}
    return {"type": "mcp_startup_update", "server": params.get("name"), "status": status}


_TRANSLATED: dict[str, Callable[[Line], Any]] = {
    "account/rateLimits/updated": lambda params: {
        "type": "token_count",
        "rate_limits": snake_keys(params.get("rateLimits")),
    },
    "error": _error,
    "item/commandExecution/terminalInteraction": lambda params: {
        **snake_keys(params),
        "type": "terminal_interaction",
        "call_id": params.get("itemId"),
    },
    "item/completed": lambda params: {"type": "item_completed", "item": core_item(record(params.get("item")))},
    "item/fileChange/patchUpdated": lambda params: {
        "type": "patch_apply_updated",
        "call_id": params.get("itemId"),
        "changes": params.get("changes"),
    },
    "item/started": lambda params: {"type": "item_started", "item": core_item(record(params.get("item")))},
    "mcpServer/startupStatus/updated": _mcp_startup,
    "rawResponseItem/completed": lambda params: {"type": "raw_response_item", "item": params.get("item")},
    "thread/tokenUsage/updated": _token_usage,
    "turn/completed": _turn_completed,
    "turn/diff/updated": lambda params: {"type": "turn_diff", "unified_diff": params.get("diff")},
    "turn/started": lambda params: {"type": "task_started", "turn_id": record(params.get("turn")).get("id")},
}
"""Method -> what makes the core's event of the parameters, where more than names differ."""
