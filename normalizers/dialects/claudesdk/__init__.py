"""The Claude Agent SDK for Python: its messages, as a program writes them in JSON."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.catalog.dialect import Dialect

_MESSAGES = (
    {"content", "model", "parent_tool_use_id", "error"},
    {"content", "uuid", "parent_tool_use_id", "tool_use_result"},
    {"duration_api_ms", "num_turns", "session_id", "model_usage", "subtype"},
    {"event", "parent_tool_use_id", "session_id", "uuid"},
    {"rate_limit_info", "session_id", "uuid"},
)
"""Fields of a class of messages that each of its instances has: answers of the model, the user's messages, ends of
turns, the API's stream, quotas."""
_OWN = {"type", "message", "role"}
"""Keys of other agents' lines, and of messages in the form of the API; the SDK's classes have no such fields."""


def _is_message(value: dict[str, Any]) -> bool:
    """Rule for `claude-sdk`. A message has all fields of its class, also those without a value."""
    if not _OWN.isdisjoint(value):
        return False
    data = value.get("data")
    if isinstance(data, dict):
        return data.get("type") == "system" and "subtype" in value
    return any(value.keys() >= keys for keys in _MESSAGES)


PRODUCT = "Claude Agent SDK"

DIALECTS = (
    Dialect(
        "claude-sdk",
        "parser:ClaudeSdk",
        _is_message,
        reads="messages of the Claude Agent SDK for Python, as `json.dumps(dataclasses.asdict(message))` writes them; "
        "those of the SDK for TypeScript are `claude-stream`",
        tapped_with="`tooltap ingest FILE`",
        arrives="streams blocks",
        omits="permission requests; prompts, unless the program writes them",
        shows_prompts=False,
        unproven="reasoning, tools that run at the API, subagents, quotas, partial messages",
    ),
)
