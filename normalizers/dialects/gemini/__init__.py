"""Gemini CLI: its printed stream, and its saved chats."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import SESSION, Agent, Dialect, HookEvent, Hooks, Prompt, Store

_STREAM_KEYS = {
    "init": {"session_id", "model"},
    "message": {"role", "content"},
    "tool_use": {"tool_name", "tool_id"},
    "tool_result": {"tool_id", "status"},
    "error": {"severity", "message"},
    "result": {"status", "stats"},
}
_MESSAGE_KEYS = {"id", "timestamp", "type", "content"}
_NOTE_KEYS = {*_MESSAGE_KEYS, "displayContent"}


def _is_gemini_stream(value: dict[str, Any]) -> bool:
    kind = str(value.get("type"))
    keys = _STREAM_KEYS.get(kind)
    if keys is None or not isinstance(value.get("timestamp"), str) or not value.keys() >= keys:
        return False
    return kind != "message" or (value["role"] in ("user", "assistant") and "id" not in value)


def _is_gemini_chat(value: dict[str, Any]) -> bool:
    if isinstance(value.get("$rewindTo"), str) or any(isinstance(value.get(key), dict) for key in ("$set", "$patch")):
        return True
    if isinstance(value.get("sessionId"), str) and isinstance(value.get("projectHash"), str):
        return True
    kind = value.get("type")
    if not value.keys() >= _MESSAGE_KEYS:
        return False
    return kind == "gemini" or (kind in ("user", "info", "warning", "error") and value.keys() <= _NOTE_KEYS)


PRODUCT = "Gemini CLI"

DIALECTS = (
    Dialect(
        "gemini-stream",
        "parser:GeminiStream",
        _is_gemini_stream,
        reads="`gemini --output-format stream-json`",
        tapped_with="`tooltap run -- gemini -p … --output-format stream-json`",
        arrives="streams text",
        omits="reasoning, permission requests, cost; what the model saw of a result that did not fail, contents of "
        "files, exit codes, the server of an MCP tool until one has failed",
        hides_subagents=True,
        unproven="denials by policy, cancelled streams",
    ),
    Dialect(
        "gemini-chat",
        "parser:GeminiChat",
        _is_gemini_chat,
        reads="the chats that Gemini CLI saves",
        tapped_with="`tooltap serve --follow gemini`",
        arrives="streams blocks",
        omits="permission requests, cost; calls arrive with their results, and only the next prompt shows that a turn "
        "is over",
        unproven="`$rewindTo`, `$patch`, compaction, background shells",
    ),
)

AGENTS = (
    Agent(
        "gemini",
        ("--output-format stream-json", "-o stream-json", "--acp", "--experimental-acp"),
        "-p … --output-format stream-json",
        answerable=("--acp", "--experimental-acp"),
        package="@google/gemini-cli",
        resume=("--resume", SESSION),
        prompt=Prompt(options=("-p", "--prompt"), words="none"),
        store=Store(
            "gemini-chat",
            "GEMINI_CLI_HOME",
            "",
            ".gemini/tmp",
            # A subagent's chat names only itself; the folder above it is named after its session.
            re.compile(r"[^/]+/chats/(?:(?P<session>[^/]+)/)?[^/]+\.jsonl?"),
            beside=re.compile(r"[^/]+|[^/]+/(?!chats/).+"),
        ),
        hooks=Hooks(
            ".gemini/settings.json",
            None,
            (
                HookEvent("Notification", "ToolPermission"),
                *map(HookEvent, ("AfterTool", "BeforeAgent", "AfterAgent", "SessionEnd")),
            ),
            timeout_unit=1_000,
            off=((("hooksConfig", "enabled"), False), (("tools", "enableHooks"), False)),
        ),
    ),
)
