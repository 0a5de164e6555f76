"""Goose: what `goose run --output-format stream-json` prints, and the sessions that it stores."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import Agent, Dialect, Store
from tooltap.normalizers.wire.values import record

_COMPLETE = frozenset({"input_tokens", "output_tokens", "total_tokens", "type"})


def _is_event(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    if kind == "message":
        message = record(value.get("message"))
        return isinstance(message.get("created"), int) and isinstance(message.get("content"), list)
    if kind == "notification":
        return isinstance(value.get("extension_id"), str)
    return kind == "complete" and "total_tokens" in value and value.keys() <= _COMPLETE


def _is_session(value: dict[str, Any]) -> bool:
    """Rule for `goose-session`: what is stated of a session, or a message without an event around it."""
    if "type" in value:
        return False
    if value.keys() >= {"created", "role"} and isinstance(value.get("content"), list):
        return isinstance(value["created"], int) and value["role"] in ("assistant", "user")
    return isinstance(value.get("working_dir"), str) and ("accumulated_total_tokens" in value or "schedule_id" in value)


PRODUCT = "Goose"

DIALECTS = (
    Dialect(
        "goose-json",
        "parser:GooseJson",
        _is_event,
        reads="`goose run --output-format stream-json`",
        tapped_with="`tooltap run -- goose run --output-format stream-json …`",
        arrives="streams text",
        omits="prompts, cost; the session's id, the model, and the folder",
        unproven="everything: shapes from Goose's source, 1.51",
        shows_prompts=False,
    ),
    Dialect(
        "goose-session",
        "parser:GooseSession",
        _is_session,
        reads="Goose's stored sessions",
        tapped_with="`tooltap serve --follow goose`",
        arrives="streams blocks",
        omits="permission requests, cost; the model, and which session is a subagent's",
        unproven="everything: shapes from Goose's source, 1.51",
    ),
)

_STORE = Store(
    "goose-session",
    variable="XDG_DATA_HOME",
    home=".local/share",
    below="goose/sessions",
    files=re.compile(r"sessions\.db/(?P<session>[^/]+)"),
    reader="store:GooseStore",
    database=re.compile(r"sessions\.db"),
    beside=re.compile(r"backups/.*"),
    tables=re.compile(r"sessions|messages|schema_version|sqlite_sequence"),
)

AGENTS = (
    Agent(
        "goose",
        ("--output-format stream-json",),
        "--output-format stream-json",
        store=_STORE,
        older_stores=(
            _STORE._replace(
                files=re.compile(r"(?P<session>[^/]+)\.jsonl"),
                reader=None,
                database=None,
                tables=None,
            ),
        ),
    ),
)
