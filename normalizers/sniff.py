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


def _is_openai_chat(value: dict[str, Any]) -> bool:
    choices = value.get("choices")
    if isinstance(choices, list):
        if value.get("object") in ("chat.completion", "chat.completion.chunk"):
            return True
        first = choices[0] if choices else None
        return isinstance(first, dict) and any(isinstance(first.get(key), dict) for key in ("delta", "message"))
    messages = value.get("messages")
    return (
        isinstance(messages, list)
        and isinstance(value.get("model"), str)
        and any(isinstance(message, dict) and isinstance(message.get("role"), str) for message in messages)
    )


def _is_opencode_bus(value: dict[str, Any]) -> bool:
    payload = value.get("payload")
    if isinstance(payload, dict) and "type" not in value:
        return _is_opencode_bus(payload)
    kind = value.get("type")
    if kind == "sync":
        return isinstance(value.get("syncEvent"), dict)
    if isinstance(kind, str):
        known = kind.partition(".")[0] in _OPENCODE_SUBJECTS and "." in kind
        return known and isinstance(value.get("properties"), dict) and value.keys() <= {"id", "type", "properties"}
    return any(
        isinstance(path, str) and path.startswith(_OPENCODE_PATHS) and value.keys() <= {method, "body"}
        for method, path in value.items()
        if method in ("GET", "POST")
    )


_OPENCODE_SUBJECTS = ("file", "message", "permission", "plugin", "question", "server", "session", "todo")
_OPENCODE_PATHS = ("/session", "/permission/", "/question/")


def _is_opencode_run(value: dict[str, Any]) -> bool:
    if not isinstance(value.get("sessionID"), str) or not isinstance(value.get("timestamp"), int):
        return False
    kind = str(value.get("type"))
    part = value.get("part")
    if isinstance(part, dict):
        return kind in _OPENCODE_PARTS and part.get("type") == _OPENCODE_PARTS[kind]
    return kind == "error" and isinstance(value.get("error"), dict)


_OPENCODE_PARTS = {
    "reasoning": "reasoning",
    "step_finish": "step-finish",
    "step_start": "step-start",
    "text": "text",
    "tool_use": "tool",
}
"""Type of a line -> type of the part it tells of."""


RULES: dict[str, Callable[[dict[str, Any]], bool]] = {
    "acp": _is_acp,
    "claude-stream": _is_claude_stream,
    "codex-mcp": _is_codex_mcp,
    "gemini-chat": _is_gemini_chat,
    "gemini-stream": _is_gemini_stream,
    "happier-trace": _is_happier_trace,
    "openai-chat": _is_openai_chat,
    "opencode-bus": _is_opencode_bus,
    "opencode-run": _is_opencode_run,
}
