"""Zed: the threads of its own agent, which its editor stores in a database."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import Agent, Dialect, Store


def _is_thread(value: dict[str, Any]) -> bool:
    """Rule for `zed-db`: a row of the table, with the thread that it holds."""
    return value.keys() >= {"id", "summary", "updated_at", "thread"}


PRODUCT = "Zed"

DIALECTS = (
    Dialect(
        "zed-db",
        "parser:ZedDb",
        _is_thread,
        reads="threads of Zed's own agent",
        tapped_with="`tooltap serve --follow zed`",
        arrives="streams blocks",
        omits="permission requests, cost; the tokens of requests, and the times of messages. What Zed stores of a "
        "thread while its agent works are whole messages, with the results of their calls",
        hides_subagents=True,
        unproven="everything: shapes from Zed's source",
    ),
)

_STORE = Store(
    "zed-db",
    variable="XDG_DATA_HOME",
    home=".local/share",
    below="zed/threads",
    files=re.compile(r"threads\.db/(?P<session>[\w-]+)"),
    reader="store:ZedStore",
    database=re.compile(r"threads\.db"),
    tables=re.compile(r"threads"),
)

AGENTS = (
    Agent(
        "zed",
        (),
        None,
        store=_STORE,
        older_stores=(_STORE._replace(variable="", home="Library/Application Support", below="Zed/threads"),),
    ),
)
