"""Happier, tooltap's ancestor: its tool traces, and stored messages from before them."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.catalog.dialect import Dialect


def _is_happier_trace(value: dict[str, Any]) -> bool:
    return (
        value.get("v") == 1
        and isinstance(value.get("kind"), str)
        and isinstance(value.get("payload"), dict)
        and value.get("direction") in ("inbound", "outbound")
    )


def _is_legacy(value: dict[str, Any]) -> bool:
    """Rule for `legacy`: recognised by the wrapper alone, because its content may be in any dialect."""
    content = value.get("content")
    if isinstance(content, dict) and "role" in content:  # in the server's envelope, with an id and a time
        return _is_legacy(content)
    if not isinstance(content, dict) or value.get("role") not in ("agent", "user"):
        return False
    return content.get("type") in ("acp", "codex", "output", "event") and isinstance(content.get("data"), dict)


DIALECTS = (
    Dialect(
        "happier-trace",
        "parser:HappierTrace",
        _is_happier_trace,
        reads="tool traces of Happier (V1)",
        tapped_with="`tooltap ingest FILE`",
        arrives="recorded",
        omits="prompts, reasoning, tokens, cost; what the model saw of most results, and all but tools and permissions",
    ),
    Dialect(
        "legacy",
        "parser:Legacy",
        _is_legacy,
        reads="stored tool messages from before payloads carried `_happy`; must be set with `--dialect`",
        tapped_with="`tooltap normalize --dialect legacy FILE`",
        arrives="recorded",
        omits="–; what the model saw of most results",
        unproven="everything: shapes from public schemas of the ancestor",
    ),
)
