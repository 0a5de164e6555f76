"""Pi."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.catalog.dialect import Agent, Dialect

__all__ = ["AGENTS", "DIALECTS", "PRODUCT"]


def _is_pi_json(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    if kind in ("agent_start", "turn_start"):
        return len(value) == 1
    if kind in ("message_start", "message_end"):
        message = value.get("message")
        # Events of Anthropic's API have the same types, but their messages have a `type`.
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


PRODUCT = "Pi"

DIALECTS = (
    Dialect(
        "pi-json",
        "parser:PiJson",
        _is_pi_json,
        reads="Pi's JSON mode",
        tapped_with="`tooltap run -- pi --mode json …`",
        arrives="streams text",
        omits="permission requests; the exit code 0",
        unproven="exit codes, retries, compaction, aborts",
        endless="endless:lines",
    ),
)

AGENTS = (
    Agent(
        "pi",
        ("--mode json", "--mode rpc"),
        "--mode json",
    ),
)
