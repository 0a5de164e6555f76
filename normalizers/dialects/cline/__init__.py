"""Cline's CLI."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import Agent, Dialect, Prompt, Store


def _is_cline_json(value: dict[str, Any]) -> bool:
    key = _CLINE_JSON_KEYS.get(str(value.get("type")))
    return key is not None and key in value and isinstance(value.get("ts"), str)


_CLINE_JSON_KEYS = {"agent_event": "event", "hook_event": "hookEventName", "run_result": "finishReason"}


def _is_cline_session(value: dict[str, Any]) -> bool:
    return value.keys() >= {"agent", "messages", "sessionId", "updated_at"}


PRODUCT = "Cline"

DIALECTS = (
    Dialect(
        "cline-json",
        "parser:ClineJson",
        _is_cline_json,
        reads="Cline CLI's JSON output",
        tapped_with="`tooltap run -- cline --json …`",
        arrives="streams text",
        omits="prompts, permission requests; what the model saw of files and commands, the server of an MCP tool, and "
        "[the subagent of a text](dialects.md#subagents-of-cline) where several run at once",
        shows_prompts=False,
        unproven="notices, errors, subagents",
    ),
    Dialect(
        "cline-session",
        "parser:ClineSession",
        _is_cline_session,
        reads="Cline's session documents",
        tapped_with="`tooltap serve --follow cline`",
        arrives="streams blocks",
        omits="permission requests, cost; failed requests, what the model saw of most results, and the end of a turn "
        "that was interrupted",
        unproven="shortened histories, pictures",
        takes_from=("openai-chat",),
    ),
)

AGENTS = (
    Agent(
        "cline",
        ("--json", "--acp"),
        "--json",
        answerable=("--acp",),
        store=Store(
            "cline-session",
            "CLINE_DIR",
            ".cline",
            "data/sessions",
            re.compile(r"(?P<session>[^/]+)/[^/]+\.messages\.json"),
            beside=re.compile(r"[^/]+/(?![^/]+\.messages\.)[^/]+|[^/]+/.+/"),
        ),
        prompt=Prompt(
            flags="--json -y --yolo -p --plan -a --act -v --verbose --double-check-completion",
            valued=(
                "--auto-approve -m --model -P --provider -k --key --config -c --cwd -t --timeout --thinking --retries"
                " --id --data-dir --hooks-dir --max-consecutive-mistakes"
            ),
            never="auth config history mcp hub schedule update version kanban",
            stdin=True,
        ),
    ),
)
