"""Kiro: the sessions that its command and its editor store, in two formats."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import Agent, Dialect, Store
from tooltap.normalizers.wire.values import record

_KINDS = ("AssistantMessage", "Prompt", "ToolResults")


def _is_session(value: dict[str, Any]) -> bool:
    content = record(value.get("data")).get("content")
    return value.get("kind") in _KINDS and "version" in value and isinstance(content, list)


def _is_messages(value: dict[str, Any]) -> bool:
    """Rule for `kiro-messages`. Codex has payloads, too, but states their type beside them."""
    return (
        value.keys() >= {"payload", "timestamp"}
        and "type" not in value
        and isinstance(value["timestamp"], str)
        and isinstance(record(value["payload"]).get("type"), str)
    )


PRODUCT = "Kiro"

DIALECTS = (
    Dialect(
        "kiro-messages",
        "parser:KiroMessages",
        _is_messages,
        reads="sessions of Kiro, with its third engine",
        tapped_with="`tooltap serve --follow kiro-cli`",
        arrives="streams blocks",
        omits="tokens, cost; the folder, the title and the model, which are in a file beside it",
        unproven="everything: shapes from public readers of these files, 2026-08 to 2026-10",
    ),
    Dialect(
        "kiro-session",
        "parser:KiroSession",
        _is_session,
        reads="sessions of Kiro's CLI, with its second engine",
        tapped_with="`tooltap serve --follow kiro-cli`",
        arrives="streams blocks",
        omits="permission requests, tokens, cost; times of answers and results, what the model saw of a result, and "
        "the folder, the title and the model, which are in a file beside it",
        unproven="everything: shapes from public readers of these files, CLI 2.14",
    ),
)

AGENTS = (
    Agent(
        "kiro-cli",
        (),
        None,
        provider="kiro",
        store=Store(
            "kiro-messages",
            variable="KIRO_HOME",
            home=".kiro",
            below="sessions",
            files=re.compile(r"[^/]+/(?P<session>sess_[^/]+)/messages\.jsonl"),
            beside=re.compile(r"cli/.*|[^/]+/sess_[^/]+/(?!messages\.jsonl).+"),
        ),
        older_stores=(
            Store(
                "kiro-session",
                variable="KIRO_HOME",
                home=".kiro",
                below="sessions/cli",
                files=re.compile(r"(?P<session>[^/]+)\.jsonl"),
                beside=re.compile(r"[^/]+\.(?:json|lock|history)|[^/]+/.*"),
            ),
        ),
    ),
)
