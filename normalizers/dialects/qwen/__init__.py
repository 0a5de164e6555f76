"""Qwen Code: Claude Code's lines, with additions of its own."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import SESSION, Agent, Dialect, HookEvent, Hooks, Prompt, Store
from tooltap.normalizers.wire.values import record

_CLAUDE_USER_KEYS = {"timestamp", "tool_use_result", "isReplay", "isSynthetic", "agent_id"}
_CLAUDE_RESULT_KEYS = {"total_cost_usd", "cost_usd"}


def _is_qwen_stream(value: dict[str, Any]) -> bool:
    if "session_id" not in value or "uuid" not in value:
        return False
    message, event = record(value.get("message")), record(value.get("event"))
    match value.get("type"):
        case "system":
            return "qwen_code_version" in value
        case "assistant":
            return bool(message.get("id") == value["uuid"])  # Claude's messages have ids of their own
        case "user":
            return not _CLAUDE_USER_KEYS & value.keys() and _are_qwen_results(message.get("content"))
        case "stream_event":
            started = record(event.get("message"))
            return event.get("type") == "goal_state" or ("id" in started and "type" not in started)
        case "result":
            return "permission_denials" in value and not _CLAUDE_RESULT_KEYS & value.keys()
    return False


def _are_qwen_results(content: Any) -> bool:
    """Whether all blocks are results with `is_error`, of calls whose ids are not Anthropic's."""
    blocks = content if isinstance(content, list) else []
    return bool(blocks) and all(
        isinstance(block, dict)
        and block.get("type") == "tool_result"
        and isinstance(block.get("is_error"), bool)
        and not str(block.get("tool_use_id")).startswith("toolu_")
        for block in blocks
    )


def _is_qwen_chat(value: dict[str, Any]) -> bool:
    if not value.keys() >= {"uuid", "parentUuid", "sessionId", "timestamp"}:
        return False
    if value.get("type") == "system":
        return "subtype" in value and ("systemPayload" in value or value.get("provenance") == "system")
    return isinstance(record(value.get("message")).get("parts"), list)


PRODUCT = "Qwen Code"

DIALECTS = (
    Dialect(
        "qwen-stream",
        "parser:QwenStream",
        _is_qwen_stream,
        reads="`qwen --output-format stream-json`",
        tapped_with="`tooltap run -- qwen -p … --output-format stream-json`",
        arrives="streams text",
        shows_prompts=False,
        omits="prompts, permission requests, cost; partials only with `--include-partial-messages`",
        unproven="`tool_progress`, `active_goal`, the control protocol, subagents",
        takes_from=("claude-stream",),
    ),
    Dialect(
        "qwen-chat",
        "parser:QwenChat",
        _is_qwen_chat,
        reads="Qwen Code's session files",
        tapped_with="`tooltap serve --follow qwen`",
        arrives="streams blocks",
        omits="permission requests, cost; the end of a turn that was interrupted",
        unproven="titles, MCP servers",
        takes_from=("claude-transcript",),
    ),
)

AGENTS = (
    Agent(
        "qwen",
        ("--output-format stream-json", "-o stream-json", "--acp"),
        "-p … --output-format stream-json",
        answerable=("--acp", "--input-format stream-json"),
        package="@qwen-code/qwen-code",
        resume=("--resume", SESSION),
        store=Store(
            "qwen-chat",
            "QWEN_HOME",
            ".qwen",
            "projects",
            re.compile(r"[^/]+/(?:chats|subagents/(?P<session>[^/]+))/[^/]+\.jsonl"),
            beside=re.compile(r".+\.meta\.json|[^/]+/(?!chats/|subagents/).+"),
            note=(".meta.json", "toolUseId"),
        ),
        prompt=Prompt(
            options=("-p", "--prompt"),
            words="all",
            flags="-y --yolo -d --debug -c --continue --include-partial-messages -s --sandbox --checkpointing",
            valued=(
                "-o --output-format -m --model --approval-mode -r --resume --session-id --max-session-turns --auth-"
                " type --openai-api-key --openai-base-url --system-prompt --append-system-prompt"
            ),
            never="--input-format --prompt-interactive -i",
            stdin=True,
        ),
        hooks=Hooks(
            "settings.json",
            "PermissionRequest",
            (
                *map(HookEvent, ("PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "Stop", "SessionEnd")),
                HookEvent("Notification", "idle_prompt"),  # after a dialog that was left with Esc
            ),
            timeout_unit=1_000,
        ),
    ),
)
