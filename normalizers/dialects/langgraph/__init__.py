"""LangGraph: the updates that an agent's graph streams, with messages of LangChain."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.catalog.dialect import Dialect
from tooltap.normalizers.wire.values import records


def _is_update(value: dict[str, Any]) -> bool:
    messages = records(value.get("messages"))
    return (
        isinstance(value.get("node"), str)
        and bool(messages)
        and all(one.keys() == {"data", "type"} for one in messages)
    )


PRODUCT = "LangGraph"

DIALECTS = (
    Dialect(
        "langgraph",
        "parser:LangGraph",
        _is_update,
        reads="updates of LangGraph's nodes, each as `{node, messages}` with LangChain's `messages_to_dict`",
        tapped_with="`tooltap ingest FILE`",
        arrives="streams blocks",
        omits="permission requests, cost; times, the session's id, and the folder",
        unproven="prompts, reasoning, failing tools, pictures",
    ),
)
