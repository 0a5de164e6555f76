"""Continue: its command `cn` and its editor extensions, which store sessions in the same place."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import Agent, Dialect, Store


def _is_continue_session(value: dict[str, Any]) -> bool:
    return value.keys() >= {"history", "sessionId", "workspaceDirectory"}


PRODUCT = "Continue"

DIALECTS = (
    Dialect(
        "continue-session",
        "parser:ContinueSession",
        _is_continue_session,
        reads="Continue's session documents",
        tapped_with="`tooltap serve --follow cn`",
        arrives="streams blocks",
        omits="reasoning, permission requests; times, so that events have that of the document, and the output of a "
        "command that fails. `cn -p` writes its document when it is done",
        unproven="reasoning, pictures, compaction, denied calls, shortened histories",
    ),
)

AGENTS = (
    Agent(
        "cn",
        (),
        None,
        provider="continue",
        package="@continuedev/cli",
        store=Store(
            "continue-session",
            "CONTINUE_GLOBAL_DIR",
            ".continue",
            "sessions",
            re.compile(r"(?!sessions\.json)(?P<session>[^/]+)\.json"),
            beside=re.compile(r"sessions\.json"),
        ),
    ),
)
