"""The answers of Droid's tools: a text, or JSON as a text. A command's exit code is in its last line."""

from __future__ import annotations

import re
from typing import Any

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.tools.outcome import status_in_words
from tooltap.normalizers.tools.payload import blocks_text, decode_json

_EXITED = re.compile(r"\n\n\[Process exited with code (-?\d{1,9})\]\Z", re.ASCII)
_FAILED = re.compile(r"Error: Command failed \(exit code: -?\d{1,9}\)\n", re.ASCII)


def read_result(name: str, block: dict[str, Any]) -> Answer:
    """The answer in a `tool_result` block of the canonical tool `name`."""
    text, failed = blocks_text(block.get("content")) or "", block.get("is_error") is True
    if name == "Bash" and (exited := _EXITED.search(text)) is not None:
        head = _FAILED.match(text)
        code = int(exited[1])
        printed = text[0 if head is None else head.end() : exited.start()]
        error = f"exit code {code}" if code else None
        return Answer({"stdout": printed, "exit_code": code}, "failed" if failed or code else "completed", error)
    if failed:
        return Answer(None, status_in_words(text, "droid") or "failed", text or None)
    if name == "Bash":
        return Answer({"stdout": text})
    value = decode_json(text) if text.startswith("{") else text
    if isinstance(value, dict) and value.get("success") is False:
        return Answer(value, "failed", text)
    return Answer(value)
