"""Anthropic's API: Messages, as clients and servers exchange them."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.catalog.dialect import Dialect
from tooltap.normalizers.wire.values import record, records, string

_EVENTS = {
    "content_block_delta": "delta",
    "content_block_start": "content_block",
    "message_delta": "delta",
    "message_start": "message",
}
"""Type of an event -> key of its object."""
_BLOCKS = frozenset({"tool_use", "tool_result", "thinking"})
_REQUEST_KEYS = frozenset({"anthropic_version", "context_management", "output_config", "stop_sequences", "thinking"})


def _is_messages(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    if not isinstance(kind, str):
        return _is_request(value)
    if (key := _EVENTS.get(kind)) is not None:
        return isinstance(value.get(key), dict) and value.keys() <= {
            "type",
            "index",
            "usage",
            key,
            "context_management",
        }
    if kind == "content_block_stop":
        return value.keys() == {"type", "index"}
    if kind == "message_stop":
        return value.keys() <= {"type", "amazon-bedrock-invocationMetrics"}
    if kind == "error":
        return value.keys() <= {"type", "error", "request_id"} and record(value.get("error")).keys() >= {
            "type",
            "message",
        }
    return kind == "message" and value.keys() >= {"role", "content", "stop_reason", "usage"}


def _is_request(value: dict[str, Any]) -> bool:
    """Chat Completions has requests with the same keys: those of Messages have instructions, tools or blocks of another
    form."""
    if not value.keys() >= {"messages", "max_tokens"}:
        return False
    messages, tools = records(value["messages"]), records(value.get("tools"))
    if "system" in value or any("input_schema" in tool for tool in tools) or not _REQUEST_KEYS.isdisjoint(value):
        return bool(messages)
    kinds = {string(block.get("type")) for message in messages for block in records(message.get("content"))}
    return not _BLOCKS.isdisjoint(kinds)


PRODUCT = "Anthropic"
LISTED_AS = "Anthropic-compatible servers"

DIALECTS = (
    Dialect(
        "anthropic-messages",
        "parser:AnthropicMessages",
        _is_messages,
        reads="the Messages API, whole and streamed",
        tapped_with="`tooltap gateway openai --upstream URL`",
        arrives="one burst; with `stream: true`: streams text",
        omits="permission requests, cost; a tool that failed, unless the client marks its result",
        unproven="thinking, tools that run at the API, MCP connectors, whole answers, errors in mid-answer",
        takes_from=("openai-chat",),
        apis=("/v1/messages",),
    ),
)
