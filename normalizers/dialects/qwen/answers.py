"""What a tool of Qwen Code answered: one text, with a command's exit code or an MCP server's own words inside.

Learned from Qwen Code 0.24.4. A command that succeeded is its output alone; one that failed is a list of fields.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from tooltap.normalizers.dialects.claude.answers import Answer, text_of
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
    """The answer of the canonical tool `name`."""
    text = text_of(block.get("content"))
    if shell := _SHELL.fullmatch(text) if name == "Bash" else None:
        return _shell_answer(shell, failed=block.get("is_error") is True)
    if block.get("is_error") is not True:
        return Answer({"stdout": text} if name == "Bash" else text, "completed")
    if _REFUSED.search(text):
        return Answer(None, "denied", text)
    if text.startswith(_CANCELLED):
        return Answer(None, "cancelled", text)
    if (wrapped := _MCP_ERROR.fullmatch(text)) and (content := _mcp_content(wrapped[1])):
        return Answer({"content": content}, "failed", text_of(content) or text)
    return Answer(None, "failed", text or None)


def _shell_answer(fields: re.Match[str], *, failed: bool) -> Answer:
    value: dict[str, Any] = {}
    if fields["output"] not in _NOTHING:
        value["stdout"] = fields["output"]
    error = None if fields["error"] in _NOTHING else fields["error"]
    if fields["code"].lstrip("-").isdigit():
        value["exit_code"] = int(fields["code"])
        error = error or (f"Exit Code: {fields['code']}" if value["exit_code"] else None)
    if fields["signal"] not in _NOTHING:
        value["signal"] = fields["signal"]
        error = error or f"Signal: {fields['signal']}"
    return Answer(value, "failed" if failed else "completed", error)


def _mcp_content(response: str) -> list[Any]:
    """What the server said, out of Qwen Code's own form of it."""
    try:
        parts = records(orjson.loads(response))
    except orjson.JSONDecodeError:
        return []
    content: list[Any] = []
    for part in parts:
        content += records(record(record(part.get("functionResponse")).get("response")).get("content"))
    return content
