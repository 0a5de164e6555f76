"""What the lines of each dialect look like, one rule each.

A rule says yes only to lines that no other dialect prints. Rules look at the telling keys of a dialect's every common
line, not at its first line: a stream may be tapped from the middle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tooltap.normalizers.dialects.claude.bookkeeping import BOOKKEEPING

__all__ = ["RULES"]


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
    """Qwen Code prints the same lines but for small signs; what has none of either's decides nothing."""
    kind = value.get("type")
    if "session_id" not in value or "isSidechain" in value or _is_qwen_stream(value) or _is_cursor_stream(value):
        return False
    if kind in ("assistant", "user"):
        return isinstance(value.get("message"), dict) and "parent_tool_use_id" in value
    if kind == "stream_event":
        event = value.get("event")
        return isinstance(event, dict) and (
            "api_message_id" in value or "usage" in event or "usage" in _record(event.get("message"))
        )
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
_TRANSCRIPT_LINES = {
    "ai-title": "aiTitle",
    "cost-state": "modelUsage",
    "custom-title": "customTitle",
    "mode": "mode",
    "permission-mode": "permissionMode",
} | dict.fromkeys(BOOKKEEPING, "type")
"""Line type -> key that it has beside `sessionId`."""


def _is_claude_transcript(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    if kind == "summary":
        return "leafUuid" in value
    if kind == "file-history-snapshot":
        return "snapshot" in value
    if "sessionId" not in value:
        return False
    if kind in ("assistant", "user", "system", "attachment", "progress"):
        # Qwen Code's own chats have the same chain of lines, without sidechains.
        return "isSidechain" in value and "uuid" in value
    return kind in _TRANSCRIPT_LINES and _TRANSCRIPT_LINES[kind] in value


def _is_qwen_stream(value: dict[str, Any]) -> bool:
    if "session_id" not in value or "uuid" not in value:
        return False
    message = _record(value.get("message"))
    match value.get("type"):
        case "system":
            return "qwen_code_version" in value
        case "assistant":
            return bool(message.get("id") == value["uuid"])  # Claude's lines have an id of their own
        case "user":
            return not _CLAUDE_USER_KEYS & value.keys() and _are_qwen_results(message.get("content"))
        case "stream_event":
            event = _record(value.get("event"))
            started = _record(event.get("message"))
            return event.get("type") == "goal_state" or ("id" in started and "type" not in started)
        case "result":
            return "permission_denials" in value and not _CLAUDE_RESULT_KEYS & value.keys()
    return False


_CLAUDE_USER_KEYS = {"timestamp", "tool_use_result", "isReplay", "isSynthetic", "agent_id"}
_CLAUDE_RESULT_KEYS = {"total_cost_usd", "cost_usd"}


def _are_qwen_results(content: Any) -> bool:
    """Results that always say whether they are errors, of calls whose ids are not Anthropic's."""
    blocks = content if isinstance(content, list) else []
    return bool(blocks) and all(
        isinstance(block, dict)
        and block.get("type") == "tool_result"
        and isinstance(block.get("is_error"), bool)
        and not str(block.get("tool_use_id")).startswith("toolu_")
        for block in blocks
    )


def _record(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_cursor_stream(value: dict[str, Any]) -> bool:
    if "session_id" not in value:
        return False
    subtype = value.get("subtype")
    match value.get("type"):
        case "system":
            return subtype == "init" and "apiKeySource" in value and not {"uuid", "tools"} & value.keys()
        case "thinking":
            return subtype in ("delta", "completed")
        case "tool_call":
            return subtype in ("started", "completed") and isinstance(value.get("tool_call"), dict)
        case "result":  # Auggie's and Claude's count turns
            return "request_id" in value and not {"num_turns", "uuid"} & value.keys()
    return False


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
    if isinstance(content, list) and any(_record(part).get("type") in _ANTHROPIC_BLOCKS for part in content):
        return False
    role = value.get("role")
    return role == "assistant" or (role == "tool" and isinstance(value.get("tool_call_id"), str))


_ANTHROPIC_BLOCKS = ("redacted_thinking", "thinking", "tool_result", "tool_use")
"""Parts of bare messages of Anthropic's API."""


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


def _is_legacy(value: dict[str, Any]) -> bool:
    """Only by the wrapper: what is in it may be any dialect's."""
    content = value.get("content")
    if isinstance(content, dict) and "role" in content:  # as the server gives it, with an id and a time
        return _is_legacy(content)
    if not isinstance(content, dict) or value.get("role") not in ("agent", "user"):
        return False
    return content.get("type") in ("acp", "codex", "output", "event") and isinstance(content.get("data"), dict)


def _is_vibe_json(value: dict[str, Any]) -> bool:
    return value.keys() >= {"id", "sessionId", "turnId", "generationStatus", "type"}


def _is_openai_responses(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    if isinstance(kind, str):
        if "event_id" in value:  # the realtime API has events of the same names
            return False
        if kind.startswith("response."):
            return kind == "response.create" or not value.keys().isdisjoint(_RESPONSES_EVENT_KEYS)
        return kind == "error" and "sequence_number" in value
    if value.get("object") == "response":
        return isinstance(value.get("output"), list)
    # Requests for embeddings have a model and an input, too, and nothing else of these.
    return value.keys() >= {"model", "input"} and not value.keys().isdisjoint(_RESPONSES_REQUEST_KEYS)


_RESPONSES_EVENT_KEYS = frozenset({"response", "item", "output_index", "item_id"})
_RESPONSES_REQUEST_KEYS = frozenset(
    {"instructions", "tools", "store", "stream", "include", "reasoning", "text", "previous_response_id"}
)


def _is_tooltap_trace(value: dict[str, Any]) -> bool:
    return (
        value.get("v") == 1
        and "kind" not in value
        and isinstance(value.get("stream"), str)
        and isinstance(value.get("n"), int)
        and ("line" in value or "b64" in value)
    )


def _is_display_tools(value: dict[str, Any]) -> bool:
    return value.get("type") in ("display/session", "display/call", "display/result")


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
    "claude-transcript": _is_claude_transcript,
    "cline-json": _is_cline_json,
    "codex-app-server": _is_codex_app_server,
    "codex-exec": _is_codex_exec,
    "codex-mcp": _is_codex_mcp,
    "codex-rollout": _is_codex_rollout,
    "copilot-json": _is_copilot_json,
    "cursor-stream": _is_cursor_stream,
    "display-tools": _is_display_tools,
    "gemini-chat": _is_gemini_chat,
    "gemini-stream": _is_gemini_stream,
    "happier-trace": _is_happier_trace,
    "kimi-json": _is_kimi_json,
    "legacy": _is_legacy,
    "openai-chat": _is_openai_chat,
    "openai-responses": _is_openai_responses,
    "opencode-bus": _is_opencode_bus,
    "opencode-run": _is_opencode_run,
    "pi-json": _is_pi_json,
    "qwen-stream": _is_qwen_stream,
    "tooltap-trace": _is_tooltap_trace,
    "vibe-json": _is_vibe_json,
}
