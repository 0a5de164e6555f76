"""The answers of Qwen Code's tools: one text, with a command's exit code or an MCP server's own text inside.

Learned from Qwen Code 0.24.4. A command that succeeded is its output alone; one that failed is a list of fields.
"""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.dialects.claude.answers import text_of
from tooltap.normalizers.tools.outcome import empty_output, is_no_content, is_nothing, status_in_words
from tooltap.normalizers.wire.decode import decode_text
from tooltap.normalizers.wire.values import record, records

_OUTPUT = re.compile(r"\nDirectory: [^\n]*\nOutput: ")
_EXIT = re.compile(r"\nExit Code: (?P<code>[^\n]*)\nSignal: (?P<signal>[^\n]*)")
_IN_BACKGROUND = re.compile(r"Background shell started\.\nid: (\S+)\npid: \d+\n", re.ASCII)
_NOTHING = ("(none)", "(empty)")
_MCP_ERROR = ("MCP tool '", "' reported tool error for function call: ", " with response: [")


def read_qwen_answer(name: str, block: dict[str, Any]) -> Answer:
    """Read the answer of the canonical tool `name`."""
    text, failed = text_of(block.get("content")), block.get("is_error") is True
    if name == "Bash" and (shell := _shell_fields(text)) is not None:
        return _shell_answer(shell, "failed" if failed else "completed")
    if not failed:
        if is_nothing(text, "qwen"):
            return Answer(empty_output(name))
        if name == "Read" and is_no_content(text):
            return Answer({"message": text})
        if name == "Bash":
            return Answer({"stdout": text}, is_async=_IN_BACKGROUND.match(text) is not None)
        return Answer(text)
    if (status := status_in_words(text, "qwen")) is not None:
        return Answer(None, status, text)
    if content := _mcp_content(text):
        return Answer({"content": content}, "failed", text_of(content) or text)
    return Answer(None, "failed", text or None)


def started_task(text: str) -> str | None:
    """Return the id of the command that an acknowledgement says to run in the background."""
    started = _IN_BACKGROUND.match(text)
    return started[1] if started else None


def _shell_fields(text: str) -> dict[str, str] | None:
    """Parse the fields of a failed command: its output, and how it ended. The output may itself contain text in the
    form of a field. None for any other text."""
    head = _OUTPUT.search(text) if text.startswith("Command: ") else None
    if head is None:
        return None
    ends = [ending.start() for ending in _EXIT.finditer(text, head.end())]
    at = text.rfind("\nError: ", head.end(), ends[-1]) if ends else -1
    ending = _EXIT.search(text, at + len("\nError: ")) if at >= 0 else None
    if ending is None:
        return None
    error = text[at + len("\nError: ") : ending.start()]
    return {"output": text[head.end() : at], "error": error, **ending.groupdict()}


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


def _mcp_content(text: str) -> list[Any]:
    """The server's own content inside Qwen Code's response parts."""
    start, reports, answers = _MCP_ERROR
    reported, at = text.find(reports), text.rfind(answers)
    if not text.startswith(start) or not 0 <= reported <= at - len(reports):
        return []
    try:
        parts = records(decode_text(text[at + len(answers) - 1 :]))
    except ValueError:
        return []
    responses = (record(record(part.get("functionResponse")).get("response")) for part in parts)
    return [block for response in responses for block in records(response.get("content"))]
