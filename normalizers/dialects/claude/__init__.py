"""Claude Code: what it prints, and the session files it keeps."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import Agent, Dialect, Store
from tooltap.normalizers.dialects.claude.bookkeeping import BOOKKEEPING
from tooltap.normalizers.wire.values import record

__all__ = ["AGENTS", "DIALECTS", "PRODUCT"]


def _is_claude_stream(value: dict[str, Any]) -> bool:
    """Qwen Code prints almost the same lines; one with neither agent's marks decides nothing."""
    kind = value.get("type")
    if "session_id" not in value or "isSidechain" in value:
        return False
    if kind in ("assistant", "user"):
        return isinstance(value.get("message"), dict) and "parent_tool_use_id" in value
    if kind == "stream_event":
        event = record(value.get("event"))
        marked = "api_message_id" in value or "usage" in event or "usage" in record(event.get("message"))
        return marked and isinstance(value.get("event"), dict)
    if kind == "system":
        return isinstance(value.get("subtype"), str) and "uuid" in value
    if kind == "result":
        return isinstance(value.get("subtype"), str) and ("num_turns" in value or "is_error" in value)
    return kind == "rate_limit_event"


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
        # Qwen Code's own session files have the same chain of lines, without sidechains.
        return "isSidechain" in value and "uuid" in value
    return kind in _TRANSCRIPT_LINES and _TRANSCRIPT_LINES[kind] in value


PRODUCT = "Claude Code"

DIALECTS = (
    Dialect(
        "claude-stream",
        "stream:ClaudeStream",
        _is_claude_stream,
        reads="`claude -p --output-format stream-json`, with partial messages and the control protocol",
        tapped_with="`tooltap run -- claude -p … --output-format stream-json --verbose`",
        arrives="streams text",
        omits="–; partials only with `--include-partial-messages`, permission requests only with the control "
        "protocol, no prompt that is given as an argument",
        unproven="`redacted_thinking`, `conversation_reset`, other control requests than the recorded, SDK notices",
        endless="endless:claude_stream",
    ),
    Dialect(
        "claude-transcript",
        "transcript:ClaudeTranscript",
        _is_claude_transcript,
        reads="the session files that Claude Code stores under `~/.claude/projects`, including those of subagents",
        tapped_with="`tooltap serve --follow claude`",
        arrives="streams blocks",
        omits="permission requests",
        unproven="`progress` lines, `api_error`, `compact_boundary`, `queued_command`, hook attachments",
        endless="endless:claude_transcript",
    ),
)

AGENTS = (
    Agent(
        "claude",
        ("--output-format stream-json", "--output-format json"),
        "-p --output-format stream-json --verbose",
        package="@anthropic-ai/claude-code",
        store=Store("claude-transcript", "CLAUDE_CONFIG_DIR", ".claude", "projects", re.compile(r".+\.jsonl")),
    ),
)
