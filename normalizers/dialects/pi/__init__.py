"""Pi: its printed stream, its RPC mode, and its session files."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import SESSION, Agent, Dialect, Store
from tooltap.normalizers.wire.values import string


def _is_pi_json(value: dict[str, Any]) -> bool:
    kind = string(value.get("type"))
    if kind in ("prompt", "steer", "follow_up"):
        return isinstance(value.get("message"), str) and "role" not in value
    if kind in _RPC_COMMANDS:
        return value.keys() <= {"id", "type"}
    if kind == "response":
        return isinstance(value.get("command"), str) and isinstance(value.get("success"), bool)
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
    "extension_ui_request": "method",
    "message_update": "assistantMessageEvent",
    "session": "version",
    "tool_execution_end": "toolCallId",
    "tool_execution_start": "toolCallId",
    "tool_execution_update": "toolCallId",
    "turn_end": "toolResults",
}


_RPC_COMMANDS = (
    "get_available_models",
    "get_commands",
    "get_messages",
    "get_session_stats",
    "get_state",
)
"""Commands with which a client begins; `response` and later lines are recognised by other keys."""


def _is_pi_session(value: dict[str, Any]) -> bool:
    """Rule for `pi-session`: an entry of a session's tree, or the session's first line, which `pi --mode json` prints
    first, too."""
    kind = value.get("type")
    if kind == "session":
        return "version" in value
    if not value.keys() >= {"id", "parentId", "timestamp"}:
        return False
    key = _ENTRY_KEYS.get(str(kind))
    return key is not None and key in value


_ENTRY_KEYS = {
    "branch_summary": "fromId",
    "compaction": "firstKeptEntryId",
    "context_edit": "targetId",
    "message": "message",
    "model_change": "modelId",
    "thinking_level_change": "thinkingLevel",
}


PRODUCT = "Pi"

DIALECTS = (
    Dialect(
        "pi-json",
        "parser:PiJson",
        _is_pi_json,
        reads="Pi's JSON mode, and its RPC mode, both directions",
        tapped_with="`tooltap run -- pi --mode json …`; RPC mode: `tooltap proxy -- pi --mode rpc`",
        arrives="streams text",
        omits="permission requests; before 1.x, the exit code 0",
        unproven="exit codes, retries, automatic compaction; in RPC mode, dialogs of extensions and refused prompts",
    ),
    Dialect(
        "pi-session",
        "parser:PiSession",
        _is_pi_session,
        reads="Pi's session files, OpenClaw's, and since its version 2026.7.2 its databases",
        tapped_with="`tooltap serve --follow pi`, `--follow openclaw`",
        arrives="streams blocks",
        omits="permission requests; the exit code 0",
        unproven="compaction, branches, entries of extensions, changes of the context by extensions; "
        "everything of OpenClaw: shapes from its source, 2026.9, and from public readers",
    ),
)

AGENTS = (
    Agent(
        "pi",
        ("--mode json", "--mode rpc"),
        "--mode json",
        answerable=("--mode rpc",),
        resume=("--session", SESSION),
        fork=("--fork", SESSION),
        store=Store("pi-session", "PI_CODING_AGENT_DIR", ".pi/agent", "sessions", re.compile(r".+\.jsonl")),
    ),
    Agent(
        "openclaw",
        (),
        None,
        product="OpenClaw",
        fork_of="pi",
        package="openclaw",
        store=Store(
            "pi-session",
            "OPENCLAW_STATE_DIR",
            ".openclaw",
            "",
            re.compile(r"agents/[^/]+/agent/openclaw-agent\.sqlite/(?P<session>[^/]+)"),
            reader="store:OpenClawStore",
            database=re.compile(r"openclaw-agent\.sqlite"),
            within=("agents", "*", "agent"),
            beside=re.compile(r".+"),
            tables=re.compile(r"(?!session_transcript_(?:cold_)?archives\Z).+"),
        ),
        older_stores=(
            Store(
                "pi-session",
                "OPENCLAW_STATE_DIR",
                ".openclaw",
                "agents",
                re.compile(r"[^/]+/sessions/[^/]+\.jsonl"),
                beside=re.compile(r"[^/]+/sessions/sessions\.json|[^/]+/agent/[^/]+\.(?:json|sqlite)"),
            ),
        ),
    ),
)
