"""Makes canonical payloads from a provider's tool inputs and results.

There is one module per tool family. Each has a table `RULES` of its canonical tools, and this module joins the tables.
A family knows every provider's spelling of a key. What a dialect wraps around a result (exit codes in text, content
blocks) is removed by the dialect before the result comes here. The walk to a new tool is docs/contributing/tool.md.
"""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.tools import dialogs, edits, files, mcp, patches, search, shell, tasks, todos, web
from tooltap.normalizers.tools.payload import (
    OF_ERRORS,
    PayloadRules,
    decode_json,
    error_message,
    input_payload,
    keep_input,
    keep_output,
    without_nulls,
)

__all__ = ["PAYLOAD_RULES", "tool_input", "tool_output"]

PAYLOAD_RULES: dict[str, PayloadRules] = {
    **shell.RULES,
    **files.RULES,
    **edits.RULES,
    **patches.RULES,
    **search.RULES,
    **web.RULES,
    **todos.RULES,
    **tasks.RULES,
    **dialogs.RULES,
}
"""Canonical name -> the rules for its payloads."""

OTHER = PayloadRules(keep_input, keep_output)


def tool_input(name: str, value: Any, raw_name: str) -> dict[str, Any]:
    """Make the canonical input of tool `name`, called as `raw_name` with `value`. Unknown keys are retained."""
    rules = PAYLOAD_RULES.get(name) or _other_rules(name)
    payload = rules.input(input_payload(value, rules), raw_name)
    return without_nulls(payload) if None in payload.values() else payload


def tool_output(name: str, value: Any, raw_name: str) -> dict[str, Any]:
    """Make the canonical result of tool `name`. Unknown keys are retained. A `value` of None means no stated result."""
    if value is None:
        return {}
    rules = PAYLOAD_RULES.get(name) or _other_rules(name)
    payload = rules.output(decode_json(value) if rules.json_result else value, raw_name)
    if not OF_ERRORS.isdisjoint(payload):
        message = error_message(payload)
        if message is not None:
            payload["errorMessage"] = message
    return without_nulls(payload) if None in payload.values() else payload


def _other_rules(name: str) -> PayloadRules:
    return mcp.rules(name) if name.startswith(mcp.PREFIX) else OTHER
