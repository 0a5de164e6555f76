"""Goose: what `goose run --output-format stream-json` prints."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.catalog.dialect import Dialect
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
)
