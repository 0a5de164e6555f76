"""Copilot CLI."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import Agent, Dialect, Prompt, Store

_COMMON_KEYS = {"id", "timestamp", "parentId"}


def _is_copilot_json(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    if kind == "result":
        return value.keys() >= {"sessionId", "exitCode", "usage"}
    return isinstance(kind, str) and isinstance(value.get("data"), dict) and value.keys() >= _COMMON_KEYS


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
)

AGENTS = (
    Agent(
        "copilot",
        ("--output-format json", "--acp"),
        "-p … --output-format json",
        package="@github/copilot",
        store=Store(
            "copilot-json",
            "COPILOT_HOME",
            ".copilot",
            "session-state",
            re.compile(r"(?P<session>[^/]+)/events\.jsonl"),
            printed=True,
            beside=re.compile(r"[^/]+/(?!events).+"),
            unread=("history-session-state",),
        ),
        prompt=Prompt(options=("-p", "--prompt"), words="none"),
    ),
)
