"""Kiro: the sessions that its command and its editor store, in three formats; and Amazon Q, which it was before."""

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


def _is_conversation(value: dict[str, Any]) -> bool:
    """Rule for `amazon-q-db`. A document may extend over many lines, so that its first lines must be enough."""
    return value.keys() >= {"conversation_id", "history", "next_message"} and isinstance(value["history"], list)


def _is_row(value: dict[str, Any]) -> bool:
    """Rule for `kiro-db`."""
    return value.keys() >= {"key", "updated_at", "conversation"}


PRODUCT = "Kiro"

DIALECTS = (
    Dialect(
        "amazon-q-db",
        "conversation:AmazonQDb",
        _is_conversation,
        reads="Amazon Q's database, with a conversation for each folder",
        tapped_with="`tooltap serve --follow q`",
        arrives="streams blocks",
        omits="reasoning, permission requests, tokens, cost; times of results",
        unproven="everything: shapes from the source of Amazon Q Developer CLI",
    ),
    Dialect(
        "kiro-db",
        "conversation:KiroDb",
        _is_row,
        reads="Kiro's database, with the conversations of its first engine",
        tapped_with="`tooltap serve --follow kiro-cli`",
        arrives="streams blocks",
        omits="reasoning, permission requests, tokens, cost; times of results",
        unproven="everything: shapes from the source of Amazon Q Developer CLI, and from public readers of this "
        "database",
    ),
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

_OF_KIRO = Store(
    "kiro-db",
    variable="XDG_DATA_HOME",
    home=".local/share",
    below="kiro-cli",
    files=re.compile(r"data\.sqlite3/(?P<session>[\w-]+)"),
    reader="store:KiroStore",
    database=re.compile(r"data\.sqlite3"),
    beside=re.compile(r"(?!data\.sqlite3).+"),
    tables=re.compile(r"(?!conversations_(?!v2$)).+"),
)
_OF_AMAZON_Q = Store(
    "amazon-q-db",
    variable="XDG_DATA_HOME",
    home=".local/share",
    below="amazon-q",
    files=re.compile(r"data\.sqlite3/(?P<session>[0-9a-f]{8})"),
    reader="store:AmazonQStore",
    database=re.compile(r"data\.sqlite3"),
    beside=re.compile(r"(?!data\.sqlite3).+"),
    tables=re.compile(r"(?!conversations_).+"),
)
_ON_MACOS = "Library/Application Support"

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
            _OF_KIRO,
            _OF_KIRO._replace(variable="", home=_ON_MACOS),
        ),
    ),
    Agent(
        "q",
        (),
        None,
        provider="amazon-q",
        product="Amazon Q Developer CLI",
        store=_OF_AMAZON_Q,
        older_stores=(_OF_AMAZON_Q._replace(variable="", home=_ON_MACOS),),
    ),
)
