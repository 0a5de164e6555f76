"""Hermes Agent: the sessions in its database."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import SESSION, Agent, Dialect, Store

_ROWS = ({"session_id", "role", "tool_calls", "finish_reason"}, {"source", "model", "started_at", "git_branch"})


def _is_row(value: dict[str, Any]) -> bool:
    """Rule for `hermes-db`: a message, or the session itself."""
    return any(value.keys() >= keys for keys in _ROWS)


PRODUCT = "Hermes Agent"

DIALECTS = (
    Dialect(
        "hermes-db",
        "parser:HermesDb",
        _is_row,
        reads="Hermes Agent's database",
        tapped_with="`tooltap serve --follow hermes`",
        arrives="streams blocks",
        omits="permission requests, tokens, cost; titles, and which session has delegated to another",
        unproven="reasoning, pictures, compaction, sessions of messengers",
    ),
)

AGENTS = (
    Agent(
        "hermes",
        (),
        None,
        package="hermes-agent",
        resume=("--resume", SESSION),
        store=Store(
            "hermes-db",
            variable="HERMES_HOME",
            home=".hermes",
            below="",
            files=re.compile(r"state\.db/(?P<session>[\w-]+)"),
            reader="store:HermesStore",
            database=re.compile(r"state\.db"),
            beside=re.compile(r"(?!state\.db).+"),
            tables=re.compile(r".+"),
        ),
    ),
)
