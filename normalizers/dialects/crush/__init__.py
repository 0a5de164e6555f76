"""Crush: the sessions in its databases."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import SESSION, Agent, Dialect, FolderList, Store

_ROWS = ({"session_id", "role", "parts", "finished_at"}, {"id", "title", "prompt_tokens", "completion_tokens", "cost"})


def _is_row(value: dict[str, Any]) -> bool:
    """Rule for `crush-db`: a message, or what is stated of the session itself."""
    return any(value.keys() >= keys for keys in _ROWS)


PRODUCT = "Crush"

DIALECTS = (
    Dialect(
        "crush-db",
        "parser:CrushDb",
        _is_row,
        reads="Crush's databases, one in each project",
        tapped_with="`tooltap serve --follow crush`",
        arrives="streams blocks",
        omits="permission requests; the tokens of requests, and the folder",
        hides_subagents=True,
        unproven="everything: shapes from Crush's source",
    ),
)

AGENTS = (
    Agent(
        "crush",
        (),
        None,
        package="@charmland/crush",
        resume=("--session", SESSION),
        store=Store(
            "crush-db",
            variable="",
            home=".crush",
            below="",
            files=re.compile(r"crush\.db/(?P<session>[\w-]+)"),
            reader="store:CrushStore",
            database=re.compile(r"crush\.db"),
            beside=re.compile(r"(?!crush\.db).+"),
            listed=FolderList(
                places=(("CRUSH_GLOBAL_DATA", "projects.json"), ("XDG_DATA_HOME", "crush/projects.json")),
                home=".local/share/crush/projects.json",
                array="projects",
                folder="data_dir",
                base="path",
            ),
            tables=re.compile(r"sessions|messages|files|read_files|goose_db_version|sqlite_sequence"),
        ),
    ),
)
