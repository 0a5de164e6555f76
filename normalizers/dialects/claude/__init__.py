"""Claude Code: what it prints, and the session files it keeps."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import SESSION, Agent, Dialect, HookEvent, Hooks, OwnDeletion, Prompt, Store
from tooltap.normalizers.wire.values import record, string


def _is_claude_stream(value: dict[str, Any]) -> bool:
    """Rule for `claude-stream`. Qwen Code prints almost the same lines; a line with neither agent's marks is
    ambiguous."""
    kind = string(value.get("type"))
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


BOOKKEEPING = {
    **{kind: kind for kind in ("api-request", "atis-latch", "last-prompt", "queue-operation", "tools-used")},
    **dict.fromkeys(("api-request-blob", "api-request-shape"), "api-request"),
    **dict.fromkeys(("attribution-snapshot", "file-history-delta", "file-history-snapshot"), "file-history"),
    "marble-origami-snapshot": "context-management",
    **dict.fromkeys(("agent-color", "agent-name", "agent-setting", "tag"), "session-metadata"),
    **dict.fromkeys(("artifact-autoreact-ledger", "artifact-comment-monitor", "bridge-session"), "session-metadata"),
    **dict.fromkeys(("isolation-latch", "relocated", "speculation-accept", "task-summary"), "session-metadata"),
    **dict.fromkeys(("worktree-state",), "session-metadata"),
}
"""Type -> reason to skip, for lines of transcripts that only Claude Code itself needs. They are most of a file's bytes
(2.1.330 writes out every request and prompt). A queued prompt appears again when it is delivered: as a prompt, or as an
attachment."""

TRANSCRIPT_LINES = {
    "ai-title": "aiTitle",
    "content-replacement": "replacements",
    "cost-state": "modelUsage",
    "custom-title": "customTitle",
    "mode": "mode",
    "permission-mode": "permissionMode",
    "marble-origami-commit": "summary",
    "pr-link": "prNumber",
} | dict.fromkeys(BOOKKEEPING, "type")
"""Line type -> key that it has beside `sessionId`."""


def _is_claude_transcript(value: dict[str, Any]) -> bool:
    kind = string(value.get("type"))
    if kind == "summary":
        return "leafUuid" in value
    if kind == "file-history-snapshot":
        return "snapshot" in value
    if "sessionId" not in value:
        return False
    if kind in ("assistant", "user", "system", "attachment", "progress"):
        # Qwen Code's own session files have the same chain of lines; those of subagents (0.24.4) are sidechains too.
        message = value.get("message")
        return "isSidechain" in value and "uuid" in value and not (isinstance(message, dict) and "parts" in message)
    return type(kind) is str and kind in TRANSCRIPT_LINES and TRANSCRIPT_LINES[kind] in value


PRODUCT = "Claude Code"

_SESSION = r"(?P<session>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"

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
        shows_prompts=False,
        unproven="`redacted_thinking`, `conversation_reset`, other control requests than the recorded, SDK notices",
    ),
    Dialect(
        "claude-transcript",
        "transcript:ClaudeTranscript",
        _is_claude_transcript,
        reads="the session files that Claude Code stores under `~/.claude/projects`, including those of subagents",
        tapped_with="`tooltap serve --follow claude`",
        arrives="streams blocks",
        omits="permission requests",
        unproven="`progress` lines, `api_error`, `compact_boundary`, `queued_command`, `task_status`, hook "
        "attachments, notifications of 2.0",
    ),
)

_PROMPT = Prompt(
    flags=(
        "-p --print --verbose --include-partial-messages --include-hook-events --dangerously-skip-permissions"
        " --allow-dangerously-skip-permissions -c --continue --fork-session --strict-mcp-config --ide"
        " --mcp-debug --no-session-persistence --disable-slash-commands --replay-user-messages --bare --brief"
        " --chrome --no-chrome --exclude-dynamic-system-prompt-sections --forward-subagent-text --restricted"
        " --safe-mode --ax-screen-reader"
    ),
    valued=(
        "--output-format --model --fallback-model --max-turns --max-budget-usd --permission-mode --settings"
        " --effort --permission-prompt-tool --append-system-prompt --append-system-prompt-file --system-prompt"
        " -r --resume -n --system-prompt-file --session-id --setting-sources --agent --agents --json-schema"
        " --max-thinking-tokens --plugin-dir --debug-file -d --debug --from-pr -w --worktree --name"
        " --autocompact --permission-prompts --plugin-url --system-prompt-snapshot"
    ),
    several=(
        "--allowedTools --allowed-tools --disallowedTools --disallowed-tools --tools --add-dir --mcp-config"
        " --betas --file"
    ),
    never="--input-format",
    stdin=True,
)

AGENTS = (
    Agent(
        "claude",
        ("--output-format stream-json", "--output-format json"),
        "-p --output-format stream-json --verbose",
        answerable=("--input-format stream-json",),
        resume=("--resume", SESSION),
        fork=("--resume", SESSION, "--fork-session"),
        package="@anthropic-ai/claude-code",
        store=Store(
            "claude-transcript",
            "CLAUDE_CONFIG_DIR",
            ".claude",
            "projects",
            # `journal.jsonl` is of a workflow, and has no messages.
            re.compile(rf"(?:[^/]+/{_SESSION}(?=\.jsonl|/))?.*(?<!/journal)\.jsonl"),
            beside=re.compile(
                r".+\.meta\.json|(?:.+/)?sessions-index\.json|.+/journal\.jsonl|.+/(?:tool-results|memory)/"
            ),
            deletes=OwnDeletion("settings.json", "cleanupPeriodDays", 30),
            note=(".meta.json", "toolUseId"),
            # 2.1.7 to 2.1.4x also write a subagent's lines as `progress` lines of the session.
            subagents=("{session}/subagents/agent-{agent}.jsonl", "agent-{agent}.jsonl"),
        ),
        prompt=_PROMPT,
        hooks=Hooks(
            "settings.json",
            "PermissionRequest",
            tuple(
                map(HookEvent, ("PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "Stop", "SessionEnd")),
            ),
            keeps_dialog=True,
        ),
    ),
)
