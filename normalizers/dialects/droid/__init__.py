"""Droid, the agent of Factory."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import Agent, Dialect, Store
from tooltap.normalizers.wire.values import record

_SETTINGS = {"assistantActiveTimeMs", "autonomyMode", "interactionMode", "providerLock"}
"""Keys of the settings beside a session."""


def _is_droid_session(value: dict[str, Any]) -> bool:
    match value.get("type"):
        case "session_start":
            return value.keys() >= {"id", "title", "version"}
        case "message":
            message = record(value.get("message"))
            return (
                value.keys() >= {"id", "timestamp"}
                and isinstance(message.get("content"), list)
                and (
                    value.keys() <= {"type", "id", "parentId", "timestamp", "message"} and _is_of_droid(value, message)
                )
            )
        case "agent_turn_outcome":
            return "turnId" in value
        case None:
            return isinstance(value.get("tokenUsage"), dict) and value.keys() & _SETTINGS != set()
    return False


def _is_of_droid(value: dict[str, Any], message: dict[str, Any]) -> bool:
    """Return whether a message entry is Droid's, not Pi's: Pi's entries have shorter ids, and its messages a time."""
    return len(str(value["id"])) >= 32 and "timestamp" not in message


_STREAM_KEYS = {
    "system": {"cwd", "tools", "model"},
    "message": {"role", "id", "text"},
    "reasoning": {"id", "text"},
    "tool_call": {"id", "messageId", "toolName", "parameters"},
    "tool_result": {"id", "messageId", "isError"},
    "completion": {"finalText", "numTurns"},
}
_CLAUDE_KEYS = {"apiKeySource", "mcp_servers", "permissionMode", "uuid"}
"""Keys of what Claude Code prints under the same types; early versions lack some of them."""


def _is_droid_stream(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    keys = _STREAM_KEYS.get(kind) if isinstance(kind, str) else None
    return keys is not None and value.keys() >= keys | {"session_id"} and value.keys().isdisjoint(_CLAUDE_KEYS)


PRODUCT = "Droid"

DIALECTS = (
    Dialect(
        "droid-stream",
        "parser:DroidStream",
        _is_droid_stream,
        reads="`droid exec --output-format stream-json`",
        tapped_with="`tooltap run -- droid exec … --output-format stream-json`",
        arrives="streams blocks",
        omits="permission requests, cost; tokens of single requests, and exit codes are in texts only",
        unproven="errors, subagents, images",
    ),
    Dialect(
        "droid-session",
        "parser:DroidSession",
        _is_droid_session,
        reads="Droid's session files",
        tapped_with="`tooltap serve --follow droid`",
        arrives="streams blocks",
        omits="permission requests, cost; tokens of single requests, and exit codes are in texts only",
        unproven="subagents, interrupts",
    ),
)

AGENTS = (
    Agent(
        "droid",
        ("--output-format stream-json", "-o stream-json", "--output-format acp"),
        "exec … --output-format stream-json",
        answerable=("--output-format acp",),
        store=Store(
            "droid-session",
            "",
            ".factory",
            "sessions",
            re.compile(r"(?:.+/)?(?:[^/]+\.jsonl|(?P<session>[^/]+)\.settings\.json)"),
        ),
    ),
)
