"""Mistral Vibe."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.catalog.dialect import Agent, Dialect, Prompt

__all__ = ["AGENTS", "DIALECTS", "PRODUCT"]


def _is_vibe_json(value: dict[str, Any]) -> bool:
    return value.keys() >= {"id", "sessionId", "turnId", "generationStatus", "type"}


PRODUCT = "Mistral Vibe"

DIALECTS = (
    Dialect(
        "vibe-json",
        "parser:VibeJson",
        _is_vibe_json,
        reads="Mistral Vibe's streaming output",
        tapped_with="`tooltap run -- vibe -p … --output streaming`",
        arrives="streams blocks",
        omits="tokens, cost; what the model saw of a result, and calls arrive with their results",
        unproven="growing entries, texts of failing commands, questions",
        endless="endless:lines",
    ),
)

AGENTS = (
    Agent(
        "vibe",
        ("--output streaming",),
        "-p … --output streaming",
        prompt=Prompt(options=("-p", "--prompt"), words="none"),
    ),
)
