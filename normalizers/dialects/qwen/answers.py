"""The answers of Qwen Code's tools: one text, with a command's exit code or an MCP server's own text inside.

Learned from Qwen Code 0.24.4. A command that succeeded is its output alone; one that failed is a list of fields.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from tooltap.normalizers.core.answer import Answer
from tooltap.normalizers.dialects.claude.answers import text_of
from tooltap.normalizers.wire.values import record, records

__all__ = ["read_qwen_answer"]

_SHELL = re.compile(
    r"Command: .*?\nDirectory: [^\n]*\nOutput: (?P<output>.*)\nError: (?P<error>.*?)\nExit Code: (?P<code>[^\n]*)\n"
    r"Signal: (?P<signal>[^\n]*)(?:\n.*)?",
    re.S,
)
_NOTHING = ("(none)", "(empty)")
_MCP_ERROR = re.compile(r"MCP tool '.*?' reported tool error for function call: .* with response: (\[.*\])\s*", re.S)
_CANCELLED = "[Operation Cancelled]"
_REFUSED = re.compile(r"did not allow tool call|requires permission to use|permission was declined|denied by")


def read_qwen_answer(name: str, block: dict[str, Any]) -> Answer:
    """Read the answer of the canonical tool `name`."""
    text, failed = text_of(block.get("content")), block.get("is_error") is True
    if shell := _SHELL.fullmatch(text) if name == "Bash" else None:
        return _shell_answer(shell.groupdict(), "failed" if failed else "completed")
    if not failed:
        return Answer({"stdout": text} if name == "Bash" else text)
    if _REFUSED.search(text):
        return Answer(None, "denied", text)
    if text.startswith(_CANCELLED):
        return Answer(None, "cancelled", text)
    if (wrapped := _MCP_ERROR.fullmatch(text)) and (content := _mcp_content(wrapped[1])):
        return Answer({"content": content}, "failed", text_of(content) or text)
    return Answer(None, "failed", text or None)


def _shell_answer(stated: dict[str, str], status: str) -> Answer:
    fields = {key: text for key, text in stated.items() if text not in _NOTHING}
    value: dict[str, Any] = {"stdout": fields["output"]} if "output" in fields else {}
    error = fields.get("error")
    if stated["code"].lstrip("-").isdigit():
        value["exit_code"] = int(stated["code"])
        error = error or (f"Exit Code: {stated['code']}" if value["exit_code"] else None)
    if "signal" in fields:
        value["signal"] = fields["signal"]
        error = error or f"Signal: {fields['signal']}"
    return Answer(value, status, error)


def _mcp_content(response: str) -> list[Any]:
    """The server's own content inside Qwen Code's response parts."""
    try:
        parts = records(orjson.loads(response))
    except orjson.JSONDecodeError:
        return []
    responses = (record(record(part.get("functionResponse")).get("response")) for part in parts)
    return [block for response in responses for block in records(response.get("content"))]
