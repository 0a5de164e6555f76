"""Codex: `exec`, the two servers, and the session files it keeps."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.core.dialect import Agent, Dialect, Store

__all__ = ["AGENTS", "DIALECTS", "PRODUCT"]


def _is_codex_mcp(value: dict[str, Any]) -> bool:
    method = value.get("method")
    params = value.get("params")
    if isinstance(method, str):
        if method == "codex/event" or method.startswith("codex/event/"):
            return True
        if method == "elicitation/create":
            return isinstance(params, dict) and "codex_elicitation" in params
        name = params.get("name") if isinstance(params, dict) else None
        return method == "tools/call" and name in ("codex", "codex-reply")
    result = value.get("result")
    info = result.get("serverInfo") if isinstance(result, dict) else None
    return isinstance(info, dict) and info.get("name") == "codex-mcp-server"


_APP_SERVER_METHODS = ("account/", "item/", "mcpServer/", "remoteControl/", "serverRequest/", "thread/", "turn/")


def _is_codex_app_server(value: dict[str, Any]) -> bool:
    method = value.get("method")
    params = value.get("params")
    if isinstance(method, str):
        if method.startswith(_APP_SERVER_METHODS) or method == "configWarning":
            return True
        if not isinstance(params, dict):
            return False
        if method == "initialize":  # MCP says its version, ACP the client's capabilities under another name
            return "clientInfo" in params and not {"protocolVersion", "clientCapabilities"} & set(params)
        return method == "error" and "willRetry" in params
    result = value.get("result")
    if not isinstance(result, dict) or "id" not in value:
        return False
    told = result.get("thread", result.get("turn"))
    return {"userAgent", "codexHome"} <= set(result) or (isinstance(told, dict) and "id" in told)


def _is_codex_exec(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    if kind in ("item.started", "item.updated", "item.completed"):
        item = value.get("item")
        return isinstance(item, dict) and "id" in item and ("type" in item or "item_type" in item)
    if kind == "thread.started":
        return "thread_id" in value
    if kind == "turn.started":
        return set(value) <= {"type", "turn_id"}
    if kind in ("turn.completed", "turn.failed"):
        return "usage" in value or isinstance(value.get("error"), dict)
    msg = value.get("msg")  # to 0.41
    return set(value) == {"id", "msg"} and isinstance(msg, dict) and isinstance(msg.get("type"), str)


_ROLLOUT_LINES = (
    "compacted",
    "event_msg",
    "inter_agent_communication_metadata",
    "response_item",
    "retained_context",
    "session_meta",
    "token_usage_record",
    "turn_context",
    "world_state",
)


def _is_codex_rollout(value: dict[str, Any]) -> bool:
    if value.get("type") in _ROLLOUT_LINES:
        return isinstance(value.get("payload"), dict)
    return {"id", "timestamp", "instructions"} <= set(value) and "type" not in value  # to 0.31


PRODUCT = "Codex"

DIALECTS = (
    Dialect(
        "codex-exec",
        "exec:CodexExec",
        _is_codex_exec,
        reads="`codex exec --json`",
        tapped_with="`tooltap run -- codex exec --json …`",
        arrives="streams blocks",
        omits="prompts, permission requests, cost; a refused approval leaves no trace, an interrupted run has "
        "no end, a changed file has only its path and the kind of change",
        unproven="the generations before 0.120",
        endless="endless:codex_exec",
    ),
    Dialect(
        "codex-mcp",
        "mcp:CodexMcp",
        _is_codex_mcp,
        reads="`codex mcp-server`: `codex/event` notifications and approvals",
        tapped_with="`tooltap proxy -- codex mcp-server`",
        arrives="streams text",
        omits="cost",
        unproven="`codex/event/<type>` methods with `conversationId`, collaboration, review mode, questions by request",
        endless="endless:codex_mcp",
    ),
    Dialect(
        "codex-app-server",
        "app_server:CodexAppServer",
        _is_codex_app_server,
        reads="`codex app-server`: JSON-RPC, both directions",
        tapped_with="`tooltap proxy -- codex app-server`",
        arrives="streams text",
        omits="cost",
        unproven="questions, permission profiles, the older approvals, MCP progress",
        endless="endless:codex_app_server",
    ),
    Dialect(
        "codex-rollout",
        "rollout:CodexRollout",
        _is_codex_rollout,
        reads="the session files that Codex stores under `~/.codex/sessions`",
        tapped_with="`tooltap serve --follow codex`",
        arrives="streams blocks",
        omits="permission requests, cost",
        unproven="the generations before 0.120; forked sessions of users",
        endless="endless:codex_rollout",
    ),
)

AGENTS = (
    Agent(
        "codex",
        ("exec … --json", "e … --json", "mcp-server", "app-server"),
        "exec --json",
        package="@openai/codex",
        store=Store("codex-rollout", "CODEX_HOME", ".codex", "sessions", re.compile(r"(?:.+/)?rollout-[^/]+\.jsonl")),
    ),
)
