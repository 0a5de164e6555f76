"""Mistral Vibe."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import Agent, Dialect, Prompt, Store


def _is_vibe_json(value: dict[str, Any]) -> bool:
    return value.keys() >= {"id", "sessionId", "turnId", "generationStatus", "type"}


def _is_vibe_session(value: dict[str, Any]) -> bool:
    """Rule for `vibe-session`: a document that the reader of the store (`store.py`) makes of a session's files."""
    return value.keys() == {"meta", "snapshot", "history", "changes"}


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
    ),
    Dialect(
        "vibe-session",
        "parser:VibeSession",
        _is_vibe_session,
        reads="Mistral Vibe's stored sessions",
        tapped_with="`tooltap serve --follow vibe`",
        arrives="streams blocks",
        omits="cost; what the model saw of a result",
        unproven="growing entries, texts of failing commands, questions, subagents, interrupts",
    ),
)

AGENTS = (
    Agent(
        "vibe",
        ("--output streaming",),
        "-p … --output streaming",
        store=Store(
            "vibe-session",
            "VIBE_HOME",
            ".vibe",
            "logs/session/unified",
            re.compile(r"(?P<session>[^/]+)/meta\.json"),
            reader="store:VibeStore",
            beside=re.compile(r"[^/]+/.+"),
        ),
        prompt=Prompt(options=("-p", "--prompt"), words="none"),
    ),
)
