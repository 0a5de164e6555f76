"""Canonical payloads: provider's tool input or result -> the canonical tool's keys.

One module per family of tools; this file is the table that ties canonical names to them. Families know every provider's
spelling of a key; what a dialect wraps around a result (exit codes in text, content blocks) is taken off by the dialect
before it comes here.
"""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.tools import dialogs, edits, files, mcp, patches, search, shell, tasks, todos, web
from tooltap.normalizers.tools.payload import (
    Family,
    decode_json,
    error_message,
    input_payload,
    keep_input,
    keep_output,
    without_nulls,
)

__all__ = ["FAMILIES", "tool_input", "tool_output"]

FAMILIES: dict[str, Family] = {
    **shell.FAMILIES,
    **files.FAMILIES,
    **edits.FAMILIES,
    **patches.FAMILIES,
    **search.FAMILIES,
    **web.FAMILIES,
    **todos.FAMILIES,
    **tasks.FAMILIES,
    **dialogs.FAMILIES,
}
"""Canonical name -> how its payloads are made."""

OTHER = Family(keep_input, keep_output)


def tool_input(name: str, value: Any, raw_name: str) -> dict[str, Any]:
    """The canonical input of tool `name`, called as `raw_name` with `value`; unknown keys are kept."""
    family = _family(name)
    return without_nulls(family.input(input_payload(value, family), raw_name))


def tool_output(name: str, value: Any, raw_name: str) -> dict[str, Any]:
    """The canonical result of tool `name`; unknown keys are kept. `value` None: the wire states nothing."""
    if value is None:
        return {}
    family = _family(name)
    payload = family.output(decode_json(value) if family.json_result else value, raw_name)
    message = error_message(payload)
    if message is not None:
        payload["errorMessage"] = message
    return without_nulls(payload)


def _family(name: str) -> Family:
    return mcp.family(name) if name.startswith(mcp.PREFIX) else FAMILIES.get(name, OTHER)
