"""Cursor: what its CLI prints, which is Claude Code's lines with additions of its own, and the transcripts that it
stores."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import SESSION, Agent, Dialect, Prompt, Store
from tooltap.normalizers.wire.values import record


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


def _is_transcript(value: dict[str, Any]) -> bool:
    """Rule for `cursor-transcript`, whose lines have nothing but a role and a message."""
    if value.get("type") == "turn_ended":
        return "status" in value and value.keys() <= {"error", "status", "type"}
    return (
        value.keys() == {"message", "role"}
        and value["role"] in ("assistant", "user")
        and record(value["message"]).keys() == {"content"}
    )


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
    Dialect(
        "cursor-transcript",
        "transcript:CursorTranscript",
        _is_transcript,
        reads="Cursor's transcripts",
        tapped_with="`tooltap serve --follow cursor-agent`",
        arrives="streams blocks",
        omits="reasoning, permission requests, tokens, cost; times, results of tools, whether one failed, the model, "
        "and which session is a subagent's",
        unproven="everything: shapes from public readers of these files, 2026.08",
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
        store=Store(
            "cursor-transcript",
            variable="",
            home=".cursor",
            below="projects",
            files=re.compile(r"[^/]+/agent-transcripts/(?:[^/]+/(?:subagents/)?)?(?P<session>[^/]+)\.jsonl"),
            beside=re.compile(r"[^/]+/(?!agent-transcripts/).*"),
        ),
        worktrees=".cursor/worktrees/+/*",
        prompt=Prompt(
            words="all",
            flags="-p --print --stream-partial-output -f --force --yolo --trust --approve-mcps",
            valued="--output-format -m --model --mode --workspace -a --api-key -H --header --resume",
            never="acp",
        ),
    ),
)
