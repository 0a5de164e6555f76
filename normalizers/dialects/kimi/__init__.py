"""Kimi CLI."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.catalog.dialect import Agent, Dialect
from tooltap.normalizers.wire.values import record

__all__ = ["AGENTS", "DIALECTS", "PRODUCT"]


def _is_kimi_json(value: dict[str, Any]) -> bool:
    if not value.keys() <= {"role", "content", "tool_calls", "tool_call_id"}:
        return False
    content = value.get("content")
    if not isinstance(content, str | list):  # chat messages of APIs have null content beside calls
        return False
    if isinstance(content, list) and any(record(part).get("type") in _ANTHROPIC_BLOCKS for part in content):
        return False
    role = value.get("role")
    return role == "assistant" or (role == "tool" and isinstance(value.get("tool_call_id"), str))


_ANTHROPIC_BLOCKS = ("redacted_thinking", "thinking", "tool_result", "tool_use")
"""Types of parts in messages of Anthropic's API, which have the same keys."""


PRODUCT = "Kimi CLI"

DIALECTS = (
    Dialect(
        "kimi-json",
        "parser:KimiJson",
        _is_kimi_json,
        reads="Kimi CLI's printed messages",
        tapped_with="`tooltap run -- kimi --print --output-format stream-json …`",
        arrives="streams blocks",
        omits="prompts, permission requests, tokens, cost; the session's id",
        unproven="background tasks, notifications, rejections",
        endless="endless:lines",
    ),
)

AGENTS = (
    Agent(
        "kimi",
        ("--print … --output-format stream-json", "acp"),
        "--print --output-format stream-json",
    ),
)
