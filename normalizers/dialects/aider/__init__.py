"""Aider: the chat history that it writes in the folder of a repository."""

from __future__ import annotations

import re

from tooltap.normalizers.catalog.dialect import Agent, Dialect, Store

START = re.compile(rb"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")
"""The line with which Aider begins a session."""

PRODUCT = "Aider"

DIALECTS = (
    Dialect(
        "aider-history",
        "parser:AiderHistory",
        recognises=lambda line: False,
        recognises_text=lambda line: START.fullmatch(line.rstrip()) is not None,
        reads="Aider's `.aider.chat.history.md`",
        tapped_with="`tooltap serve --follow aider`, `tooltap ingest FILE`",
        arrives="streams text",
        omits="reasoning, permission requests, tokens, cost; what the model saw of an edit, the folder, what "
        "commands printed, all times but that of a session's start, and its zone, which is taken for UTC",
        unproven="models for several tasks, edit formats other than `diff`",
    ),
)

NAME = ".aider.chat.history.md"

AGENTS = (
    Agent(
        "aider",
        (),
        None,
        store=Store(
            "aider-history",
            variable="",
            home="",
            below="",
            files=re.compile(re.escape(NAME)),
            names=(NAME,),
            in_projects=True,
        ),
    ),
)
