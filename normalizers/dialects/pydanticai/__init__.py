"""Pydantic AI: the messages of its agents' runs."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.catalog.dialect import Dialect


def _is_message(value: dict[str, Any]) -> bool:
    return value.get("kind") in ("request", "response") and isinstance(value.get("parts"), list)


PRODUCT = "Pydantic AI"

DIALECTS = (
    Dialect(
        "pydantic-ai",
        "parser:PydanticAI",
        _is_message,
        reads="messages of Pydantic AI's runs (`all_messages_json`)",
        tapped_with="`tooltap ingest FILE`",
        arrives="streams blocks",
        omits="permission requests; the folder",
        unproven="reasoning, cost, retries, pictures, tools that run at the API",
    ),
)
