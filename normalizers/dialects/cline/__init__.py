"""Cline's CLI."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.catalog.dialect import Agent, Dialect

__all__ = ["AGENTS", "DIALECTS", "PRODUCT"]


def _is_cline_json(value: dict[str, Any]) -> bool:
    key = _CLINE_JSON_KEYS.get(str(value.get("type")))
    return key is not None and key in value and isinstance(value.get("ts"), str)


_CLINE_JSON_KEYS = {"agent_event": "event", "hook_event": "hookEventName", "run_result": "finishReason"}


PRODUCT = "Cline"

DIALECTS = (
    Dialect(
        "cline-json",
        "parser:ClineJson",
        _is_cline_json,
        reads="Cline CLI's JSON output",
        tapped_with="`tooltap run -- cline --json …`",
        arrives="streams text",
        omits="prompts, permission requests",
        unproven="notices, errors, subagents",
        endless="endless:lines",
    ),
)

AGENTS = (
    Agent(
        "cline",
        ("--json", "--acp"),
        "--json",
    ),
)
