"""Auggie, the CLI of Augment Code: what it prints, and its stored sessions."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import Agent, Dialect, Store


def _is_result(value: dict[str, Any]) -> bool:
    """Rule for `auggie-json`. Claude Code's ends of turns state usage, and have ids."""
    if value.get("type") != "result" or not value.keys() >= {"is_error", "num_turns", "request_id", "session_id"}:
        return False
    return {"usage", "uuid", "duration_ms"}.isdisjoint(value)


def _is_session(value: dict[str, Any]) -> bool:
    return value.keys() >= {"agentState", "chatHistory", "sessionId"}


PRODUCT = "Auggie"

_SOURCE = "everything: shapes from the program of Auggie 0.36"

DIALECTS = (
    Dialect(
        "auggie-json",
        "parser:AuggieJson",
        _is_result,
        reads="`auggie --print --output-format json`",
        tapped_with="`tooltap run -- auggie --print --output-format json …`",
        arrives="one burst",
        omits="prompts, reasoning, permission requests, tokens, cost; tools",
        shows_prompts=False,
        takes_from=("claude-stream",),
        unproven=_SOURCE,
    ),
    Dialect(
        "auggie-session",
        "parser:AuggieSession",
        _is_session,
        reads="Auggie's session documents",
        tapped_with="`tooltap serve --follow auggie`",
        arrives="streams blocks",
        omits="permission requests, cost; the folder",
        unproven=_SOURCE,
    ),
)

AGENTS = (
    Agent(
        "auggie",
        ("--output-format json", "--acp"),
        "--print --output-format json",
        package="@augmentcode/auggie",
        store=Store(
            "auggie-session",
            variable="",
            home=".augment",
            below="sessions",
            files=re.compile(r"(?P<session>[\w-]+)\.json"),
            beside=re.compile(r".+/.+"),
        ),
    ),
)
