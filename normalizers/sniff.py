"""Which dialect a line belongs to, told from one line alone, whatever the order of its keys.

A rule says yes only to lines that no other dialect prints; a line that fits several, or none, decides nothing, and the
next one is looked at. Rules look at the telling keys of a dialect's every common line, not at its first line: a stream
may be tapped from the middle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tooltap.normalizers.registry import BUILTIN, dialects, parser_class

__all__ = ["RULES", "sniff"]


def sniff(value: Any) -> str | None:
    """The dialect of one decoded line, if it is decisive."""
    if not isinstance(value, dict):
        return None
    found = [name for name, rule in RULES.items() if rule(value)]
    if not found:
        found = [name for name in dialects() if name not in BUILTIN and _ask_plugin(name, value)]
    return found[0] if len(found) == 1 else None


def _ask_plugin(name: str, value: dict[str, Any]) -> bool:
    rule: Callable[[dict[str, Any]], bool] | None = getattr(parser_class(name), "sniff", None)
    return rule is not None and rule(value)


def _is_acp(value: dict[str, Any]) -> bool:
    method = value.get("method")
    params = value.get("params")
    if isinstance(method, str):
        if method.startswith(("session/", "fs/", "terminal/")):
            return True
        return method == "initialize" and isinstance(params, dict) and "clientCapabilities" in params
    result = value.get("result")
    if not isinstance(result, dict) or "id" not in value:
        return False
    return "agentCapabilities" in result or "stopReason" in result or ("sessionId" in result and "modes" in result)


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


def _is_claude_stream(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    if "session_id" not in value:
        return False
    if kind in ("assistant", "user"):
        return isinstance(value.get("message"), dict) and "parent_tool_use_id" in value
    if kind == "stream_event":
        return isinstance(value.get("event"), dict)
    if kind == "system":
        return isinstance(value.get("subtype"), str) and "uuid" in value
    if kind == "result":
        return isinstance(value.get("subtype"), str) and ("num_turns" in value or "is_error" in value)
    return kind == "rate_limit_event"


def _is_happier_trace(value: dict[str, Any]) -> bool:
    return (
        value.get("v") == 1
        and isinstance(value.get("kind"), str)
        and isinstance(value.get("payload"), dict)
        and value.get("direction") in ("inbound", "outbound")
    )


RULES: dict[str, Callable[[dict[str, Any]], bool]] = {
    "acp": _is_acp,
    "claude-stream": _is_claude_stream,
    "codex-app-server": _is_codex_app_server,
    "codex-exec": _is_codex_exec,
    "codex-mcp": _is_codex_mcp,
    "codex-rollout": _is_codex_rollout,
    "happier-trace": _is_happier_trace,
}
