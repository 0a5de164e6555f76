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


def _is_gemini_stream(value: dict[str, Any]) -> bool:
    kind = str(value.get("type"))
    keys = _GEMINI_STREAM_KEYS.get(kind)
    if keys is None or not isinstance(value.get("timestamp"), str) or not value.keys() >= keys:
        return False
    return kind != "message" or (value["role"] in ("user", "assistant") and "id" not in value)


_GEMINI_STREAM_KEYS = {
    "init": {"session_id", "model"},
    "message": {"role", "content"},
    "tool_use": {"tool_name", "tool_id"},
    "tool_result": {"tool_id", "status"},
    "error": {"severity", "message"},
    "result": {"status", "stats"},
}


def _is_gemini_chat(value: dict[str, Any]) -> bool:
    if isinstance(value.get("$rewindTo"), str) or any(isinstance(value.get(key), dict) for key in ("$set", "$patch")):
        return True
    if isinstance(value.get("sessionId"), str) and isinstance(value.get("projectHash"), str):
        return True
    kind = value.get("type")
    if not value.keys() >= {"id", "timestamp", "type", "content"}:
        return False
    return kind == "gemini" or (kind in _GEMINI_CHAT_KINDS and value.keys() <= _GEMINI_CHAT_KEYS)


_GEMINI_CHAT_KINDS = ("user", "info", "warning", "error")
_GEMINI_CHAT_KEYS = {"id", "timestamp", "type", "content", "displayContent"}


def _is_happier_trace(value: dict[str, Any]) -> bool:
    return (
        value.get("v") == 1
        and isinstance(value.get("kind"), str)
        and isinstance(value.get("payload"), dict)
        and value.get("direction") in ("inbound", "outbound")
    )


def _is_cline_json(value: dict[str, Any]) -> bool:
    key = _CLINE_JSON_KEYS.get(str(value.get("type")))
    return key is not None and key in value and isinstance(value.get("ts"), str)


_CLINE_JSON_KEYS = {"agent_event": "event", "hook_event": "hookEventName", "run_result": "finishReason"}


def _is_copilot_json(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    if kind == "result":
        return value.keys() >= {"sessionId", "exitCode", "usage"}
    return isinstance(kind, str) and isinstance(value.get("data"), dict) and value.keys() >= _COPILOT_JSON_KEYS


_COPILOT_JSON_KEYS = {"id", "timestamp", "parentId"}


def _is_kimi_json(value: dict[str, Any]) -> bool:
    if not value.keys() <= {"role", "content", "tool_calls", "tool_call_id"}:
        return False
    content = value.get("content")
    if not isinstance(content, str | list):  # chat messages as APIs take them have null beside calls
        return False
    role = value.get("role")
    return role == "assistant" or (role == "tool" and isinstance(value.get("tool_call_id"), str))


def _is_pi_json(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    if kind in ("agent_start", "turn_start"):
        return len(value) == 1
    if kind in ("message_start", "message_end"):
        message = value.get("message")
        # The events of Anthropic's API have these types, too, and a message with a type of its own.
        return isinstance(message, dict) and "role" in message and "type" not in message
    key = _PI_JSON_KEYS.get(str(kind))
    return key is not None and key in value


_PI_JSON_KEYS = {
    "agent_end": "messages",
    "message_update": "assistantMessageEvent",
    "session": "version",
    "tool_execution_end": "toolCallId",
    "tool_execution_start": "toolCallId",
    "tool_execution_update": "toolCallId",
    "turn_end": "toolResults",
}


def _is_vibe_json(value: dict[str, Any]) -> bool:
    return value.keys() >= {"id", "sessionId", "turnId", "generationStatus", "type"}


RULES: dict[str, Callable[[dict[str, Any]], bool]] = {
    "acp": _is_acp,
    "claude-stream": _is_claude_stream,
    "cline-json": _is_cline_json,
    "codex-mcp": _is_codex_mcp,
    "copilot-json": _is_copilot_json,
    "gemini-chat": _is_gemini_chat,
    "gemini-stream": _is_gemini_stream,
    "happier-trace": _is_happier_trace,
    "kimi-json": _is_kimi_json,
    "pi-json": _is_pi_json,
    "vibe-json": _is_vibe_json,
}
