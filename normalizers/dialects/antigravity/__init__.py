"""Antigravity: the transcripts that its apps and its command `agy` store."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.catalog.dialect import Agent, Dialect, Store


def _is_transcript(value: dict[str, Any]) -> bool:
    """Rule for a step, and for the document that the reader of the store (`store.py`) makes of a transcript."""
    if isinstance(value.get("steps"), list):
        return value.keys() == {"steps"}
    return isinstance(value.get("step_index"), int) and all(isinstance(value.get(key), str) for key in _WORDS)


_WORDS = ("source", "status", "type")

PRODUCT = "Antigravity"

DIALECTS = (
    Dialect(
        "antigravity-transcript",
        "parser:AntigravityTranscript",
        _is_transcript,
        reads="Antigravity's transcripts",
        tapped_with="`tooltap serve --follow agy`",
        arrives="streams blocks",
        omits="permission requests, tokens, cost; the folder, the title, which session is a subagent's, the output of "
        "commands in the background, what the model saw of a result that is shortened, and which call a result is of: "
        "it is taken to be the next that has such results",
        unproven="everything: shapes from public readers of these files, Antigravity 2.0 and `agy` 1.1",
    ),
)

_STORE = Store(
    "antigravity-transcript",
    variable="",
    home=".gemini",
    below="antigravity/brain",
    files=re.compile(r"(?P<session>[^/]+)/\.system_generated/logs/transcript\.jsonl"),
    reader="store:AntigravityStore",
    beside=re.compile(r"[^/]+/(?!\.system_generated/logs/).+|[^/]+/\.system_generated/logs/transcript_full\.jsonl"),
)

AGENTS = (
    Agent(
        "agy",
        (),
        None,
        provider="antigravity",
        store=_STORE,
        older_stores=tuple(_STORE._replace(below=f"antigravity-{one}/brain") for one in ("cli", "ide")),
    ),
)
