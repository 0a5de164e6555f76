"""Canonical payloads: provider's tool input or result -> the canonical tool's keys.

One module per family of tools; this file is the table that ties canonical names to them. Families know every provider's
spelling of a key; what a dialect wraps around a result (exit codes in text, content blocks) is taken off by the dialect
before it comes here.
"""

from __future__ import annotations

from typing import Any

__all__ = ["tool_input", "tool_output"]


def tool_input(name: str, value: Any, raw_name: str) -> dict[str, Any]:
    """The canonical input of tool `name`, called as `raw_name` with `value`; unknown keys are kept."""
    return dict(value) if isinstance(value, dict) else {}


def tool_output(name: str, value: Any, raw_name: str) -> dict[str, Any]:
    """The canonical result of tool `name`; unknown keys are kept. `value` None: the wire states nothing."""
    if value is None:
        return {}
    return dict(value) if isinstance(value, dict) else {"value": value}
