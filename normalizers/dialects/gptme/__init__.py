"""gptme: the conversations that it stores."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import Agent, Dialect, Store
from tooltap.normalizers.wire.values import record

_KEYS = frozenset(["call_id", "content", "file_hashes", "files", "hide", "metadata", "pinned", "role", "timestamp"])
_OWN = frozenset(["call_id", "hide", "pinned"])
_METADATA = frozenset(["model", "tool"])


def _is_message(value: dict[str, Any]) -> bool:
    """Rule for `gptme-log`. Others write messages with a role, a content and a time, too: the user's have no more, but
    a conversation begins with messages that are hidden or pinned, and answers have a model."""
    return (
        value.keys() >= {"content", "role", "timestamp"}
        and value.keys() <= _KEYS
        and (not value.keys().isdisjoint(_OWN) or not record(value.get("metadata")).keys().isdisjoint(_METADATA))
        and value["role"] in ("assistant", "system", "user")
        and isinstance(value["timestamp"], str)
    )


PRODUCT = "gptme"

DIALECTS = (
    Dialect(
        "gptme-log",
        "parser:GptmeLog",
        _is_message,
        reads="gptme's conversations, with `--tool-format tool`",
        tapped_with="`tooltap serve --follow gptme`",
        arrives="streams blocks",
        omits="permission requests, cost; whether a command has failed, which is in a text only, the session's id, "
        "which the folder has, and the zone of its times, which are taken for UTC",
        unproven="reasoning, tools other than the shell, several calls in an answer, pictures",
    ),
)

AGENTS = (
    Agent(
        "gptme",
        (),
        None,
        store=Store(
            "gptme-log",
            variable="",
            home=".local/share",
            below="gptme/logs",
            files=re.compile(r"(?P<session>[^/]+)/conversation\.jsonl"),
            beside=re.compile(r"[^/]+/.+"),
        ),
    ),
)
