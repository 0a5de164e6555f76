"""Grok Build: the conversations that it stores."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import Agent, Dialect, Store

_OF_USER = frozenset({"content", "prompt_index", "synthetic_reason", "type"})
_OF_OTHERS = frozenset(
    {"createdAt", "event_id", "message", "output_index", "role", "sequence_number", "sessionId", "timestamp", "uuid"}
)
"""Keys that Grok's lines never have, and those of others that have the same types do."""


def _is_history(value: dict[str, Any]) -> bool:
    if not _OF_OTHERS.isdisjoint(value):
        return False
    match value.get("type"):
        case "user":
            return isinstance(value.get("content"), list) and value.keys() <= _OF_USER
        case "assistant":
            return isinstance(value.get("content"), str) and ("model_id" in value or "tool_calls" in value)
        case "tool_result":
            return isinstance(value.get("tool_call_id"), str) and "content" in value
        case "reasoning":
            return isinstance(value.get("summary"), list)
        case "system":
            return value.keys() == {"content", "type"} and isinstance(value["content"], str)
    return False


PRODUCT = "Grok Build"

DIALECTS = (
    Dialect(
        "grok-history",
        "parser:GrokHistory",
        _is_history,
        reads="Grok Build's conversations",
        tapped_with="`tooltap serve --follow grok`",
        arrives="streams blocks",
        omits="permission requests, tokens, cost; times, the folder, the title, and which session is a subagent's",
        unproven="everything: shapes from public readers of these files, Grok Build 1.0",
    ),
)

AGENTS = (
    Agent(
        "grok",
        (),
        None,
        store=Store(
            "grok-history",
            variable="GROK_HOME",
            home=".grok",
            below="sessions",
            files=re.compile(r"[^/]+/(?P<session>[^/]+)/chat_history\.jsonl"),
            beside=re.compile(r"[^/]+/\.cwd|[^/]+/[^/]+/(?!chat_history\.jsonl).+"),
        ),
    ),
)
