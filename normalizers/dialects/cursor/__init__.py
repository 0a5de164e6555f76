"""Cursor's CLI: Claude Code's lines, with additions of its own."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.catalog.dialect import SESSION, Agent, Dialect, Prompt


def _is_cursor_stream(value: dict[str, Any]) -> bool:
    if "session_id" not in value:
        return False
    subtype = value.get("subtype")
    match value.get("type"):
        case "system":
            return subtype == "init" and "apiKeySource" in value and not {"uuid", "tools"} & value.keys()
        case "thinking":
            return subtype in ("delta", "completed")
        case "tool_call":
            return subtype in ("started", "completed") and isinstance(value.get("tool_call"), dict)
        case "result":  # Auggie's and Claude's count turns
            return "request_id" in value and not {"num_turns", "uuid"} & value.keys()
    return False


PRODUCT = "Cursor"

DIALECTS = (
    Dialect(
        "cursor-stream",
        "parser:CursorStream",
        _is_cursor_stream,
        reads="`cursor-agent -p --output-format stream-json`",
        tapped_with="`tooltap run -- cursor-agent -p --output-format stream-json …`",
        arrives="streams blocks",
        omits="permission requests, cost; what the model saw of a result, not recorded yet",
        unproven="everything",
        takes_from=("claude-stream",),
    ),
)

AGENTS = (
    Agent(
        "cursor-agent",
        ("--output-format stream-json", "acp"),
        "-p --output-format stream-json",
        answerable=("acp",),
        provider="cursor",
        resume=("--resume", SESSION),
        worktrees=".cursor/worktrees/+/*",
        prompt=Prompt(
            words="all",
            flags="-p --print --stream-partial-output -f --force --yolo --trust --approve-mcps",
            valued="--output-format -m --model --mode --workspace -a --api-key -H --header --resume",
            never="acp",
        ),
    ),
)
