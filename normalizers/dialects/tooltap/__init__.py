"""tooltap's own dialects: its traces, the calls of `tooltap mcp`, and what hooks ask."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.catalog.dialect import Dialect


def _is_tooltap_trace(value: dict[str, Any]) -> bool:
    return (
        value.get("v") == 1
        and "kind" not in value
        and isinstance(value.get("stream"), str)
        and isinstance(value.get("n"), int)
        and ("line" in value or "b64" in value)
    )


def _is_display_tools(value: dict[str, Any]) -> bool:
    return value.get("type") in ("display/session", "display/call", "display/result")


def _is_hook(value: dict[str, Any]) -> bool:
    return value.get("type") in ("hook/asked", "hook/answered", "hook/settled")


DIALECTS = (
    Dialect(
        "tooltap-trace",
        "parser:TooltapTrace",
        _is_tooltap_trace,
        reads="tooltap's own traces",
        tapped_with="`tooltap ingest FILE`",
        arrives="recorded",
        omits="–; what the model saw, where the traced stream leaves it out",
    ),
    Dialect(
        "display-tools",
        "parser:DisplayTools",
        _is_display_tools,
        reads="what `tooltap mcp` has shown to the user",
        tapped_with="`tooltap mcp`",
        arrives="streams blocks",
        omits="prompts, reasoning, permission requests, tokens, cost; it contains only calls of its own tools",
    ),
    Dialect(
        "hooks",
        "hooks:Hooks",
        _is_hook,
        reads="what agents ask through hooks that run `tooltap hook`",
        tapped_with="`tooltap hooks install`",
        arrives="streams blocks",
        omits="prompts, reasoning, tokens, cost; it contains only questions, and how they were answered",
    ),
)
