"""Copilot CLI."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import SESSION, Agent, Dialect, HookEvent, Hooks, Prompt, Store

_COMMON_KEYS = {"id", "timestamp", "parentId"}


def _is_copilot_json(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    if kind == "result":
        return value.keys() >= {"sessionId", "exitCode", "usage"}
    return isinstance(kind, str) and isinstance(value.get("data"), dict) and value.keys() >= _COMMON_KEYS


def _is_copilot_history(value: dict[str, Any]) -> bool:
    return isinstance(value.get("timeline"), list) and value.keys() >= {"sessionId", "chatMessages"}


PRODUCT = "Copilot CLI"

DIALECTS = (
    Dialect(
        "copilot-json",
        "parser:CopilotJson",
        _is_copilot_json,
        reads="Copilot CLI's JSON output",
        tapped_with="`tooltap run -- copilot -p … --output-format json`",
        arrives="streams text",
        omits="cost; what the model saw of a failure; the session's id arrives last",
        unproven="exit codes other than 0, permission and hook events, background shells, to-do lists as SQL",
    ),
    Dialect(
        "copilot-history",
        "history:CopilotHistory",
        _is_copilot_history,
        reads="Copilot CLI's session files of 2025",
        tapped_with="`tooltap serve --follow copilot`",
        arrives="streams blocks",
        omits="reasoning, permission requests, tokens, cost; the model and the folder",
        unproven="all of it: a session was written as other readers of these files describe them",
    ),
)

AGENTS = (
    Agent(
        "copilot",
        ("--output-format json", "--acp"),
        "-p … --output-format json",
        answerable=("--acp",),
        package="@github/copilot",
        resume=(f"--resume={SESSION}",),
        store=Store(
            "copilot-json",
            "COPILOT_HOME",
            ".copilot",
            "session-state",
            re.compile(r"(?P<session>[^/]+)/events\.jsonl"),
            printed=True,
            beside=re.compile(r"[^/]+/(?!events).+"),
        ),
        older_stores=(
            Store("copilot-history", "COPILOT_HOME", ".copilot", "history-session-state", re.compile(r"[^/]+\.json")),
        ),
        prompt=Prompt(options=("-p", "--prompt"), words="none"),
        hooks=Hooks(
            "hooks/tooltap.json",
            "permissionRequest",
            (
                HookEvent("notification", "permission_prompt"),
                *map(HookEvent, ("postToolUse", "userPromptSubmitted", "agentStop", "sessionEnd")),
            ),
            is_flat=True,
        ),
    ),
)
